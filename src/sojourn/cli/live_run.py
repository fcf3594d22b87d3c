"""`sojourn live server`, `client` and `local`: run a federation for real."""

import os
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, TheCallbacks
from sojourn.cli.command import made_by
from sojourn.cli.dashboard import ThePage, announce
from sojourn.cli.run_flags import takes_keys
from sojourn.cli.show import plural, say
from sojourn.dashboards import check_port
from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.run.config import keys

if TYPE_CHECKING:
    from sojourn.learning.run.config import TrainConfig
    from sojourn.live.run import LiveRun
    from sojourn.live.settings import ServerFile

NEEDED = {
    "any": {"torch": "torch"},
    "grpc": {"grpc": "grpcio", "google.protobuf": "protobuf", "torch": "torch"},
    "ray": {"ray": "ray", "torch": "torch"},
}
PROCESSES = 2
EXTRAS = {"any": "live,train", "grpc": "live,train", "ray": "ray,train"}
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder, after a stop or a crash.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")]
Replan = Annotated[
    str | None,
    typer.Option(
        help="Work out the plan again for the measured speeds, at the latest after this time: `10min`, `never`, or "
        "`auto` (default), ten minutes if no policy is given."
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="With --resume: allow the run's own code, `package.module:function`.")
]


def server(
    config: Annotated[Path, typer.Argument(help="Server file (TOML).")],
    out: Annotated[Path | None, typer.Option(help="Folder of the run, in place of the file's.")] = None,
    address: Annotated[
        str | None, typer.Option(help="HOST:PORT, in place of the file's; port 0 = any that is free.")
    ] = None,
    replan: Replan = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    callback: TheCallbacks = None,
    dashboard: ThePage = None,
    as_json: AsJson = False,
) -> None:
    """Serve a live run: clients dial in, get tasks, and send their updates.

    The file has `address`, `keys`, `out` and the like, and a table [run] with the keys of a run. Ctrl-C stops the
    server once the tasks that are due within five seconds are back, or at once if it comes twice, and leaves a run that
    can be resumed; clients wait for it. A server that was killed is started again with
    --resume: nothing that was acknowledged is lost. If the run has ended, --resume tells clients that still wait.

    Examples:
    - `sojourn live server server.toml`

    - `sojourn live server server.toml --resume`

    - `sojourn live server server.toml --dashboard`

    """
    _check_packages("any")
    from sojourn.live.farewell import finished
    from sojourn.live.settings import ServerFile, read_file

    check_port(dashboard)
    given = {"out": None if out is None else str(out), "address": address, "replan": replan}
    file, run = read_file(ServerFile, config, {key: value for key, value in given.items() if value is not None}, {})
    _check_packages(file.engine)
    from sojourn.live.serve import open_server

    if resume and run.code:
        say(f"the run uses code of its own: {', '.join(f'{key} {text}' for key, text in run.code.items())}", err=True)
    if resume and not overwrite and file.engine == "grpc" and finished(file.out):
        _say_farewell(file, as_json)
        return
    told: dict[str, Any] = {"callbacks": callback or [], "made_by": made_by()}
    opened = open_server(run, file, resume, report=_tell, overwrite=overwrite, **told)
    _say_policy(run, resume, "step_size in [run] sets one, found by")
    say(f"serving {_where(opened, file)}, run in {file.out}", err=True)
    if file.engine == "grpc":
        say(f"tasks go out once {plural(opened.loop.limits.begin_with, 'client')} joined", err=True)
    again = shlex.join(
        ["sojourn", "live", "server", str(config), "--resume", *_repeated(callback or ()), *_shown(dashboard)]
    )
    _serve("live server", opened, file, again, as_json, dashboard=dashboard)


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
    _check_packages("grpc")
    from sojourn.cli.show import print_json
    from sojourn.interrupts import noted
    from sojourn.live.serve import join
    from sojourn.live.settings import ClientFile, read_file

    given = {} if server is None else {"server": server}
    file, run = read_file(ClientFile, config, given, {})
    with noted(twice=True, term=True) as stop:
        counts = join(run, file, stop, on_event=lambda name, words: say(f"{name}: {words}", err=True))
    if as_json:
        print_json({"command": "live client", **counts})
        return
    say(", ".join(f"{key} {value:,}" for key, value in counts.items() if value or key == "tasks"))


