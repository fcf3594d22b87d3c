"""Make an objective from a budget: the least bound after a time or some steps, or the least cost to epsilon."""

from dataclasses import replace
from typing import Any

from sojourn.constants import WORKED_EXAMPLE, Constants
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.planning.bound.objective import NetworkObjective, Weights
from sojourn.planning.bound.scores import StepBudget, TimeBudget, TimeOfStep, ToEpsilon
from sojourn.planning.bound.search import make_plan
from sojourn.timing.exact.analysis import Reading

PRICES = {"steps": (1.0, 0.0, 0.0), "time": (0.0, 1.0, 0.0), "energy": (0.0, 0.0, 1.0)}


def goal(
    *,
    time: float | None = None,
    steps: float | None = None,
    epsilon: float | None = None,
    least: str | None = None,
    constants: Constants = WORKED_EXAMPLE,
    free_step: bool = False,
    weights: Weights = "equal",
    reading: Reading = "indicator",
    server_rate: float | None = None,
    server_power: float = 0.0,
) -> NetworkObjective:
    """Return an objective of the paper's planner, to be passed to `make_plan`.

    Give one of `time`, `steps` and `epsilon`; or none of them and `least="step time"`, for as many steps per second as
    possible.

    - `time`, `steps`: minimise the bound after this time in seconds, or after this many server steps
    - `epsilon`: minimise the cost until the bound is this small; `least` is the cost: `time` (default), `steps` or
      `energy`
    - `constants`: the constants of the training problem; by default those of the paper's worked example
    - `free_step`: let the step size exceed the theorem's largest
    - `weights`: weight of a client in the objective: `equal`, `data`, or one number per group
    - `reading`: how the bound counts staleness, `indicator` (the paper's) or `conditional`
    - `server_rate`, `server_power`: updates that the server applies per second, and its power meanwhile in watts

    >>> goal(time=3600).name
    "Theorem 1's bound after 3600 units of time"
    >>> goal(epsilon=0.1, least="steps").name
    "server steps until Theorem 1's bound is 0.1"
    """
    budgets = {"time": time, "steps": steps, "epsilon": epsilon}
    given = [name for name, value in budgets.items() if value is not None]
    if len(given) > 1:
        raise InvalidInput(f"budgets {given[0]} and {given[1]} exclude each other, got both; give one of them")
    if server_power and server_rate is None:
        raise InvalidInput(f"server_power {server_power:g} needs the time of an update; give server_rate too")
    score: StepBudget | TimeBudget | ToEpsilon | TimeOfStep
    if not given and least == "step time":
        score = TimeOfStep()
    elif not given:
        raise InvalidInput(
            "a plan needs a goal, got none; give a budget of time or of steps, or epsilon "
            "(--budget-time, --budget-steps, --epsilon)"
        )
    elif epsilon is not None:
        if constants.R2 is not None and (free_step or reading != "indicator" or constants.rho2):
            raise InvalidInput(
                "the communication-aware bound has no step size, no conditional reading and no strong growth; leave "
                "these out, or leave R2 out of the constants to take Theorem 1's"
            )
        score = _to_epsilon(epsilon, least or "time", constants, free_step)
    elif least not in (None, given[0]):
        wanted = "throughput" if least == "step time" else least
        raise InvalidInput(
            f"'{wanted}' cannot be combined with a budget of {given[0]}; leave out one of them, or give epsilon"
        )
    elif time is not None:
        score = TimeBudget(time, constants, free_step)
    else:
        assert steps is not None
        score = StepBudget(steps, constants, free_step)
    return NetworkObjective(score, weights, reading, server_rate, server_power)


def _to_epsilon(epsilon: float, least: str, constants: Constants, free_step: bool) -> ToEpsilon:
    if least not in PRICES:
        wanted = "throughput" if least == "step time" else least
        raise InvalidInput(f"until epsilon the goal must be least time, steps or energy, got '{wanted}'")
    return ToEpsilon(epsilon, constants, *PRICES[least], free_step)


def mixed_goal(fleet: Fleet, goal_of_time: NetworkObjective, share: float, **settings: Any) -> NetworkObjective:
    """Return a mix of energy, with this share, and time, each in units of its least value on this fleet.

    `settings` are those of `make_plan`, with which the two least values are found.
    """
    if not 0 <= share <= 1:
        raise InvalidInput(f"the share of energy must lie between 0 and 1, got {share}")
    score = goal_of_time.score
    if not isinstance(score, ToEpsilon):
        raise InvalidInput("a mix of time and energy needs epsilon; give it instead of a budget")
    pure = [replace(score, per_step=0.0, per_time=1 - energy, per_energy=energy) for energy in (0.0, 1.0)]
    time, energy = (make_plan(fleet, replace(goal_of_time, score=one), **settings).prediction.value for one in pure)
    label = f"a mix of {100 * share:g}% energy and {100 * (1 - share):g}% time, each in units of its least,"
    mix = replace(pure[0], per_time=(1 - share) / time, per_energy=share / energy, label=label)
    return replace(goal_of_time, score=mix)
