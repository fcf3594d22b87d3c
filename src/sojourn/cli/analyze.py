"""`sojourn analyze`: exact queues, throughput and staleness of a fleet under a plan, or beside what a trace shows."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import (
    AsJson,
    Cap,
    Concurrency,
    Downlink,
    Overwrite,
    Pictures,
    PlanFile,
    Sampling,
    ServerRate,
    Uplink,
)

if TYPE_CHECKING:
    from sojourn.timing.exact.analysis import Analysis
    from sojourn.timing.exact.scaling import Regime


def analyze(
    source: Annotated[
        Path,
        typer.Argument(
            help="Fleet file, CSV (name,count,rate) or TOML; or a trace (Parquet), or the folder of a run that has one."
        ),
    ],
    sampling: Sampling = None,
    plan: PlanFile = None,
    concurrency: Concurrency = None,
    cap: Cap = None,
    uplink: Uplink = None,
    downlink: Downlink = None,
    server_rate: ServerRate = None,
    limits: Annotated[bool, typer.Option(help="Also show the paper's limit regimes (2 or 3 groups).")] = False,
    fleet: Annotated[
        Path | None,
        typer.Option(
            help="For a trace: fleet file of the run, with its groups (default: the one that its folder names)."
        ),
    ] = None,
    warmup: Annotated[
        str | None,
        typer.Option(help="For a trace: updates at the beginning that are not counted (default: by their staleness)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the JSON to this file.")] = None,
    pictures: Pictures = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compute the queues, throughput and staleness of a fleet exactly; for a trace, beside what it shows.

    Examples:
    - `sojourn analyze fleet.csv --concurrency 1000`

    - `sojourn analyze fleet.csv -C 1000 --sampling fast=0.0075,slow=0.1925`

    - `sojourn analyze fleet.csv -C 50 --cap 1`

    - `sojourn analyze fleet.csv --plan plan.json --json`

    - `sojourn analyze fleet.csv --uplink 5 --downlink slow=2 --server-rate 50`

    - `sojourn analyze live/`

    - `sojourn analyze trace.parquet --fleet fleet.csv --cap 1`

    """
    from sojourn.cli.arguments import check_free, pictures_in, tasks_of
    from sojourn.cli.show import attempts, draw, print_json, progress, say_weights
    from sojourn.errors import UnreadableFile
    from sojourn.fleet import Fleet
    from sojourn.plan_text import plan_of
    from sojourn.planning.promises import server_rate as promised_rate
    from sojourn.scenario_text import override
    from sojourn.timing.exact.analysis import analyze as solve
    from sojourn.timing.exact.scaling import regime

    check_free(overwrite, out)
    if not source.suffix and not source.exists():
        raise UnreadableFile(f"{source} does not exist; name a fleet file, a trace or the folder of a run")
    if source.is_dir() or source.suffix.lower() in (".parquet", ".pq"):
        links = {"--uplink": uplink, "--downlink": downlink, "--server-rate": server_rate}
        _refuse({**links, "--limits": limits or None, "--pictures": pictures}, "a fleet", "a trace")
        words = {"sampling": sampling, "concurrency": tasks_of(concurrency), "cap": cap}
        _observe(source, fleet, plan, words, warmup, out, as_json)
        return
    _refuse({"--fleet": fleet, "--warmup": warmup}, "a trace", "a fleet")
    folder = pictures_in(pictures)
    loaded = Fleet.load(source)
    chosen = plan_of(loaded, sampling, plan, tasks_of(concurrency), cap)
    say_weights(loaded, sampling, cap)
    loaded, chosen = override(loaded, chosen, None, uplink, downlink)
    with progress("solving the network") as report:
        analysis = solve(loaded, chosen, report, server_rate=promised_rate(chosen, server_rate))
    regimes = regime(analysis) if limits else None
    with attempts() as attempt:
        if out is not None:
            attempt(print_json, content(analysis, regimes), out)
        if as_json:
            print_json(content(analysis, regimes))
        else:
            _print(analysis, regimes)
        if folder is not None:
            from sojourn.report.timing_figures import analysis_pictures

            attempt(draw, analysis_pictures, analysis, folder)


def _refuse(given: dict[str, Any], kind: str, other: str) -> None:
    """Refuse a flag that is for the other kind of input."""
    from sojourn.errors import InvalidInput

    for flag, value in given.items():
        if value is not None:
            raise InvalidInput(f"{flag} is for {kind}, got it for {other}; leave it out")


