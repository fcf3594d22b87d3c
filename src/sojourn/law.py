"""Service laws: the shape of a random duration, scaled to mean one.

A law says how a duration varies around its mean; the mean itself is `1 / rate` and lives in the Fleet. The text
form, used in CSV, TOML and on the command line, is the name with its parameter: `exponential`, `deterministic`,
`lognormal(sigma=1)`, `gamma(shape=2)`, `weibull(shape=0.7)`, `hyperexponential(scv=4)`.
"""

import math
import re
from dataclasses import dataclass

from sojourn.errors import InvalidInput

# name -> (name of the parameter, what the parameter must satisfy)
PARAMETERS: dict[str, tuple[str, str] | None] = {
    "exponential": None,
    "deterministic": None,
    "lognormal": ("sigma", "> 0"),
    "gamma": ("shape", "> 0"),
    "weibull": ("shape", "> 0"),
    "hyperexponential": ("scv", "> 1"),
}

_TEXT = re.compile(r"^\s*([a-z]+)\s*(?:\(\s*([a-z]+)\s*=\s*([^)\s]+)\s*\))?\s*$")


@dataclass(frozen=True)
class Law:
    """A duration with mean one.

    >>> Law.parse("lognormal(sigma=0.5)")
    Law(name='lognormal', parameter=0.5)
    >>> print(Law("gamma", 2.0))
    gamma(shape=2)
    """

    name: str = "exponential"
    """One of the names in `PARAMETERS`."""
    parameter: float | None = None
    """The law's only parameter, None where it has none."""

    def __post_init__(self) -> None:
        if self.name not in PARAMETERS:
            raise InvalidInput(f"law must be one of {', '.join(PARAMETERS)}, got '{self.name}'")
        rule = PARAMETERS[self.name]
        if rule is None:
            if self.parameter is not None:
                raise InvalidInput(f"law {self.name} takes no parameter, got {self.parameter}; write just {self.name}")
            return
        key, condition = rule
        low = 1.0 if condition == "> 1" else 0.0
        if self.parameter is None:
            raise InvalidInput(f"law {self.name} needs its parameter {key}; write for example {self.name}({key}=2)")
        if not (math.isfinite(self.parameter) and self.parameter > low):
            raise InvalidInput(f"law {self.name}: {key} must be finite and {condition}, got {self.parameter}")

    @classmethod
    def parse(cls, text: str) -> "Law":
        """Read the text form."""
        match = _TEXT.match(text)
        if match is None:
            raise InvalidInput(f"law must read like exponential or lognormal(sigma=1), got '{text}'")
        name, key, value = match.groups()
        if key is None:
            return cls(name)
        rule = PARAMETERS.get(name)
        if rule is not None and key != rule[0]:
            raise InvalidInput(f"law {name} has the parameter {rule[0]}, got '{key}'; write {name}({rule[0]}={value})")
        try:
            return cls(name, float(value))
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"law {name}: {key} must be a number, got '{value}'") from None

    @property
    def scv(self) -> float:
        """Squared coefficient of variation: variance over squared mean (1 for exponential, 0 for deterministic)."""
        value = 1.0 if self.parameter is None else self.parameter
        match self.name:
            case "deterministic":
                return 0.0
            case "lognormal":
                return math.expm1(value * value)
            case "gamma":
                return 1.0 / value
            case "weibull":
                return math.expm1(math.lgamma(1 + 2 / value) - 2 * math.lgamma(1 + 1 / value))
            case "hyperexponential":
                return value
            case _:
                return 1.0

    def __str__(self) -> str:
        rule = PARAMETERS[self.name]
        if rule is None or self.parameter is None:
            return self.name
        return f"{self.name}({rule[0]}={_number(self.parameter)})"


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


EXPONENTIAL = Law()
