"""The entry to the planner: plan for what training will do in a time, or by a bound if an objective is given."""

from dataclasses import fields
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.planning.advice import Advice, advise
from sojourn.planning.bound.search import Planned
from sojourn.planning.bound.search import make_plan as by_bound
from sojourn.planning.by_twin import advise_by_twin, advise_for_loss
from sojourn.planning.policy import Wishes
from sojourn.planning.search import Aim, Progress


def make_plan(
    fleet: Fleet,
    objective: Any = None,
    concurrency: int | None = None,
    *more: Any,
    time: float | str | None = None,
    loss: float | None = None,
    landscape: Landscape | None = None,
    least: str = "time",
    **settings: Any,
) -> Any:
    """Choose a plan for a fleet; the result can be passed to `train`, `compare` and `simulate` as it is.

    `make_plan(fleet, time="1h")` proposes a policy for that time and returns an `Advice`: the plan, other policies for
    comparison, and the reasons.

    - `time`: the time for training, in seconds or as `"1h"`
    - `loss`, `least`: instead of a time, reach this loss with the least `"time"` (default) or `"energy"`
    - `landscape`: a Landscape, such as `Calibration.landscape()` returns; the model of training then chooses the policy
      and the step size
    - `concurrency`, `cap`, `correction`: set these yourself, and let the planner choose the rest
    - `most_tasks`, `most_staleness`: largest number of tasks in flight, largest mean staleness of any client
    - `worst`: weight of the worst speed group in the objective, from 0 (only the mean) to 1

    `make_plan(fleet, goal(time=1000))` is the paper's planner: it minimises a bound, or an objective of your own, and
    returns a `Planned`. Its settings are those of `sojourn.planning.bound.search.make_plan`.

    >>> fleet = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
    >>> make_plan(fleet, time=1000).plan.concurrency
    100
    >>> from sojourn.planning.bound.goal import goal
    >>> make_plan(fleet, goal(time=1000)).plan.concurrency
    14
    """
    if objective is not None:
        if time is not None:
            raise InvalidInput("give a time or an objective, got both; goal(time=...) makes an objective of the bound")
        return by_bound(fleet, objective, concurrency, *more, **settings)
    if (time is None) == (loss is None):
        raise InvalidInput('make_plan needs a time, for example time="1h", or a loss, or an objective made by goal')
    known = [one.name for one in fields(Wishes)] + [one.name for one in fields(Aim) if one.name != "wishes"]
    unknown = [key for key in settings if key not in known]
    if unknown:
        raise InvalidInput(f"make_plan(fleet, time=...) has no setting '{unknown[0]}'; it has {', '.join(known)}")
    mine = {one.name: settings.pop(one.name) for one in fields(Aim) if one.name in settings}
    aim = Aim(wishes=Wishes(concurrency, **settings), **mine)
    return advice_for(fleet, time=time, loss=loss, landscape=landscape, aim=aim, least=least)


def advice_for(
    fleet: Fleet,
    *,
    time: float | str | None = None,
    loss: float | None = None,
    landscape: Landscape | None = None,
    aim: Aim | None = None,
    least: str = "time",
    seed: int = 0,
    progress: Progress | None = None,
) -> Advice:
    """Return the robust policy; with a landscape or a loss to reach, the policy that the model of
    training ranks first.
    """
    aim = aim or Aim()
    if loss is not None:
        return advise_for_loss(fleet, loss, landscape, aim, least=least, seed=seed, progress=progress)
    assert time is not None
    if landscape is None and not aim.asks:
        return advise(fleet, time, aim.wishes)
    return advise_by_twin(fleet, time, landscape, aim, seed=seed, progress=progress)


__all__ = ["Advice", "Planned", "make_plan"]
