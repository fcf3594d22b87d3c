"""Answers of the planner page: plain values for a question, each the same as from `analyze`, `make_plan` and the twin.

Exact theory says how fast, how stale and how idle; the twin says what loss to expect. The twin is honest about ranks
and ratios alone, so its answer is the ratio to the recommended plan, and a word for how much that ratio means.
"""

import json
from functools import lru_cache
from math import inf, isfinite
from typing import Any

from sojourn.errors import SojournError
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.planning.advice import NAME, Advice, early, promised, row_from, scarce
from sojourn.planning.choices import room_of
from sojourn.planning.policy import Policy, robust
from sojourn.planning.search import FLOOR, TIE
from sojourn.planning.twin.quick import quick
from sojourn.report.planner.grouping import Grouping
from sojourn.report.planner.question import KEPT, Knobs, Question, Refused, analysis, made_plan
from sojourn.report.planner.steps import tasks_to_try, times_to_try
from sojourn.timing.expected import reach

MOST_LOSSES = 1000  # predictions that are kept
FULL = "Every client always holds as many tasks as it may, so the sampling makes no difference."


def answer(asked: Any) -> dict[str, Any]:
    """Answer a question; a refusal is an answer too: its sentence, and the field that it is about.

    >>> groups = [{"name": "fast", "count": 9, "rate": 8.0}, {"name": "slow", "count": 1, "rate": 1.0}]
    >>> found = answer({"groups": groups, "cap": "none", "concurrency": 10, "time": "10s"})
    >>> found["yours"]["updates"] < found["recommended"]["updates"], found["loss"]["word"]
    (True, 'higher')
    >>> answer({"groups": groups, "concurrency": 0})["error"]
    'concurrency must be a whole number from 1 to 100,000, got 0'
    """
    try:
        return _in_numbers(answered(Question.of(asked)))
    except Refused as error:
        return {"error": str(error), "field": error.field}
    except SojournError as error:
        return {"error": str(error), "field": "question"}


def answered(question: Question) -> dict[str, Any]:
    """Return the policy's numbers beside those of the recommended plan."""
    fleet, time = question.fleet, question.time
    groups, best = Grouping.of(fleet), recommended(fleet)
    return {
        "clients": fleet.clients,
        "time": time,
        "tasks_to_try": tasks_to_try(fleet, question.knobs.cap),
        "times_to_try": times_to_try(fleet),
        "groups": groups.rows(),
        "yours": side(fleet, question.knobs, time, groups),
        "recommended": side(fleet, best, time, groups),
        "loss": expected_loss(fleet, question.knobs, best, time),
        "notes": notes(question),
    }


@lru_cache(KEPT)
def recommended(fleet: Fleet) -> Knobs:
    """Return the policy that `make_plan(fleet, time=...)` recommends."""
    plan = robust(fleet)
    return Knobs(int(plan.cap[0]), plan.concurrency, "uniform", float(plan.correction or 0.0))


def plan_text(asked: Any) -> str:
    """Return the plan of a question as the text of a plan file, with its promises; `which` may be "recommended"."""
    question = Question.of(asked)
    fleet = question.fleet
    plan = robust(fleet) if question.recommended else made_plan(fleet, question.knobs)
    found = promised(fleet, plan, question.time).text()
    _in_numbers(json.loads(found))
    return found


def side(fleet: Fleet, knobs: Knobs, time: float, groups: Grouping) -> dict[str, Any]:
    """Return what exact theory says about a policy."""
    found = analysis(fleet, knobs)
    row = row_from(fleet, Policy(NAME, found.plan), found, time)
    return {
        "cap": knobs.cap,
        "concurrency": knobs.tasks,
        "sampling": knobs.sampling,
        "correction": knobs.correction,
        "throughput": found.throughput,
        "updates": row.updates,
        "staleness": row.staleness,
        "stalest": row.slowest,
        "idle": row.idle,
        "waiting": row.waiting,
        "by_group": groups.of_analysis(found),
    }


def expected_loss(fleet: Fleet, mine: Knobs, best: Knobs, time: float) -> dict[str, Any]:
    """Return the loss that the twin expects, as a ratio to that of the recommended plan, and a word for it.

    The words: `same` (it is the recommended plan), `tie` (the twin cannot tell them apart), `floor` (both are so low
    that it cannot), `lower`, `higher`, `diverges` (nothing is learnt at any step size), `unknown` (no prediction).
    """
    if mine == best:
        return {"ratio": 1.0, "word": "same"}
    try:
        here, there = _losses(fleet, mine, best, time)
    except SojournError:
        return {"ratio": None, "word": "unknown"}
    first = Landscape.generic().loss
    if not here < first or not isfinite(there):
        return {"ratio": None, "word": "diverges" if there < first else "unknown"}
    floor = FLOOR * first
    ratio = max(here, floor) / max(there, floor)
    if max(here, there) <= floor:
        return {"ratio": ratio, "word": "floor"}
    if 1 / (1 + TIE) <= ratio <= 1 + TIE:
        return {"ratio": ratio, "word": "tie"}
    return {"ratio": ratio, "word": "higher" if ratio > 1 else "lower"}


def notes(question: Question) -> list[str]:
    """Return sentences on what the numbers assume, and on a budget that is too short."""
    fleet, knobs, time = question.fleet, question.knobs, question.time
    found = analysis(fleet, knobs)
    advice = Advice(fleet, time, found.plan, (row_from(fleet, Policy("yours", found.plan), found, time),))
    said = [*scarce(advice), *early(advice), *(f"{one[0].upper()}{one[1:]}." for one in reach(found, "routed", inf))]
    full = knobs.cap is not None and knobs.tasks == room_of(fleet, knobs.cap)
    return [*said, FULL] if full and knobs.sampling != "uniform" else said


def _losses(fleet: Fleet, mine: Knobs, best: Knobs, time: float) -> tuple[float, float]:
    """Return the two losses; what is not kept from before is predicted at once, on two cores."""
    missing = [one for one in (mine, best) if (fleet, one, time) not in _KNOWN]
    policies = [Policy(NAME, made_plan(fleet, one)) for one in missing]
    found = quick(fleet, policies, time) if missing else []
    _KNOWN.update({(fleet, one, time): each.loss for one, each in zip(missing, found, strict=True)})
    both = _KNOWN[fleet, mine, time], _KNOWN[fleet, best, time]
    while len(_KNOWN) > MOST_LOSSES:
        _KNOWN.pop(next(iter(_KNOWN)), None)
    return both


def _in_numbers(found: dict[str, Any]) -> dict[str, Any]:
    """Return what is given; refuse it if it holds NaN or infinity, which are no JSON and tell a reader nothing."""
    if not _finite(found):
        raise Refused("the answer is beyond what numbers can hold; give the fleet less extreme rates and laws", "fleet")
    return found


def _finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return not isinstance(value, float) or isfinite(value)


_KNOWN: dict[tuple[Fleet, Knobs, float], float] = {}
