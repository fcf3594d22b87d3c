"""Service laws: the shape of a random duration, scaled to mean one.

A law says how a duration varies around its mean; the mean itself is `1 / rate` and belongs to the Fleet. The text
form, used in CSV, TOML and on the command line, is the name with its parameter: `exponential`, `deterministic`,
`lognormal(sigma=1)`, `gamma(shape=2)`, `erlang(shape=3)`, `weibull(shape=0.7)`, `hyperexponential(scv=4)`,
`empirical(0.5 1 1.5)`; a law of your own is `package.module:Class(key=value)`, or the name under which it is
registered. Everything about a law is in its own file in this folder: see `sojourn.laws.kind`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.laws.kind import LawKind, check_complete, imported, law_class, name_of
from sojourn.shown import short
from sojourn.types import Floats

MOST_DURATIONS = 2000  # their text stays below the 131,072 characters of a CSV cell

MOST_CHARACTERS = 1000  # of the text of any other law

_TEXT = re.compile(r"([a-z][a-z0-9-]*|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)\s*(?:\(([^()]*)\))?")


@dataclass(frozen=True)
class Law:
    """The law of a random duration, scaled to mean one.

    Make one by `Law.parse` from its text, by `Law.empirical` from measured durations, or by `Law.of` from your own
    class.

    >>> Law.parse("lognormal(sigma=0.5)")
    Law(name='lognormal', parameter=0.5, durations=())
    >>> print(Law("gamma", 2.0))
    gamma(shape=2)
    >>> print(Law.empirical([2.0, 4.0, 6.0]))
    empirical(0.5 1.0 1.5)
    """

    name: str = "exponential"
    """Name of a law, or `package.module:Class` for one of your own."""
    parameter: float | None = None
    """The law's parameter; the first one if it has several, None if it has none."""
    durations: tuple[float, ...] = ()
    """Empirical law: equally likely values with mean one."""
    others: tuple[float, ...] = field(default=(), repr=False)
    """The other parameters of a law of your own, in the order of its fields."""

    def __post_init__(self) -> None:
        if (self.name, self.parameter, self.durations, self.others) != ("exponential", None, (), ()):
            _ = self.kind  # the exponential law is built later, so that merely naming it stays fast

    @cached_property
    def kind(self) -> LawKind:
        """The object behind the name, with moments, survival, likelihood and draws."""
        found = law_class(self.name)
        if (self.name == "empirical") != bool(self.durations):
            raise InvalidInput("the empirical law, and only it, needs durations; use Law.empirical([...])")
        if self.durations:
            return found(self.durations)  # type: ignore[call-arg]
        keys = [item.name for item in fields(found)]
        given = (*(() if self.parameter is None else (self.parameter,)), *self.others)
        if len(given) > len(keys):
            most = "no parameter" if not keys else f"only {', '.join(keys)}"
            raise InvalidInput(f"law {self.name} takes {most}, got {given[-1]}; write just {self.name}")
        if len(given) < len(keys):
            raise InvalidInput(
                f"law {self.name} needs its parameter {keys[len(given)]}; "
                f"write for example {self.name}({', '.join(f'{key}=2' for key in keys)})"
            )
        return found(*given)

    @classmethod
    def of(cls, kind: LawKind) -> "Law":
        """Return the Law for an object of your own law class."""
        check_complete(type(kind))
        return cls._made(name_of(type(kind)), kind)

    @classmethod
    def _made(cls, name: str, kind: LawKind) -> "Law":
        values: tuple[Any, ...] = tuple(getattr(kind, item.name) for item in fields(kind))
        if name == "empirical":
            return cls(name, durations=values[0])
        return cls(name, values[0] if values else None, others=values[1:])

    @classmethod
    def empirical(cls, durations: Iterable[float]) -> "Law":
        """Return the law of measured durations, scaled to mean one; more than 2000 are reduced to 2000 quantiles."""
        values = np.sort(np.array(list(durations), dtype=np.float64))
        if values.size == 0 or not np.isfinite(values).all() or (values < 0).any() or not 0 < values.sum() < 1e300:
            raise InvalidInput(f"an empirical law needs finite, non-negative durations, not all zero; got {values}")
        if values.size > MOST_DURATIONS:
            values = np.quantile(values, (np.arange(MOST_DURATIONS) + 0.5) / MOST_DURATIONS)
        scaled = values if abs(values.mean() - 1) < 1e-12 else values / values.mean()
        return cls("empirical", durations=tuple(scaled.tolist()))

    @classmethod
    def parse(cls, text: str, run_code: bool = True) -> "Law":
        """Read a law from its text form; without `run_code`, a law of your own must have been imported before."""
        stripped = text.strip()
        if len(text) > MOST_CHARACTERS and not stripped.startswith("empirical"):
            raise InvalidInput(f"law must have at most {MOST_CHARACTERS:,} characters, got '{short(text)}'; shorten it")
        match = _TEXT.fullmatch(stripped)
        if match is None:
            raise InvalidInput(f"law must read like exponential or lognormal(sigma=1), got '{short(text)}'")
        name, inside = match.groups()
        if not (run_code or imported(name)):
            raise InvalidInput(
                f"law {short(name)} names code, which reading a file does not run; import its module first, "
                "or give the law on the command line (--law)"
            )
        if stripped == "exponential":
            return cls()
        found = law_class(name)
        options = found.read(name, inside)
        if name == "empirical":
            return cls.empirical(options["durations"])
        return cls._made("gamma" if name == "erlang" else name, found(**options))

    @property
    def scv(self) -> float:
        """Squared coefficient of variation: variance over squared mean (1 for exponential, 0 for deterministic)."""
        return self.kind.scv

    @property
    def longest(self) -> float:
        """The longest duration that can occur, in units of the mean; infinite if there is no longest.

        >>> Law("deterministic").longest, Law("exponential").longest
        (1.0, inf)
        """
        return self.kind.longest

    @property
    def smooth(self) -> bool:
        """Whether durations have a density; otherwise single values have a probability."""
        return self.kind.smooth

    def log_survival(self, x: Floats) -> Floats:
        """Return the logarithm of the probability to last longer than `x`, in units of the mean.

        >>> Law().log_survival(np.array([0.0, 2.0]))
        array([-0., -2.])
        """
        with np.errstate(divide="ignore"):
            return np.asarray(self.kind.log_survival(x))

    def mean_beyond(self, x: Floats) -> Floats:
        """Return the mean of a duration that is known to last longer than `x`, both in units of the mean.

        >>> Law().mean_beyond(np.array([0.0, 2.0]))
        array([1., 3.])
        """
        with np.errstate(divide="ignore"):
            return np.maximum(self.kind.mean_beyond(x), x)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw `size` durations at random."""
        return self.kind.draw(rng, size)

    def __str__(self) -> str:
        inside = "" if self == EXPONENTIAL else self.kind.inside()
        return f"{self.name}({inside})" if inside else self.name


EXPONENTIAL = Law()