@takes_keys(*(key for key in keys() if key not in ("trace", "availability", "server_rate", "start")))
def local(
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("live"),
    processes: Annotated[int, typer.Option(help="Processes that the clients are spread over.")] = PROCESSES,
    engine: Annotated[str, typer.Option(help="What carries tasks and updates: `grpc`, or `ray`.")] = "grpc",
    cluster: Annotated[
        str | None,
        typer.Option(help="With --engine ray: address of a Ray cluster (default: an instance on this machine)."),
    ] = None,
    durable: Annotated[
        bool,
        typer.Option(
            "--durable/--no-durable",
            help="Whether the run survives a kill, or is on the disk only when it is stopped, which is faster.",
        ),
    ] = True,
    pace: Annotated[
        bool,
        typer.Option(
            "--pace/--no-pace",
            help="Whether clients are as fast as the fleet says, by waiting, or as fast as this machine.",
        ),
    ] = True,
    resume: Resume = False,
    overwrite: Overwrite = False,
    trust: Trust = False,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port on 127.0.0.1 for metrics in the format of Prometheus.")
    ] = None,
    callback: TheCallbacks = None,
    replan: Replan = None,
    dashboard: ThePage = None,
    as_json: AsJson = False,
) -> None:
    """Run a whole federation on this machine: a server, and processes with its clients.

    It takes the flags of `sojourn train`, and trains for real: tasks and updates travel over gRPC on 127.0.0.1, or to
    actors of Ray, here or on a cluster, and the time is that of your clock. The folder has the recorded trace, from
    which `sojourn replay` trains the same model to the bit. Ctrl-C stops everything and leaves a run that can be
    resumed.

    Examples:
    - `sojourn live local fleet.csv --time 30s --data digits --partition "classes(k=2)" --out live/`

    - `sojourn live local fleet.csv --plan plan.json --steps 2000 --out live/ --processes 4`

    - `sojourn live local fleet.csv --time 30s --data digits --out live/ --engine ray --processes 4`

    - `sojourn live local fleet.csv --time 30s --data digits --out live/ --dashboard`

    - `sojourn live local --out live/ --resume`

    """
    from sojourn.learning.run.config import TrainConfig
    from sojourn.learning.run.run_config import config_of

    check_port(dashboard)
    if resume and "fleet" not in given:
        run = config_of(out, given, trust)
    elif "fleet" in given:
        run = TrainConfig.of(given, "live local")
    else:
        raise InvalidInput("a run needs a fleet, got none; name a fleet file, or --resume a run in --out")
    file = _local_file(out, processes, pace, engine, cluster, durable, metrics_port, callback or [], replan)
    _run_here(run, file, processes, pace, resume, overwrite, dashboard, as_json)


def _local_file(
    out: Path,
    processes: int,
    pace: bool,
    engine: str,
    cluster: str | None,
    durable: bool,
    metrics_port: int | None,
    callbacks: list[str],
    replan: str | None,
) -> "ServerFile":
    """Return the server file that the flags amount to."""
    if processes < 1:
        raise InvalidInput(f"--processes must be at least 1, got {processes}")
    _check_packages("any")
    from sojourn.live.settings import AUTO, ServerFile

    about: dict[str, Any] = {"out": str(out), "metrics_port": metrics_port, "durable": durable, "engine": engine}
    about |= {"callbacks": tuple(callbacks), "replan": replan or AUTO}
    if engine == "ray":
        return ServerFile(**about, cluster=cluster, processes=processes, paced=pace)
    return ServerFile("127.0.0.1:0", **about, cluster=cluster)


def _run_here(
    run: "TrainConfig",
    file: "ServerFile",
    processes: int,
    pace: bool,
    resume: bool,
    overwrite: bool,
    dashboard: int | None,
    as_json: bool,
) -> None:
    """Run a whole federation; over gRPC with processes of its own, on Ray with actors."""
    _check_packages(file.engine)
    from sojourn.interrupts import cleaned_up
    from sojourn.live.local import helped
    from sojourn.live.serve import names_of, open_server

    with cleaned_up():
        opened = open_server(run, file, resume, names_of(run), _tell, overwrite=overwrite, made_by=made_by())
        _say_policy(run, resume, "--step-size sets one, found by")
        say(f"waiting for {plural(opened.loop.limits.begin_with, 'client')}, which are starting", err=True)
        clients = nullcontext(lambda: None) if file.engine == "ray" else helped(opened, processes, pace)
        with clients as alive:
            _serve("live local", opened, file, _again(file, processes, pace, dashboard), as_json, alive, dashboard)


def _again(file: "ServerFile", processes: int, pace: bool, dashboard: int | None = None) -> str:
    """Return the command that goes on with a local run."""
    from sojourn.live.settings import AUTO

    words = ["sojourn", "live", "local", "--out", file.out, "--resume"]
    words += ["--engine", file.engine] if file.engine != "grpc" else []
    words += ["--cluster", file.cluster] if file.cluster is not None else []
    words += ["--processes", str(processes)] if processes != PROCESSES else []
    words += ([] if pace else ["--no-pace"]) + ([] if file.durable else ["--no-durable"])
    words += ["--replan", str(file.replan)] if file.replan != AUTO else []
    return shlex.join([*words, *_repeated(file.callbacks), *_shown(dashboard)])


def _shown(dashboard: int | None) -> list[str]:
    """Return the flags of the page, for a command that goes on with the run."""
    return [] if dashboard is None else ["--dashboard", str(dashboard)]


def _repeated(callbacks: Iterable[str]) -> list[str]:
    """Return the flags of the callbacks, for a command that goes on with the run."""
    return [word for text in callbacks for word in ("--callback", text)]


