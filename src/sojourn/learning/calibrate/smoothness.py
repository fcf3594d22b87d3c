"""L: the largest curvature of the mean loss and of the clients' own at a point, and the spectrum of the mean loss.

Theory's L is a Lipschitz constant of every client's gradient everywhere. What is measured is the largest absolute
eigenvalue of the Hessian at points that a training visits: for a quadratic it is L itself, for a network what the
training has met. Of every client asked a short Lanczos finds the largest eigenvalue roughly, of the most curved of
them a longer one finds it well.

Kinks, of ReLU or max-pooling, have no curvature: what is measured is that between them. The change of the gradient
along a step downhill, over the length of the step, is at most L too and sees the kinks; it stands beside.

Where examples were drawn, the largest eigenvalue of the drawn Hessian is too large on average (a maximum of
averages), and the curvature of one half of them along the leading direction of the other is too small: the truth
lies between the two.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sojourn.learning.calibrate.estimates import Bracket, Estimate
from sojourn.learning.calibrate.lanczos import Spectrum, lanczos
from sojourn.learning.calibrate.objective import Objective, choose
from sojourn.learning.replay.federation import Federation

SHORT, LONG = 6, 24  # products of a client's Lanczos at most
CURVED = 3  # clients with a long one
TIGHT = 1e-3  # relative residual at which it stops


class Curvature(NamedTuple):
    """What the Hessians at a point look like."""

    smoothness: Bracket
    """L."""
    mean: float
    """Largest absolute eigenvalue of the mean loss alone."""
    spectrum: Spectrum
    """Leading eigenvalues and directions of the mean loss."""
    products: int
    """Products with Hessians in all, each over all examples of its loss."""


def measure_curvature(
    objective: Objective,
    federation: Federation,
    asked: NDArray[np.int64],
    examples: int,
    directions: int,
    watch: Callable[[], None] | None = None,
) -> Curvature:
    """Spectrum of the mean loss at a point, and L; of the clients asked, at most `examples` each are looked at."""
    spectrum = lanczos(
        objective.product, objective.params, directions, most_products(directions), federation.seed, watch=watch
    )
    losses = [_of_client(objective, federation, int(client), examples) for client in asked]
    rough = [_top(loss, SHORT, federation.seed) for loss in losses]
    used = spectrum.products + sum(one.products for one in rough)
    size, curved = spectrum.size, objective
    for number in sorted(range(len(rough)), key=lambda number: rough[number].size, reverse=True)[:CURVED]:
        found = _top(losses[number], LONG, federation.seed)
        used += found.products
        if found.size > size:
            size, curved = found.size, losses[number]
    bracket, more = _bracket(curved, *size, federation.seed)
    return Curvature(bracket, spectrum.size[0], spectrum, used + more)


def measure_secant(objective: Objective, slope: Tensor, step_size: float) -> float:
    """Change of the gradient `slope` along the step -step_size * slope, over its length."""
    length = step_size * float(slope.norm())
    if length == 0:
        return 0.0
    return float((objective.at(objective.params - step_size * slope).gradient() - slope).norm()) / length


def most_products(directions: int) -> int:
    """Products with the Hessian of the mean loss at a point, at most."""
    return 3 * directions + 20


def _of_client(objective: Objective, federation: Federation, client: int, examples: int) -> Objective:
    weights = np.zeros(federation.clients)
    weights[client] = 1.0
    return objective.on(choose(federation, weights, examples, client + 1))


def _top(loss: Objective, most: int, seed: int) -> Spectrum:
    return lanczos(loss.product, loss.params, 1, most, seed, TIGHT)


def _bracket(curved: Objective, largest: float, residual: float, seed: int) -> tuple[Bracket, int]:
    """Bounds of the largest eigenvalue of a loss, and the products that they took."""
    if curved.chosen.exact:
        return Bracket(largest, Estimate(largest), Estimate(largest + residual)), 0
    halves = [curved.on(half) for half in curved.chosen.halves()]
    found = [_top(half, LONG, seed) for half in halves]
    crossed = [halves[1 - one].along(found[one].vectors[0]) for one in range(2)]
    low = sum(one.value for one in crossed) / 2
    error, freedom = max(one.error for one in crossed) / np.sqrt(2), crossed[0].freedom
    above = Estimate(largest + residual, float(error), freedom)
    return Bracket((low + largest) / 2, Estimate(low, float(error), freedom), above), sum(f.products for f in found) + 2
