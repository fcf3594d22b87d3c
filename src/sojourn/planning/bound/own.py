"""Objectives of your own: one class with a name and either a value, a score with slopes, or a prediction.

    name      what is minimised, in words
    value     (seen, concurrency) -> float, to be minimised; slopes are computed by differences
    score     (seen, concurrency, step_size) -> Scored, with its slopes, its bound and its step size; and `needs_energy`
    predict   (fleet, plan, gradient) -> Prediction, for an objective that does not see a plan through `Seen`

Name it `package.module:Class(key=value)` on the command line, or pass an object to `make_plan`.
"""

from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.own_code import own_call
from sojourn.planning.bound.objective import NetworkObjective, Objective, Scored, Seen, Weights
from sojourn.timing.exact.analysis import Reading

STEP = 1e-6  # relative size of differences


@dataclass(frozen=True)
class ByValue:
    """The score of an object that has only a name and a value."""

    given: Any
    """The object: `name`, `value(seen, concurrency)`."""

    @property
    def name(self) -> str:
        """What is minimised, in words."""
        return str(self.given.name)

    @property
    def needs_energy(self) -> bool:
        """Whether the fleet must state its powers."""
        return bool(getattr(self.given, "needs_energy", False))

    def score(self, seen: Seen, concurrency: int, step_size: float | None = None) -> Scored:
        """Return the value, and its slopes by differences."""
        value = self._value(seen, concurrency)
        slopes = Seen(*(self._slope(seen, concurrency, place) for place in range(len(seen))))
        return Scored(value, slopes, nan, 1.0, 1 / seen.throughput, seen.energy, step_size)

    def _value(self, seen: Seen, concurrency: int) -> float:
        value = float(self.given.value(seen, concurrency))
        if not isfinite(value):
            raise InvalidInput(f"objective '{self.name}': value must be finite, got {value} for {seen}; correct it")
        return value

    def _slope(self, seen: Seen, concurrency: int, place: int) -> float:
        x = seen[place]
        if not isfinite(x):  # the fleet does not state its powers
            return 0.0
        h = STEP * max(abs(x), 1e-12)
        up, down = (Seen(*(x + sign * h if i == place else v for i, v in enumerate(seen))) for sign in (1, -1))
        return (self._value(up, concurrency) - self._value(down, concurrency)) / (2 * h)


def as_objective(
    given: Any,
    weights: Weights = "equal",
    reading: Reading = "indicator",
    server_rate: float | None = None,
    server_power: float = 0.0,
) -> Objective:
    """Return the objective that an object describes; raise an error that names what is missing.

    The other arguments are those of `NetworkObjective`; an object with its own `predict` does not use them.
    """
    kind = type(given).__name__
    if isinstance(given, type):
        raise InvalidInput(f"an objective must be an object, got the class {given.__name__}; write {given.__name__}()")
    name = getattr(given, "name", None)
    ways = [way for way in ("predict", "score", "value") if callable(getattr(given, way, None))]
    lacks = [] if isinstance(name, str) and name else ["name (what is minimised, in words)"]
    if not ways and not isinstance(given, NetworkObjective):
        lacks.append("value(seen, concurrency), score(seen, concurrency, step_size) or predict(fleet, plan, gradient)")
    if ways[:1] == ["score"] and not hasattr(given, "needs_energy"):
        lacks.append("needs_energy (whether powers must be stated)")
    if lacks:
        raise InvalidInput(f"objective {kind} does not define {' and '.join(lacks)}; write it")
    if ways[0] == "predict":
        found: Objective = given
        return found
    score = given if ways[0] == "score" else ByValue(given)
    return NetworkObjective(score, weights, reading, server_rate, server_power)


def own_objective(text: str, **settings: Any) -> Objective:
    """Return the objective that a text names, `package.module:Class(key=value)`; `settings` are those of
    `as_objective`.
    """
    return as_objective(own_call("objective", text), **settings)
