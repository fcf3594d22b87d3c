"""The door of the planner: a plan by what training will do in a time, or by a bound where an objective is named."""

from dataclasses import fields
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.planning.advice import Advice, advise
from sojourn.planning.bound.search import Planned
from sojourn.planning.bound.search import make_plan as by_bound
from sojourn.planning.policy import Wishes


def make_plan(
    fleet: Fleet,
    objective: Any = None,
    concurrency: int | None = None,
    *more: Any,
    time: float | str | None = None,
    **settings: Any,
) -> Any:
    """A plan for a fleet, which can be handed on to `train`, `compare` and `simulate` as it is.

    `make_plan(fleet, time="1h")` proposes a policy for that time (an `Advice`, with other policies beside it).
    Settings: `concurrency`, `cap`, `correction`, `most_tasks`, `most_staleness`.

    `make_plan(fleet, goal(time=1000))` is the paper's planner: it minimises a bound, or an objective of your own (a
    `Planned`). Its settings are those of `sojourn.planning.bound.search.make_plan`.

    >>> fleet = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
    >>> make_plan(fleet, time=1000).plan.concurrency
    100
    >>> from sojourn.planning.bound.goal import goal
    >>> make_plan(fleet, goal(time=1000)).plan.concurrency
    14
    """
    if objective is not None:
        if time is not None:
            raise InvalidInput("give a time or an objective, got both; goal(time=...) is the bound's")
        return by_bound(fleet, objective, concurrency, *more, **settings)
    if time is None:
        raise InvalidInput('make_plan needs a time, for example time=3600 or time="1h"; or an objective, see goal')
    known = [one.name for one in fields(Wishes)]
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise InvalidInput(f"make_plan(fleet, time=...) has no setting '{unknown[0]}'; it has {', '.join(known)}")
    return advise(fleet, time, Wishes(concurrency, **settings))


__all__ = ["Advice", "Planned", "make_plan"]
