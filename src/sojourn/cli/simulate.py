"""`sojourn simulate`: simulate a fleet and compare the result with the exact values."""

import math
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import (
    AsJson,
    Availability,
    Cap,
    Concurrency,
    Downlink,
    FleetFile,
    Laws,
    Overwrite,
    Pictures,
    PlanFile,
    Sampling,
    ServerRate,
    Uplink,
)

if TYPE_CHECKING:
    from sojourn.fleet import Fleet
    from sojourn.plan import Plan
    from sojourn.timing.exact.analysis import Analysis
    from sojourn.timing.simulate.estimate import Estimate
    from sojourn.timing.simulate.summary import Summary

ESTIMATES = ("staleness", "queue", "utilisation", "sojourn", "waiting")


def simulate(
    fleet: FleetFile,
    sampling: Sampling = None,
    plan: PlanFile = None,
    concurrency: Concurrency = None,
    cap: Cap = None,
    steps: Annotated[str, typer.Option(help="Updates of each replication.")] = "1e6",
    start: Annotated[
        str | None,
        typer.Option(
            help="Where the tasks are at the start: even, routed, stationary, one-each (default: stationary, "
            "or even if the stationary law is not known)."
        ),
    ] = None,
    seed: Annotated[str, typer.Option(help="Seed of all random streams.")] = "0",
    replications: Annotated[
        str,
        typer.Option(
            "--replications", "-R", help="Number of independent runs; use 10 or more for reliable standard errors."
        ),
    ] = "1",
    warmup: Annotated[str | None, typer.Option(help="Steps at the beginning of each run that are not counted.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A folder for trace.parquet and summary.json; or a .parquet file (trace) or a .json file (summary)."
        ),
    ] = None,
    law: Laws = None,
    uplink: Uplink = None,
    downlink: Downlink = None,
    server_rate: ServerRate = None,
    dispatcher: Annotated[
        str,
        typer.Option(
            help="Who gets the next task: `routed`, `pure`, `shuffled`, `idle`, `rounds(wait=8, interaction=3)`, "
            "`periodic(contacts=20, waiting=4, interaction=3)`, or your own `package.module:Class(key=value)`."
        ),
    ] = "routed",
    local_steps: Annotated[str, typer.Option(help="Local steps per task.")] = "1",
    availability: Availability = None,
    engine: Annotated[
        str, typer.Option(help="`auto`, `jump chain`, or `events` (service times keyed by client and task).")
    ] = "auto",
    pictures: Pictures = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a fleet and compare it with the exact values.

    The trace is that of the first replication, from its first step. Ctrl-C keeps what was done so far.

    Examples:
    - `sojourn simulate fleet.csv -C 50 --cap 1 --law "lognormal(sigma=1)"`

    - `sojourn simulate fleet.csv --concurrency 1000 --steps 1e6 --start even`

    - `sojourn simulate fleet.csv -C 1000 -R 20 --json`

    - `sojourn simulate fleet.csv --plan plan.json --steps 1e7 --out run/`

    - `sojourn simulate fleet.csv --law "lognormal(sigma=1)" --uplink 5 --server-rate 50`

    - `sojourn simulate fleet.csv --dispatcher idle -C 8 --availability "churn(on=100, off=20, leave=lose)"`

    """
    from sojourn.cli.arguments import pictures_in, tasks_of, whole
    from sojourn.cli.show import say, say_weights
    from sojourn.fleet import Fleet
    from sojourn.folders import made
    from sojourn.plan_text import plan_of
    from sojourn.planning.promises import server_rate as promised_rate
    from sojourn.scenario_text import override, scenario_of
    from sojourn.timing.expected import expected, reach
    from sojourn.timing.simulate.runners import first_use
    from sojourn.timing.simulate.summary import check_run

    trace_path, summary_path = _destinations(out, overwrite)
    folder = pictures_in(pictures)
    loaded = Fleet.load(fleet)
    chosen = plan_of(loaded, sampling, plan, tasks_of(concurrency), cap)
    say_weights(loaded, sampling, cap)
    loaded, chosen = override(loaded, chosen, law, uplink, downlink)
    server_rate = promised_rate(chosen, server_rate)
    scenario = scenario_of(dispatcher, whole("local-steps", local_steps), server_rate, availability)
    if start is None:
        plain = scenario.plain and loaded.exponential and (not chosen.capped or chosen.one_each)
        start = "stationary" if plain else "even"
    length, number_of_runs = whole("steps", steps), whole("replications", replications)
    skipped = None if warmup is None else whole("warmup", warmup)
    origin: dict[str, Any] = {"start": start, "seed": whole("seed", seed), "scenario": scenario, "engine": engine}
    check_run(length, origin["seed"], number_of_runs, skipped or 0)
    if first_use(loaded, scenario, engine, chosen):
        say("compiling the simulator, once on this machine; this takes some seconds", err=True)
    with made(out) if out is not None and trace_path and summary_path else nullcontext():
        if trace_path is not None and not _record(loaded, chosen, length, trace_path, origin):
            raise typer.Exit(130)
        if trace_path is not None and summary_path is None and not as_json:
            say(f"wrote {trace_path}", err=True)
        summary = _measure(loaded, chosen, length, number_of_runs, skipped, origin)
        exact = expected(loaded, chosen, scenario)
        told = reach(exact, scenario.dispatcher.name, scenario.server_rate)
        _report(summary, exact, told, summary_path, folder, as_json)
    if not summary.complete:
        raise typer.Exit(130)


def _destinations(out: Path | None, overwrite: bool) -> tuple[Path | None, Path | None]:
    """Return the files of the trace and the summary; a folder for both is created when there is something to write."""
    from sojourn.cli.arguments import check_free
    from sojourn.errors import InvalidInput
    from sojourn.folders import check_folder

    trace, summary = None, None
    if out is not None and out.suffix == ".parquet":
        trace = out
    elif out is not None and out.suffix == ".json":
        summary = out
    elif out is not None:
        if out.exists() and not out.is_dir():
            raise InvalidInput(f"--out must be a folder, a .parquet or a .json file, got the file {out}")
        check_folder(out)
        trace, summary = out / "trace.parquet", out / "summary.json"
        if not out.exists():
            return trace, summary
    check_free(overwrite, trace, what="trace file")
    check_free(overwrite, summary, what="summary")
    return trace, summary


def _record(fleet: "Fleet", plan: "Plan", steps: int, path: Path, origin: dict[str, Any]) -> bool:
    from sojourn.cli.show import progress, say
    from sojourn.timing.simulate.record import simulate_to_file

    with progress("writing the trace") as report:
        complete = simulate_to_file(fleet, plan, steps, path, progress=report, **origin)
    if not complete:
        say(f"interrupted: the trace so far is in {path}; it is complete up to its last step", err=True)
    return complete


def _measure(
    fleet: "Fleet", plan: "Plan", steps: int, replications: int, warmup: int | None, origin: dict[str, Any]
) -> "Summary":
    from sojourn.cli.show import progress
    from sojourn.timing.simulate.summary import measure

    with progress("simulating") as report:
        return measure(fleet, plan, steps, replications=replications, warmup=warmup, progress=report, **origin)


def _report(
    summary: "Summary", exact: "Analysis", told: list[str], path: Path | None, folder: Path | None, as_json: bool
) -> None:
    from sojourn.cli.command import made_by
    from sojourn.cli.show import attempts, draw, print_json, say

    with attempts() as attempt:
        if path is not None:
            attempt(print_json, {**content(summary, exact), "made_by": made_by()}, path)
        if as_json:
            print_json(content(summary, exact))
        else:
            _print(summary, exact, told)
        if folder is not None:
            from sojourn.report.timing_figures import simulation_pictures

            attempt(draw, simulation_pictures, summary, exact, folder)
    if not summary.complete:
        kept = f"; summary in {path}" if path is not None else ""
        say(f"interrupted: the numbers come from the {summary.steps:,} steps done so far{kept}", err=True)
    elif path is not None:
        say(f"wrote {path.parent if path.name == 'summary.json' else path}", err=True)


def content(summary: "Summary", exact: "Analysis") -> dict[str, Any]:
    """Return what `--json` prints; docs/cli.md documents the keys."""
    from dataclasses import asdict

    from sojourn.cli.show import Rows
    from sojourn.planning.promises import against_simulation
    from sojourn.timing.simulate.memory import memory_of
    from sojourn.version import __version__

    fleet, plan = summary.fleet, summary.plan
    values = {"staleness": exact.staleness(), **{key: getattr(exact, key) for key in ESTIMATES[1:]}}

    def pair(estimate: "Estimate", g: int) -> dict[str, float]:
        return {"value": float(estimate.value[g]), "standard_error": float(estimate.error[g])}

    stated = fleet._table()
    groups = Rows(
        {
            **{key: _told(column[g]) for key, column in stated.items()},
            "sampling": plan.sampling[g],
            "cap": plan.cap[g],
            "arrivals": int(summary.arrivals[g]),
            "lost": int(summary.lost[g]),
            "oldest": int(summary.oldest[g]),
            **{key: {**pair(getattr(summary, key), g), "exact": values[key][g]} for key in ESTIMATES},
        }
        for g in range(fleet.groups)
    )
    flow = summary.throughput
    checked = against_simulation(plan, summary)
    return {
        "command": "simulate",
        "sojourn": __version__,
        "fleet_hash": fleet.hash,
        "plan_hash": plan.hash,
        "clients": fleet.clients,
        "concurrency": plan.concurrency,
        "steps": summary.steps,
        "replications": summary.replications,
        "warmup": summary.warmup,
        "engine": summary.engine,
        "dispatcher": summary.dispatcher,
        "start": summary.start,
        "seed": summary.seed,
        "complete": summary.complete,
        "error_from": summary.error_from,
        "batch_correlation": summary.batch_correlation,
        "memory": asdict(memory_of(summary, exact)),
        "time": summary.time,
        "throughput": {"value": float(flow.value), "standard_error": float(flow.error), "exact": exact.throughput},
        "mean_staleness": summary.mean_staleness,
        "groups": groups,
        **({"promises": checked} if checked else {}),
    }


def _told(value: Any) -> Any:
    """Return a value of a fleet's column: numbers as they are, laws as texts."""
    return value if isinstance(value, str | int | float) else str(value)


def _print(summary: "Summary", exact: "Analysis", told: list[str]) -> None:
    from sojourn.cli.show import number, table, with_error
    from sojourn.cli.simulation_words import theory_is
    from sojourn.planning.promises import against_simulation
    from sojourn.scenario import dispatcher_said

    fleet, plan = summary.fleet, summary.plan
    stale = exact.staleness()
    detailed = summary.staleness_bins.shape[0] == fleet.groups
    tails = summary.staleness_quantile(0.95) if detailed else [float("nan")] * fleet.groups
    rows = [
        [
            fleet.name[g],
            str(fleet.count[g]),
            number(float(stale[g])),
            with_error(float(summary.staleness.value[g]), float(summary.staleness.error[g])),
            theory_is(stale[g], summary.staleness.value[g]),
            number(float(tails[g])),
            str(summary.oldest[g]),
            number(float(exact.queue[g])),
            with_error(float(summary.queue.value[g]), float(summary.queue.error[g])),
            with_error(float(summary.sojourn.value[g]), float(summary.sojourn.error[g])),
        ]
        for g in range(fleet.groups)
    ]
    runs = f", {summary.replications} replications" if summary.replications > 1 else ""
    table(
        f"{fleet.clients} clients, {plan.concurrency} tasks, {summary.steps:,} steps{runs}; "
        f"dispatcher: {dispatcher_said(summary.dispatcher, plan)}; start: {summary.start}; engine: {summary.engine}",
        [
            "group",
            "clients",
            "staleness, theory",
            "staleness, simulated",
            "theory is",
            "95%",
            "oldest",
            "queue, theory",
            "queue, simulated",
            "sojourn",
        ],
        rows,
        _notes(summary, exact, told),
        least=("oldest", "95%", "sojourn", "clients"),
    )
    checked = against_simulation(plan, summary)
    if checked:
        _print_promises(checked)


def _print_promises(rows: list[dict[str, Any]]) -> None:
    from sojourn.cli.show import number, table, with_error
    from sojourn.cli.simulation_words import errors_apart
    from sojourn.planning.promises import verdicts

    table(
        "the plan's promises",
        ["promise", "promised", "simulated", "simulated is"],
        [
            [
                row["promise"],
                number(row["promised"]),
                with_error(row["simulated"], row["standard_error"]),
                errors_apart(row["z"]),
            ]
            for row in rows
        ],
        [f"{one}; use more --steps" if one.startswith("too few") else one for one in verdicts(rows)],
    )


def _notes(summary: "Summary", exact: "Analysis", told: list[str]) -> list[str]:
    from sojourn.cli.show import number, with_error
    from sojourn.cli.simulation_words import CORRELATED, theory_is, why

    flow = summary.throughput
    short = _short(summary, exact)
    notes = [
        f"throughput: theory {number(exact.throughput)}, simulated {with_error(float(flow.value), float(flow.error))}; "
        f"the theory is {theory_is(exact.throughput, float(flow.value))}; "
        f"± is one standard error, from {summary.error_from}",
        why(summary, exact, told, bool(short)),
    ]
    if summary.time == 0:
        notes.append("no time passed during the counted steps, so there is no throughput; use more --steps")
    notes += told
    if summary.lost.any():
        notes.append(f"{int(summary.lost.sum()):,} tasks were lost or dropped, which the theory does not model")
    notes += short
    if summary.batch_correlation > CORRELATED:
        notes.append(
            f"neighbouring batches are correlated ({summary.batch_correlation:.2f}): the errors are too small; "
            "use --replications 20 or more steps"
        )
    return notes


def _short(summary: "Summary", exact: "Analysis") -> list[str]:
    """Return a note about a run that is shorter than its memory."""
    from sojourn.timing.simulate.memory import ENOUGH, memory_of

    memory = memory_of(summary, exact)
    if not memory.short:
        return []
    aged, settled, warmup = _rounded(memory.staleness + 1), "", ""
    if memory.settling > 0:
        settled = f"from the start '{summary.start}' queues settle in about {_rounded(memory.settling):,} steps, and "
    if memory.settling + aged > summary.warmup and summary.start != "stationary":
        warmup = f"--warmup {_rounded(memory.settling + aged)} "
    return [
        f"the run is shorter than its memory: {settled}a task is on average up to {aged:,} steps old; "
        f"the numbers still show the start: use {warmup}--steps {_rounded(ENOUGH * aged)} or more"
    ]


def _rounded(steps: float) -> int:
    """Round a number up to two digits."""
    unit = int(10 ** max(0, math.floor(math.log10(max(steps, 1))) - 1))
    return math.ceil(steps / unit) * unit
