"""Options that several verbs share, and functions that read their values."""

from pathlib import Path
from typing import Annotated

import typer

from sojourn.errors import InvalidInput
from sojourn.files import check_place
from sojourn.values import LARGEST

FleetFile = Annotated[Path, typer.Argument(help="Fleet file, CSV (name,count,rate) or TOML.")]
Sampling = Annotated[
    str | None,
    typer.Option(
        help="Whom to sample: `uniform`, `speed` (in proportion to the rate), `root-speed`, any power of "
        "the speed as `speed^0.5`, a weight per client of each group as `fast=3,slow=1` (divided by their sum), or a "
        "CSV "
        "file with the columns name,weight."
    ),
]
PlanFile = Annotated[Path | None, typer.Option(help="Plan file (JSON) with sampling and concurrency.")]
Concurrency = Annotated[
    str | None, typer.Option("--concurrency", "-C", help="Tasks in flight (default: one per client).")
]
Cap = Annotated[
    str | None,
    typer.Option(
        help="Most tasks that a client may hold: `1` (nobody waits), `2`, `none` (tasks queue), or `name=2,name=none` "
        "by group (default: the plan's, or none)."
    ),
]
ServerRate = Annotated[
    float | None,
    typer.Option(help="Updates that the server applies per second, one after the other (default: at once)."),
]
Availability = Annotated[
    str | None,
    typer.Option(
        help="`churn(on=100, off=20)`, `diurnal(on=8, period=24)`, with `leave=lose`, `loss=0.01`, `drift=-0.001`; "
        "or a TOML or CSV file."
    ),
]
Pictures = Annotated[
    str | None, typer.Option("--pictures", metavar="DIR", help="Draw pictures (SVG and PNG) into this folder.")
]
OwnPictures = Annotated[
    str | None,
    typer.Option(
        "--pictures",
        metavar="DIR",
        help="Draw pictures (SVG and PNG) into this folder; alone, into the folder of the results.",
    ),
]
Figure = Annotated[
    str,
    typer.Option(
        "--figure",
        help="`panels` (default), or `single`: each panel as a figure of its own for a paper, 3.3 x 2.5 inches, "
        "8 point, PDF, SVG and PNG.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")]
TheCallbacks = Annotated[
    list[str] | None,
    typer.Option(
        "--callback",
        help="What is told of the run: `early-stop(accuracy>=0.9)`, `checkpoints(every=1000)`, `tensorboard`, "
        "`mlflow`, `wandb`, or `package.module:Class(key=value)`; may be repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with every number at full precision.")]

LAW_HELP = (
    "Service law for all groups, `lognormal(sigma=1)`, or for one, `name=deterministic`; may be repeated. "
    "Your own law: `package.module:Class(key=value)`."
)
LINK_HELP = (
    "{} rate, with its law after a colon if not exponential: `5`, `5:gamma(shape=2)`, `name=5`; may be repeated."
)
Laws = Annotated[list[str] | None, typer.Option(help=LAW_HELP)]
Uplink = Annotated[list[str] | None, typer.Option(help=LINK_HELP.format("Uplink"))]
Downlink = Annotated[list[str] | None, typer.Option(help=LINK_HELP.format("Downlink"))]


def check_free(overwrite: bool, *paths: Path | None, what: str = "file") -> None:
    """Refuse, before the work, a path that cannot be written, or an existing file without `overwrite`."""
    for path in paths:
        if path is not None and path.is_file() and not overwrite:
            raise InvalidInput(f"{path} exists already; name another file, or give --overwrite to replace it")
        if path is not None:
            check_place(path, what)


def pictures_in(given: str | None, own: Path | None = None) -> Path | None:
    """Return the folder for pictures after checking it; without a name, the command's own folder if it has one."""
    if given is None:
        return None
    if not given and own is None:
        raise InvalidInput("--pictures must name a folder, got none; write for example --pictures pictures/")
    if own is not None and Path(given).is_file():
        raise InvalidInput(
            f"--pictures takes the word after it for its folder, got the file {given}; write --pictures last, or name "
            "a folder"
        )
    from sojourn.folders import check_folder
    from sojourn.report.figures import pyplot

    folder = Path(given) if given or own is None else own
    check_folder(folder)
    pyplot()  # if matplotlib is missing, says so now and not after the work
    return folder


def singly(figure: str) -> bool:
    """Whether each panel is to be a figure of its own."""
    if figure not in ("panels", "single"):
        raise InvalidInput(f"figure must be panels or single, got '{figure}'")
    return figure == "single"


def whole(name: str, text: str) -> int:
    """Read a whole number such as 1e6 or 1_000_000; refuse one that does not fit into 64 bits."""
    rule = "a whole number"
    try:
        value = float(text.replace("_", ""))
        if abs(value) >= LARGEST:
            rule = "a whole number below 2^63"
        elif value == int(value):
            return int(text.replace("_", "")) if text.replace("_", "").lstrip("+-").isdigit() else int(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"{name} must be {rule}, got '{text}'; write for example 1000000 or 1e6")


def tasks_of(text: str | None) -> int | None:
    """Read a concurrency; None = not given."""
    return None if text is None else whole("concurrency", text)


def joined(texts: list[str] | None) -> str | None:
    """Return the values of a repeated option as one text, the form that a run's key has."""
    return "; ".join(texts) if texts else None
