"""`sojourn fit`: a fleet from what a trace shows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import AsJson, Overwrite

if TYPE_CHECKING:
    from sojourn.timing.fit.from_trace import Fit


def fit(
    trace: Annotated[Path, typer.Argument(help="Trace file (Parquet), recorded or simulated.")],
    out: Annotated[Path, typer.Option(help="Write the fleet to this file, .csv or .toml.")],
    fleet: Annotated[
        Path | None, typer.Option(help="Fleet file that says who belongs to which group; its rates are not used.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="`group` (default with --fleet) or `client` (default without).")
    ] = None,
    law: Annotated[
        str, typer.Option(help="`auto`, a family such as `lognormal`, or a whole law such as `gamma(shape=2)`.")
    ] = "auto",
    confidence: Annotated[float, typer.Option(help="Chance that an interval holds the true rate.")] = 0.95,
    latest: Annotated[
        float, typer.Option(help="Last part of the trace's time to fit, such as `0.25`, for rates that change.")
    ] = 1.0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Service rates and laws of a fleet, from a trace.

    Examples:
    - `sojourn fit trace.parquet --out fitted.csv`

    - `sojourn fit trace.parquet --fleet fleet.csv --out fitted.csv`

    - `sojourn fit trace.parquet --fleet fleet.csv --by client --law lognormal --out fitted.toml --json`

    - `sojourn fit trace.parquet --fleet fleet.csv --latest 0.25 --out fitted.csv`

    """
    from sojourn.cli.arguments import check_free
    from sojourn.cli.show import attempts, say, to_json
    from sojourn.errors import InvalidInput
    from sojourn.fleet import Fleet
    from sojourn.timing.fit.from_trace import fit as estimate

    if out.suffix.lower() not in (".csv", ".toml"):
        raise InvalidInput(f"--out must end in .csv or .toml, got {out}; rename it")
    check_free(overwrite, out, what="fleet file")
    given = None if fleet is None else Fleet.load(fleet)
    found = estimate(trace, given, by, law, confidence, latest)
    with attempts() as attempt:
        attempt(found.save, out)
        if as_json:
            typer.echo(to_json(content(found)))
        else:
            _print(found)
    if not as_json:
        say(f"wrote {out}", err=True)


def content(found: "Fit") -> dict[str, Any]:
    """What `--json` prints; the keys are documented in docs/cli.md."""
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
    }


def _print(found: "Fit") -> None:
    import numpy as np

    from sojourn.cli.show import number, table
    from sojourn.timing.fit.notes import law_in_short

    fleet = found.fleet
    uplinks = bool(np.isfinite(fleet.uplink_rate).any())
    heads = ["group" if found.by == "group" else "client", "clients", "services", "cut off", "rate"]
    level = f"{100 * found.confidence:g}% interval"
    rows = [
        [
            fleet.name[g],
            str(fleet.count[g]),
            str(found.observations[g]),
            str(found.censored[g]),
            number(float(fleet.rate[g])),
            f"{number(float(found.rate_low[g]))} to {number(float(found.rate_high[g]))}",
            law_in_short(fleet.law[g]),
            number(float(found.distance[g]), 3),
            number(float(found.p_value[g]), 2),
            *([number(float(fleet.uplink_rate[g]))] if uplinks else []),
        ]
        for g in range(fleet.groups)
    ]
    table(
        f"{fleet.clients} clients, {int(found.observations.sum())} finished services",
        [*heads, level, "law", "KS distance", "p", *(["uplink rate"] if uplinks else [])],
        rows,
        found.notes,
    )
