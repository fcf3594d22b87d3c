"""What the commands that train many runs share: options, the progress bar, and how they end."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli.show import called, plural, say
from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.shown import visible

Out = Annotated[Path, typer.Option(help="Folder for all results; runs that are finished there are not repeated.")]
Jobs = Annotated[
    int | None, typer.Option(help="Processes that train at the same time (default: one per core; one with a GPU).")
]
On = Annotated[str, typer.Option(help="Where to train: `here`, or `ray` for a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option(help="Address of the Ray cluster (default: one that runs on this machine, or a new one).")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print what is left and what it will cost, and stop: a first cell is timed, nothing written."
    ),
]
OnePart = Annotated[
    str | None, typer.Option("--part", help="Train only a part of the runs: `1/2` on the first of two machines.")
]
Seconds = Annotated[
    str,
    typer.Option(metavar="TIME", help="Time between two checkpoints: seconds, or with a unit, `5min` (default 60s)."),
]
Together = Annotated[
    int | None, typer.Option(help="Runs that one process trains together in common waves (default: 1; 16 on a GPU).")
]
OverwriteTables = Annotated[bool, typer.Option("--overwrite", help="Replace the tables of other work in the folder.")]

_PART = re.compile(r"[0-9]{1,9}")
QUIET = 60.0  # seconds between two lines where there is no bar


@contextmanager
def cell_bar() -> Iterator[tuple[Callable[[str], None], Callable[[str, int, int], None]]]:
    """Give two callbacks: one names the current phase, one (text, ended, cells) moves a bar. Problems are always
    printed.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("cells", total=None)
        said = time.monotonic()

        def phase(name: str) -> None:
            progress.reset(task, description=name, total=None)

        def report(text: str, ended: int, cells: int) -> None:
            nonlocal said
            progress.update(task, completed=ended, total=cells)
            if not console.is_terminal and time.monotonic() - said > QUIET:  # a log file has no bar
                said = time.monotonic()
                console.print(f"{ended} of {cells} done", markup=False, highlight=False)
            if ": " in text:
                console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

        yield phase, report


def another(flag: str) -> str:
    """Return what to do if a folder holds the tables of other work; `flag` names the folder."""
    return f"name another folder with {flag}, or give --overwrite to replace it"


def say_failures(failures: Mapping[str, str], folder: Path) -> None:
    """Print the name and the error of every run that failed."""
    if not failures:
        return
    many = plural(len(failures), "cell")
    say(f"{many} failed twice; the rest is done. Details are in {folder / 'failures'}:", err=True)
    for name, error in failures.items():
        say(f"  {name}: {error}", err=True)


def end(interrupted: bool, failures: Mapping[str, str]) -> None:
    """Exit with 130 after Ctrl-C and 1 after failures."""
    if interrupted:
        say(f"interrupted; everything done so far is kept; continue with: {called(sys.argv[1:])}", err=True)
        raise typer.Exit(130)
    if failures:
        raise typer.Exit(1)


def check_pace(together: int | None, checkpoint_seconds: str) -> float:
    """Refuse impossible settings, and return the seconds between two checkpoints."""
    if together is not None and together < 1:
        raise InvalidInput(f"together must be a whole number of at least 1, got {together}")
    between = seconds(checkpoint_seconds, "checkpoint-seconds")
    if not between >= 0:
        raise InvalidInput(f"checkpoint-seconds must not be negative, got {between:g}")
    return between


def check_torch() -> None:
    """Raise an error before the work begins if PyTorch is missing."""
    from importlib.util import find_spec

    from sojourn.errors import SojournError

    if find_spec("torch") is None:
        raise SojournError("training needs PyTorch, which is not installed; pip install 'sojourn[train]'")


def part_of(text: str | None) -> tuple[int, int] | None:
    """Read `1/2`: the first of two machines."""
    if text is None:
        return None
    one, slash, many = text.partition("/")
    if slash and _PART.fullmatch(one) and _PART.fullmatch(many) and 1 <= int(one) <= int(many):
        return int(one), int(many)
    raise InvalidInput(f"part must read like 1/2, the first of two machines, got '{text}'")
