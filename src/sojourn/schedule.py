"""Schedules: how the step size changes over steps or over time."""

import re
from dataclasses import dataclass, fields, replace
from math import cos, inf, isfinite, log, pi

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.text import parse_choice
from sojourn.types import Floats

_BUDGET = re.compile(r"\bend\s*=\s*budget\b(\s*,\s*over\s*=\s*(steps|time)\b)?")
LARGEST = 1e30  # largest factor
_OPTIONS = {
    "constant": {},
    "drops": {"at": str, "by": float, "over": str},
    "cosine": {"end": float, "least": float, "over": str},
    "linear": {"end": float, "least": float, "over": str},
    "warmup": {"length": float, "over": str},
    "inverse": {"half": float, "power": float, "over": str},
}


@dataclass(frozen=True)
class Schedule:
    """A factor by which the step size is multiplied, as a function of the step or of the time in seconds.

    >>> Schedule.parse("drops(at=100/200, by=0.1)").factor(150, 0.0)
    0.1
    >>> Schedule.parse("cosine(end=40, over=time)").factor(0, 20.0)
    0.5
    """

    name: str = "constant"
    """constant, drops, cosine, linear, warmup or inverse."""
    over: str = "steps"
    """What it depends on: steps or time."""
    at: tuple[float, ...] = ()
    """drops: when."""
    by: float = 0.1
    """drops: the factor of each drop."""
    end: float = inf
    """cosine and linear: the step or time at which the fall ends."""
    least: float = 0.0
    """cosine and linear: the factor from the end on."""
    length: float = 0.0
    """warmup: the step or time until which the factor rises from 0 to 1."""
    half: float = inf
    """inverse: the step or time at which (1 + x/half)^-power has fallen to 2^-power."""
    power: float = 0.5
    """inverse: how fast it falls."""

    def __post_init__(self) -> None:
        if self.over not in ("steps", "time"):
            raise InvalidInput(f"schedule {self.name} must go over steps or time, got '{self.over}'")
        needed = {
            "drops": self.at,
            "cosine": isfinite(self.end),
            "linear": isfinite(self.end),
            "warmup": self.length,
            "inverse": isfinite(self.half),
        }
        if not needed.get(self.name, True):
            word = {"drops": "at", "cosine": "end", "linear": "end", "warmup": "length", "inverse": "half"}[self.name]
            raise InvalidInput(f"schedule {self.name} needs {word}; write for example {self.name}({word}=100)")
        positive = all(value > 0 for value in (self.end, self.half))
        if not positive or not all(0 <= value < inf for value in (self.by, self.least, self.length, self.power)):
            given = ", ".join(
                f"{item.name}={getattr(self, item.name)}" for item in fields(self) if item.type == "float"
            )
            raise InvalidInput(f"the numbers of schedule {self.name} must be positive and finite, got {given}")
        if max(len(self.at) * log(max(self.by, 1.0)), log(max(self.least, 1.0))) > log(LARGEST):
            given = f"by={self.by} for {len(self.at)} drops and least={self.least}"
            raise InvalidInput(f"the factor of schedule {self.name} must be at most {LARGEST:g}, got {given}")

    @classmethod
    def parse(cls, text: str, steps: int | None = None, time: float | None = None) -> "Schedule":
        """Read the text form; `/` separates several times of drops.

        `end=budget` is the end of the run: its time if it ends by time, otherwise its steps.

        >>> Schedule.parse("linear(end=budget)", time=40.0).factor(7, 30.0)
        0.25
        """
        name, options = parse_choice("schedule", ended(text, steps, time), _OPTIONS)
        if "at" in options:
            try:
                options["at"] = tuple(float(part) for part in options["at"].split("/"))
            except ValueError:
                raise InvalidInput(f"schedule drops: at must be numbers divided by /, got '{options['at']}'") from None
        return cls(name, **options)

    @property
    def text(self) -> str:
        """The text form, from which `parse` reads the same schedule.

        >>> Schedule.parse("drops(at=100/200)").text
        'drops(at=100.0/200.0)'
        """
        known = {item.name: item.default for item in fields(self) if item.name in _OPTIONS[self.name]}
        said = {key: getattr(self, key) for key, default in known.items() if getattr(self, key) != default}
        words = [f"{key}={'/'.join(map(str, one)) if key == 'at' else one}" for key, one in said.items()]
        return f"{self.name}({', '.join(words)})" if words else self.name

    def scaled(self, by: float) -> "Schedule":
        """Return the same schedule compressed to the fraction `by` of its length.

        >>> Schedule.parse("linear(end=90, least=0.1)").scaled(1 / 9).text
        'linear(end=10.0, least=0.1)'
        """
        at = tuple(one * by for one in self.at)
        return replace(self, at=at, end=self.end * by, length=self.length * by, half=self.half * by)

    def factor(self, step: int, time: float) -> float:
        """Return the factor at a server step and a time in seconds."""
        x = float(step) if self.over == "steps" else time
        if self.name == "drops":
            return float(self.by ** sum(x >= one for one in self.at))
        if self.name == "cosine":
            return self.least + (1 - self.least) * (1 + cos(pi * min(x / self.end, 1.0))) / 2
        if self.name == "linear":
            return self.least + (1 - self.least) * max(0.0, 1 - x / self.end)
        if self.name == "warmup":
            return min(1.0, (x + 1) / self.length if self.over == "steps" else x / self.length)
        if self.name == "inverse":
            return float((1 + x / self.half) ** -self.power)
        return 1.0

    def factors(self, steps: Floats, times: Floats) -> Floats:
        """Return the factors of many steps and their times at once; they agree with `factor` up to rounding.

        >>> Schedule.parse("linear(end=4)").factors(np.array([0.0, 1.0, 8.0]), np.zeros(3))
        array([1.  , 0.75, 0.  ])
        """
        x = np.asarray(steps if self.over == "steps" else times, dtype=np.float64)
        if self.name == "drops":
            passed = (x[:, None] >= np.array(self.at)).sum(axis=1)
            return np.asarray(self.by**passed, dtype=np.float64)
        if self.name == "cosine":
            return np.asarray(self.least + (1 - self.least) * (1 + np.cos(pi * np.minimum(x / self.end, 1.0))) / 2)
        if self.name == "linear":
            return np.asarray(self.least + (1 - self.least) * np.maximum(0.0, 1 - x / self.end))
        if self.name == "warmup":
            return np.asarray(np.minimum(1.0, (x + 1 if self.over == "steps" else x) / self.length))
        if self.name == "inverse":
            return np.asarray((1 + x / self.half) ** -self.power)
        return np.ones(x.size)


def ended(text: str, steps: int | None = None, time: float | None = None) -> str:
    """Return the text of a schedule, with the end of the run in place of `end=budget`.

    >>> ended("linear(end=budget)", steps=500), ended("cosine(end=budget, least=0.1)", time=40.0)
    ('linear(end=500)', 'cosine(end=40.0, over=time, least=0.1)')
    """
    if not by_budget(text):
        return text
    if steps is None and time is None:
        raise InvalidInput("schedule: end=budget needs a run with steps or a time, got neither; give one")
    return _BUDGET.sub(f"end={steps}" if time is None else f"end={time!r}, over=time", text)


def by_budget(text: str) -> bool:
    """Whether a schedule ends when the run does."""
    return _BUDGET.search(text) is not None
