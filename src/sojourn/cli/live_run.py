"""`sojourn live server`, `client` and `local`: run a federation for real."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson
from sojourn.cli.run_flags import takes_keys
from sojourn.cli.show import say
from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.run.config import keys

if TYPE_CHECKING:
    from sojourn.learning.run.config import TrainConfig
    from sojourn.live.run import LiveRun
    from sojourn.live.settings import ServerFile

NEEDED = {"grpc": "grpcio", "google.protobuf": "protobuf", "torch": "torch"}
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder, after a stop or a crash.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="With --resume: allow the run's own code, `package.module:function`.")
]


def server(
    config: Annotated[Path, typer.Argument(help="Server file (TOML).")],
    out: Annotated[Path | None, typer.Option(help="Folder of the run, in place of the file's.")] = None,
    address: Annotated[
        str | None, typer.Option(help="HOST:PORT, in place of the file's; port 0 = any that is free.")
    ] = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Serve a live run: clients dial in, get tasks, and send their updates.

    The file has `address`, `keys`, `out` and the like, and a table [run] with the keys of a run. Ctrl-C stops the
    server and leaves a run that can be resumed; clients wait for it. A server that was killed is started again with
    --resume: nothing that was acknowledged is lost.

    Examples:
    - `sojourn live server server.toml`

    - `sojourn live server server.toml --resume`

    """
    _check_packages()
    from sojourn.live.serve import open_server
    from sojourn.live.settings import ServerFile, read_file

    given = {"out": None if out is None else str(out), "address": address}
    file, run = read_file(ServerFile, config, {key: value for key, value in given.items() if value is not None}, {})
    if resume and run.code:
        say(f"the run uses code of its own: {', '.join(f'{key} {text}' for key, text in run.code.items())}", err=True)
    _say_advised(run)
    opened = open_server(run, file, resume, report=_tell)
    say(f"serving at {_address(opened)}, run in {file.out}", err=True)
    _serve("live server", opened, file, f"sojourn live server {shlex.quote(str(config))} --resume", as_json)


