"""From words on the command line to the nouns: whole numbers, sampling, plan."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.errors import InvalidInput
from sojourn.files import check_place
from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.plan import Plan
from sojourn.values import LARGEST

if TYPE_CHECKING:
    from sojourn.scenario import Scenario

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
ServerRate = Annotated[
    float | None,
    typer.Option(help="Updates that the server applies per unit of time, one after the other (default: at once)."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with every number at full precision.")]

LAW_HELP = (
    "Service law for all groups, `lognormal(sigma=1)`, or for one, `name=deterministic`; may be repeated. One of your own: "
    "`package.module:Class(key=value)`."
)
LINK_HELP = (
    "{} rate, with its law after a colon if not exponential: `5`, `5:gamma(shape=2)`, `name=5`; may be repeated."
)
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


def override(
    fleet: Fleet, plan: Plan, law: list[str] | None, uplink: list[str] | None, downlink: list[str] | None
) -> tuple[Fleet, Plan]:
    """The fleet with the laws and links of the command line, and the plan for it."""
    columns: dict[str, Any] = {
        key: list(getattr(fleet, key)) for key in ("law", "uplink_rate", "uplink_law", "downlink_rate", "downlink_law")
    }
    for text in law or []:
        groups, value = _addressed(fleet, text)
        for group in groups:
            columns["law"][group] = Law.parse(value)
    for name, texts in (("uplink", uplink), ("downlink", downlink)):
        for text in texts or []:
            groups, value = _addressed(fleet, text)
            number, _, shape = value.partition(":")
            for group in groups:
                columns[f"{name}_rate"][group] = _rate(name, number)
                columns[f"{name}_law"][group] = Law.parse(shape or "exponential")
    if not (law or uplink or downlink):
        return fleet, plan
    changed = replace(fleet, **columns)
    return changed, replace(plan, fleet_hash=changed.hash)


def _addressed(fleet: Fleet, text: str) -> tuple[list[int], str]:
    """The groups that an option speaks of, and its value: `name=value`, or `value` for all."""
    name, separator, value = text.partition("=")
    if separator and name.strip() in fleet.name:
        return [fleet.index(name.strip())], value.strip()
    return list(range(fleet.groups)), text.strip()


def _rate(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(
            f"{name} must be a rate, optionally with :law, got '{text}'; write 5 or 5:gamma(shape=2)"
        ) from None


def make_scenario(dispatcher: str, local_steps: str, server_rate: float | None, availability: str | None) -> "Scenario":
    """The scenario that the options describe."""
    from sojourn.availability import Availability
    from sojourn.scenario import Dispatcher, Scenario

    there: tuple[Availability, ...] = ()
    if availability is not None:
        is_file = availability.endswith((".toml", ".csv"))
        there = Availability.load(availability) if is_file else (Availability.parse(availability),)
    return Scenario(
        dispatcher=Dispatcher.parse(dispatcher),
        local_steps=whole("local-steps", local_steps),
        server_rate=float("inf") if server_rate is None else server_rate,
        availability=there,
    )
