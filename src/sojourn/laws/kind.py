"""What a law must define, and the table of laws; one file per law, one class per file.

A law is a frozen dataclass whose fields are its parameters, with mean one whatever they are:

    @register
    @dataclass(frozen=True)
    class Pareto(LawKind):
        name = "pareto"            # pareto(alpha=3) in files and on the command line
        smooth = True
        alpha: float
        ...                        # see `REQUIRED`

Nothing has a default: what a class does not define is an error when it is registered. The package's own laws are
imported when they are first named, because their compiled draws need numba, which takes a while to import. Without
`register` a law is named by where it is, `package.module:Pareto(alpha=3)`.
"""

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.own_code import names_code, own_function
from sojourn.shown import short
from sojourn.types import Floats, Integers

HOMES = {
    "exponential": "sojourn.laws.exponential",
    "deterministic": "sojourn.laws.deterministic",
    "lognormal": "sojourn.laws.lognormal",
    "gamma": "sojourn.laws.gamma",
    "weibull": "sojourn.laws.weibull",
    "hyperexponential": "sojourn.laws.hyperexponential",
    "empirical": "sojourn.laws.empirical",
    "erlang": "sojourn.laws.gamma",
}
"""The package's laws, and the module of each."""

REQUIRED = {
    "name": "its name in text",
    "smooth": "True with a density, False with single values",
    "scv": "variance over squared mean",
    "longest": "the longest duration, math.inf where there is none",
    "log_survival": "log P(duration > x)",
    "log_density": "log of the density; only where smooth",
    "mean_beyond": "mean of a duration that lasts longer than x",
    "draw": "durations from a NumPy generator",
    "numbers": "what the compiled draw is passed",
    "compiled_draw": "(numbers, key) -> (duration, next key), compiled for the simulator",
}
"""What a law defines."""

_WRITTEN = re.compile(r"\s*([a-z][a-z0-9_]*)\s*=\s*([^\s,]+)\s*", re.IGNORECASE)
_TABLE: dict[str, "type[LawKind]"] = {}

Kind = TypeVar("Kind", bound="type[LawKind]")


@dataclass(frozen=True)
class LawKind:
    """A duration with mean one; `REQUIRED` says what a law defines."""

    name: ClassVar[str]
    smooth: ClassVar[bool]
    searched: ClassVar[tuple[float, float] | None] = None
    """Range in which a fit looks for the only parameter; None = a fit does not look for it."""
    origin: ClassVar[float] = 0.0
    """The parameter is searched for by its logarithm, after this has been taken off."""

    if TYPE_CHECKING:  # a parameter may have such a name, and would take a property for its default

        @property
        def scv(self) -> float:
            """Squared coefficient of variation: variance over squared mean."""

        @property
        def longest(self) -> float:
            """The longest duration that can occur, in means; infinite where there is none."""

    def log_survival(self, x: Floats) -> Floats:
        """Logarithm of the probability to last longer than `x`."""
        raise NotImplementedError

    def log_density(self, x: Floats) -> Floats:
        """Logarithm of the density at `x` > 0."""
        raise NotImplementedError

    def mean_beyond(self, x: Floats) -> Floats:
        """Mean of a duration that is known to last longer than `x`."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Random durations."""
        raise NotImplementedError

    def numbers(self) -> tuple[float, ...]:
        """What the compiled draw is passed; an error where this law cannot be simulated."""
        raise NotImplementedError

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """A duration and the stream's next key, in compiled code: see `sojourn.random` for numbers from a key."""
        raise NotImplementedError

    def information(self) -> float:
        """Information of one duration on the logarithm of its rate, about: the size of a step when rates are fitted."""
        x = self.draw(np.random.default_rng(0), 4096)
        x = x[x > 0]
        h = 1e-4
        score = 1 + (self.log_density(x * np.exp(h)) - self.log_density(x * np.exp(-h))) / (2 * h)
        return float(np.clip(np.nanmean(score**2), 1e-3, 1e12))

    def likelihood_by_block(
        self, logs: Floats, block: Integers, count: Floats
    ) -> tuple[Callable[[Floats], Floats], Floats]:
        """Log-likelihood of finished durations in each block as a function of its log rate, and where to begin.

        `logs` are the logarithms of the durations; the density is that of the logarithm of the duration. Laws whose
        sums do not depend on the rate say it shorter.
        """
        x, size = np.exp(logs), count.size

        def value(u: Floats) -> Floats:
            moved = np.exp(u)[block] * x
            density = np.maximum(self.log_density(moved), -1e6)  # outside of what can occur
            return np.bincount(block, density + logs, size) + count * u

        return value, np.log(count / np.bincount(block, x, size))

    @classmethod
    def read(cls, name: str, inside: str | None) -> dict[str, Any]:
        """The parameters from what stands between the brackets of a text form; None = no brackets."""
        known = [item.name for item in fields(cls)]
        found: dict[str, Any] = {}
        for part in [] if inside is None else inside.split(","):
            match = _WRITTEN.fullmatch(part)
            if match is None:
                wrong = f"{name}({inside})"
                raise InvalidInput(f"law must read like exponential or lognormal(sigma=1), got '{short(wrong)}'")
            key, value = match.groups()
            if known and key not in known:
                way_out = f"write {name}({known[0]}={short(value)})" if len(known) == 1 else f"write {name}(...)"
                several = "parameter" if len(known) == 1 else "parameters"
                raise InvalidInput(f"law {name} has the {several} {', '.join(known)}, got '{short(key)}'; {way_out}")
            if key in found:
                raise InvalidInput(f"law {name}: {key} must be given once, got it twice; keep one")
            try:
                found[key] = float(value)
            except ValueError:
                raise InvalidInput(f"law {name}: {key} must be a number, got '{short(value)}'") from None
            if not known:
                raise InvalidInput(f"law {name} takes no parameter, got {found[key]}; write just {name}")
        for key in known:
            if key not in found:
                example = ", ".join(f"{other}=2" for other in known)
                raise InvalidInput(f"law {name} needs its parameter {key}; write for example {name}({example})")
        return found

    def inside(self) -> str:
        """What stands between the brackets of the text form."""
        return ", ".join(f"{item.name}={_number(getattr(self, item.name))}" for item in fields(self))

    def check_above(self, key: str, low: float) -> None:
        """An error unless the parameter is finite and greater than `low`."""
        value = getattr(self, key)
        if not (math.isfinite(value) and value > low):
            raise InvalidInput(f"law {self.name}: {key} must be finite and > {low:g}, got {value}")


