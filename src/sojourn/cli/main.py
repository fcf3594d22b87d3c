"""`sojourn`: the entry point. An error in the input prints one sentence on stderr and exits with code 2.

An unexpected error prints one sentence too: with exit code 70 it is a defect of sojourn, with 1 an error in the user's
own code that sojourn calls. `--debug` shows the traceback instead.
"""

import os
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.cli.algorithms import algorithms
from sojourn.cli.analyze import analyze
from sojourn.cli.animate import animate
from sojourn.cli.calibrate import calibrate
from sojourn.cli.command import Command, WithoutTables
from sojourn.cli.compare import compare
from sojourn.cli.dashboard import dashboard
from sojourn.cli.fit import fit
from sojourn.cli.live import live
from sojourn.cli.plan import plan
from sojourn.cli.replay import replay
from sojourn.cli.report import report
from sojourn.cli.reproduce import reproduce
from sojourn.cli.show import say, spell_out
from sojourn.cli.simulate import simulate
from sojourn.cli.sweep import sweep
from sojourn.cli.train import train
from sojourn.cli.tune import tune
from sojourn.errors import MOST, SojournError
from sojourn.shown import short
from sojourn.version import __version__

DEFECT = 70  # EX_SOFTWARE of sysexits.h

SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "rich_markup_mode": "markdown",
    "pretty_exceptions_enable": False,
}
"""Settings of every command line, so that a paper's commands behave like sojourn's."""

app = typer.Typer(name="sojourn", help="Asynchronous federated learning that knows its queues.", **SETTINGS)
app.command(cls=Command)(plan)
app.command(cls=Command)(analyze)
app.command(cls=Command)(simulate)
app.command(cls=Command)(fit)
app.command(cls=Command)(animate)
app.command(cls=Command)(tune)
app.command(cls=Command)(train)
app.command(cls=Command)(calibrate)
app.command(cls=Command)(compare)
app.command(cls=Command)(sweep)
app.command(cls=Command)(algorithms)
app.command(cls=WithoutTables)(report)
app.command(cls=WithoutTables)(replay)
app.command(cls=WithoutTables)(dashboard)
app.command(cls=Command)(reproduce)
app.add_typer(live)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sojourn {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")]


@app.callback()
def _options(version: Version = False, debug: Debug = False) -> None:
    """Asynchronous federated learning that knows its queues."""


def run(commands: typer.Typer = app) -> None:
    """Run a command line, sojourn's or a paper's; with `--debug` errors show their traceback."""
    _open_streams()
    spell_out()
    try:
        try:
            commands()
        finally:
            sys.stdout.flush()
    except SystemExit as end:
        if _interrupted(end):
            say(
                "interrupted before the end; no file was written but those named above, if any",
                err=True,
            )
        raise
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        _forget_output()
        said, code = _said(error)
        say(f"error: {said}", err=True)
        sys.exit(code)


def _said(error: Exception) -> tuple[str, int]:
    """Return the message of an error, and the exit code."""
    if isinstance(error, SojournError):
        return str(error), 2
    if isinstance(error, MemoryError):
        return "this needs more memory than the machine has; use fewer tasks in flight or fewer clients", 2
    if isinstance(error, OSError) and error.strerror:
        where = "the output" if error.filename is None else str(error.filename)
        return short(f"{where} cannot be read or written: {error.strerror}; check the place", MOST), 2
    what = short(f"{type(error).__name__}: {error}", MOST // 2)
    strange = _strange_code(error)
    if strange is not None:
        return f"{what}, in {strange}; run again with --debug for the traceback", 1
    return f"this is a defect of sojourn: {what}; run again with --debug for the traceback", DEFECT


def _strange_code(error: Exception) -> str | None:
    """Return where the error arose if that was in the user's own code, neither in sojourn nor in a library."""
    known = [Path(__file__).parents[1], *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        own = not frame.filename.startswith("<")
        if own and not any(Path(frame.filename).is_relative_to(home) for home in known):
            return f"{frame.filename}, line {frame.lineno}"
    return None


def _open_streams() -> None:
    """Open streams that the shell has closed to the null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 as long as we live


def _forget_output() -> None:
    """Drop output that could not be written, so that Python does not try again on exit."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 as long as we live


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C ended the program: typer turns that into exit code 130 without a message. `from None`
    hides it: then the command has said how it ended.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None


if __name__ == "__main__":
    run()
