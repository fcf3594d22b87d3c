"""W&B: a run as a run of Weights & Biases, offline unless asked otherwise."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from secrets import token_hex
from typing import Any

from sojourn.callbacks.callback import Callback, Ending, Model, Row, RunFacts
from sojourn.callbacks.memory import remember, remembered
from sojourn.errors import InvalidInput, SojournError

MODES = ("offline", "online", "shared", "disabled")


class WandB(Callback):
    """Records a run with Weights & Biases; steps are updates received.

    Nothing is sent unless `mode` or the variable WANDB_MODE is `online`. What is recorded offline lies in the folder
    `wandb` of the current folder, or where WANDB_DIR says, and `wandb sync` uploads it.

    A run that is resumed goes on under the same id; offline it then has two folders, which `wandb sync --append` joins.
    W&B writes offline files when a process ends, so one that was killed leaves nearly nothing: then all rows are
    recorded again, under a new id.
    """

    name = "wandb"

    def __init__(self, project: str = "sojourn", run_name: str | None = None, mode: str | None = None) -> None:
        if mode is not None and mode not in MODES:
            raise InvalidInput(f"callback wandb: mode must be one of {', '.join(MODES)}, got '{mode}'")
        self.project, self.run_name, self.mode = project, run_name, mode
        self._run: Any = None
        self._folder, self._id, self._last = Path(), "", -1

    def check(self, columns: Sequence[str]) -> None:
        """Refuse a machine without the package."""
        if find_spec("wandb") is None:
            raise SojournError(
                "callback wandb needs the package wandb, which is not installed; pip install 'sojourn[wandb]'"
            )

    def begin(self, run: RunFacts) -> None:
        """Begin a run, or go on under the id of the one that was begun before."""
        import wandb

        mode = self.mode or os.environ.get("WANDB_MODE") or "offline"
        known = remembered(run.folder, self.name)
        if known.get("open") and mode != "online":  # its process was killed
            known = {}
        self._folder, self._id = run.folder, str(known.get("id") or token_hex(4))
        self._last = int(known.get("last", -1))
        remember(self._folder, self.name, {"id": self._id, "last": self._last, "open": True})
        self._run = wandb.init(
            project=self.project,
            name=self.run_name or run.folder.name,
            id=self._id,
            mode=mode,  # type: ignore[arg-type]
            resume="allow" if mode == "online" else None,
            reinit="create_new",
            config={key: value for key, value in run.config.items() if value is not None},
            settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
        )
        for row in run.rows:
            self._record(row)

    def evaluated(self, row: Row, model: Model) -> None:
        """Record a row."""
        self._record(row)

    def end(self, ending: Ending) -> None:
        """Say how the run ended."""
        if self._run is None:
            return
        run, self._run = self._run, None
        run.summary["sojourn.complete"] = ending.complete
        if ending.reason:
            run.summary["sojourn.ended"] = ending.reason
        run.finish(exit_code=0 if ending.complete else 1)
        remember(self._folder, self.name, {"id": self._id, "last": self._last, "open": False})

    def _record(self, row: Row) -> None:
        step = int(row["received"])
        if step <= self._last:
            return
        self._run.log({key: value for key, value in row.items() if isfinite(value)}, step=step)
        self._last = step
