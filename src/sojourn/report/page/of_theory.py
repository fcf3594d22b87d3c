"""What was promised and what was observed, in a sentence, a table and a figure."""

import math
from typing import Any

import numpy as np

from sojourn.report.page import drawings
from sojourn.report.page.parts import Cell, Section, Shown, listed, number, plural, plus_minus, table
from sojourn.timing.fit.notes import law_in_short
from sojourn.timing.observe.observation import Figure, Observation

CHANCE = 3.0  # up to this many standard errors chance explains a difference
MOST = 40  # figures in the table


def verdict(seen: Observation | None) -> str:
    """Return a sentence on whether what was promised was observed."""
    if seen is None:
        return "It is not compared with theory; the notes below say why."
    judged = [one for one in _judged(seen) if math.isfinite(one.z)]
    flow = next(seen.figures())
    told = f"throughput {number(flow.fitted, 4)} promised, {number(flow.observed, 4)} observed"
    if not judged:
        return f"There are too few updates to say whether the promise was kept ({told})."
    far = [one for one in judged if abs(one.z) > CHANCE]
    if not far:
        return (
            f"The promise was kept: {told}, and none of {plural(len(judged), 'judged figure')} is more than {CHANCE:g} "
            "standard errors from what theory says for this fleet."
        )
    worst = max(far, key=lambda one: abs(one.z))
    side = "above" if worst.z > 0 else "below"
    return (
        f"The promise was not kept in {len(far)} of {plural(len(judged), 'judged figure')}: {_name(worst)} lies "
        f"{number(abs(worst.z), 3)} standard errors {side} what theory says for this fleet ({told})."
    )


def _judged(seen: Observation) -> list[Figure]:
    """Return the figures that are judged; the mean staleness of all follows from the number of tasks in flight."""
    return [one for one in seen.figures() if one.figure == "throughput" or one.group != "all"]


def _name(one: Figure) -> str:
    return one.figure if one.group == "all" and one.figure == "throughput" else f"{one.figure} of {one.group}"


def promised(seen: Observation, groups: int) -> Section:
    """Return the section that sets promised against observed."""
    given = seen.given is not None
    figures = list(seen.figures())
    heads = [
        "figure",
        "group",
        *(["promised, fleet given"] if given else []),
        "promised, fleet fitted",
        "observed",
        "z",
    ]
    rows = [
        [
            one.figure,
            one.group,
            *([one.given] if given else []),
            one.fitted,
            plus_minus(one.observed, one.error),
            Cell(number(one.z, 3), True),
        ]
        for one in figures
    ]
    section = Section(
        "Promised and observed", tables=[table("Promised and observed, ± one standard error", heads, rows, MOST)]
    )
    judged = _judged(seen)[:24]
    z = np.array([one.z for one in judged])
    far = [_name(one) for one in judged if abs(one.z) > CHANCE]
    words = f"{listed(far, 3)} lie further off than chance explains" if far else "all lie within what chance explains"
    section.figures.append(
        Shown(
            "promised",
            drawings.apart([_name(one) for one in judged], z, CHANCE),
            f"How many standard errors {plural(len(judged), 'figure')} lie from what was promised: {words}.",
            f"Each dot is a figure; the band is {CHANCE:g} standard errors wide on each side: {words}.",
        )
    )
    both = ", and about the fleet that the run was given" if given else ""
    section.said.append(
        f"Theory is asked about the fleet fitted to the trace{both}. The first {seen.tally.warmup:,} updates are left "
        f"out; standard errors come from {seen.tally.batches} batches of updates. z is the distance of "
        "observed and fitted in standard errors. The mean staleness of all updates is not judged, since it follows "
        "from the number of tasks in flight."
    )
    rows = [
        [
            seen.fleet.name[at],
            int(seen.fleet.count[at]),
            seen.fleet.rate[at],
            f"{number(seen.fit.rate_low[at], 4)} to {number(seen.fit.rate_high[at], 4)}",
            law_in_short(seen.fleet.law[at]),
        ]
        for at in range(seen.fleet.groups)
    ]
    heads = ["group", "clients", "tasks per second", f"{100 * seen.fit.confidence:g}% interval", "law"]
    section.tables.append(table("The fleet as the trace shows it", heads, rows))
    return section


def plans(seen: Observation) -> Section:
    """Return the section about the plans of a live run."""
    periods = seen.periods
    rows: list[list[Any]] = [
        [
            one.plan,
            one.begin,
            one.reason,
            one.concurrency,
            one.updates,
            one.promised,
            plus_minus(one.observed, one.error),
        ]
        for one in periods
    ]
    heads = ["plan", "from second", "why", "tasks in flight", "updates", "promised per second", "observed per second"]
    section = Section("How the plan changed", tables=[table("The plans in force, one after the other", heads, rows)])
    edges = np.array([periods[0].begin, *(one.end for one in periods)])
    if np.all(np.diff(edges) > 0):
        observed = np.array([one.observed for one in periods])
        told = np.array([one.promised for one in periods])
        section.figures.append(
            Shown(
                "plans",
                drawings.steps(edges, [("promised", told), ("observed", observed)], "updates per second"),
                f"Promised and observed updates per second under each of {len(periods)} plans.",
                f"The plan changed {plural(len(periods) - 1, 'time')}; under the last one "
                f"{number(told[-1], 4)} updates per second were promised and {number(observed[-1], 4)} observed.",
            )
        )
    return section
