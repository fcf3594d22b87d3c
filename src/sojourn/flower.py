"""sojourn under Flower: a ServerApp that runs a live run, and what a ClientApp needs to take part in it.

    import sojourn.flower

    app = sojourn.flower.server_app(fleet, model=Net, data=(x, y), steps=1000, folder="/data/run")  # the ServerApp
    app = ClientApp(mods=[sojourn.flower.mod])  # an existing ClientApp

It needs the extra `flower`, and runs under `flower-superlink`, `flower-supernode` and `flwr run`: see docs/flower.md.
Flower imports an app for every message. So importing this module and the mod loads little.
"""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.errors import InvalidInput, SojournError

if TYPE_CHECKING:
    from sojourn.fleet import Fleet
    from sojourn.learning.run.config import TrainConfig

PATIENCE = 600.0  # seconds: a process is started for each task, and the SuperLink notices dead nodes by itself
TABLE = "sojourn."  # keys of the app's configuration that are ours: [tool.flwr.app.config.sojourn]
SETTINGS = ("folder", "resume", "begin_with", "patience", "strikes", "metrics_port")


def serve(
    grid: Any,
    context: Any,
    fleet: "Fleet | str | Path | None" = None,
    plan: Any = None,
    *,
    folder: str | Path | None = None,
    resume: bool = True,
    begin_with: int | None = None,
    patience: float | str = PATIENCE,
    strikes: int = 3,
    metrics_port: int | None = None,
    config: Mapping[str, Any] | None = None,
    **run: Any,
) -> None:
    """Run a live run to its end, within the main function of a ServerApp, which gives `grid` and `context`.

    `fleet`, `plan` and `run`, the keys of a run, are those of `sojourn.train`; `model` and `data` may be objects, and
    `data` is what the server evaluates on. The app's own configuration overrides all of them: its table
    `[tool.flwr.app.config.sojourn]`, and `flwr run --run-config 'sojourn.steps=500'`. The other arguments:

    - `folder`: where the run is stored; a relative path begins where the SuperLink was started
    - `resume`: go on with a run that is in the folder already, after a stop or a crash
    - `begin_with`: clients that must be there before the first task is sent (default: one for each task in flight)
    - `patience`: seconds that the server waits for an update at the least, or a text such as `"1h"`
    - `strikes`: refused updates in a row after which a client is expelled
    - `metrics_port`: port on 127.0.0.1 for metrics in the format of Prometheus
    - `config`: values for the training function of the clients, beside `lr` and `server-round`
    """
    _check_package()
    from sojourn.learning.run.config import put_over

    settings = {"folder": folder, "resume": resume, "begin_with": begin_with, "patience": patience}
    settings |= {"strikes": strikes, "metrics_port": metrics_port}
    given = {key: value for key, value in {"fleet": fleet, "plan": plan, **run}.items() if value is not None}
    own, ours = configured(context.run_config)
    _serve(grid, put_over(given, own), {**settings, **ours}, config or {})


def server_app(fleet: "Fleet | str | Path | None" = None, plan: Any = None, **given: Any) -> Any:
    """Return a ServerApp that runs a live run to its end; the arguments are those of `serve`."""
    _check_package()
    from flwr.serverapp import ServerApp

    app = ServerApp()
    app.main()(lambda grid, context: serve(grid, context, fleet, plan, **given))
    return app


def client_app(
    model: Any = None,
    data: Any = None,
    *,
    fit: Callable[..., Any] | None = None,
    loss: Callable[..., Any] | str | None = None,
    **run: Any,
) -> Any:
    """Return a ClientApp that does the local work which the server asks for.

    `model` is an nn.Module like the server's, or a function that makes one. `data` is a pair of arrays (x, y), a
    Dataset, a map-style PyTorch dataset, or a function of the node's Context that returns one of them, so that each
    SuperNode trains on its own. In place of data, `fit(module, task)` is a training loop of your own, which trains the
    module in place and returns its loss. `loss` is a function of (module, x, y).

    Without such objects a client trains on its part of the run's data, by the keys of the run: those given here, as
    texts and numbers, and those in the app's own configuration, `[tool.flwr.app.config.sojourn]`. It then computes what
    a replay computes.
    """
    _check_package()
    from sojourn.live.engines.flower.mod import app_of

    texts = {key: one for key, one in {"model": model, "data": data, "loss": loss}.items() if isinstance(one, str)}
    if model is None or "model" in texts:
        if fit is not None or any(one is not None and not isinstance(one, str) for one in (data, loss)):
            raise InvalidInput("data, fit and loss need a model, got none; give model=Net")
        return app_of(lambda message, context: _train_by_keys(message, context, {**run, **texts}))
    if run or texts:
        strange = ", ".join([*texts, *run])
        raise InvalidInput(f"a client with a model of its own takes no keys of a run, got {strange}; leave them out")
    if (fit is None) == (data is None):
        raise InvalidInput("give data, or fit for a training loop of your own, one of them")
    return app_of(lambda message, context: _train_objects(message, context, model, data, fit, loss))


