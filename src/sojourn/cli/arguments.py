"""Options that several verbs share, and whole numbers from their words."""

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
        help="Whom to sample: `uniform`, `speed` (in proportion to the rate), a CSV file with the columns "
        "name,probability, or `name=probability of each client of that group,...` for every group."
    ),
]
PlanFile = Annotated[Path | None, typer.Option(help="Plan file (JSON) with sampling and concurrency.")]
Concurrency = Annotated[
    str | None, typer.Option("--concurrency", "-C", help="Tasks in flight (default: one a client).")
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
    typer.Option(help="Updates that the server applies per unit of time, one after the other (default: at once)."),
]
Availability = Annotated[
    str | None,
    typer.Option(
        help="`churn(on=100, off=20)`, `diurnal(on=8, period=24)`, with `leave=lose`, `loss=0.01`, `drift=-0.001`; "
        "or a TOML or CSV file."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with every number at full precision.")]

LAW_HELP = (
    "Service law for all groups, `lognormal(sigma=1)`, or for one, `name=deterministic`; may be repeated. "
    "One of your own: `package.module:Class(key=value)`."
)
LINK_HELP = (
    "{} rate, with its law after a colon if not exponential: `5`, `5:gamma(shape=2)`, `name=5`; may be repeated."
)
Laws = Annotated[list[str] | None, typer.Option(help=LAW_HELP)]
Uplink = Annotated[list[str] | None, typer.Option(help=LINK_HELP.format("Uplink"))]
Downlink = Annotated[list[str] | None, typer.Option(help=LINK_HELP.format("Downlink"))]


def check_free(overwrite: bool, *paths: Path | None, what: str = "file") -> None:
    """Refuse, before the work, to write where nothing can be written, or over a file unless it is asked for."""
    for path in paths:
        if path is not None and path.is_file() and not overwrite:
            raise InvalidInput(f"{path} exists already; name another file, or give --overwrite to replace it")
        if path is not None:
            check_place(path, what)


def whole(name: str, text: str) -> int:
    """Read a whole number; 1e6 and 1_000_000 are fine, what does not fit into 64 bits is not."""
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
    """Read a concurrency; None = left open."""
    return None if text is None else whole("concurrency", text)


def joined(texts: list[str] | None) -> str | None:
    """What an option was given several times, as one text of a run's key."""
    return "; ".join(texts) if texts else None
