"""What a law must define, and the table of laws; one file per law, one class per file.

A law is a frozen dataclass whose fields are its parameters. Its mean is one for all values of them:

    @register
    @dataclass(frozen=True)
    class Pareto(LawKind):
        name = "pareto"            # pareto(alpha=3) in files and on the command line
        smooth = True
        alpha: float
        ...                        # see `REQUIRED`

Nothing has a default: registering a class that lacks one of these raises an error. The package's own laws are imported
when they are first named, because their compiled draws need numba, which takes a while to import. A law that is not
registered is named by its place, `package.module:Pareto(alpha=3)`.
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
from sojourn.text import nearest
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
    "smooth": "True if the law has a density, False if single values have a probability",
    "scv": "variance over squared mean",
    "longest": "the longest duration, math.inf if there is no longest",
    "log_survival": "log P(duration > x)",
    "log_density": "log of the density; only if smooth",
    "mean_beyond": "mean of a duration that lasts longer than x",
    "draw": "durations from a NumPy generator",
    "numbers": "the numbers that the compiled draw receives",
    "compiled_draw": "(numbers, key) -> (duration, next key), compiled for the simulator",
}
"""What a law must define."""

_WRITTEN = re.compile(r"\s*([a-z][a-z0-9_]*)\s*=\s*([^\s,]+)\s*", re.IGNORECASE)
_TABLE: dict[str, "type[LawKind]"] = {}

Kind = TypeVar("Kind", bound="type[LawKind]")


@dataclass(frozen=True)
class LawKind:
    """Base of laws of a duration with mean one; `REQUIRED` lists what a law must define."""

    name: ClassVar[str]
    smooth: ClassVar[bool]
    searched: ClassVar[tuple[float, float] | None] = None
    """Range in which a fit searches the only parameter; None = a fit does not search it."""
    origin: ClassVar[float] = 0.0
    """A fit searches the logarithm of the parameter minus this number."""

    if TYPE_CHECKING:  # a parameter may have such a name, and the dataclass would take the property for its default

        @property
        def scv(self) -> float:
            """Squared coefficient of variation: variance over squared mean."""

        @property
        def longest(self) -> float:
            """The longest duration that can occur, in units of the mean; infinite if there is no longest."""

    def log_survival(self, x: Floats) -> Floats:
        """Return the logarithm of the probability to last longer than `x`."""
        raise NotImplementedError

    def log_density(self, x: Floats) -> Floats:
        """Return the logarithm of the density at `x` > 0."""
        raise NotImplementedError

    def mean_beyond(self, x: Floats) -> Floats:
        """Return the mean of a duration that is known to last longer than `x`."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw durations at random."""
        raise NotImplementedError

    def numbers(self) -> tuple[float, ...]:
        """Return the numbers that the compiled draw receives; raise an error if this law cannot be simulated."""
        raise NotImplementedError

    @staticmethod
    def compiled_draw(numbers: Floats, key: np.uint64) -> tuple[float, np.uint64]:
        """Return a duration and the stream's next key, in compiled code; `sojourn.random` turns a key into numbers."""
        raise NotImplementedError

    def information(self) -> float:
        """Return about how much information one duration has on the logarithm of its rate; it sets
        the steps of a fit.
        """
        x = self.draw(np.random.default_rng(0), 4096)
        x = x[x > 0]
        h = 1e-4
        score = 1 + (self.log_density(x * np.exp(h)) - self.log_density(x * np.exp(-h))) / (2 * h)
        return float(np.clip(np.nanmean(score**2), 1e-3, 1e12))

    def likelihood_by_block(
        self, logs: Floats, block: Integers, count: Floats
    ) -> tuple[Callable[[Floats], Floats], Floats]:
        """Return the log-likelihood of finished durations in each block as a function of its log rate, and a starting
        point.

        `logs` are the logarithms of the durations; the density is that of the logarithm of the duration. Laws whose
        sums do not depend on the rate override this with a shorter computation.
        """
        x, size = np.exp(logs), count.size

        def value(u: Floats) -> Floats:
            moved = np.exp(u)[block] * x
            density = np.maximum(self.log_density(moved), -1e6)  # impossible durations
            return np.bincount(block, density + logs, size) + count * u

        return value, np.log(count / np.bincount(block, x, size))

    @classmethod
    def read(cls, name: str, inside: str | None) -> dict[str, Any]:
        """Read the parameters from the text between the brackets of a text form; None = no brackets."""
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
        """Return the text between the brackets of the text form."""
        return ", ".join(f"{item.name}={_number(getattr(self, item.name))}" for item in fields(self))

    def check_above(self, key: str, low: float) -> None:
        """Raise an error unless the parameter is finite and greater than `low`."""
        value = getattr(self, key)
        if not (math.isfinite(value) and value > low):
            raise InvalidInput(f"law {self.name}: {key} must be finite and > {low:g}, got {value}")


def register(law: Kind) -> Kind:
    """Class decorator: make a law available by its name; raise an error if it does not define everything."""
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
    """Raise an error that names everything that a law class does not define."""
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
    """Return the names of the laws, each law once."""
    return [*(name for name in HOMES if name != "erlang"), *(name for name in _TABLE if name not in HOMES)]


def law_class(name: str) -> type[LawKind]:
    """Return the class of the law with this name, or at this place."""
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
        raise InvalidInput(f"law must be one of {known} (or erlang), got '{short(name)}'{nearest(name, law_names())}")
    return _TABLE[name]


def imported(name: str) -> bool:
    """Whether a law is available without importing the user's code."""
    return not names_code(name) or name.partition(":")[0] in sys.modules


def name_of(law: type[LawKind]) -> str:
    """Return how a law is written: by its registered name, or by its place."""
    return law.name if _TABLE.get(law.name) is law else _place(law)


def _place(law: type[LawKind]) -> str:
    return f"{law.__module__}:{law.__qualname__}"


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