def _train_objects(message: Any, context: Any, *objects: Any) -> Any:
    from sojourn.live.engines.flower.client import of_objects, trained

    return trained(message, *of_objects(context, *objects))


def _train_by_keys(message: Any, context: Any, run: Mapping[str, Any]) -> Any:
    from sojourn.learning.run.config import put_over
    from sojourn.live.engines.flower.client import of_run_keys, trained

    return trained(message, *of_run_keys(_config(put_over(run, configured(context.run_config)[0]))))


def mod(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
    """A mod for a ClientApp that trains with Flower already: `ClientApp(mods=[sojourn.flower.mod])`.

    It says the node's name when the server asks for it, and signs what the training function returns. The function is
    called with the records that Flower's strategies send: `arrays`, and `config` with `lr` and `server-round`. It
    returns the trained `arrays`, and a metric `train_loss` if it has one. Messages of other servers pass unchanged.
    """
    from sojourn.live.engines.flower.mod import mod as answer

    return answer(message, context, call_next)


def configured(run_config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keys of a run and the settings of the server in an app's configuration.

    >>> configured({"sojourn.steps": 10, "sojourn.local-steps": 5, "sojourn.folder": "/data/run", "lr": 0.1})
    ({'steps': 10, 'local_steps': 5}, {'folder': '/data/run'})
    """
    from sojourn.learning.run.config import keys
    from sojourn.text import nearest

    ours = {key.removeprefix(TABLE): value for key, value in run_config.items() if key.startswith(TABLE)}
    ours = {key.replace("-", "_"): value for key, value in ours.items()}
    known = [*keys(), *SETTINGS]
    for key in ours:
        if key not in known:
            raise InvalidInput(f"the app's configuration: unknown key '{TABLE}{key}'{nearest(key, known)}")
    settings = {key: value for key, value in ours.items() if key in SETTINGS}
    return {key: value for key, value in ours.items() if key not in SETTINGS}, settings


def _serve(grid: Any, run: Mapping[str, Any], settings: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    """Run the live run to its end; an error if it was stopped before."""
    from sojourn.durations import seconds
    from sojourn.live.engines.flower.serve import serve_on
    from sojourn.live.settings import ServerFile, made

    given = dict(settings)
    folder, resume = given.pop("folder"), given.pop("resume")
    if not folder:
        raise InvalidInput('a run needs a folder, got none; give folder="/data/run", or the key sojourn.folder')
    if not isinstance(resume, bool):
        raise InvalidInput(f"resume must be true or false, got {resume!r}")
    given["patience"] = seconds(given["patience"], "patience")
    file = made(
        ServerFile, {**{key: one for key, one in given.items() if one is not None}, "out": str(folder)}, "server"
    )
    if not serve_on(grid, _config(run), file, resume, more):
        raise SojournError(f"the run was stopped; go on with another flwr run and the same folder, {folder}")


def _config(run: Mapping[str, Any]) -> "TrainConfig":
    from sojourn.facade.texts import run_keys
    from sojourn.learning.run.config import TrainConfig

    given = dict(run)
    fleet, plan = given.pop("fleet", None), given.pop("plan", None)
    if fleet is None:
        raise InvalidInput("a run needs a fleet, got none; give a Fleet or its file, or the key sojourn.fleet")
    return TrainConfig.of(run_keys(fleet, plan, given), "flower")


def _check_package() -> None:
    """Raise an error that says what to install, if Flower is missing."""
    if find_spec("flwr") is None:
        raise SojournError("Flower, the package flwr, is not installed; pip install 'sojourn[flower]'")