def client(
    config: Annotated[Path, typer.Argument(help="Client file (TOML).")],
    server: Annotated[str | None, typer.Option(help="HOST:PORT of the server, in place of the file's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Take part in a live run: pull tasks, do the work on this machine's data, push the updates.

    The file has `server`, `keys`, `clients` (the names of the clients that this process runs) and a table [run] with
    data and model. The client dials out, so it works behind a firewall. It comes back by itself when the connection
    breaks or the server is started again. Ctrl-C leaves.

    Examples:
    - `sojourn live client client.toml`

    """
    _check_packages()
    from sojourn.cli.show import print_json
    from sojourn.interrupts import noted
    from sojourn.live.serve import join
    from sojourn.live.settings import ClientFile, read_file

    given = {} if server is None else {"server": server}
    file, run = read_file(ClientFile, config, given, {})
    with noted(twice=True) as stop:
        counts = join(run, file, stop, on_event=lambda name, words: say(f"{name}: {words}", err=True))
    if as_json:
        print_json({"command": "live client", **counts})
        return
    say(", ".join(f"{key} {value:,}" for key, value in counts.items()))


@takes_keys(*(key for key in keys() if key not in ("trace", "availability", "server_rate", "start")))
def local(
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("live"),
    processes: Annotated[int, typer.Option(help="Processes that the clients are spread over.")] = 2,
    pace: Annotated[
        bool,
        typer.Option(
            "--pace/--no-pace",
            help="Whether clients are as fast as the fleet says, by waiting, or as fast as this machine.",
        ),
    ] = True,
    resume: Resume = False,
    trust: Trust = False,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port on 127.0.0.1 for metrics in the format of Prometheus.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a whole federation on this machine: a server, and processes with its clients.

    It takes the flags of `sojourn train`, and trains for real: tasks and updates travel over gRPC on 127.0.0.1, and the
    time is that of your clock. The folder has the recorded trace, from which `sojourn replay` trains the same model to
    the bit. Ctrl-C stops everything and leaves a run that can be resumed.

    Examples:
    - `sojourn live local fleet.csv --time 30s --data digits --partition "classes(k=2)" --out live/`

    - `sojourn live local fleet.csv --plan plan.json --steps 2000 --out live/ --processes 4`

    - `sojourn live local --out live/ --resume`

    """
    _check_packages()
    from sojourn.learning.run.config import TrainConfig
    from sojourn.learning.run.run_config import config_of
    from sojourn.live.local import helped, names_of
    from sojourn.live.serve import open_server
    from sojourn.live.settings import ServerFile

    if resume and "fleet" not in given:
        run = config_of(out, given, trust)
    elif "fleet" in given:
        run = TrainConfig.of(given, "live local")
    else:
        raise InvalidInput("a run needs a fleet, got none; name a fleet file, or --resume a run in --out")
    if processes < 1:
        raise InvalidInput(f"--processes must be at least 1, got {processes}")
    _say_advised(run)
    file = ServerFile("127.0.0.1:0", out=str(out), metrics_port=metrics_port)
    opened = open_server(run, file, resume, names_of(run), _tell)
    with helped(opened, processes, pace) as alive:
        _serve("live local", opened, file, f"sojourn live local --out {shlex.quote(str(out))} --resume", as_json, alive)


def _say_advised(config: "TrainConfig") -> None:
    from sojourn.live.serve import advised

    if advised(config) is not config:
        say("no plan is given: every client gets a task whenever it is free, correction 1/2", err=True)


def _serve(
    verb: str, run: "LiveRun", file: "ServerFile", again: str, as_json: bool, alive: Callable[[], None] = lambda: None
) -> None:
    """Run to the end, with a bar on a terminal; say how to go on if it was stopped."""
    from sojourn.cli.show import print_json
    from sojourn.interrupts import noted
    from sojourn.live.serve import serve

    with noted(twice=True) as stop, _bar() as bar:

        def watch(run: "LiveRun") -> None:
            if not stop.is_set():  # Ctrl-C ends the clients too
                alive()
            bar(run)

        complete = serve(run, file, stop, watch)
    last: dict[str, Any] = dict(run.metrics.last)
    facts: dict[str, Any] = {
        "folder": str(run.folder),
        "complete": complete,
        "received": run.server.received,
        "time": round(run.loop.now, 3),
        "staleness": float(run.server.between.sum() / max(1, run.server.arrivals.sum())),
        **{key: last[key] for key in ("accuracy", "test_loss") if key in last},
        "faults": dict(run.loop.faults.counts),
    }
    if as_json:
        print_json({"command": verb, **facts})
    else:
        _say(facts)
    if not complete:
        say(f"stopped after {run.server.received:,} updates; continue with: {again}", err=True)
        raise typer.Exit(130)


def _say(facts: Mapping[str, Any]) -> None:
    judged = "" if "accuracy" not in facts else f", accuracy {facts['accuracy']:.3f}"
    say(
        f"{facts['received']:,} updates in {facts['time']:.1f} seconds, mean staleness {facts['staleness']:.1f}{judged}"
    )
    faults = ", ".join(f"{many:,} {kind}" for kind, many in facts["faults"].items())
    say(f"faults: {faults or 'none'}; everything is in {facts['folder']}")


@contextmanager
def _bar() -> Iterator[Any]:
    """Give a callback that draws the progress of a run on a terminal, in updates or in time."""
    from sojourn.cli.show import progress

    with progress("live") as report:

        def watch(run: "LiveRun") -> None:
            limits = run.loop.limits
            if limits.updates != float("inf"):
                report(run.server.received, int(limits.updates))
            else:
                report(min(int(run.loop.now * 10), int(limits.time * 10)), int(limits.time * 10))

        yield watch


def _tell(what: str, facts: Mapping[str, Any]) -> None:
    """Print what a person at the server should know at once; the log has everything."""
    if what in ("refused", "expelled"):
        say(f"{what}: client {facts['client']}: {facts['reason']}", err=True)


def _address(run: "LiveRun") -> str:
    return str(getattr(run.engine, "address", "?"))


def _check_packages() -> None:
    for module, package in NEEDED.items():
        if find_spec(module.split(".")[0]) is None:
            raise SojournError(f"live runs need {package}, which is not installed; pip install 'sojourn[live,train]'")
