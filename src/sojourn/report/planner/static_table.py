"""Answers computed beforehand, for a page without a server: three fleets, over a grid of policies and budgets.

What a policy's timing decides is kept once for each cap, number of tasks and sampling; the expected loss also for each
correction and budget. `table_source.js` puts an answer together from these parts, and equals `answer`.
"""

import json
from typing import Any

from sojourn.fleet import Fleet
from sojourn.planning.policy import OBJECTIVE
from sojourn.report.planner.answer import answer, plan_text, recommended
from sojourn.report.planner.examples import CORRECTIONS, SAMPLINGS, Example, examples
from sojourn.report.planner.steps import FACTORS, times_to_try

CAPS = (1, 2, 3, None)
PARTS = (0.1, 0.25, 0.5, 1, 2, 3)  # tasks per client
BUDGETS = (0.5, 2, 10)  # of the budgets that a page tries
DIGITS = 4  # of a ratio of losses

Key = tuple[int | None, int, str]


def table_of_answers() -> dict[str, Any]:
    """Return the whole table; this takes about a minute."""
    sentences: dict[str, int] = {}
    fleets = [_fleet_table(one, sentences) for one in examples()]
    return {"corrections": list(CORRECTIONS), "sentences": list(sentences), "fleets": fleets}


def keys(fleet: Fleet) -> list[Key]:
    """Return the timings of the grid: cap, tasks in flight, sampling."""
    return [
        (cap, tasks, sampling)
        for cap in CAPS
        for tasks in tasks_of(fleet)
        if cap is None or tasks <= cap * fleet.clients
        for sampling in SAMPLINGS
    ]


def tasks_of(fleet: Fleet) -> list[int]:
    """Return the numbers of tasks in flight of the grid."""
    return sorted({max(1, round(part * fleet.clients)) for part in PARTS})


def times_of(fleet: Fleet) -> list[float]:
    """Return the budgets of the grid, in seconds."""
    return [time for factor, time in zip(FACTORS, times_to_try(fleet), strict=True) if factor in BUDGETS]


def text_of(key: Key) -> str:
    """Return a key as the page's script writes it.

    >>> text_of((None, 50, "uniform"))
    'null|50|uniform'
    """
    cap, tasks, sampling = key
    return f"{'null' if cap is None else cap}|{tasks}|{sampling}"


def question_of(example: Example, key: Key, correction: float, time: float) -> dict[str, Any]:
    """Return the question that an entry of the table answers."""
    cap, tasks, sampling = key
    groups = example.content()["groups"]
    knobs = {"cap": cap, "concurrency": tasks, "sampling": sampling, "correction": correction}
    return {"groups": groups, **knobs, "time": time}


def entry(example: Example, key: Key, sentences: dict[str, int]) -> dict[str, Any]:
    """Return what the table holds of one timing; `sentences` numbers the notes."""
    times = times_of(example.fleet)
    found = {
        (correction, time): answer(question_of(example, key, correction, time))
        for correction in CORRECTIONS
        for time in times
    }
    side = {**found[CORRECTIONS[0], times[0]]["yours"]}
    del side["updates"], side["correction"]
    plan = json.loads(plan_text(question_of(example, key, 0.0, times[0])))
    promises = {name: plan["promises"][name] for name in ("throughput", "staleness", "queue", "share")}
    return {
        "side": side,
        "losses": [[_loss(found[correction, time]["loss"]) for time in times] for correction in CORRECTIONS],
        "notes": [
            [sentences.setdefault(one, len(sentences)) for one in found[CORRECTIONS[0], time]["notes"]]
            for time in times
        ],
        "plan": {"sampling": [group["sampling"] for group in plan["groups"]], "promises": promises},
    }


def _fleet_table(example: Example, sentences: dict[str, int]) -> dict[str, Any]:
    fleet, best = example.fleet, recommended(example.fleet)
    entries = {text_of(key): entry(example, key, sentences) for key in keys(fleet)}
    first = answer(question_of(example, keys(fleet)[0], 0.0, times_of(fleet)[0]))
    template = json.loads(plan_text(question_of(example, keys(fleet)[0], 0.0, times_of(fleet)[0])))
    return {
        **example.content(),
        "clients": fleet.clients,
        "tasks": tasks_of(fleet),
        "times": times_of(fleet),
        "first": BUDGETS.index(2),
        "rows": first["groups"],
        "recommended": {
            "key": text_of((best.cap, best.tasks, best.sampling)),
            "correction": best.correction,
            "objective": OBJECTIVE,
        },
        "plan": template,
        "entries": entries,
    }


def _loss(found: dict[str, Any]) -> list[Any]:
    ratio = found["ratio"]
    return [None if ratio is None else float(f"{ratio:.{DIGITS}g}"), found["word"]]
