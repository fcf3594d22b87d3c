"""Service laws: the shape of a random duration, scaled to mean one.

A law says how a duration varies around its mean; the mean itself is `1 / rate` and lives in the Fleet. The text
form, used in CSV, TOML and on the command line, is the name with its parameter: `exponential`, `deterministic`,
`lognormal(sigma=1)`, `gamma(shape=2)`, `erlang(shape=3)`, `weibull(shape=0.7)`, `hyperexponential(scv=4)`,
`empirical(0.5 1 1.5)`.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.shown import short

# name -> (name of the parameter, what it must be greater than); None = no parameter
PARAMETERS: dict[str, tuple[str, float] | None] = {
    "exponential": None,
    "deterministic": None,
    "lognormal": ("sigma", 0.0),
    "gamma": ("shape", 0.0),
    "weibull": ("shape", 0.0),
    "hyperexponential": ("scv", 1.0),
    "empirical": None,
}
MOST_DURATIONS = 2000  # their text stays below the 131,072 characters of a CSV cell

MOST_CHARACTERS = 1000  # of any other law

_TEXT = re.compile(r"([a-z]+)(?:\s*\(\s*([a-z]+)\s*=\s*([^)\s]+)\s*\))?")
_EMPIRICAL = re.compile(r"empirical\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Law:
    """A duration with mean one.

    >>> Law.parse("lognormal(sigma=0.5)")
    Law(name='lognormal', parameter=0.5, durations=())
    >>> print(Law("gamma", 2.0))
    gamma(shape=2)
    >>> print(Law.empirical([2.0, 4.0, 6.0]))
    empirical(0.5 1.0 1.5)
    """

    name: str = "exponential"
    """One of the names in `PARAMETERS`."""
    parameter: float | None = None
    """The law's only parameter, None where it has none."""
    durations: tuple[float, ...] = ()
    """Empirical law: equally likely values with mean one."""

    def __post_init__(self) -> None:
        if self.name not in PARAMETERS:
            raise InvalidInput(f"law must be one of {', '.join(PARAMETERS)} (or erlang), got '{short(self.name)}'")
        if (self.name == "empirical") != bool(self.durations):
            raise InvalidInput("the empirical law, and only it, needs durations; use Law.empirical([...])")
        if self.durations and not abs(float(np.mean(self.durations)) - 1) < 1e-9:
            raise InvalidInput("the durations of an empirical law must have mean one; use Law.empirical to scale them")
        rule = PARAMETERS[self.name]
        if rule is None:
            if self.parameter is not None:
                raise InvalidInput(f"law {self.name} takes no parameter, got {self.parameter}; write just {self.name}")
            return
        key, low = rule
        if self.parameter is None:
            raise InvalidInput(f"law {self.name} needs its parameter {key}; write for example {self.name}({key}=2)")
        if not (math.isfinite(self.parameter) and self.parameter > low):
            raise InvalidInput(f"law {self.name}: {key} must be finite and > {low:g}, got {self.parameter}")

    @classmethod
    def empirical(cls, durations: Iterable[float]) -> "Law":
        """The law of measured durations, scaled to mean one; more than 2000 are thinned to their quantiles."""
        values = np.sort(np.array(list(durations), dtype=np.float64))
        if values.size == 0 or not np.isfinite(values).all() or (values < 0).any() or not 0 < values.sum() < 1e300:
            raise InvalidInput(f"an empirical law needs finite, non-negative durations, not all zero; got {values}")
        if values.size > MOST_DURATIONS:
            values = np.quantile(values, (np.arange(MOST_DURATIONS) + 0.5) / MOST_DURATIONS)
        scaled = values if abs(values.mean() - 1) < 1e-12 else values / values.mean()
        return cls("empirical", durations=tuple(scaled.tolist()))

    @classmethod
    def parse(cls, text: str) -> "Law":
        """Read the text form."""
        measured = _EMPIRICAL.fullmatch(text.strip())
        if measured is not None:
            try:
                durations = [float(word) for word in measured[1].split()]
            except ValueError:
                raise InvalidInput(
                    f"empirical law: durations must be numbers with spaces between, got '{short(text)}'"
                ) from None
            return cls.empirical(durations)
        if len(text) > MOST_CHARACTERS:
            raise InvalidInput(f"law must have at most {MOST_CHARACTERS:,} characters, got '{short(text)}'; shorten it")
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise InvalidInput(f"law must read like exponential or lognormal(sigma=1), got '{short(text)}'")
        name, key, value = match.groups()
        if key is None:
            return cls(name)
        if name == "erlang":
            name, value = "gamma", _whole_shape(value)
        rule = PARAMETERS.get(name)
        if rule is not None and key != rule[0]:
            way_out = f"write {name}({rule[0]}={short(value)})"
            raise InvalidInput(f"law {name} has the parameter {rule[0]}, got '{short(key)}'; {way_out}")
        try:
            number = float(value)
        except ValueError:
            raise InvalidInput(f"law {name}: {key} must be a number, got '{short(value)}'") from None
        return cls(name, number)

    @property
    def scv(self) -> float:
        """Squared coefficient of variation: variance over squared mean (1 for exponential, 0 for deterministic)."""
        value = 1.0 if self.parameter is None else self.parameter
        match self.name:
            case "deterministic":
                return 0.0
            case "lognormal":
                return math.expm1(value * value) if value < 26 else math.inf
            case "gamma":
                return 1.0 / value
            case "weibull":
                return _weibull_scv(1 / value)
            case "hyperexponential":
                return value
            case "empirical":
                return float(np.var(self.durations))
            case _:
                return 1.0

    @property
    def longest(self) -> float:
        """The longest duration that can occur, in means; infinite where there is none.

        >>> Law("deterministic").longest, Law("exponential").longest
        (1.0, inf)
        """
        if self.name == "deterministic":
            return 1.0
        return max(self.durations) if self.durations else math.inf

    def __str__(self) -> str:
        if self.name == "empirical":
            return f"empirical({' '.join(map(repr, self.durations))})"
        rule = PARAMETERS[self.name]
        if rule is None or self.parameter is None:
            return self.name
        return f"{self.name}({rule[0]}={_number(self.parameter)})"


def _weibull_scv(x: float) -> float:
    """Gamma(1 + 2x) / Gamma(1 + x)^2 - 1; by its series where the logarithms would cancel."""
    if x < 1e-3:
        return math.expm1(1.6449340668482264 * x**2 - 2.4041138063191886 * x**3 + 3.788131317988 * x**4)
    logarithm = math.lgamma(1 + 2 * x) - 2 * math.lgamma(1 + x) if x < 1e300 else math.inf
    return math.expm1(logarithm) if logarithm < 700 else math.inf


def _whole_shape(value: str) -> str:
    if not value.isdecimal() or float(value) < 1:
        got = short(value)
        raise InvalidInput(f"law erlang: shape must be a whole number of at least 1, got '{got}'; or use gamma")
    return value


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


EXPONENTIAL = Law()
