"""`sojourn train`: train on a simulated clock, from flags or a TOML file, and store the run in a folder."""

import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Figure, OwnPictures, TheCallbacks, pictures_in, singly
from sojourn.cli.cell_options import Seconds, check_pace
from sojourn.cli.dashboard import ThePage, announce
from sojourn.cli.run_flags import takes_keys
from sojourn.cli.show import say, say_weights
from sojourn.dashboards import beside_training, check_port
from sojourn.errors import InvalidInput, SojournError
from sojourn.files import no_links, read_json, write_json
from sojourn.interrupts import cleaned_up, noted
from sojourn.learning.run.config import callbacks_in, keys

if TYPE_CHECKING:
    from sojourn.learning.run.config import TrainConfig
    from sojourn.learning.run.trainer import Outcome, Trainer

SEEDS = "seeds.json"
MOST_SEEDS = 2**20  # bytes of the list of seeds
ONE_RUN = "--dashboard shows one run, got several seeds; call sojourn dashboard with the folder of a seed"
NOT_TUNED = ("step_size", "holdout", "judged_on", "evaluate_every", "seed")  # keys that a tuning decides
PICTURES = tuple(
    f"{name}.{kind}"
    for name in ("who-holds-what", "curves", "curves-received", "curves-time")
    for kind in ("svg", "png", "pdf")
)


@takes_keys(*keys())
def train(
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("run"),
    config: Annotated[
        Path | None, typer.Option(help="Run file (TOML) with the keys of a run; flags override it.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust", help="With --resume: allow the run's own code, `package.module:function`, to be executed."
        ),
    ] = False,
    seeds: Annotated[
        str | None, typer.Option(help="Train this many seeds together, from --seed on, each in its own folder.")
    ] = None,
    checkpoint_seconds: Seconds = "60",
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose the step size first, as `sojourn tune` does, in the folder `tuning`.")
    ] = False,
    pictures: OwnPictures = None,
    figure: Figure = "panels",
    callback: TheCallbacks = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="The same as `--callback tensorboard`.")] = False,
    dashboard: ThePage = None,
    as_json: AsJson = False,
) -> None:
    """Train a model as the federation would, on a simulated clock.

    Examples:
    - `sojourn train fleet.csv --plan plan.json --data digits --partition "classes(k=2)" --out run/`

    - `sojourn train fleet.csv --algorithm "fedbuff(size=10)" -C 50 --steps 5000 --step-size 0.05 --out fedbuff/`

    - `sojourn train fleet.csv --law "lognormal(sigma=1)" --uplink 5 --availability "churn(on=100, off=20)" --out run/`

    - `sojourn train fleet.csv --trace trace.parquet --data digits --out run/`

    - `sojourn train fleet.csv --plan plan.json --data digits --out run/ --dashboard`

    - `sojourn train --config run.toml --out run/ --resume`

    """
    from sojourn.cli.arguments import whole
    from sojourn.cli.show import attempts
    from sojourn.folders import check_folder

    if find_spec("torch") is None:
        raise SojournError("training needs PyTorch, which is not installed; pip install 'sojourn[train]'")
    check_port(dashboard)
    if dashboard is not None and seeds is not None:
        raise InvalidInput(ONE_RUN)
    between = check_pace(None, checkpoint_seconds)
    drawn, alone = pictures_in(pictures, out), singly(figure)
    many = None if seeds is None else whole("seeds", seeds)
    check_folder(out)
    no_links(out, SEEDS, *(path.name for path in out.glob("seed-*")), *PICTURES)
    configs, several = _configs(config, given, many, out, resume, trust)
    if dashboard is not None and several:  # as the folder says that is resumed
        raise InvalidInput(ONE_RUN)
    if overwrite and resume:
        raise InvalidInput("--resume and --overwrite exclude each other, got both; give one of them")
    if tune:
        configs = _tuned(configs, out, resume, overwrite, between)
    else:
        say_untuned(configs[0], given, config)
        say_tuned_for(configs[0], "algorithm" in given)
    told = [*(callback or []), *(["tensorboard"] if tensorboard else [])]
    runs = _runs(configs, out, several, resume, overwrite, [*(callbacks_in(config) if config else []), *told])
    _say(runs)
    diverged: list[str] = []
    with attempts() as attempt:
        with noted(twice=True) as stop, _page(out, stop, dashboard) as wait:
            attempt(_train, runs, between, stop, wait, diverged if several else None)
        if drawn is not None:
            attempt(_draw, runs, out, drawn, alone)
        outcomes = [run.outcome for run in runs]
        _show(outcomes, out, several, as_json)
    if diverged:
        raise SojournError("; ".join(diverged))
    if not all(outcome.complete for outcome in outcomes):
        done = sum(outcome.received for outcome in outcomes)
        code = [word for key, text in configs[0].code.items() for word in (f"--{key}", text)]
        code += [word for text in told for word in ("--callback", text)]
        again = shlex.join(["sojourn", "train", "--resume", "--out", str(out), *code])
        say(f"interrupted after {done} updates; continue with: {again}", err=True)
        raise typer.Exit(130)


