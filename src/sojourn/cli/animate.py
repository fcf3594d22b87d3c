"""`sojourn animate`: draw one trace, or two of the same fleet, as a picture that moves."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, FleetFile, Overwrite

if TYPE_CHECKING:
    from sojourn.report.animation.scene import Scene


def animate(
    fleet: FleetFile,
    traces: Annotated[
        list[Path], typer.Argument(help="A trace of this fleet (Parquet), or the folder of a run that has one; or two.")
    ],
    out: Annotated[Path, typer.Option(help="Write the picture to this file, .svg.")],
    title: Annotated[
        list[str] | None,
        typer.Option(help="Title of a trace, in their order (default: its file name); may be repeated."),
    ] = None,
    time: Annotated[str, typer.Option(help="How much of the trace to show: seconds, `90s`, `5min`.")] = "1min",
    screen: Annotated[str, typer.Option(help="How long that takes on the screen.")] = "20s",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Draw a trace as a picture that moves, or two of the same fleet side by side.

    Examples:
    - `sojourn animate fleet.csv trace.parquet --time 1min --out moving.svg`

    - `sojourn animate fleet.csv blind.parquet free.parquet --title blind --title free --out moving.svg`

    """
    from sojourn.cli.arguments import check_free
    from sojourn.cli.show import print_json
    from sojourn.durations import seconds
    from sojourn.errors import InvalidInput
    from sojourn.fleet import Fleet
    from sojourn.report.animation.animate import animate as drawn
    from sojourn.trace import Trace

    if out.suffix != ".svg":
        raise InvalidInput(f"--out must be an .svg file, got {out}")
    check_free(overwrite, out, what="animation")
    files = [path / "trace.parquet" if path.is_dir() else path for path in traces]
    titles = title or [path.stem for path in traces]
    if len(titles) != len(traces) or len(set(titles)) < len(titles):
        raise InvalidInput(f"each trace needs a --title of its own, got {len(traces)} traces and {', '.join(titles)}")
    scenes = drawn(
        Fleet.load(fleet),
        {name: Trace.load(path) for name, path in zip(titles, files, strict=True)},
        out,
        time=seconds(time),
        screen=seconds(screen),
    )
    panels = [_row(name, scene) for name, scene in scenes.items()]
    if as_json:
        print_json({"command": "animate", "path": str(out), "time": seconds(time), "panels": panels})
    else:
        _print(panels, seconds(time), out)


def _row(title: str, scene: "Scene") -> dict[str, Any]:
    idle, waiting = scene.mean(scene.idle), scene.mean(scene.waiting)
    return {"title": title, "updates": scene.applied, "idle": idle, "waiting": waiting}


def _print(panels: list[dict[str, Any]], time: float, out: Path) -> None:
    from sojourn.cli.show import number, say, table

    rows = [[row["title"], str(row["updates"]), number(row["idle"]), number(row["waiting"])] for row in panels]
    table(f"the first {time:g} seconds", ["trace", "updates", "clients idle, mean", "tasks waiting, mean"], rows)
    say(f"wrote {out}", err=True)
