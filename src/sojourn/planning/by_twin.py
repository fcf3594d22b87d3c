"""Advice by the model of training: the policy that ends lowest, what the usual ones would cost, how sure that is."""

from dataclasses import replace
from math import inf, isfinite

from sojourn.durations import shown
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.plan import fleet_of
from sojourn.planning.advice import NAME, Advice, Row, budget, promised, row_of
from sojourn.planning.policy import OBJECTIVE, Policy, Wishes, robust, usual
from sojourn.planning.search import FLOOR, TRANSFER, Aim, Progress, Searched, energy, search
from sojourn.planning.twin import Predicted, predict

CHANGES = (
    *({"curvature": 1 / 3}, {"curvature": 3.0}, {"noise": 1 / 3}, {"noise": 3.0}),
    *({"heterogeneity": 1 / 3}, {"heterogeneity": 3.0}),
)
WATCHED = 12  # of the policies tried, those whose rank is looked at anew
SURE = 0.1  # of `between`: from where on its lower end says that data goes with speed
LONGEST = 40  # times that a time is doubled to reach a loss
FINER = 5  # bisections of it


def advise_by_twin(
    fleet: Fleet,
    time: float | str,
    landscape: Landscape | None = None,
    aim: Aim | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Advice:
    """The policy that the model of training puts first, with the usual ones beside it."""
    fleet, time, aim = fleet_of(fleet), budget(time), aim or Aim()
    landscape = landscape or Landscape.generic()
    found = search(fleet, time, ranking(landscape), aim, seed=seed, progress=progress)
    return _advice(fleet, time, landscape, aim, found, seed)


def advise_for_loss(
    fleet: Fleet,
    loss: float,
    landscape: Landscape | None = None,
    aim: Aim | None = None,
    *,
    least: str = "time",
    seed: int = 0,
    progress: Progress | None = None,
) -> Advice:
    """The policy that comes down to a loss soonest, or with the least energy, and the time that it takes."""
    fleet, aim, landscape = fleet_of(fleet), aim or Aim(), landscape or Landscape.generic()
    if least not in ("time", "energy"):
        raise InvalidInput(f"to reach a loss either time or energy can be the least, got '{least}'")
    start = landscape.lowest + landscape.loss
    if not landscape.lowest < loss < start:
        raise InvalidInput(
            f"loss must lie between the lowest, {landscape.lowest:g}, and that of the first model, {start:g}, got "
            f"{loss:g}"
        )
    time = _soonest(fleet, loss, landscape, aim, seed)
    found = search(fleet, time, ranking(landscape), aim, seed=seed, progress=progress)
    if least == "energy":
        found, time = _thriftiest(fleet, loss, landscape, found, time, seed)
    return _advice(fleet, time, landscape, aim, found, seed)


def ranking(landscape: Landscape) -> Landscape:
    """What policies are ranked by: generic constants also where others were measured, which ranked worse in training.

    What is measured decides the step size and the loss (docs/does-it-pay.md). Whether one speed group knows something
    alone is kept, where it was told, or measured beyond doubt.
    """
    if landscape.source != "measured":
        return landscape
    known = landscape.forgetting > 0 or landscape.intervals.get("between", (0.0, 0.0))[0] > SURE
    return Landscape.generic().skewed() if known else Landscape.generic()


def _soonest(fleet: Fleet, loss: float, landscape: Landscape, aim: Aim, seed: int) -> float:
    """The least time in which the lowest policy comes down to a loss."""
    policies = [Policy(NAME, robust(fleet, aim.wishes))]
    return _time_to(fleet, policies, loss, landscape, seed)


def _time_to(fleet: Fleet, policies: list[Policy], loss: float, landscape: Landscape, seed: int) -> float:
    def reached(time: float) -> bool:
        return min(one.loss for one in predict(fleet, policies, time, landscape, seed=seed)) <= loss

    high = max(2.0 * fleet.clients, 50.0) / float((fleet.count * fleet.rate).sum())
    for _ in range(LONGEST):
        if reached(high):
            break
        high *= 2
    else:
        raise InvalidInput(f"loss {loss:g} is not reached in {shown(high)}; ask for a higher one")
    low = high / 2
    for _ in range(FINER):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _thriftiest(
    fleet: Fleet, loss: float, landscape: Landscape, found: Searched, time: float, seed: int
) -> tuple[Searched, float]:
    """Of the policies that were tried the one with the least energy until the loss; each takes its own time."""
    if not isfinite(energy(fleet, found.predicted.policy, time)):
        raise InvalidInput("least energy needs the power of every group, one lacks it; add a column power to the fleet")
    priced = []
    for one in found.tried[:WATCHED]:
        takes = _time_to(fleet, [one.policy], loss, landscape, seed)
        priced.append((energy(fleet, one.policy, takes), takes, one))
    _, takes, best = min(priced, key=lambda each: each[0])
    return replace(found, predicted=best, best=best, tied=()), takes


def _advice(fleet: Fleet, time: float, landscape: Landscape, aim: Aim, found: Searched, seed: int) -> Advice:
    measured = landscape.source != "generic"
    if landscape.source == "measured":
        found = replace(found, predicted=predict(fleet, [found.predicted.policy], time, landscape, seed=seed)[0])
    step = TRANSFER * found.predicted.step_size
    plan = replace(found.predicted.policy.plan, objective=OBJECTIVE, step_size=step if measured else None)
    plan = promised(fleet, plan, time)
    plan = replace(plan, promises={**plan.promises, "loss": found.predicted.loss, "step_size": step})
    safe = Policy(NAME, robust(fleet))
    same = safe.plan.hash == found.predicted.policy.plan.hash
    told = predict(fleet, [*([] if same else [safe]), *usual(fleet, time)], time, landscape, seed=seed)
    mine = safe if same else replace(found.predicted.policy, name="this plan")
    first = row_of(fleet, mine, time, found.predicted.loss)
    rows = (first, *(row_of(fleet, one.policy, time, one.loss) for one in told))
    advice = Advice(fleet, time, plan, rows)
    why = (*_chosen(found, told, aim), *_depends(fleet, time, landscape, found, seed), _step(step, measured))
    return replace(advice, why=why)


def _chosen(found: Searched, told: list[Predicted], aim: Aim) -> list[str]:
    """Which policy, and what the others would cost."""
    mine = found.predicted
    routed = next(one for one in told if one.policy.algorithm == "asyncsgd")
    said = [
        f"Of {len(found.tried)} policies this one ({mine.policy.name}) is expected to end at a loss of {mine.loss:.3g} "
        f"by the model of training ({routed.loss:.3g} with uniform AsyncSGD)."
    ]
    if aim.worst:
        said.append(f"The worst speed group counts {aim.worst:g} of the objective; it is expected at {mine.worst:.3g}.")
    if mine.loss < FLOOR * float(mine.curve[0]):
        said.append(
            "That is as good as nothing: the time is long enough for many policies to come to the floor of the loss, "
            "where the model tells none from another."
        )
    elif found.tied:
        others = f"{len(found.tied)} others are" if len(found.tied) > 1 else "1 other is"
        said.append(
            f"{others} within what the model can tell (the lowest: {found.best.policy.name}); the simplest is taken."
        )
    return said


def _depends(fleet: Fleet, time: float, landscape: Landscape, found: Searched, seed: int) -> list[str]:
    """How much the choice depends on constants that nobody measured."""
    if landscape.source != "generic" or found.predicted.loss < FLOOR * landscape.loss:
        return []
    watched = [one.policy for one in found.tried[:WATCHED]]
    if found.predicted.policy not in watched:
        watched.append(found.predicted.policy)
    most = 1.0
    for change in CHANGES:
        told = predict(fleet, watched, time, landscape.scaled(**change), traces=1, seed=seed)
        lowest = min(one.loss for one in told)
        mine = next(one.loss for one in told if one.policy is found.predicted.policy)
        most = max(most, mine / lowest if lowest > 0 else inf)
    return [
        "The constants are generic (nothing was measured). With curvature, noise or heterogeneity three times as large "
        f"or as small this policy ends within a factor of {most:.3g} of the best of {len(watched)}; sojourn calibrate "
        "measures them."
    ]


def _step(step: float, measured: bool) -> str:
    if measured:
        return f"The step size, {step:.3g}, is the model's times {TRANSFER:g}; sojourn tune makes sure of it."
    return "The step size is left open, because it depends on your model and data: sojourn tune finds it."


__all__ = ["Aim", "Row", "Wishes", "advise_by_twin", "advise_for_loss"]
