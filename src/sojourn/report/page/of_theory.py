"""What was promised and what was observed, in a sentence, a table and a figure."""

from typing import Any

import numpy as np

from sojourn.report.page import drawings
from sojourn.report.page.parts import Cell, Section, Shown, called, listed, number, plural, plus_minus, table
from sojourn.timing.fit.notes import law_in_short
from sojourn.timing.observe.judgement import Judgement, judge
from sojourn.timing.observe.observation import Figure, Observation

ALIKE = "Neighbouring batches are correlated, so that the standard errors are too small."
MOST = 40  # figures in the table
DRAWN = 24  # figures in the drawing, those furthest off


def verdict(seen: Observation | None) -> str:
    """Return a sentence on whether what was promised was observed."""
    if seen is None:
        return "It is not compared with theory; the notes below say why."
    found, flow = judge(seen), next(seen.figures())
    told = f"throughput {number(flow.fitted, 4)} promised, {number(flow.observed, 4)} observed"
    many = plural(len(found.judged), "judged figure")
    if found.enough:
        return (
            f"The run is too short to say whether the promise was kept ({told}): about {found.enough:,} updates would "
            "do."
        )
    if not found.judged:
        return f"There are no standard errors to say whether the promise was kept ({told})."
    alike = f" {ALIKE}" if found.correlated else ""
    if not found.far:
        return (
            f"The promise was kept: {told}, and none of {many} is more than {found.limit:.3g} standard errors from "
            f"what theory says for this fleet.{alike}"
        )
    worst, far = found.far[0], len(found.far)
    side = "above" if worst.z > 0 else "below"
    apart = f"{_name(worst)} lies {number(abs(worst.z), 3)} standard errors {side} what theory says for this fleet"
    if found.reasons:
        return (
            f"The run is not as theory says in {far} of {many}: {apart} ({told}). That need not be a broken promise: "
            f"{listed(found.reasons)}, see the notes below.{alike}"
        )
    return f"The promise was not kept in {far} of {many}: {apart} ({told}).{alike}"


def _name(one: Figure) -> str:
    return one.figure if one.group == "all" and one.figure == "throughput" else f"{one.figure} of {called(one.group)}"


def _drawn(found: Judgement) -> Shown:
    """Return the figure of the distances, with words about all of them."""
    judged, far = found.judged, [_name(one) for one in found.far]
    words = "all lie within what chance explains"
    if far:
        words = f"{listed(far, 3)} {'lies' if len(far) == 1 else 'lie'} further off than chance explains"
    left = f"; the {DRAWN} furthest off are drawn" if len(judged) > DRAWN else ""
    shown = judged[:DRAWN]
    return Shown(
        "promised",
        drawings.apart([_name(one) for one in shown], np.array([one.z for one in shown]), found.limit),
        f"How many standard errors {plural(len(judged), 'figure')} lie from what was promised: {words}{left}.",
        f"Each dot is a figure; the band is {found.limit:.3g} standard errors wide on each side: {words}{left}.",
    )


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
    found = judge(seen)
    if found.judged:
        section.figures.append(_drawn(found))
    both = ", and about the fleet that the run was given" if given else ""
    section.said.append(
        f"Theory is asked about the fleet fitted to the trace{both}. The first {seen.tally.warmup:,} updates are left "
        f"out; standard errors come from {seen.tally.batches} batches of updates. z is the distance of "
        "observed and fitted in standard errors. The mean staleness of all updates is not judged, since it follows "
        "from the number of tasks in flight."
    )
    if not found.judged:
        why = f"the run is too short, about {found.enough:,} updates would do" if found.enough else "z is not known"
        section.said.append(f"None of the figures can be judged: {why}.")
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
