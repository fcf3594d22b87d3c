"""Lanczos' method with full reorthogonalisation: the leading eigenvalues of a symmetric matrix from its products.

Symbols: Q the orthonormal basis, T = Q'HQ tridiagonal with diagonal alpha and off-diagonal beta, (theta, s) an
eigenpair of T. Then Qs is a vector with |H Qs - theta Qs| = |beta_m s_m|: an eigenvalue lies that near to theta, up to
rounding.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from sojourn.errors import SojournError
from sojourn.types import Floats

Product = Callable[[Tensor], Tensor]


class Spectrum(NamedTuple):
    """The leading end of a spectrum."""

    values: Floats
    """Largest eigenvalues, falling."""
    residuals: Floats
    """To each, the distance within which an eigenvalue lies for certain."""
    vectors: Tensor
    """To each, its unit vector, one row each."""
    lowest: float
    """The lowest value seen; negative where the matrix is not positive semidefinite."""
    lowest_residual: float
    """To the lowest, the same distance."""
    products: int
    """Products that it took."""

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
    """The `wanted` largest eigenvalues, to within `tolerance` times the largest or after `most` products.

    Vectors have the length, type and device of `like`. Where the basis is complete before its time (an eigenvalue
    that occurs several times), it goes on in a new random direction.
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
            raise SojournError("a product with the Hessian is not finite; lower the step size, or take fewer steps")
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
    """Without its parts along the basis; twice, because once leaves some of them to rounding."""
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


def _random(like: Tensor, basis: Tensor, chance: torch.Generator) -> Tensor:
    """A random unit vector orthogonal to the basis; drawn on the processor, so that it is the same on any device."""
    vector = torch.randn(like.numel(), generator=chance, dtype=torch.float64).to(like)
    return torch.nn.functional.normalize(_orthogonal(vector, basis), dim=0)
