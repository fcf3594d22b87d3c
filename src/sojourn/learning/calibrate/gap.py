"""A: the loss at the start minus the lowest possible loss.

The lowest loss of a network is not known. A lower bound of A is what can be gained: the first loss minus the lowest
loss reached, which is also the estimate. That loss is searched at the points of the training, at the mean of its second
half, and by some steps of L-BFGS from the best of them, because stochastic steps do not settle. If no loss is negative,
the first loss itself is an upper bound.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import SojournError
from sojourn.learning.calibrate.estimates import Bracket, Estimate
from sojourn.learning.calibrate.objective import Objective, mean_of_groups
from sojourn.types import Floats

DESCENT = 20  # steps of L-BFGS


def measure_gap(objectives: Sequence[Objective]) -> Bracket:
    """Estimate A from the loss on the same examples at the first model and at later ones."""
    return lowest_reached(objectives)[0]


def lowest_reached(objectives: Sequence[Objective]) -> tuple[Bracket, Objective]:
    """Return A, and the model with the lowest loss."""
    losses = [one.losses() for one in objectives]
    best = objectives[int(np.argmin([one.mean() for one in losses]))]
    pairs, found = [(losses[0], one) for one in losses], list(objectives)
    if best.chosen.exact:
        found.append(best.at(descended(best)))
        pairs.append((losses[0], found[-1].losses()))
    else:  # what was fitted to one half is evaluated on the other
        fitted, judged = best.chosen.halves()
        found.append(best.on(judged).at(descended(best.on(fitted))))
        pairs.append((objectives[0].on(judged).losses(), found[-1].losses()))
    most = int(np.argmax([(first - later).mean() for first, later in pairs]))
    return gap(pairs), found[most]


def gap(pairs: Sequence[tuple[Floats, Floats]]) -> Bracket:
    """Estimate A from pairs of losses, of the first model and of another, by groups of the same examples."""
    best = max((mean_of_groups(first - later) for first, later in pairs), key=lambda gain: gain.value)
    first = pairs[0][0]
    if not best.value > 0:
        raise SojournError(
            f"no loss below the first, {first.mean():.6g}, was reached; give the training more steps, or a larger "
            "step size"
        )
    negative = min(float(one.min()) for pair in pairs for one in pair) < 0
    return Bracket(best.value, best, Estimate(inf) if negative else mean_of_groups(first))


def descended(objective: Objective) -> Tensor:
    """Return the model after some steps of L-BFGS, or the best one on the way if they went astray."""
    point = torch.nn.Parameter(objective.params.clone())
    optimiser = torch.optim.LBFGS([point], max_iter=DESCENT, line_search_fn="strong_wolfe", tolerance_change=0.0)
    best = (objective.loss().value, objective.params)

    def look() -> float:
        nonlocal best
        here = objective.at(point)
        loss = here.loss().value
        point.grad = here.gradient()
        if loss < best[0]:
            best = (loss, point.detach().clone())
        return loss

    optimiser.step(look)  # type: ignore[no-untyped-call]
    return best[1]
