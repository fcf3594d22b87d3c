"""Scores: the bound after some steps or a time; time, energy, rounds or a mix until epsilon; and throughput."""

from dataclasses import dataclass
from math import inf, nan, sqrt

from sojourn.constants import WORKED_EXAMPLE, Constants
from sojourn.errors import InvalidInput
from sojourn.planning.bound.communication import factors, rounds
from sojourn.planning.bound.objective import Scored, Seen
from sojourn.planning.bound.theorem import best_step, bound, largest_step, step_limits, steps_to

StepSizes = tuple[
    float | None, float | None, float | None
]  # step size used, best without clipping, largest of the theorem


def _positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise InvalidInput(f"{name} must be positive and finite, got {value}")


@dataclass(frozen=True)
class StepBudget:
    """Theorem 1's bound after a number of server steps: the paper's objective."""

    steps: float
    """Number of server steps (T)."""
    constants: Constants = WORKED_EXAMPLE
    """A, L, B."""
    free_step: bool = False
    """Whether the step may exceed the theorem's largest."""

    needs_energy = False

    def __post_init__(self) -> None:
        _positive("steps", self.steps)

    @property
    def name(self) -> str:
        """What is minimised, in words."""
        return f"Theorem 1's bound after {self.steps:g} server steps"

    def score(self, seen: Seen, concurrency: int, step_size: float | None = None) -> Scored:
        """Return the bound at the given step size, or at the best one."""
        return _budget(self.constants, seen, concurrency, (self.steps, 0.0), self.free_step, step_size)


@dataclass(frozen=True)
class TimeBudget:
    """Theorem 1's bound after a time."""

    time: float
    """Time in seconds (U)."""
    constants: Constants = WORKED_EXAMPLE
    """A, L, B."""
    free_step: bool = False
    """Whether the step may exceed the theorem's largest."""

    needs_energy = False

    def __post_init__(self) -> None:
        _positive("time", self.time)

    @property
    def name(self) -> str:
        """What is minimised, in words."""
        return f"Theorem 1's bound after {self.time:g} units of time"

    def score(self, seen: Seen, concurrency: int, step_size: float | None = None) -> Scored:
        """Return the bound at the given step size, or at the best one; T = Lambda U."""
        steps = (seen.throughput * self.time, self.time)
        return _budget(self.constants, seen, concurrency, steps, self.free_step, step_size)


def _budget(
    c: Constants, seen: Seen, C: int, steps: tuple[float, float], free: bool, step_size: float | None
) -> Scored:
    """Return the bound after steps = (T, dT/dLambda). A clipped step size depends on S1 or S2."""
    L, B = c.L, c.noise
    T, by_throughput = steps
    best, limit = best_step(T, C, seen.S1, seen.S2, c), largest_step(C, seen.S1, seen.S2, c)
    eta = step_size or (best if free else min(best, limit))
    value = bound(eta, T, C, seen.S1, seen.S2, c)
    by_S1, by_S2 = eta * L * B, eta**2 * L**2 * B * C
    if step_size is None and eta < best:
        by_step = -c.A / (eta**2 * (T + 1)) + L * B * seen.S1 + 2 * eta * L**2 * B * C * seen.S2
        clip_S1, clip_S2 = _clip_slopes(eta, seen, C, c)
        by_S1, by_S2 = by_S1 + by_step * clip_S1, by_S2 + by_step * clip_S2
    slopes = Seen(by_S1, by_S2, -c.A / (eta * (T + 1) ** 2) * by_throughput, 0.0)
    return Scored(value, slopes, value, T, T / seen.throughput, T * seen.energy, eta, best, limit)


def _clip_slopes(eta: float, seen: Seen, C: int, c: Constants) -> tuple[float, float]:
    """Return the derivatives of the largest step size by S1 and S2."""
    by_staleness, by_spread = step_limits(C, seen.S1, seen.S2, c)
    return (0.0, -eta / (2 * seen.S2)) if by_staleness < by_spread else (-eta / seen.S1, 0.0)


