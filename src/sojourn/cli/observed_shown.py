"""What `sojourn analyze` prints about a trace: promised and observed, side by side."""

import math
from typing import TYPE_CHECKING, Any

from sojourn.cli.simulation_words import theory_is

if TYPE_CHECKING:
    from sojourn.timing.observe.judgement import Judgement
    from sojourn.timing.observe.observation import Figure, Observation
    from sojourn.timing.observe.periods import Period

MOST_GROUPS = 4  # whose shares are shown for each plan
FATES = ("applied", "lost", "dropped", "refused", "in_flight")


def content(found: "Observation") -> dict[str, Any]:
    """Return what `--json` prints; docs/cli.md documents the keys."""
    from sojourn.cli.show import Rows
    from sojourn.version import __version__

    fleet, plan, seen = found.fleet, found.plan, found.tally
    figures = list(found.figures())
    flow, whole = figures[0], figures[-1]
    shares, stale = figures[1 : 1 + fleet.groups], figures[1 + fleet.groups : -1]
    groups = Rows(
        {
            "name": fleet.name[g],
            "count": int(fleet.count[g]),
            "rate": fleet.rate[g],
            "law": str(fleet.law[g]),
            "uplink_rate": fleet.uplink_rate[g],
            "downlink_rate": fleet.downlink_rate[g],
            "share": _four(shares[g]),
            "staleness": _four(stale[g]),
            "fates": {fate: int(seen.fates[fate][g]) for fate in FATES},
        }
        for g in range(fleet.groups)
    )
    return {
        "command": "analyze",
        "sojourn": __version__,
        "fleet_hash": None if found.given is None else found.given.fleet.hash,
        "plan_hash": plan.hash,
        "clients": fleet.clients,
        "concurrency": plan.concurrency,
        "in_flight": found.in_flight,
        "dispatcher": found.dispatcher,
        "exact": found.promised.exact,
        "exact_for_any_law": found.promised.exact_for_any_law,
        "updates": seen.updates,
        "warmup": seen.warmup,
        "time": seen.time,
        "batches": seen.batches,
        "batch_correlation": seen.batch_correlation,
        "throughput": _four(flow),
        "mean_staleness": _four(whole),
        "groups": groups,
        "notes": list(found.notes),
        **({"plans": [_period(one) for one in found.periods]} if found.periods else {}),
    }


def _period(one: "Period") -> dict[str, Any]:
    """Return a plan of a live run: promised and observed."""
    pairs = {
        "share": (one.promised_share, one.observed_share),
        "staleness": (one.promised_staleness, one.observed_staleness),
    }
    both = {key: {"promised": a.tolist(), "observed": b.tolist()} for key, (a, b) in pairs.items()}
    flow = {"promised": one.promised, "observed": one.observed, "standard_error": one.error}
    facts = {key: getattr(one, key) for key in ("plan", "reason", "begin", "end", "concurrency", "updates")}
    return {**facts, "throughput": flow, **both}


def _four(one: "Figure") -> dict[str, float]:
    return {"given": one.given, "fitted": one.fitted, "observed": one.observed, "standard_error": one.error}


def show(found: "Observation") -> None:
    """Print promised and observed, and what became of the tasks."""
    from sojourn.cli.show import count, number, table, with_error

    fleet, seen = found.fleet, found.tally
    given = found.given is not None
    rows = [
        [
            one.figure,
            one.group,
            *([number(one.given)] if given else []),
            number(one.fitted),
            with_error(one.observed, one.error),
            theory_is(one.fitted, one.observed),
        ]
        for one in found.figures()
    ]
    table(
        f"{fleet.clients} clients, {found.plan.concurrency} tasks in flight, {seen.updates:,} updates in "
        f"{number(seen.time, 4)} seconds: promised and observed",
        ["figure", "group", *(["promised, given"] if given else []), "promised, fitted", "observed", "fitted is"],
        rows,
        _notes(found),
        least=("fitted is", "promised, given"),
    )
    table(
        "what became of the tasks",
        ["group", "clients", *(fate.replace("_", " ") for fate in FATES)],
        [
            [fleet.name[g], count(fleet.count[g]), *(count(int(seen.fates[fate][g])) for fate in FATES)]
            for g in range(fleet.groups)
        ],
    )
    if found.periods:
        _show_periods(found)


def _show_periods(found: "Observation") -> None:
    """Print what each plan promised, and what was observed while it was in force."""
    from sojourn.cli.show import count, number, table, with_error

    fleet = found.fleet
    shown = range(fleet.groups) if fleet.groups <= MOST_GROUPS else ()

    def pair(promised: float, observed: float) -> str:
        told = "-" if math.isnan(promised) else number(promised, 3)
        return f"{told} / {'-' if math.isnan(observed) else number(observed, 3)}"

    rows = [
        [
            str(one.plan),
            number(one.begin, 4),
            count(one.updates),
            str(one.concurrency),
            "-" if math.isnan(one.promised) else number(one.promised, 4),
            with_error(one.observed, one.error),
            *(pair(float(one.promised_share[g]), float(one.observed_share[g])) for g in shown),
        ]
        for one in found.periods
    ]
    table(
        f"{len(found.periods)} plans: promised and observed under each",
        ["plan", "from", "updates", "C", "promised", "throughput", *(f"share of {fleet.name[g]}" for g in shown)],
        rows,
        [
            "shares are promised / observed, of the tasks sent under the plan; a plan has the speeds known at its time",
            *(f"plan {one.plan}, from {number(one.begin, 4)} s: {one.reason}" for one in found.periods),
        ],
    )


def _notes(found: "Observation") -> list[str]:
    from sojourn.timing.observe.judgement import judge

    seen, judged = found.tally, judge(found)
    fleets = "fitted: for the fleet fitted to the trace, with its links"
    if found.given is not None:
        fleets = f"promised, given: for the fleet that the run was given; {fleets}"
    notes = [
        fleets,
        f"± is one standard error, from {seen.batches} batches; the first {seen.warmup:,} updates are left out",
        _why(judged),
    ]
    if judged.correlated:
        notes.append(
            f"neighbouring batches are correlated ({seen.batch_correlation:.2f}): the errors are too small; "
            "a longer run has better ones"
        )
    return [*notes, *found.notes]


def _why(judged: "Judgement") -> str:
    """Return a sentence that says whether chance explains the differences, and if not, what may."""
    if judged.enough:
        return (
            "the run is too short to say whether chance explains the differences; about "
            f"{judged.enough:,} updates would do"
        )
    if not judged.judged:
        return "it is not known whether chance explains the differences, as there are no standard errors"
    one = judged.judged[0]
    if not judged.far:
        return f"chance can explain the differences: none is larger than {judged.limit:.3g} standard errors"
    name = one.figure if one.group == "all" else f"{one.figure} of '{one.group}'"
    reasons = [*judged.reasons, *(["the standard errors are too small"] if judged.correlated else [])]
    because = "; ".join(f"{reason}, see below" for reason in reasons) or "no reason is known"
    return f"chance does not explain the differences, up to {abs(one.z):.3g} standard errors ({name}): {because}"