def _say_farewell(file: "ServerFile", as_json: bool) -> None:
    """Tell the clients of a finished run that it has ended, and say who asked."""
    from sojourn.cli.show import print_json
    from sojourn.interrupts import noted
    from sojourn.live.farewell import SECONDS, say_farewell

    say(f"the run in {file.out} is finished; clients that ask are told so for {SECONDS:g} s", err=True)
    with noted(twice=True) as stop:
        told = say_farewell(file, stop)
    if as_json:
        print_json({"command": "live server", "folder": file.out, "complete": True, "told": told})
    else:
        say(f"told: {', '.join(told) or 'nobody asked'}")


def _say_policy(config: "TrainConfig", resume: bool, way: str) -> None:
    """Print what is used in place of a plan, or of a plan's step size, if that is missing; once the run is open, so
    that an error comes alone.
    """
    from sojourn.cli.train import say_untuned
    from sojourn.live.serve import advised

    if advised(config) is not config:
        say("no plan is given: every client gets a task whenever it is free, correction 1/2", err=True)
    elif not resume:  # a resumed run keeps its step size
        given = {key: getattr(config, key) for key in keys()}
        say_untuned(config, {key: one for key, one in given.items() if one != keys()[key].default}, None, way)


def _serve(
    verb: str,
    run: "LiveRun",
    file: "ServerFile",
    again: str,
    as_json: bool,
    alive: Callable[[], None] = lambda: None,
    dashboard: int | None = None,
) -> None:
    """Run to the end, with a bar on a terminal; say how to go on if it was stopped."""
    from sojourn.cli.show import print_json
    from sojourn.interrupts import noted
    from sojourn.live.serve import serve

    with run, noted(twice=True, term=True) as stop, _page(run, stop, dashboard), _bar() as bar:

        def watch(run: "LiveRun") -> None:
            if not stop.is_set():
                alive()
            bar(run)

        try:
            complete = serve(run, file, stop, watch)
        except KeyboardInterrupt:
            say(f"ended at once, with what was committed; continue with: {again}", err=True)
            raise typer.Exit(130) from None
    last: dict[str, Any] = dict(run.metrics.last)
    facts: dict[str, Any] = {
        "folder": str(run.folder),
        "complete": complete,
        "received": run.server.received,
        "time": round(run.loop.now, 3),
        "staleness": float(run.server.between.sum() / max(1, run.server.arrivals.sum())),
        **{key: last[key] for key in ("accuracy", "test_loss") if key in last},
        "faults": dict(run.loop.faults.counts),
        **({} if run.stopped is None else {"stopped": run.stopped}),
    }
    if as_json:
        print_json({"command": verb, **facts})
    else:
        _say(facts)
    if not complete:
        say(f"stopped after {run.server.received:,} updates; continue with: {again}", err=True)
        raise typer.Exit(130)


@contextmanager
def _page(run: "LiveRun", stop: threading.Event, port: int | None) -> Iterator[None]:
    """Show the run as a page, and say where."""
    from sojourn.dashboards import beside

    with beside(run, stop, port) as page:
        if page is not None:
            announce(page.address, page.token.file)
        yield


def _say(facts: Mapping[str, Any]) -> None:
    judged = "" if "accuracy" not in facts else f", accuracy {facts['accuracy']:.3f}"
    say(
        f"{facts['received']:,} updates in {facts['time']:.1f} seconds, mean staleness {facts['staleness']:.1f}{judged}"
    )
    if "stopped" in facts:
        say(f"it ended early: {facts['stopped']}")
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
    if what == "turned away":
        say(f"turned away: {facts['who'] or 'somebody'} at {facts['place']}: {facts['reason']}", err=True)
    if what == "stopping" and facts["awaited"]:
        tasks = plural(facts["awaited"], "task")
        say(f"waiting {facts['seconds']:g} s at most for {tasks}; a second Ctrl-C ends at once", err=True)
    if what == "process ended":
        say(f"! process {facts['process']} of the clients has ended: {facts['said']}", err=True)
    if what in ("callback", "keys"):
        say(f"! {facts['reason']}", err=True)
    if what == "plan":
        say(f"plan {facts['number']}: {facts['reason']}; {facts['throughput']:.4g} updates per second", err=True)
    if what == "no plan":
        say(f"the plan stays as it is: {facts['reason']}", err=True)


def _where(run: "LiveRun", file: "ServerFile") -> str:
    if file.engine == "ray":
        return f"on Ray ({file.cluster or 'an instance on this machine'})"
    return f"at {getattr(run.engine, 'address', '?')}"


def _check_packages(engine: str) -> None:
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # a stranger at the door is no news for a terminal
    for module, package in NEEDED[engine].items():
        if find_spec(module.split(".")[0]) is None:
            raise SojournError(
                f"live runs need {package}, which is not installed; pip install 'sojourn[{EXTRAS[engine]}]'"
            )