@contextmanager
def _page(folder: Path, stop: threading.Event, port: int | None) -> Iterator[Callable[[], None]]:
    """Show the run as a page while it trains, and say where; give a function that returns when it may go on."""
    if port is None:
        yield lambda: None
        return
    with cleaned_up(), beside_training(folder, stop, port) as (page, controls):
        announce(page.address, page.token_file)
        yield controls.wait


def _configs(
    path: Path | None, given: dict[str, Any], many: int | None, out: Path, resume: bool, trust: bool
) -> "tuple[list[TrainConfig], bool]":
    """Return the settings of one run, or of one run per seed, and whether each has its own folder.

    Runs that are resumed are described by their folders; flags given in addition must agree with them.
    """
    from sojourn.learning.run.config import TrainConfig
    from sojourn.learning.run.run_config import config_of

    if many is not None and many < 1:
        raise InvalidInput(f"seeds must be a whole number of at least 1, got {many}")
    found = [] if "seed" in given else sorted(out.glob("seed-*/config.json"))
    by_folder = resume and path is None and "fleet" not in given
    if by_folder and found:
        told = [config_of(one.parent, given, trust) for one in found]
        seeds = _seeds(out, many) or [one.seed for one in told]
        return [told[0].resolved(seed=seed) for seed in seeds], True
    if by_folder:
        first = config_of(out, given, trust)
    elif path is not None:
        first = TrainConfig.load(path, **given)
    elif "fleet" in given:
        first = TrainConfig.of(given, "train")
    else:
        raise InvalidInput("a run needs a fleet, got none; name a fleet file, or give --config with one in it")
    seeds = [first.seed + number for number in range(many or 1)]
    return [first.resolved(seed=seed) for seed in seeds], many is not None


def _tuned(
    configs: "list[TrainConfig]", out: Path, resume: bool, overwrite: bool, seconds: float
) -> "list[TrainConfig]":
    """Return the runs with the step size that their tuning finds; resumed runs have one already."""
    if resume and configs[0].step_size is not None:
        return configs
    from sojourn.cli.cell_options import cell_bar, end
    from sojourn.cli.tune import sentences
    from sojourn.experiments.tune_plan import tuned_step

    with cell_bar() as (phase, report):
        found = tuned_step(configs[0], out, phase, resume, overwrite, watch=report, checkpoint_seconds=seconds)
    end(found.interrupted, {})
    say(sentences(found, None)[1], err=True)
    return [one.resolved(step_size=found.step_size) for one in configs]


def say_untuned(
    config: "TrainConfig", given: Mapping[str, Any], path: Path | None, way: str = "--tune chooses one, or"
) -> None:
    """If the plan has no step size, print which one is used and how to choose a better one."""
    from sojourn.learning.run.build import STEP_SIZE, fleet_and_plan

    if config.plan is None or config.step_size is not None or fleet_and_plan(config)[1].step_size is not None:
        return
    words = [] if path is None else ["--config", str(path)]
    for key, value in given.items():
        if key != "fleet" and key not in NOT_TUNED:
            words += [keys()[key].flag, str(value)]
    fleet = [str(given["fleet"])] if "fleet" in given else []
    again = shlex.join(["sojourn", "tune", *fleet, *words, "--out", "tuned.json"])
    say(f"the plan has no step size: {STEP_SIZE} is used; {way}: {again}", err=True)


def say_tuned_for(config: "TrainConfig", named: bool) -> None:
    """Print that the run has the algorithm that its plan was tuned for, or that it has another one."""
    from sojourn.learning.run.build import fleet_and_plan
    from sojourn.learning.run.tuned_for import tuned_for_another

    if config.plan is None:
        return
    plan = fleet_and_plan(config)[1]
    note = tuned_for_another(plan, config.algorithm, config.step_size)
    if note is not None:
        say(f"! {note}", err=True)
    elif plan.tuned_for == config.algorithm and not named:
        say(f"algorithm {config.algorithm}: the plan's step size was tuned for it", err=True)


