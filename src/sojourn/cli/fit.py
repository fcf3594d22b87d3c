"""`sojourn fit`: make a fleet from a log of durations, or from a trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Overwrite

if TYPE_CHECKING:
    from sojourn.timing.fit.from_trace import Fit

P_OF_THE_LAW = "p of the law: chance of a misfit like this one if the law were true; below 0.05, doubt the law"
COLUMN = "Column of a log {} (default: one called {})."


def fit(
    trace: Annotated[
        Path,
        typer.Argument(
            help="Log of durations (CSV or Parquet: device and start, end or duration), or a trace file (Parquet)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write the fleet to this file, .csv or .toml.")],
    groups: Annotated[
        str | None,
        typer.Option(
            help="Groups of a log's devices by speed: `auto` (default), how many, or `device` for one group each."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help=COLUMN.format("with the devices", "device, client, worker or id"))
    ] = None,
    start: Annotated[
        str | None, typer.Option(help=COLUMN.format("with the starts: times or numbers", "start or started"))
    ] = None,
    end: Annotated[str | None, typer.Option(help=COLUMN.format("with the ends", "end or finished"))] = None,
    duration: Annotated[
        str | None,
        typer.Option(help=COLUMN.format("with durations: numbers, `90s`, `00:01:30`", "duration or seconds")),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(help=COLUMN.format("that says which tasks finished", "status, fate, state, outcome or result")),
    ] = None,
    succeeded: Annotated[
        str | None,
        typer.Option(
            help="More words in the status column that mean success, besides ok, done, finished, ...: `0,fine`."
        ),
    ] = None,
    time_unit: Annotated[
        str | None,
        typer.Option(
            help="Unit of a log's plain numbers: `ms`, `s`, `min`, `h`, `day` (default: in the column's name; `s`)."
        ),
    ] = None,
    fleet: Annotated[
        Path | None,
        typer.Option(
            help="For a trace: fleet file that says which client belongs to which group; its rates are not used."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="For a trace: fit by `group` (default with --fleet) or by `client` (default without)."),
    ] = None,
    law: Annotated[
        str,
        typer.Option(
            help="Law of the durations: `auto`, a family such as `lognormal`, or a whole law such as `gamma(shape=2)`."
        ),
    ] = "auto",
    confidence: Annotated[float, typer.Option(help="Probability that an interval holds the true rate.")] = 0.95,
    latest: Annotated[
        float, typer.Option(help="Fit only the last part of the recorded time, such as `0.25`, when rates change.")
    ] = 1.0,
    pictures: Annotated[Path | None, typer.Option(help="Folder for pictures of the durations and the laws.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make a fleet (groups, speeds and laws) from a log of how long tasks took, or from a trace.

    Examples:
    - `sojourn fit durations.csv --out fleet.csv`

    - `sojourn fit log.parquet --device phone --duration took_ms --groups 3 --out fleet.csv --pictures pics`

    - `sojourn fit trace.parquet --out fitted.csv`

    - `sojourn fit trace.parquet --fleet fleet.csv --by client --law lognormal --out fitted.toml --json`

    - `sojourn fit trace.parquet --fleet fleet.csv --latest 0.25 --out fitted.csv`

    """
    from sojourn.cli.arguments import check_free
    from sojourn.cli.show import attempts, say, to_json
    from sojourn.errors import InvalidInput
    from sojourn.fleet import Fleet
    from sojourn.folders import check_folder
    from sojourn.timing.fit.from_trace import fit as estimate
    from sojourn.timing.log.table import is_trace

    if out.suffix.lower() not in (".csv", ".toml"):
        raise InvalidInput(f"--out must end in .csv or .toml, got {out}; rename it")
    beside = None if is_trace(trace) else out.with_name(f"{out.stem}-devices.csv")
    check_free(overwrite, out, what="fleet file")
    check_free(overwrite, beside, what="file of devices")
    if pictures is not None:
        check_folder(pictures)
    given = None if fleet is None else Fleet.load(fleet)
    said = {"groups": groups, "device": device, "start": start, "end": end, "duration": duration, "status": status}
    log = {**said, "succeeded": succeeded, "time_unit": time_unit}
    found = estimate(trace, given, by, law, confidence, latest, **{key: one for key, one in log.items() if one})
    with attempts() as attempt:
        attempt(found.save, out)
        if found.devices is not None and beside is not None:
            attempt(found.devices.save, beside, found.fleet)
        if as_json:
            typer.echo(to_json(content(found)))
        else:
            _print(found) if found.devices is None else _print_log(found)
        if pictures is not None:
            attempt(_draw, found, trace, pictures)
    if not as_json:
        say(f"wrote {out}" + (f" and {beside}" if beside is not None else ""), err=True)


