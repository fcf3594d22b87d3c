"""`sojourn.serve`: a live run, from its objects to its results."""

import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sojourn.durations import seconds
from sojourn.experiments.results import Run
from sojourn.facade.surroundings import one_thread
from sojourn.facade.texts import run_keys
from sojourn.fleet import Fleet
from sojourn.interrupts import noted
from sojourn.learning.run.config import TrainConfig


def serve(
    fleet: Fleet | str | Path | int,
    plan: Any = None,
    *,
    folder: str | Path,
    address: str = "127.0.0.1:7733",
    keys: str | Path | None = None,
    insecure: bool = False,
    begin_with: int | None = None,
    patience: float | str = 30.0,
    metrics_port: int | None = None,
    durable: bool = True,
    engine: str = "grpc",
    cluster: str | None = None,
    processes: int = 2,
    paced: bool = False,
    replan: float | str = "auto",
    calibration: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    stop: threading.Event | None = None,
    callbacks: Sequence[Any] = (),
    dashboard: int | None = None,
    **run: Any,
) -> Run:
    """Serve a live run to clients that dial in, or that are started on Ray, and return the finished Run.

    `fleet`, `plan` and `run`, the keys of a run, are those of `train`; a fleet of unknown speeds is given as its number
    of clients. `model` and `data` may be objects, and `data` is
    what the server evaluates on. Clients are `sojourn.live.client` or `sojourn live client`. The other arguments:

    - `folder`: where the run is stored; with `resume` it goes on where it stopped, after a crash too; with `overwrite`
      a run that is there is replaced
    - `address`: HOST:PORT to listen at
    - `keys`: the folder of the server's keys (`sojourn live keys`); needed beyond this machine, unless `insecure`
    - `begin_with`: clients that must be there before the first task is sent (default: one for each task in flight)
    - `patience`: seconds that the server waits for an update at the least, or a text such as `"1min"`
    - `metrics_port`: port on 127.0.0.1 for metrics in the format of Prometheus
    - `durable`: False = write no commits between: faster, but a kill loses what was done since the start
    - `engine`: `"grpc"`, clients dial in; or `"ray"`, the server starts them as actors, and each holds its part of
      `data` by `partition`
    - `cluster`, `processes`, `paced`: with Ray, the address of a cluster (default: an instance of its own on this
      machine), the actors that clients are spread over, and whether service lasts as long as the fleet says
    - `replan`: time after which the plan is worked out again for the speeds measured so far, such as `"10min"`, or
      sooner if speeds change; `"never"`; by default ten minutes if no policy is given, and never otherwise
    - `calibration`: a calibration file, with which these plans choose among policies
    - `stop`: an event that ends the run early; it can then be resumed. Ctrl-C does the same
    - `callbacks`: what is told of the run while it goes on, as for `train`
    - `dashboard`: port on 127.0.0.1 of a page that shows the run and can pause, plan again and stop it; its token is in
      `dashboard.token` in the folder
    """
    from sojourn.dashboards import beside, check_port
    from sojourn.live.serve import open_server
    from sojourn.live.serve import serve as to_its_end
    from sojourn.live.settings import ServerFile

    fleet = f"unknown({fleet})" if isinstance(fleet, int) and not isinstance(fleet, bool) else fleet
    config = TrainConfig.of(run_keys(fleet, plan, run), "serve")
    file = ServerFile(
        address,
        None if keys is None else str(keys),
        insecure,
        str(folder),
        begin_with,
        seconds(patience, "patience"),
        metrics_port=metrics_port,
        durable=durable,
        engine=engine,
        cluster=cluster,
        processes=processes,
        paced=paced,
        replan=replan,
        calibration=None if calibration is None else str(calibration),
    )
    check_port(dashboard)
    with ExitStack() as held:
        held.enter_context(one_thread())
        opened = open_server(config, file, resume, report=_warn_of_callback, overwrite=overwrite, callbacks=callbacks)
        held.enter_context(opened)
        halt = held.enter_context(noted(twice=True)) if stop is None else stop
        held.enter_context(beside(opened, halt, dashboard))
        to_its_end(opened, file, halt)
    return Run(Path(folder), False)


def _warn_of_callback(what: str, facts: Mapping[str, Any]) -> None:
    """Warn of a callback of a live run that has failed; the log has everything else."""
    if what == "callback":
        warnings.warn(str(facts["reason"]), stacklevel=2)