def _seeds(out: Path, many: int | None) -> list[int]:
    """Return the seeds that a folder was begun with, extended to `many`; empty = not known."""
    try:
        known = [int(seed) for seed in read_json(out / SEEDS, "list of seeds", MOST_SEEDS)["seeds"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return known if many is None else [known[0] + number for number in range(many)]


def _runs(
    configs: "list[TrainConfig]", out: Path, several: bool, resume: bool, overwrite: bool, told: list[str]
) -> "list[Trainer]":
    """Open the runs; nothing is written until all of them are checked, and the list of seeds is written first."""
    import torch

    from sojourn.callbacks.table import callbacks
    from sojourn.experiments.training import open_run
    from sojourn.report.bars import loading_bar

    torch.set_num_threads(1)
    runs: list[Trainer] = []
    with loading_bar() as watch, ExitStack() as held:
        for config in configs:
            folder = out / f"seed-{config.seed}" if several else out
            like = runs[0].built if runs else None
            own = callbacks(told)  # each run has its own
            runs.append(open_run(config, folder, resume, watch, like, begin=False, overwrite=overwrite, callbacks=own))
            held.push(runs[-1])
        if several:
            known = {*(_seeds(out, None) if resume else ()), *(one.seed for one in configs)}
            write_json(out / SEEDS, {"seeds": sorted(known)}, "list of seeds")
        for run in runs:
            run.begin()
        held.pop_all()
    return runs


def _train(
    runs: "list[Trainer]",
    seconds: float,
    stop: threading.Event,
    wait: Callable[[], None],
    diverged: list[str] | None,
) -> None:
    """Train the runs until they end, or until `stop`; `wait` is called between two pieces.

    If one of several diverges, the others continue, and it is reported at the end.
    """
    from sojourn.learning.replay.replay import Diverged
    from sojourn.learning.run.trainer import Trainer, together
    from sojourn.report.bars import training_bar

    def note(run: Trainer, error: Diverged) -> None:
        assert diverged is not None
        diverged.append(f"seed {run.built.config.seed}: {error}")

    with training_bar() as bar:

        def report(done: int, total: int, facts: dict[str, Any]) -> None:
            bar(done, total, facts)
            wait()

        together(runs, seconds, progress=report, stop=stop, diverged=None if diverged is None else note)


def _say(runs: "list[Trainer]") -> None:
    """Print what a user should know before the runs begin."""
    from sojourn.learning.run.build import fleet_and_plan

    short = max(run.built.federation.short_batches().size for run in runs)
    built = runs[0].built
    if short:
        say(
            f"{short} clients hold fewer examples than a batch of {built.config.batch_size}: "
            "each of their batches holds all their examples",
            err=True,
        )
    for key in dict.fromkeys(key for run in runs for key in run.built.unused):
        if key == "owners":
            said = f"the dataset's owners are not used: partition {built.config.partition} deals the examples anew"
        else:
            said = f"{key.replace('_', '-')} has no effect on {built.algorithm.name} in this run"
        say(said, err=True)
    for note in dict.fromkeys(note for run in runs for note in run.notes):
        say(note, err=True)
    say_weights(fleet_and_plan(built.config)[0], built.config.sampling, built.config.cap)
    done = sum(run.received for run in runs)
    if done:
        say(f"resumed at update {done} of {sum(run.total for run in runs)}", err=True)


def _draw(runs: "list[Trainer]", out: Path, folder: Path, alone: bool) -> None:
    from sojourn.folders import made
    from sojourn.learning.run.metrics import read_metrics
    from sojourn.report.figures import who_holds_what
    from sojourn.report.training_figures import curves

    federation, config = runs[0].built.federation, runs[0].built.config
    names = {run: config.algorithm if len(runs) == 1 else f"seed {run.built.config.seed}" for run in runs}
    with made(folder):
        if federation.dataset.classes:
            table = federation.partition.table(federation.dataset.train_y, federation.dataset.classes)
            title = f"{federation.dataset.name} over {federation.clients} clients, {config.partition}"
            who_holds_what(table, folder / "who-holds-what", title)
        told = {names[run]: read_metrics(run.folder) for run in runs}
        curves(told, folder / "curves", f"{config.algorithm} in {out}", alone)


COLUMNS = {
    "received": "updates received",
    "version": "server steps",
    "time": "time (seconds)",
    "gradients": "gradients",
    "accuracy": "test accuracy",
    "test_loss": "test loss",
    "client_worst": "worst client",
    "client_50": "median client",
    "staleness": "mean staleness",
}
"""What is printed of the last evaluation, with its words; programs that read CSV get the keys."""


def _show(outcomes: "list[Outcome]", out: Path, several: bool, as_json: bool) -> None:
    from sojourn.cli.formats import in_csv
    from sojourn.cli.show import number, table, to_json

    complete = all(outcome.complete for outcome in outcomes)
    if as_json:
        runs = [
            {
                "folder": str(one.folder),
                "complete": one.complete,
                **({"stopped": one.stopped} if one.stopped else {}),
                **one.metrics,
            }
            for one in outcomes
        ]
        content = {"runs": runs} if several else runs[0]
        typer.echo(to_json({"command": "train", **content}))
        return
    names = COLUMNS if in_csv() else COLUMNS.values()
    head = ["folder", *names] if several else list(names)
    rows: list[list[str]] = [[number(float(one.metrics[name])) for name in COLUMNS] for one in outcomes]
    if several:
        rows = [[one.folder.name, *row] for one, row in zip(outcomes, rows, strict=True)]
    if complete:
        place = out / "seed-*" if several else out
        note = f"every evaluation is in {place / 'metrics.csv'}; the model in {place / 'model.safetensors'}"
        notes = [f"{one.folder.name if several else out} ended early: {one.stopped}" for one in outcomes if one.stopped]
    else:
        note, notes = "the last evaluation; updates received since then are in the checkpoint", []
    least = [COLUMNS[key] for key in ("gradients", "version", "client_50", "staleness")]
    state = "done" if complete else "interrupted"
    table(f"{out}: {state}, last evaluation", head, rows, [*notes, note], least=least)
