"""MLflow: a run as a run of MLflow, with its keys as parameters and each evaluation as metrics."""

import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

from sojourn.callbacks.callback import Callback, Ending, Model, Row, RunFacts
from sojourn.callbacks.memory import remember, remembered
from sojourn.errors import SojournError
from sojourn.version import __version__

LONGEST = 500  # characters of a parameter
AT_ONCE = 100  # parameters in a message
ALWAYS = "time"  # a column that is finite in every row


class MLflow(Callback):
    """Records a run with MLflow; steps are updates received.

    `uri` says where, such as `sqlite:///mlflow.db` or `http://127.0.0.1:5000`; by default it is what MLflow's own
    settings say. A run that is resumed goes on in the same run of MLflow, and no row is recorded twice. Rows that could
    not be recorded are recorded with the next one.
    """

    name = "mlflow"

    def __init__(self, uri: str | None = None, experiment: str = "sojourn", run_name: str | None = None) -> None:
        self.uri, self.experiment, self.run_name = uri, experiment, run_name
        self._client: Any = None
        self._run, self._waiting = "", list[Row]()

    def check(self, columns: Sequence[str]) -> None:
        """Refuse a machine without the package."""
        if find_spec("mlflow") is None:
            raise SojournError(
                "callback mlflow needs the package mlflow, which is not installed; pip install 'sojourn[mlflow]'"
            )

    def begin(self, run: RunFacts) -> None:
        """Begin a run of MLflow, or go on with the one that was begun before."""
        from mlflow.tracking import MlflowClient

        self._client, self._waiting = MlflowClient(tracking_uri=self.uri), []
        store = str(self._client.tracking_uri)
        known = remembered(run.folder, self.name)
        recorded = self._recorded(str(known.get("run"))) if known.get("uri") == store else None
        if recorded is None:
            self._create(run)
            remember(run.folder, self.name, {"uri": store, "run": self._run})
        self._last = max(recorded or (), default=-1)
        self._waiting = [row for row in run.rows if int(row["received"]) not in (recorded or ())]
        self._record()

    def evaluated(self, row: Row, model: Model) -> None:
        """Record a row; one that was recorded before a crash is left out."""
        if int(row["received"]) > self._last:
            self._waiting.append(row)
        self._record()

    def end(self, ending: Ending) -> None:
        """Say how the run ended."""
        if not self._run:
            return
        self._record()
        if ending.reason:
            self._client.set_tag(self._run, "sojourn.ended", ending.reason)
        self._client.set_terminated(self._run, "FINISHED" if ending.complete else "KILLED")

    def _recorded(self, run: str) -> set[int] | None:
        """Go on with a run of MLflow; return the steps that it has; None = there is no such run."""
        from mlflow.exceptions import MlflowException

        try:
            found = {int(one.step) for one in self._client.get_metric_history(run, ALWAYS)}
            self._client.update_run(run, status="RUNNING")
        except MlflowException:
            return None
        self._run = run
        return found

    def _create(self, run: RunFacts) -> None:
        found = self._client.get_experiment_by_name(self.experiment)
        experiment = self._client.create_experiment(self.experiment) if found is None else found.experiment_id
        tags = {"sojourn.version": __version__, "sojourn.folder": str(Path(run.folder).resolve())}
        tags["sojourn.clock"] = "live" if run.live else "simulated"
        name = self.run_name or run.folder.name
        self._run = self._client.create_run(experiment, tags=tags, run_name=name).info.run_id
        from mlflow.entities import Param

        keys = [Param(key, str(value)[:LONGEST]) for key, value in run.config.items() if value is not None]
        for begin in range(0, len(keys), AT_ONCE):
            self._client.log_batch(self._run, params=keys[begin : begin + AT_ONCE])

    def _record(self) -> None:
        """Record the rows that wait, each as a whole."""
        while self._waiting:
            row = self._waiting[0]
            self._client.log_batch(self._run, metrics=list(_metrics(row)))
            self._last = max(self._last, int(row["received"]))
            del self._waiting[0]


def _metrics(row: Row) -> Iterable[Any]:
    from mlflow.entities import Metric

    now, step = int(time.time() * 1000), int(row["received"])
    return (Metric(key, float(value), now, step) for key, value in row.items() if isfinite(value))
