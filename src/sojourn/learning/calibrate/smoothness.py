"""L: the largest curvature of the mean loss and of the clients' own at a point, and the spectrum of the mean loss.

Theory's L is a Lipschitz constant of every client's gradient everywhere. Measured is the largest absolute eigenvalue of
the Hessian at points that a training visits: for a quadratic this is L itself, for a network the largest curvature on
the way. For every client asked a short Lanczos run finds the largest eigenvalue roughly; for the most curved of them a
longer run finds it well.

Kinks of ReLU or max-pooling have no curvature, so only the curvature between them is measured. The change of the
gradient along a gradient step, divided by the length of the step, is at most L too and includes the kinks; it is
reported as well.

Where examples were drawn, the largest eigenvalue of the drawn Hessian is too large on average (a maximum of
averages), and the curvature of one half of them along the leading direction of the other is too small: the truth
lies between the two.

Lanczos' method with full reorthogonalisation: the leading eigenvalues of a symmetric matrix from its products.

Symbols: Q the orthonormal basis, T = Q'HQ tridiagonal with diagonal alpha and off-diagonal beta, (theta, s) an
eigenpair of T. Then Qs is a vector with |H Qs - theta Qs| = |beta_m s_m|: an eigenvalue lies that near to theta, up to
rounding.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from sojourn.errors import SojournError
from sojourn.learning.calibrate.estimates import Bracket, Estimate
from sojourn.learning.calibrate.objective import Objective, choose, mean_of_groups
from sojourn.learning.replay.federation import Federation
from sojourn.types import Floats

SHORT, LONG = 6, 24  # most products of a client's Lanczos run
CURVED = 3  # clients with a long run
PROBES = 8  # products with random signs, for the trace
TIGHT = 1e-3  # relative residual at which it stops
Product = Callable[[Tensor], Tensor]


class Spectrum(NamedTuple):
    """The leading end of a spectrum."""

    values: Floats
    """Largest eigenvalues, falling."""
    residuals: Floats
    """For each, the distance within which an eigenvalue certainly lies."""
    vectors: Tensor
    """Their unit vectors, one row each."""
    lowest: float
    """The lowest value found; negative if the matrix is not positive semidefinite."""
    lowest_residual: float
    """The same distance for the lowest value."""
    products: int
    """Number of products."""

    @property
    def size(self) -> tuple[float, float]:
        """The largest absolute value, and its distance."""
        first, last = (float(self.values[0]), float(self.residuals[0])), (-self.lowest, self.lowest_residual)
        return max(first, last)


def lanczos(
    product: Product,
    like: Tensor,
    wanted: int,
    most: int,
    seed: int,
    tolerance: float = 0.01,
    watch: Callable[[], None] | None = None,
) -> Spectrum:
    """Return the `wanted` largest eigenvalues, within `tolerance` times the largest or after `most` products.

    Vectors have the length, type and device of `like`. If the basis is complete too early (an eigenvalue occurs several
    times), it continues in a new random direction.
    """
    size = like.numel()
    wanted, most = min(wanted, size), min(most, size)
    chance = torch.Generator().manual_seed(seed)
    basis = torch.empty(most, size, dtype=like.dtype, device=like.device)
    basis[0] = _random(like, basis[:0], chance)
    alpha, beta = np.zeros(most), np.zeros(most)
    done = 0
    while True:
        image = product(basis[done])
        if watch is not None:
            watch()
        alpha[done] = float(torch.dot(image, basis[done]))
        if not np.isfinite(alpha[done]):
            raise SojournError("a product with the Hessian is not finite; lower the step size, or use fewer steps")
        image = _orthogonal(image, basis[: done + 1])
        beta[done] = float(torch.linalg.vector_norm(image))
        done += 1
        scale = float(np.abs(alpha[:done]).max() + beta[: done - 1].max(initial=0.0))
        if done == size or beta[done - 1] <= 100 * torch.finfo(like.dtype).eps * scale:
            beta[done - 1] = 0.0
        values, small = eigh_tridiagonal(alpha[:done], beta[: done - 1])
        residuals = np.abs(beta[done - 1] * small[-1]) + torch.finfo(like.dtype).eps * np.abs(values).max()
        enough = done >= wanted and (residuals[-wanted:] <= tolerance * np.abs(values).max()).all()
        if done == most or (enough and beta[done - 1] > 0):
            break
        basis[done] = image / beta[done - 1] if beta[done - 1] else _random(like, basis[:done], chance)
    lead = np.argsort(values)[::-1][:wanted]
    turn = torch.as_tensor(np.ascontiguousarray(small[:, lead].T), dtype=like.dtype, device=like.device)
    return Spectrum(values[lead], residuals[lead], turn @ basis[:done], float(values[0]), float(residuals[0]), done)


def _orthogonal(vector: Tensor, basis: Tensor) -> Tensor:
    """Remove the parts of a vector along the basis; twice, because of rounding."""
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


def _random(like: Tensor, basis: Tensor, chance: torch.Generator) -> Tensor:
    """A random unit vector orthogonal to the basis; drawn on the processor, so that it is the same on any device."""
    vector = torch.randn(like.numel(), generator=chance, dtype=torch.float64).to(like)
    return torch.nn.functional.normalize(_orthogonal(vector, basis), dim=0)


class Curvature(NamedTuple):
    """What the Hessians at a point look like."""

    smoothness: Bracket
    """L."""
    mean: float
    """Largest absolute eigenvalue of the mean loss alone."""
    spectrum: Spectrum
    """Leading eigenvalues and directions of the mean loss."""
    products: int
    """Number of products with Hessians, each over all examples of its loss."""


def measure_curvature(
    objective: Objective,
    federation: Federation,
    asked: NDArray[np.int64],
    examples: int,
    directions: int,
    watch: Callable[[], None] | None = None,
) -> Curvature:
    """Spectrum of the mean loss at a point, and L; at most `examples` of each client asked are used."""
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
    """Return the change of the gradient `slope` along the step -step_size * slope, divided by its length."""
    length = step_size * float(slope.norm())
    if length == 0:
        return 0.0
    return float((objective.at(objective.params - step_size * slope).gradient() - slope).norm()) / length


def measure_trace(objective: Objective, spectrum: Spectrum, seed: int, watch: Callable[[], None] | None) -> Estimate:
    """Sum of all eigenvalues: the leading ones, and the rest by random signs orthogonal to them (Hutchinson).

    The products of random signs scatter with the eigenvalues that are left, which are small.
    """
    chance = torch.Generator().manual_seed(seed)
    lead, rest = spectrum.vectors, []
    if lead.shape[0] == lead.shape[1]:
        return Estimate(float(spectrum.values.sum()))
    for _ in range(PROBES):
        signs = torch.randint(0, 2, (lead.shape[1],), generator=chance).to(lead) * 2 - 1
        rest.append(objective.along(_orthogonal(signs, lead)))
        if watch is not None:
            watch()
    found = mean_of_groups(np.array([one.value for one in rest]))
    examples = float(np.mean([one.error**2 for one in rest]))  # the same in all products, so it does not average out
    freedom = found.freedom if examples == 0 else min(found.freedom, rest[0].freedom)
    return Estimate(float(spectrum.values.sum()) + found.value, float(np.hypot(found.error, examples**0.5)), freedom)


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
