"""The commands of this paper: `reproduce`, as in sojourn, and `train`, for runs that no ledger holds yet."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from queuing_dynamics.cifar10.stages import TRAINING as CIFAR10
from queuing_dynamics.experiments import PAPER
from queuing_dynamics.tinyimagenet.stages import TRAINING as TINYIMAGENET
from queuing_dynamics.training import Training
from sojourn.cli.arguments import AsJson, Overwrite
from sojourn.cli.cell_options import Seconds, Together, cell_bar, check_pace, check_torch
from sojourn.cli.command import Command
from sojourn.cli.main import SETTINGS, Debug, Version
from sojourn.cli.reproduce import Fast, Listed, Name, Out, Page, list_experiments, make_again
from sojourn.errors import InvalidInput
from sojourn.folders import check_folder
from sojourn.text import listed as any_of
from sojourn.text import nearest

TRAININGS: dict[str, Training[Any]] = {one.name: one for one in (CIFAR10, TINYIMAGENET)}

app = typer.Typer(name="queuing_dynamics", help=f"{PAPER.title}, reproduced.", **SETTINGS)


@app.callback()
def _options(version: Version = False, debug: Debug = False) -> None:
    """Queuing dynamics of asynchronous Federated Learning, reproduced."""


@app.command(cls=Command)
def reproduce(
    name: Name = None,
    listed: Listed = False,
    fast: Fast = False,
    out: Out = Path("reproduced"),
    page: Page = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Repeat the paper's experiments: data, pictures, and a verdict on every claim."""
    if listed:
        list_experiments([PAPER], as_json)
    else:
        make_again(PAPER, name, fast, out, page, overwrite, as_json)


@app.command()
def train(
    experiment: Annotated[str, typer.Argument(help=f"Experiment whose runs to train: {' or '.join(TRAININGS)}.")],
    stage: Annotated[str, typer.Argument(help="Stage to train; each stage depends on those before.")],
    results: Annotated[Path, typer.Option(help="Folder of the ledgers.")],
    work: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("paper-runs"),
    fast: Annotated[bool, typer.Option("--fast", help="Train a small version, on digits.")] = False,
    minutes: Annotated[float, typer.Option(help="Begin no new runs after this many minutes.")] = float("inf"),
    together: Together = None,
    checkpoint_seconds: Seconds = "60",
) -> None:
    """Train the runs of a stage that no ledger holds yet; run the command again to continue.

    Example: `python -m queuing_dynamics train cifar10 search --results results`
    """
    training = TRAININGS[_known("experiment", experiment, list(TRAININGS))]
    _known(f"stage of {experiment}", stage, training.stages)
    between = check_pace(together, checkpoint_seconds)
    if not minutes >= 0:
        raise InvalidInput(f"minutes must not be negative, got {minutes:g}")
    for folder in (work, results):
        check_folder(folder)
    check_torch()
    began, size = time.monotonic(), training.fast if fast else training.full

    def going() -> bool:
        return time.monotonic() - began < 60 * minutes

    with cell_bar() as (phase, report):
        phase(stage)
        whole = training.train_stage(stage, size, work, results, together, going, report, between)
    typer.echo("all runs are done" if whole else "there is more to do: run this again")


def _known(what: str, name: str, names: "list[str] | tuple[str, ...]") -> str:
    if name not in names:
        raise InvalidInput(f"{what} must be {any_of(names)}, got '{name}'{nearest(name, names)}")
    return name