def _observe(
    source: Path,
    fleet: Path | None,
    plan: Path | None,
    words: dict[str, Any],
    warmup: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    from sojourn.cli.arguments import whole
    from sojourn.cli.observed_shown import content, show
    from sojourn.cli.show import attempts, print_json
    from sojourn.experiments.observe import observe

    found = observe(source, fleet, plan, warmup=None if warmup is None else whole("warmup", warmup), **words)
    with attempts() as attempt:
        if out is not None:
            attempt(print_json, content(found), out)
        if as_json:
            print_json(content(found))
        else:
            show(found)


def content(analysis: "Analysis", regimes: "Regime | None" = None) -> dict[str, Any]:
    """Return what `--json` prints; docs/cli.md documents the keys."""
    from sojourn.cli.show import Rows
    from sojourn.version import __version__

    fleet, plan = analysis.fleet, analysis.plan
    stale = {
        (reading, count): analysis.staleness(reading, count)
        for reading in ("conditional", "indicator")
        for count in ("between", "inclusive")
    }
    groups = Rows(
        {
            "name": fleet.name[g],
            "count": int(fleet.count[g]),
            "rate": fleet.rate[g],
            "law": str(fleet.law[g]),
            "sampling": plan.sampling[g],
            "share": analysis.share[g],
            "cap": None if math.isinf(plan.cap[g]) else int(plan.cap[g]),
            "queue": analysis.queue[g],
            "on_links": analysis.on_links[g],
            "utilisation": analysis.utilisation[g],
            "staleness": {
                reading: {count: stale[reading, count][g] for count in ("between", "inclusive")}
                for reading in ("conditional", "indicator")
            },
            "sojourn": analysis.sojourn[g],
            "waiting": analysis.waiting[g],
        }
        for g in range(fleet.groups)
    )
    result: dict[str, Any] = {
        "command": "analyze",
        "sojourn": __version__,
        "fleet_hash": fleet.hash,
        "plan_hash": plan.hash,
        "clients": fleet.clients,
        "concurrency": plan.concurrency,
        "exact": analysis.exact,
        "exact_for_any_law": analysis.exact_for_any_law,
        "solver": analysis.solver,
        "error": analysis.error,
        "throughput": analysis.throughput,
        "server_queue": analysis.server_queue,
        "server_utilisation": analysis.server_utilisation,
        "mean_staleness": plan.concurrency - 1,
        "groups": groups,
    }
    if plan.promises:
        result["promises"] = {"objective": plan.objective, "step_size": plan.step_size, **plan.promises}
    if regimes is not None:
        result["limits"] = {key: getattr(regimes, key) for key in regimes.__dataclass_fields__}
    return result


def _print(analysis: "Analysis", regimes: "Regime | None") -> None:
    from sojourn.cli.show import Lazy, number, table
    from sojourn.planning.promises import against_theory, promised

    fleet, plan = analysis.fleet, analysis.plan
    stale, indicator = analysis.staleness(), analysis.staleness("indicator")
    notes = [
        f"throughput {number(analysis.throughput, 8)} server steps per unit of time; "
        f"mean staleness over all updates {plan.concurrency - 1}",
    ]
    if analysis.server_queue > 0:
        notes.append(
            f"the server holds {number(analysis.server_queue)} tasks on average and is busy "
            f"{100 * analysis.server_utilisation:.3g}% of the time"
        )
    if analysis.solver != "mva":
        how = {"contour": "contour quadrature", "circle": "an integral on a circle"}[analysis.solver]
        notes.append(f"solved by {how}; certified relative error {analysis.error:.1e}")
    if analysis.exact_for_any_law:
        notes.append("nobody waits: the values depend on mean durations only and are exact for any service law")
    elif not analysis.exact:
        notes.append(
            "not every service time is exponential: the values are those of exponential service with the same "
            "means; simulate to see how much the law matters"
        )
    heads = ["weight", "share"] if plan.capped else ["sampling"]
    given = [plan.sampling, analysis.share] if plan.capped else [plan.sampling]
    columns = [fleet.rate, *given, analysis.queue, analysis.utilisation, stale, indicator]
    columns += [analysis.sojourn, analysis.waiting]
    most = ", at most one per client" if plan.one_each else ", at most the cap per client" if plan.capped else ""
    table(
        f"{fleet.clients} clients, {plan.concurrency} tasks in flight{most}: exact stationary values of one client",
        ["group", "clients", "rate", *heads, "queue", "busy", "staleness", "m_i", "sojourn", "waiting"],
        Lazy(fleet.groups, lambda g: [fleet.name[g], str(fleet.count[g]), *(number(float(one[g])) for one in columns)]),
        [
            *notes,
            *promised(plan),
            *against_theory(plan, analysis),
            "staleness: updates applied between dispatch and application; m_i: p_i times that, as the paper counts it",
        ],
        least=("m_i", "waiting", "busy", "sojourn", "rate"),
    )
    if regimes is not None:
        _print_limits(analysis, regimes)


def _print_limits(analysis: "Analysis", regimes: "Regime") -> None:
    from sojourn.cli.show import Lazy, number, table

    names = analysis.fleet.name
    columns = (
        regimes.queue_paper,
        regimes.queue_limit,
        regimes.queue_exact,
        regimes.staleness_printed,
        regimes.staleness_paper,
        regimes.staleness_bound,
        regimes.staleness_exact,
    )
    queue = [f"queue, {name}" for name in ("paper's limit", "limit", "exact")]
    heads = [*queue, *(f"staleness, {name}" for name in ("printed", "paper's bound", "bound", "exact"))]
    table(
        f"the paper's limit regime: Gamma {number(regimes.gamma_paper)}, in the limit {number(regimes.gamma_limit)}",
        ["group", *heads],
        Lazy(len(names), lambda g: [names[g], *(number(float(column[g])) for column in columns)]),
        [
            f"throughput: the paper's lambda {number(regimes.throughput_paper)}, "
            f"exact {number(regimes.throughput_exact)}; bounds count the task itself, the exact staleness does not"
        ],
    )
