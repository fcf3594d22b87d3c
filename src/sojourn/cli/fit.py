"""`sojourn fit`: a fleet file from a trace, with intervals and how well the laws fit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sojourn.fitting.from_trace import Fit


def fit(
    trace: Annotated[Path, typer.Argument(help="Trace file (Parquet), simulated or recorded.")],
    out: Annotated[Path, typer.Option(help="Fleet file to write, .csv or .toml.")],
    fleet: Annotated[
        Path | None, typer.Option(help="Fleet file with the groups of the clients (rates not used).")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Fit each `group` of the fleet, or each `client`.")] = None,
    law: Annotated[
        str, typer.Option(help="`auto`, a family such as `lognormal`, or a law such as `gamma(shape=2)`.")
    ] = "auto",
    confidence: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with every number at full precision.")] = False,
) -> None:
    """Fit rates and laws to a trace and write the fleet.

    Examples:
    - `sojourn fit run/trace.parquet --fleet fleet.csv --out fitted.csv`

    - `sojourn fit run/trace.parquet --by client --law exponential --out clients.csv --json`

    """
    from sojourn.cli.show import to_json
    from sojourn.errors import InvalidInput
    from sojourn.fitting.from_trace import fit as fit_trace
    from sojourn.fleet import Fleet

    if out.suffix.lower() not in (".csv", ".toml"):
        raise InvalidInput(f"--out must end in .csv or .toml, got {out}")
    groups = None if fleet is None else Fleet.load(fleet)
    found = fit_trace(trace, groups, by, law, confidence)
    found.save(out)
    if as_json:
        typer.echo(to_json(content(found)))
    else:
        _print(found)
        typer.echo(f"wrote {out}", err=True)


def content(found: "Fit") -> dict[str, Any]:
    """What `--json` prints; the keys are documented in docs/cli.md."""
    from sojourn.version import __version__

    fleet = found.fleet
    columns = ("rate_low", "rate_high", "observations", "censored", "distance", "p_value")
    return {
        "command": "fit",
        "sojourn": __version__,
        "fleet_hash": fleet.hash,
        "by": found.by,
        "confidence": found.confidence,
        "groups": [
            {
                "name": fleet.name[g],
                "count": int(fleet.count[g]),
                "rate": fleet.rate[g],
                "law": str(fleet.law[g]),
                "uplink_rate": fleet.uplink_rate[g],
                **{key: getattr(found, key)[g] for key in columns},
            }
            for g in range(fleet.groups)
        ],
        "notes": list(found.notes),
    }


def _print(found: "Fit") -> None:
    from sojourn.cli.show import number, table

    fleet = found.fleet
    table(
        f"fitted by {found.by}, intervals at {100 * found.confidence:g}%",
        ["group", "clients", "observations", "running", "rate", "from", "to", "law", "distance", "p"],
        [
            [
                fleet.name[g],
                str(fleet.count[g]),
                str(found.observations[g]),
                str(found.censored[g]),
                *(number(float(column[g])) for column in (fleet.rate, found.rate_low, found.rate_high)),
                _short(str(fleet.law[g])),
                *(number(float(column[g]), 3) for column in (found.distance, found.p_value)),
            ]
            for g in range(fleet.groups)
        ],
        found.notes,
    )


def _short(law: str) -> str:
    return law if len(law) <= 40 else law[:24] + " ...)"
