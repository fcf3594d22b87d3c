"""`sojourn dashboard`: the live page of a run, by its folder, or the planner page of a fleet."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli.show import say
from sojourn.dashboards import PORT
from sojourn.interrupts import cleaned_up, noted

Port = Annotated[int, typer.Option("--port", help="Port on 127.0.0.1; 0 = any that is free.")]
ThePage = Annotated[
    int | None,
    typer.Option(
        "--dashboard",
        metavar="[PORT]",
        help=f"Show the run as a page on 127.0.0.1, at this port ({PORT} if none is given; 0 = any that is free).",
    ),
]


def dashboard(
    run: Annotated[
        Path | None, typer.Argument(help="Folder of a live run or of simulated training.", show_default=False)
    ] = None,
    fleet: Annotated[
        Path | None,
        typer.Option("--fleet", help="Plan for this fleet instead: a fleet file, or a log of durations."),
    ] = None,
    port: Port = PORT,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in your browser.")] = False,
) -> None:
    """Show a run as a live page in the browser, or a planner for a fleet, on this machine alone.

    The run may be going, stopped or ended: live, or simulated training. Its folder is only read, so the page can be
    opened beside any run. It shows the network, staleness and throughput against what exact theory promises, accuracy
    and loss, estimated speeds, changes of the plan, and faults. Ctrl-C ends it, and leaves the run alone.

    With `--fleet` the page is a planner: move cap, concurrency, sampling, correction and budget, and see throughput,
    staleness, idle clients and expected loss at once, beside the recommended plan. Without a run and a fleet it begins
    with an example.

    The page asks for a token. It is in a file that only you can read, whose name is printed.

    Examples:
    - `sojourn dashboard live/`

    - `sojourn dashboard run/ --port 8080 --open`

    - `sojourn dashboard --fleet fleet.csv`

    - `sojourn dashboard --fleet durations.csv`

    """
    import webbrowser

    from sojourn.dashboards import dashboard as shown

    with suppress(KeyboardInterrupt), cleaned_up(), noted(twice=True) as stop, shown(run, port, fleet=fleet) as page:
        if stop.is_set():  # while the page was made
            return
        announce(page.address, page.token_file)
        say("Ctrl-C ends the page" + ("" if run is None else "; the run is not touched"), err=True)
        if open_it:
            webbrowser.open(page.address)
        page.wait(stop.is_set)


def announce(address: str, token_file: Path) -> None:
    """Say where a page is, and where its token; the token itself is shown to a person at a terminal alone."""
    say(f"page: {address}", err=True)
    said = f"its token is in {token_file}"
    if sys.stderr.isatty():  # never into a file, which may be a log
        said += f": {token_file.read_text('ascii').strip()}"
    say(said, err=True)
