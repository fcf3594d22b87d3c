"""Objectives: functions of a fleet and a plan that return predicted progress and its gradient.

The planner uses only an objective's `predict`, so a predictor that is better than a worst-case bound fits in as well.
Objectives based on the exact network see a plan through four numbers: S1 and S2 of the bound, throughput, and energy
per step. A `Score` turns these into a value and its slopes, and the network's own gradients do the rest.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.planning.bound.communication import energy_of_task, energy_per_step
from sojourn.planning.bound.theorem import sums
from sojourn.timing.exact.analysis import Analysis, Reading, analyze
from sojourn.types import Floats

Weights = Literal["equal", "data"] | ArrayLike


class Seen(NamedTuple):
    """The four numbers of a plan that a score sees (or, as slopes, the derivatives by them)."""

    S1: float
    """sum_i q_i^2 / p_i."""
    S2: float
    """sum_i q_i^2 m_i / p_i^2."""
    throughput: float
    """Server steps per second."""
    energy: float
    """Energy per server step in joules; NaN = the fleet does not state its powers."""


@dataclass(frozen=True)
class Scored:
    """The result of a score for a plan."""

    value: float
    """What is minimised."""
    slopes: Seen
    """Derivatives of the value."""
    bound: float
    """Bound on the mean squared gradient norm; NaN = the score has none."""
    steps: float
    """Server steps."""
    time: float
    """Time in seconds."""
    energy: float
    """Energy in joules; NaN = the fleet does not state its powers."""
    step_size: float | None = None
    """The step size that the value is for."""
    free_step_size: float | None = None
    """The best step size without the limit of the theorem's proof."""
    largest_step_size: float | None = None
    """The largest step size that the theorem's proof allows."""

    @property
    def proven(self) -> bool:
        """Whether the theorem's proof allows the step size."""
        if self.step_size is None or self.largest_step_size is None:
            return True
        return self.step_size <= self.largest_step_size * (1 + 1e-9)


class Score(Protocol):
    """Computes a value from the four numbers and the concurrency."""

    @property
    def name(self) -> str:
        """What is minimised, in words."""

    @property
    def needs_energy(self) -> bool:
        """Whether powers must be stated."""

    def score(self, seen: Seen, concurrency: int, step_size: float | None = None) -> Scored:
        """Return value and slopes, at the given step size or at the best one."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What an objective predicts for a plan."""

    plan: Plan
    """The plan; if it has no step size, the best one is in `scored`."""
    scored: Scored
    """Value, bound, steps, time, energy, step sizes."""
    analysis: Analysis
    """The exact network behind it."""
    gradient: Floats | None = None
    """Derivative of the value by the sampling probability of one client of each group, if requested."""

    @property
    def value(self) -> float:
        """What is minimised."""
        return self.scored.value


class Objective(Protocol):
    """What a planner minimises."""

    @property
    def name(self) -> str:
        """What is minimised, in words."""

    def predict(self, fleet: Fleet, plan: Plan, gradient: bool = False) -> Prediction:
        """Predict the result of `plan` on `fleet`, with the plan's step size or, if it has none, the best one."""


@dataclass(frozen=True, eq=False)
class NetworkObjective:
    """A score of the exact stationary network."""

    score: Score
    """The score, which turns the four numbers into a value."""
    weights: Weights = "equal"
    """q: `equal` for 1/n, `data` for shares of the data, or one number for each client of a group."""
    reading: Reading = "indicator"
    """Which staleness enters S2."""
    server_rate: float | None = None
    """Updates that a busy server applies per second; None = at once."""
    server_power: float = 0.0
    """Power of the server while it applies an update, in watts."""

    def __post_init__(self) -> None:
        if not 0 <= self.server_power < np.inf:
            raise InvalidInput(f"server_power must be non-negative and finite, got {self.server_power}")

    @property
    def name(self) -> str:
        """What is minimised, in words."""
        return self.score.name

    def predict(self, fleet: Fleet, plan: Plan, gradient: bool = False) -> Prediction:
        """Solve the network and score it."""
        analysis = analyze(fleet, plan, server_rate=self.server_rate)
        p, q = plan.sampling, client_weights(fleet, self.weights)
        S1, S2 = sums(p, analysis.staleness(self.reading), q, fleet.count)
        energy = energy_per_step(fleet, p, analysis.server_rate, self.server_power)
        if self.score.needs_energy and np.isnan(energy):
            raise InvalidInput(_no_power(fleet))
        seen = Seen(S1, S2, float(analysis.throughput), energy)
        try:
            scored = self.score.score(seen, plan.concurrency, plan.step_size)
        except ArithmeticError:
            raise InvalidInput(_too_large(seen)) from None
        slope = self._gradient(analysis, q, scored.slopes) if gradient else None
        return Prediction(plan, scored, analysis, slope)

    def _gradient(self, analysis: Analysis, q: Floats, slopes: Seen) -> Floats:
        p, m = analysis.plan.sampling, analysis.staleness(self.reading)
        power = 2 if self.reading == "indicator" else 3  # conditional staleness has one more p in the denominator
        S2 = analysis.staleness_gradient(q**2 / p**power) - power * q**2 * m / p**3
        total = slopes.S1 * -(q**2) / p**2 + slopes.S2 * S2
        if slopes.throughput:
            total = total + slopes.throughput * analysis.throughput_gradient()
        if slopes.energy:
            total = total + slopes.energy * energy_of_task(analysis.fleet)
        return np.asarray(total)


def client_weights(fleet: Fleet, weights: Weights = "equal") -> Floats:
    """Return the weight q of one client of each group; the weights sum to 1 over all clients.

    >>> client_weights(Fleet.of(a=(3, 1.0), b=(1, 2.0)))
    array([0.25, 0.25])
    """
    if isinstance(weights, str):
        if weights not in ("equal", "data"):
            raise InvalidInput(f"weights must be equal, data or numbers, got '{weights}'")
        values = np.ones(fleet.groups) if weights == "equal" else fleet.data_size
        if np.isnan(values).any():
            bad = fleet.name[int(np.argmax(np.isnan(values)))]
            raise InvalidInput(f"weights by data need the data size of every group, '{bad}' has none; add data_size")
    else:
        values = np.asarray(weights, dtype=np.float64)
    if values.shape != (fleet.groups,):
        raise InvalidInput(f"weights must have one value for each of {fleet.groups} groups, got {values.size}")
    if not (np.isfinite(values) & (values > 0)).all():
        raise InvalidInput(f"weights must be positive and finite, got {values.tolist()}")
    return np.asarray(values / (fleet.count * values).sum())


def _too_large(seen: Seen) -> str:
    return (
        "budget, constants and rates together are too large or too small to compute with (throughput "
        f"{seen.throughput:.3g}, sum of q^2/p {seen.S1:.3g}); choose other units"
    )


def _no_power(fleet: Fleet) -> str:
    bad = fleet.name[int(np.argmax(np.isnan(energy_of_task(fleet))))]
    return f"an energy objective needs the powers of every group, '{bad}' lacks one; add power, and the links' powers"
