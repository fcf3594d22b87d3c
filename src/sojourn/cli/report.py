"""`sojourn report`: one page that explains a run, a trace, a comparison, a sweep or a plan."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import Overwrite

if TYPE_CHECKING:
    from sojourn.report.page.parts import Part


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="What to report: the folder of a run, of a comparison, of a sweep, of a tuning or of "
            "`simulate --out`, a trace (.parquet), a plan or a summary (.json). Several are put on one page.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The page (default: report.html in the folder, or NAME-report.html next to the file)."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write every figure as SVG and PDF into this folder.")
    ] = None,
    fleet: Annotated[
        Path | None, typer.Option(help="Fleet file of the traces and plans, if they do not name it themselves.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Plan file of the traces, if they do not name it themselves.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write one HTML page that explains itself: no network, light and dark, phone and paper.

    The answer comes first: what ran, what came out, whether the promise was kept. An earlier report is replaced;
    any other file only with --overwrite.

    Examples:
    - `sojourn report run/`

    - `sojourn report comparison/ --out comparison.html --figures figures/`

    - `sojourn report first/ second/ plan.json --out both.html`

    - `sojourn report trace.parquet --fleet fleet.csv`

    """
    from sojourn.cli.command import again
    from sojourn.cli.show import say
    from sojourn.report.page.write import default_place, write_report

    place = out if out is not None else default_place(paths[0])
    things = [_so_far(path, fleet, plan) or path for path in paths]
    known: dict[str, Any] = {"fleet": fleet, "plan": plan, "command": again(), "overwrite": overwrite}
    written = write_report(things, place, figures, **known)
    if written.figures:
        say(f"wrote {len(written.figures)} files to {figures}", err=True)
    say(f"wrote {place}")


def _so_far(path: Path, fleet: Path | None, plan: Path | None) -> "Part | None":
    """Return the part about a live run that has not ended, whose trace is not a file yet; None = it is not one."""
    if not (path / "rows.bin").exists() or (path / "trace.parquet").exists():
        return None
    from sojourn.live.folder_view import view
    from sojourn.report.page.of_run import part_of_run

    return part_of_run(path, None, fleet, plan, view(path).trace)