@dataclass(frozen=True)
class ToEpsilon:
    """Steps, time or energy until the mean squared gradient norm is at most epsilon, or a weighted mix.

    By Theorem 1, or by the communication-aware bound if the constants have sigma2, G2 and R2.
    """

    epsilon: float
    """The value that the mean squared gradient norm should reach."""
    constants: Constants = WORKED_EXAMPLE
    """A, L, B; or A, L, sigma2, G2, R2."""
    per_step: float = 0.0
    """Weight of the server steps in the value."""
    per_time: float = 1.0
    """Weight of the time."""
    per_energy: float = 0.0
    """Weight of the energy."""
    free_step: bool = False
    """Whether the step may exceed the theorem's largest."""
    label: str | None = None
    """Its name; None = a name made from its weights."""

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)
        if min(self.per_step, self.per_time, self.per_energy) < 0 or not self._whole:
            raise InvalidInput("the weights of steps, time and energy must not be negative, and one must be positive")

    @property
    def _whole(self) -> float:
        return self.per_step + self.per_time + self.per_energy

    @property
    def needs_energy(self) -> bool:
        """Whether the fleet must state its powers."""
        return self.per_energy > 0

    @property
    def communication_aware(self) -> bool:
        """Whether the communication-aware bound is used."""
        return self.constants.R2 is not None

    @property
    def name(self) -> str:
        """What is minimised, in words."""
        parts = {"server steps": self.per_step, "time": self.per_time, "energy": self.per_energy}
        used = [part for part, weight in parts.items() if weight]
        what = used[0] if len(used) == 1 else "a mix of " + " and ".join(used)
        if self.label is not None:
            what = self.label
        theorem = "the communication-aware bound" if self.communication_aware else "Theorem 1's bound"
        return f"{what} until {theorem} is {self.epsilon:g}"

    def score(self, seen: Seen, concurrency: int, step_size: float | None = None) -> Scored:
        """Return the steps to epsilon and their cost; inf for a step size that never gets there."""
        K, by_S1, by_S2, steps = self._rounds(seen, concurrency, step_size)
        price = self.per_step + self.per_time / seen.throughput
        energy = self.per_energy * seen.energy if self.per_energy else 0.0
        price += energy
        slopes = Seen(price * by_S1, price * by_S2, -self.per_time * K / seen.throughput**2, self.per_energy * K)
        return Scored(K * price, slopes, self.epsilon, K, K / seen.throughput, K * seen.energy, *steps)

    def _rounds(self, seen: Seen, C: int, step_size: float | None) -> tuple[float, float, float, StepSizes]:
        """Return the steps, their derivatives by S1 and S2, and their step sizes."""
        c, eps = self.constants, self.epsilon
        if self.communication_aware:
            spread, stale = factors(eps, C, c)
            by_S2 = stale / (2 * sqrt(seen.S2)) if seen.S2 > 0 else 0.0
            return rounds(eps, C, seen.S1, seen.S2, c), spread, by_S2, (None, None, None)
        goal = steps_to(eps, C, seen.S1, seen.S2, c, self.free_step)
        eta, limit = step_size or goal.step_size, largest_step(C, seen.S1, seen.S2, c)
        a, b = c.L * c.noise * seen.S1, c.L**2 * c.noise * C * seen.S2
        left = eps - a * eta - b * eta**2
        if left <= 0:
            return inf, nan, nan, (eta, goal.free_step_size, limit)
        by_S1, by_S2 = c.A / left**2 * c.L * c.noise, c.A * eta / left**2 * c.L**2 * c.noise * C
        if step_size is None and eta < goal.free_step_size:
            by_step = -c.A * (eps - 2 * a * eta - 3 * b * eta**2) / (eta * left) ** 2
            clip_S1, clip_S2 = _clip_slopes(eta, seen, C, c)
            by_S1, by_S2 = by_S1 + by_step * clip_S1, by_S2 + by_step * clip_S2
        return c.A / (eta * left), by_S1, by_S2, (eta, goal.free_step_size, limit)


@dataclass(frozen=True)
class TimeOfStep:
    """Time per server step: it is least where the throughput is largest, whatever the staleness."""

    needs_energy = False
    name = "time of a server step (no bound: staleness is not seen)"

    def score(self, seen: Seen, concurrency: int, step_size: float | None = None) -> Scored:
        """Return 1 / Lambda."""
        time = 1 / seen.throughput
        return Scored(time, Seen(0.0, 0.0, -(time**2), 0.0), nan, 1.0, time, seen.energy)
