"""`sojourn`: the entry point. Errors made by input are one sentence on stderr and exit code 2."""

import sys
from typing import Annotated

import typer

from sojourn.cli.analyze import analyze
from sojourn.cli.calibrate import calibrate
from sojourn.cli.compare import compare
from sojourn.cli.fit import fit
from sojourn.cli.plan import plan
from sojourn.cli.reproduce import reproduce
from sojourn.cli.simulate import simulate
from sojourn.cli.sweep import sweep
from sojourn.cli.train import train
from sojourn.errors import SojournError
from sojourn.version import __version__

app = typer.Typer(
    name="sojourn",
    help="Asynchronous federated learning that knows its queues.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(plan)
app.command()(analyze)
app.command()(simulate)
app.command()(fit)
app.command()(train)
app.command()(calibrate)
app.command()(compare)
app.command()(sweep)
app.command()(reproduce)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sojourn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Asynchronous federated learning that knows its queues."""


def run() -> None:
    """Run the command line; with `--debug` errors keep their traceback."""
    from sojourn.cli.show import spell_out

    spell_out()
    try:
        app()
    except SojournError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except MemoryError:
        typer.echo("error: this needs more memory than the machine has; lower the concurrency or the clients", err=True)
        sys.exit(2)
    except SystemExit as end:
        if _interrupted(end):
            typer.echo(
                "interrupted before the end; files that were written are named above, nothing else was written",
                err=True,
            )
        raise


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C ended it: typer turns that into exit code 130, without a word."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


if __name__ == "__main__":
    run()