def register(law: Kind) -> Kind:
    """Add a law to those that can be named; whatever it does not define is an error."""
    check_complete(law)
    name = law.name
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise InvalidInput(f"law {law.__name__}: name must be small letters, digits and '-', got '{short(name)}'")
    taken = _TABLE.get(name)
    home = HOMES.get(name, law.__module__)
    if home != law.__module__ or (taken is not None and _place(taken) != _place(law)):
        raise InvalidInput(f"law {law.__name__}: the name '{name}' is taken; give it another one")
    _TABLE[name] = law
    return law


def check_complete(law: object) -> None:
    """An error that names all that is missing where a class does not define a whole law."""
    if not (isinstance(law, type) and issubclass(law, LawKind)):
        raise InvalidInput(f"a law must be a class derived from sojourn.laws.kind.LawKind, got {law!r}")
    own = is_dataclass(law) and "__dataclass_fields__" in vars(law)
    if not own or not law.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        got = "a dataclass that is not frozen" if own else "a plain class"
        raise InvalidInput(
            f"law {law.__name__} must be a frozen dataclass whose fields are its parameters, got {got}; "
            "write @dataclass(frozen=True) above it"
        )
    missing = [key for key in REQUIRED if not _defined(law, key)]
    if missing:
        words = ", ".join(f"{key} ({REQUIRED[key]})" for key in missing)
        raise InvalidInput(f"law {law.__name__} does not define {words}; a law has no defaults, write them")


def _defined(law: type[LawKind], key: str) -> bool:
    if key == "log_density" and not getattr(law, "smooth", True):
        return True
    if key in [item.name for item in fields(law)]:
        return True
    return hasattr(law, key) and getattr(law, key) is not getattr(LawKind, key, None)


def law_names() -> list[str]:
    """The names of the laws that can be written, without other names for the same."""
    return [*(name for name in HOMES if name != "erlang"), *(name for name in _TABLE if name not in HOMES)]


def law_class(name: str) -> type[LawKind]:
    """The class of the law with this name, or at this place."""
    if names_code(name):
        found = own_function("law", name)
        check_complete(found)
        assert isinstance(found, type)
        return found
    if name in HOMES:
        import_module(HOMES[name])
        return _TABLE["gamma" if name == "erlang" else name]
    if name not in _TABLE:
        known = ", ".join(law_names())
        raise InvalidInput(f"law must be one of {known} (or erlang), got '{short(name)}'")
    return _TABLE[name]


def imported(name: str) -> bool:
    """Whether a law can be had without running code that has not run yet."""
    return not names_code(name) or name.partition(":")[0] in sys.modules


def name_of(law: type[LawKind]) -> str:
    """How a law is named in text: as it is registered, or by its place."""
    return law.name if _TABLE.get(law.name) is law else _place(law)


def _place(law: type[LawKind]) -> str:
    return f"{law.__module__}:{law.__qualname__}"


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
