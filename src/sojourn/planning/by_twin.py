"""Advice by the model of training: the policy with the lowest final loss, what the usual ones would cost, and how
certain.
"""

from dataclasses import replace
from math import inf, isfinite

from sojourn.durations import shown
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.plan import fleet_of
from sojourn.planning.advice import Advice, Row, budget, early, promised, robust_policy, row_of, scarce
from sojourn.planning.policy import OBJECTIVE, Policy, Wishes, usual
from sojourn.planning.search import FLOOR, TRACES, TRANSFER, Aim, Choice, Progress, Searched, energy, search
from sojourn.planning.twin import Predicted, predict

CHANGES = (
    *({"curvature": 1 / 3}, {"curvature": 3.0}, {"noise": 1 / 3}, {"noise": 3.0}),
    *({"heterogeneity": 1 / 3}, {"heterogeneity": 3.0}),
)
WATCHED = 12  # policies whose rank is checked again with other constants
SURE = 0.1  # if the lower end of `between` is above this, data depends on speed
LONGEST = 24  # how often a time is doubled until a loss is reached, or halved while it is
FINER = 3  # bisections of the time, to within a tenth


def advise_by_twin(
    fleet: Fleet,
    time: float | str,
    landscape: Landscape | None = None,
    aim: Aim | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Advice:
    """Return the policy that the model of training ranks first, compared with the usual ones."""
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
    """Return the policy that reaches a loss soonest, or with the least energy, and the time that it takes."""
    fleet, aim, landscape = fleet_of(fleet), aim or Aim(), landscape or Landscape.generic()
    if least not in ("time", "energy"):
        raise InvalidInput(f"until a loss is reached, least must be time or energy, got '{least}'")
    start = landscape.lowest + landscape.loss
    if not landscape.lowest < loss < start:
        raise InvalidInput(
            f"loss must lie between the lowest, {landscape.lowest:g}, and that of the first model, {start:g}, got "
            f"{loss:g}"
        )
    time, found = _soonest(fleet, loss, landscape, aim, seed, progress)
    if least == "energy":
        time, found = _thriftiest(fleet, loss, landscape, aim, found, time, seed)
    return _advice(fleet, time, landscape, aim, found, seed)


def ranking(landscape: Landscape) -> Landscape:
    """Return the landscape that ranks policies: generic constants, since measured ones ranked worse in training.

    Measured constants decide the step size and the loss (docs/does-it-pay.md). What only one speed group knows is kept
    if the user states it, or if it was measured beyond doubt.
    """
    if landscape.source != "measured":
        return landscape
    known = landscape.forgetting > 0 or landscape.intervals.get("between", (0.0, 0.0))[0] > SURE
    return Landscape.generic().skewed() if known else Landscape.generic()


def _soonest(
    fleet: Fleet, loss: float, landscape: Landscape, aim: Aim, seed: int, progress: Progress | None
) -> tuple[float, Searched]:
    """Return the least time to a loss and what the search finds: first for the robust policy's time, then for its own.

    The time is that of the chosen policy, which may tie with a faster one.
    """
    policy = robust_policy(fleet, aim.wishes)
    time, _ = _time_to(fleet, policy, loss, landscape, aim, seed)
    for told in (None, progress):
        found = search(fleet, time, ranking(landscape), aim, seed=seed, progress=told)
        time, reached = _time_to(fleet, found.predicted.policy, loss, landscape, aim, seed, near=time)
    return time, replace(found, predicted=reached)


def _time_to(
    fleet: Fleet,
    policy: Policy,
    loss: float,
    landscape: Landscape,
    aim: Aim,
    seed: int,
    near: float | None = None,
) -> tuple[float, Predicted]:
    """Return the least time in which a policy reaches a loss, within a tenth, and the prediction for it."""

    def at(time: float) -> Predicted:
        return predict(fleet, [policy], time, landscape, traces=TRACES, seed=seed)[0]

    high = near or max(2.0 * fleet.clients, 50.0) / float((fleet.count * fleet.rate).sum())
    found = at(high)
    for _ in range(LONGEST):
        if aim.value(found) <= loss:
            break
        high *= 2
        found = at(high)
    else:
        raise InvalidInput(f"loss {loss:g} is not reached in {shown(high)}; give a higher loss")
    low = high / 2
    for _ in range(LONGEST):
        lower = at(low)
        if aim.value(lower) > loss:
            break
        low, high, found = low / 2, low, lower
    for _ in range(FINER):
        middle = (low * high) ** 0.5
        between = at(middle)
        if aim.value(between) <= loss:
            high, found = middle, between
        else:
            low = middle
    return high, found


def _thriftiest(
    fleet: Fleet, loss: float, landscape: Landscape, aim: Aim, found: Searched, time: float, seed: int
) -> tuple[float, Searched]:
    """Return the policy that needs the least energy until the loss; each policy takes its own time.

    Of policies that give the same tasks to the same clients, only the one with the lowest loss is considered.
    """
    if not isfinite(energy(fleet, found.predicted.policy, time)):
        raise InvalidInput("least energy needs the power of every group, one lacks it; add a column power to the fleet")
    priced = []
    for choice, one in _by_timing(found).values():
        try:
            takes, reached = _time_to(fleet, one.policy, loss, landscape, aim, seed, near=time)
        except InvalidInput:  # it never reaches the loss
            continue
        if aim.allows(fleet, one.policy, takes):
            priced.append((energy(fleet, one.policy, takes), takes, choice, reached))
    _, takes, choice, reached = min(priced, key=lambda each: each[0])
    return takes, replace(found, choice=choice, predicted=reached, best=reached, tied=())


def _by_timing(found: Searched) -> dict[object, tuple[Choice, Predicted]]:
    """Return the policy with the lowest loss for every timing."""
    best: dict[object, tuple[Choice, Predicted]] = {}
    for choice, one in zip(found.choices, found.tried, strict=True):
        best.setdefault((choice.tasks, choice.cap, choice.weights), (choice, one))
    return best


def _advice(fleet: Fleet, time: float, landscape: Landscape, aim: Aim, found: Searched, seed: int) -> Advice:
    measured = landscape.source != "generic"
    if landscape.source == "measured":
        told = predict(fleet, [found.predicted.policy], time, landscape, traces=TRACES, seed=seed)
        found = replace(found, predicted=told[0])
    step = TRANSFER * found.predicted.step_size if measured else None
    plan = replace(found.predicted.policy.plan, objective=OBJECTIVE, step_size=step)
    plan = promised(fleet, plan, time)
    known = (
        {} if step is None else {"step_size": step}
    )  # generic constants give no step size: tuning then begins with a wide grid
    plan = replace(plan, promises={**plan.promises, "loss": found.predicted.loss, **known})
    safe = robust_policy(fleet)
    same = safe.plan.hash == found.predicted.policy.plan.hash
    told = predict(fleet, [*([] if same else [safe]), *usual(fleet, time)], time, landscape, seed=seed)
    mine = safe if same else replace(found.predicted.policy, name="this plan")
    first = row_of(fleet, mine, time, found.predicted.loss)
    rows = (first, *(row_of(fleet, one.policy, time, one.loss) for one in told))
    advice = Advice(fleet, time, plan, rows)
    why = (
        *scarce(advice),
        *_chosen(found, told, aim, landscape),
        *early(advice),
        *_depends(fleet, time, landscape, aim, found, seed),
        _step(step),
    )
    return replace(advice, why=why)


def _chosen(found: Searched, told: list[Predicted], aim: Aim, landscape: Landscape) -> list[str]:
    """Return sentences on which policy is chosen, and what the others would cost."""
    mine = found.predicted
    routed = next(one for one in told if one.policy.algorithm == "asyncsgd")
    said = [
        f"Of {len(found.tried)} policies this one ({mine.policy.name}) is expected to end at a loss of {mine.loss:.3g} "
        f"by the model of training ({routed.loss:.3g} with uniform AsyncSGD)."
    ]
    if aim.worst:
        said.append(f"The worst speed group counts {aim.worst:g} of the objective; it is expected at {mine.worst:.3g}.")
    if mine.loss - landscape.lowest < FLOOR * landscape.loss:
        said.append(
            "These losses are practically zero: in this time many policies reach the floor of the loss, "
            "where the model cannot distinguish them."
        )
    elif found.tied:
        others = f"{len(found.tied)} others are" if len(found.tied) > 1 else "1 other is"
        lowest = found.best.policy.name
        which = "of them this one is the lowest and the simplest"
        if lowest != mine.policy.name:
            which = f"the lowest is {lowest}, and the simplest is chosen"
        said.append(f"{others} within the accuracy of the model; {which}.")
    return said


def _depends(fleet: Fleet, time: float, landscape: Landscape, aim: Aim, found: Searched, seed: int) -> list[str]:
    """Return a sentence on how much the choice depends on constants that were not measured."""
    if landscape.source != "generic" or found.predicted.loss - landscape.lowest < FLOOR * landscape.loss:
        return []
    watched = [one.policy for one in found.tried[:WATCHED]]
    if found.predicted.policy not in watched:
        watched.append(found.predicted.policy)
    most = 1.0
    for change in CHANGES:
        told = predict(fleet, watched, time, landscape.scaled(**change), traces=1, seed=seed)
        lowest = min(aim.value(one) for one in told)
        mine = next(aim.value(one) for one in told if one.policy is found.predicted.policy)
        most = max(most, mine / lowest if lowest > 0 else inf)
    return [
        "The constants are generic (nothing was measured). With curvature, noise or heterogeneity three times as large "
        f"or as small this policy ends within a factor of {most:.3g} of the best of {len(watched)}; sojourn calibrate "
        "measures them."
    ]


def _step(step: float | None) -> str:
    if step is not None:
        return f"The step size, {step:.3g}, is the model's times {TRANSFER:g}; sojourn tune checks it."
    return "The step size is left open, because it depends on your model and data: sojourn tune finds it."


__all__ = ["Aim", "Row", "Wishes", "advise_by_twin", "advise_for_loss"]
