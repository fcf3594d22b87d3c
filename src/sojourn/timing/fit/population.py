r"""The population that clients' rates are drawn from, gamma or lognormal, as far as the clients determine it.

    K_i, B_i   shape and exposure of client i's likelihood, rate^K_i exp(-B_i rate)
    z          log rate
    a, m       gamma population: rate ~ gamma(a, a / m), spread 1 / sqrt(a)
    mu, sigma  lognormal population: z ~ normal(mu, sigma)

Neither the family nor its two parameters are fixed at their best values, which would make the intervals of few clients
too short. They are weighted by their likelihood, with a prior that is flat in the location (log m or mu) and in the
squared spread. For each of 17 spreads the integral over the location uses three Gauss-Hermite points around the best
one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, gammaln

from sojourn.types import Floats

# for spreads: log-likelihood integrated over the location, the best location, how well it is known
Profile = Callable[[Floats], tuple[Floats, Floats, Floats]]

LEAST_SPREAD, MOST_SPREAD = 1e-4, 4.0
MOST_CLIENTS = 2_000  # clients from which the population is estimated; it applies to all
SPREADS = 17
GRID = 64
NEGLIGIBLE = 9.0  # log-likelihood below the best
AT_ONCE = 20_000  # clients
_NODES, _SHARES = (
    np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)]),
    np.array([1, 4, 1]) / 6,
)  # Gauss-Hermite points and weights


@dataclass(frozen=True)
class Population:
    """Gamma (the first `gammas`) and lognormal populations of rates, each with its probability."""

    location: Floats
    spread: Floats
    weight: Floats
    gammas: int

    @property
    def typical(self) -> float:
        """A typical rate: exp of the mean location."""
        return float(np.exp(np.sum(self.weight * self.location)))

    @property
    def variation(self) -> float:
        """Spread of the rates: their coefficient of variation where they are gamma, of their logarithm otherwise."""
        return float(np.sum(self.weight * self.spread))

    def log_density(self, node: int, z: Floats) -> Floats:
        """Return the log density of the log rate in one of the populations."""
        at, spread = self.location[node], self.spread[node]
        if node >= self.gammas:
            return np.asarray(-0.5 * ((z - at) / spread) ** 2 - np.log(spread * np.sqrt(2 * np.pi)))
        a = spread**-2
        return np.asarray(a * (z - at) - a * np.exp(z - at) + a * np.log(a) - gammaln(a))

    def posterior(self, shape: Floats, exposure: Floats, tail: float) -> tuple[Floats, Floats, Floats]:
        """Return the mean and both ends of the interval of the rates of clients with this evidence."""
        known = self if shape.size <= MOST_CLIENTS else self._settled()  # this many clients determine the population
        parts = [
            known._posterior(shape[begin : begin + AT_ONCE], exposure[begin : begin + AT_ONCE], tail)
            for begin in range(0, shape.size, AT_ONCE)
        ]
        mean, low, high = (np.concatenate(column) for column in zip(*parts, strict=True))
        return mean, low, high

    def _settled(self) -> "Population":
        """Return one population per family, with the mean location and spread."""
        family = np.arange(self.weight.size) >= self.gammas
        weight = np.maximum(np.bincount(family, self.weight).astype(np.float64), 1e-300)
        location, spread = (np.bincount(family, self.weight * x) / weight for x in (self.location, self.spread))
        return Population(location, spread, weight, 1)

    def _posterior(self, shape: Floats, exposure: Floats, tail: float) -> tuple[Floats, Floats, Floats]:
        likely = np.flatnonzero(self.weight > 1e-3 * self.weight.max())
        z = _grids(shape, exposure, self.spread[likely].max() ** -2, float(self.weight @ self.location))
        evidence = shape[:, None] * z - exposure[:, None] * np.exp(z)
        density = np.zeros_like(z)
        for node in likely.tolist():
            one = evidence + self.log_density(node, z)
            one = np.exp(one - one.max(axis=1, keepdims=True))
            density += self.weight[node] / one.sum(axis=1, keepdims=True) * one
        density /= density.sum(axis=1, keepdims=True)
        below = np.cumsum(density, axis=1) - density / 2
        return (density * np.exp(z)).sum(axis=1), _quantile(z, below, tail), _quantile(z, below, 1 - tail)


def _grids(shape: Floats, exposure: Floats, a: float, location: float, points: int = GRID) -> Floats:
    """Return log rates around each client's posterior under a gamma population, wide enough for the
    other populations.
    """
    both = a + shape
    low, middle, high = (np.log(np.maximum(gammaincinv(both, q), 1e-300)) for q in (1e-4, 0.5, 1 - 1e-4))
    low, high = middle - 1.2 * (middle - low), middle + 1.5 * (high - middle)
    centre = -np.log(a * np.exp(-location) + exposure)
    return np.asarray((centre + low)[:, None] + (high - low)[:, None] * np.linspace(0, 1, points))


def _quantile(z: Floats, below: Floats, level: float) -> Floats:
    right = np.clip((below < level).sum(axis=1), 1, z.shape[1] - 1)
    row = np.arange(z.shape[0])
    a, b = below[row, right - 1], below[row, right]
    share = np.clip((level - a) / np.maximum(b - a, 1e-300), 0.0, 1.0)
    return np.asarray(np.exp(z[row, right - 1] + share * (z[row, right] - z[row, right - 1])))


def population(shape: Floats, exposure: Floats) -> Population:
    """Estimate the population from the clients' evidence."""
    telling = np.flatnonzero(exposure > 0)
    telling = telling[:: -(-telling.size // MOST_CLIENTS)]
    K, B = shape[telling], exposure[telling]
    found = [_narrowed(_gamma(K, B), np.geomspace(LEAST_SPREAD, MOST_SPREAD, 48))]
    spread, value, location, _ = found[0]
    likely = spread[value > value.max() - NEGLIGIBLE / 2]
    z = _grids(K, B, likely[-1] ** -2, location[np.argmax(value)], 2 * GRID)
    finest = float((z[:, 1] - z[:, 0]).max())  # a narrower normal would fall between the points
    if spread[-1] > 2 * finest:  # else gamma and lognormal look the same
        wide = np.geomspace(max(finest, spread[0] / 2), min(2.0, 2 * spread[-1]), 24)
        found.append(_narrowed(_lognormal(K, B, z), wide, finest))
    best = max(value.max() for _, value, _, _ in found)
    spread, value, location, width = (np.concatenate(column) for column in zip(*found, strict=True))
    step = np.concatenate([np.full(s.size, s[1] - s[0]) for s, _, _, _ in found])
    weight = (np.exp(value - best) * spread * step)[:, None] * _SHARES
    return Population(
        (location[:, None] + width[:, None] * _NODES).ravel(),
        np.repeat(spread, _NODES.size),
        weight.ravel() / weight.sum(),
        SPREADS * _NODES.size,
    )


def _narrowed(profile: Profile, spread: Floats, least: float = 0.0) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the profile at midpoints of the spreads that matter."""
    for _ in range(3):
        value = profile(spread)[0]
        near = np.flatnonzero(value > value.max() - NEGLIGIBLE)
        low = spread[near[0] - 1] if near[0] > 0 else least
        high = spread[min(near[-1] + 1, spread.size - 1)]
        spread = low + (high - low) * (np.arange(SPREADS) + 0.5) / SPREADS
    return (spread, *profile(spread))


def _gamma(K: Floats, B: Floats) -> Profile:
    def profile(spread: Floats) -> tuple[Floats, Floats, Floats]:
        a = spread[:, None] ** -2
        at = np.full(a.shape, np.log(K.sum() / B.sum()))
        for _ in range(50):
            share = a / (a + np.exp(at) * B)
            slope = ((a + K) * share - a).sum(axis=1, keepdims=True)
            curve = ((a + K) * share * (1 - share)).sum(axis=1, keepdims=True)
            step = np.clip(slope / curve, -2.0, 2.0)
            at += step
            if (np.abs(step) < 1e-3 * curve**-0.5).all():
                break
        inner = gammaln(a + K) - gammaln(a) - a * np.log1p(np.exp(at) * B / a) - K * np.log(a * np.exp(-at) + B)
        return inner.sum(axis=1) - 0.5 * np.log(curve[:, 0]), at[:, 0], curve[:, 0] ** -0.5

    return profile


def _lognormal(K: Floats, B: Floats, z: Floats) -> Profile:
    evidence = K[:, None] * z - B[:, None] * np.exp(z)
    top = evidence.max(axis=1, keepdims=True)
    likelihood = np.exp(evidence - top) * (z[:, 1:2] - z[:, :1])

    def one(spread: float) -> tuple[float, float, float]:
        at = float(np.log(K.sum() / B.sum()))
        for _ in range(50):
            part = likelihood * np.exp(-0.5 * ((z - at) / spread) ** 2)
            whole = np.maximum(part.sum(axis=1), 1e-300)
            off = (part * (z - at)).sum(axis=1) / whole
            slope = float(off.sum()) / spread**2
            spare = 1 - ((part * (z - at) ** 2).sum(axis=1) / whole - off**2) / spread**2
            curve = max(float(spare.sum()), 1e-3 * K.size) / spread**2
            step = float(np.clip(slope / curve, -2.0, 2.0))
            at += step
            if abs(step) < 1e-3 * curve**-0.5:
                break
        inner = float((top[:, 0] + np.log(whole)).sum()) - K.size * np.log(spread * np.sqrt(2 * np.pi))
        return inner - 0.5 * np.log(curve), at, curve**-0.5

    def profile(spread: Floats) -> tuple[Floats, Floats, Floats]:
        value, at, width = np.array([one(float(s)) for s in spread]).T
        return value, at, width

    return profile