def _draw(found: "Fit", trace: Path, folder: Path) -> None:
    from sojourn.cli.show import say
    from sojourn.report.fit_figures import fit_pictures

    for path in fit_pictures(found, trace, folder):
        say(f"wrote {path}", err=True)


def content(found: "Fit") -> dict[str, Any]:
    """Return what `--json` prints; docs/cli.md documents the keys."""
    from sojourn import __version__

    fleet = found.fleet
    groups = [
        {
            "name": fleet.name[g],
            "count": int(fleet.count[g]),
            "observations": int(found.observations[g]),
            "censored": int(found.censored[g]),
            "work": found.work[g],
            "rate": fleet.rate[g],
            "rate_low": found.rate_low[g],
            "rate_high": found.rate_high[g],
            "law": str(fleet.law[g]),
            "distance": found.distance[g],
            "p_value": found.p_value[g],
            "uplink_rate": fleet.uplink_rate[g],
            "uplink_law": str(fleet.uplink_law[g]),
            "downlink_rate": fleet.downlink_rate[g],
            "downlink_law": str(fleet.downlink_law[g]),
            "drift": found.drift[g],
        }
        for g in range(fleet.groups)
    ]
    return {
        "command": "fit",
        "sojourn": __version__,
        "fleet_hash": fleet.hash,
        "clients": fleet.clients,
        "by": found.by,
        "confidence": found.confidence,
        "latest": found.latest,
        "drift_p_value": found.drift_p_value,
        "groups": groups,
        "notes": list(found.notes),
        **_of_log(found),
    }


def _of_log(found: "Fit") -> dict[str, Any]:
    """Return what the JSON has in addition when a log was fitted."""
    devices = found.devices
    if devices is None:
        return {}
    return {
        "failed": devices.log.failed,
        "incomplete": devices.log.incomplete,
        "bic": {str(number): value for number, value in devices.criterion.items()},
        "devices": devices.rows(found.fleet),
    }


def _print_log(found: "Fit") -> None:
    import numpy as np

    from sojourn.cli.show import count, number, plural, table
    from sojourn.timing.fit.notes import law_in_short

    fleet, log = found.fleet, found.devices.log if found.devices is not None else None
    rows = [
        [
            fleet.name[g],
            count(fleet.count[g]),
            count(found.observations[g]),
            number(1 / float(fleet.rate[g]), 4),
            f"{number(1 / float(found.rate_high[g]), 4)} to {number(1 / float(found.rate_low[g]), 4)}",
            law_in_short(fleet.law[g]),
            number(float(found.p_value[g]), 2),
        ]
        for g in range(fleet.groups)
    ]
    left = 0 if log is None else log.failed + log.incomplete
    tasks, devices = plural(int(found.observations.sum()), "finished task"), plural(fleet.clients, "device")
    out = f", {plural(left, 'row')} left out" if left else ""
    heads = [
        "group",
        "devices",
        "tasks",
        "mean seconds",
        f"{100 * found.confidence:g}% interval",
        "law",
        "p of the law",
    ]
    tested = [P_OF_THE_LAW] if np.isfinite(found.p_value).any() else []
    table(f"{devices}, {tasks}{out}", heads, rows, [*tested, *found.notes])


def _print(found: "Fit") -> None:
    import numpy as np

    from sojourn.cli.show import interval, number, table
    from sojourn.timing.fit.notes import law_in_short

    fleet = found.fleet
    links = [
        (head, rate)
        for head, rate in (("uplink rate", fleet.uplink_rate), ("downlink rate", fleet.downlink_rate))
        if np.isfinite(rate).any()
    ]
    heads = ["group" if found.by == "group" else "client", "clients", "services", "cut off", "rate"]
    level = f"{100 * found.confidence:g}% interval"
    rows = [
        [
            fleet.name[g],
            str(fleet.count[g]),
            str(found.observations[g]),
            str(found.censored[g]),
            number(float(fleet.rate[g])),
            interval(found.rate_low[g], found.rate_high[g]),
            law_in_short(fleet.law[g]),
            number(float(found.distance[g]), 3),
            number(float(found.p_value[g]), 2),
            *(number(float(rate[g])) for _, rate in links),
        ]
        for g in range(fleet.groups)
    ]
    table(
        f"{fleet.clients} clients, {int(found.observations.sum())} finished services",
        [*heads, level, "law", "KS distance", "p", *(head for head, _ in links)],
        rows,
        found.notes,
        least=("cut off", "KS distance", "services"),
    )
