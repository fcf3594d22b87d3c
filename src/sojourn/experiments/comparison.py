"""A comparison, as one TOML file or a few flags describe it: methods, seeds, how rates are tuned."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.experiments.cells import Cell, seeds_of
from sojourn.experiments.statistics import Target
from sojourn.files import read_toml
from sojourn.learning.run.config import TrainConfig, check_keys
from sojourn.shown import quoted
from sojourn.text import listed, nearest
from sojourn.values import numbers, text

FIRST_TUNING_SEED = 10_000
NEVER = 10**9  # updates between two evaluations of a trial: only its end is looked at
JUDGED = ("loss", "accuracy")
MOST_METHODS = 10_000
MOST_EXTENSIONS = 1000
# what makes a comparison fair is the same for all: the world, the data, the objective, the budget
COMMON = (
    *("fleet", "data", "holdout", "judged_on", "partition", "model", "seed", "dtype", "augment", "order"),
    *("batch_size", "weights", "steps", "time", "evaluate_every", "device", "precision", "execution"),
)
PLANNED = ("plan", "sampling", "concurrency")
_INSTEAD = {
    "plan": ("sampling",),
    "sampling": ("plan",),
    "concurrency": ("plan",),
    "local_steps": ("local_epochs",),
    "local_epochs": ("local_steps",),
}


@dataclass(frozen=True)
class Method:
    """One of those compared."""

    name: str
    """What it is called."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a run in which it differs; with a `rate` among them it is not tuned."""

    def __post_init__(self) -> None:
        where = f"method {self.name}"
        check_keys(self.keys, where)
        for key in self.keys:
            if key in COMMON:
                raise InvalidInput(f"{where}: {key} must be the same for all methods; move it to [run], or use a sweep")

    @property
    def tuned(self) -> bool:
        """Whether its rate is looked for."""
        return "rate" not in self.keys


@dataclass(frozen=True)
class Tuning:
    """How rates are chosen."""

    rates: tuple[float, ...] = ()
    """The grid, for every method; empty = no tuning."""
    seeds: tuple[int, ...] = tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + 3))
    """Seeds of the trials."""
    holdout: float = 0.1
    """Share of the training examples that the trials do not learn from and are judged on."""
    by: str = "loss"
    """What is compared at the end of a trial: loss or accuracy."""
    extensions: int = 3
    """How often the grid may grow where a best rate lies at its edge."""
    refit: bool = True
    """Whether the final runs learn from the held-out examples too."""

    def __post_init__(self) -> None:
        rates = tuple(sorted(float(rate) for rate in self.rates))
        if any(not 0 < rate < float("inf") for rate in rates) or len(set(rates)) != len(rates):
            raise InvalidInput(f"rates must be positive, finite and different, got {list(self.rates)}")
        object.__setattr__(self, "rates", rates)
        if self.by not in JUDGED:
            raise InvalidInput(f"tuning: by must be {listed(JUDGED)}, got '{self.by}'")
        if not 0 < self.holdout < 1:
            raise InvalidInput(f"tuning: holdout must be a share between 0 and 1, got {self.holdout}")
        if not 0 <= self.extensions <= MOST_EXTENSIONS:
            rule = f"a whole number from 0 to {MOST_EXTENSIONS}"
            raise InvalidInput(f"tuning: extensions must be {rule}, got {quoted(self.extensions)}")


@dataclass(frozen=True)
class Comparison:
    """Everything that is compared, and how."""

    run: Mapping[str, Any]
    """Keys of a run that all methods share."""
    methods: tuple[Method, ...]
    """Who is compared."""
    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds of the final runs."""
    tuning: Tuning = field(default_factory=Tuning)
    """How rates are chosen."""
    target: Target | None = None
    """What is to be reached."""
    baseline: str | None = None
    """The method that the others are compared with; None = the first."""

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        if not names:
            raise InvalidInput("a comparison needs at least one method, got none; give --method or [[method]]")
        for name, times in Counter(names).items():
            if times > 1:
                raise InvalidInput(f"methods must have different names, got '{name}' twice; give them names")
        if self.baseline is None:
            object.__setattr__(self, "baseline", names[0])
        if self.baseline not in names:
            raise InvalidInput(f"baseline must be {listed(names)}, got '{self.baseline}'")
        both = sorted(set(self.seeds) & set(self.tuning.seeds)) if self.tuning.rates else []
        if both:
            raise InvalidInput(f"seeds of tuning and of final runs must be disjoint, {both[0]} is in both")
        if self.tuning.rates and "rate" in self.run:
            raise InvalidInput(
                f"rate {self.run['rate']} for all and rates to be tried exclude each other; give one of them"
            )
        for key in ("holdout", "judged_on"):
            if key in self.run:
                raise InvalidInput(f"run: {key} is set by the comparison; write holdout into [tuning]")
        for method in self.methods:  # what is wrong with a run is said before the first of them
            self.final(method, self.tuning.rates[0] if self.tuning.rates else None, self.seeds[0])

    @classmethod
    def load(cls, path: str | Path) -> "Comparison":
        """Read a comparison file."""
        return cls.of(read_toml(path, "comparison file"), f"comparison file {path}")

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str) -> "Comparison":
        """From the content of a comparison file."""
        known = ("seeds", "target", "baseline", "run", "tuning", "method", "plan")
        _check_known(content, known, where)
        run = dict(_table(content, "run", where))
        check_keys(run, f"{where}, [run]")
        if "fleet" not in run:
            raise InvalidInput(f"{where}: key fleet is required in [run] and missing; add it")
        seeds = seeds_of(content.get("seeds", 10), f"{where}: seeds", run.pop("seed", 0))
        target = content.get("target")
        return cls(
            run,
            _crossed(_methods(content, "method", where), _methods(content, "plan", where)),
            seeds,
            _tuning(_table(content, "tuning", where), where),
            None if target is None else Target.parse(text(target, f"{where}: target")),
            None if content.get("baseline") is None else text(content["baseline"], f"{where}: baseline"),
        )

    def trial(self, method: Method, rate: float, seed: int) -> Cell:
        """A run to choose the rate by."""
        held = {"holdout": self.tuning.holdout, "judged_on": "holdout", "evaluate_every": NEVER}
        keys = {**self._keys(method), **held, "rate": rate, "seed": seed}
        return Cell(f"trial {method.name} rate {rate:g} seed {seed}", TrainConfig.of(keys, f"method {method.name}"))

    def final(self, method: Method, rate: float | None, seed: int) -> Cell:
        """A run that is compared; without a rate at the one that it has by itself."""
        keys = {**self._keys(method), "seed": seed}
        if not self.tuning.refit and self.tuning.rates:
            keys["holdout"] = self.tuning.holdout
        if method.tuned and rate is not None:
            keys["rate"] = rate
        said = f" rate {keys['rate']:g}" if "rate" in keys else ""
        return Cell(f"{method.name}{said} seed {seed}", TrainConfig.of(keys, f"method {method.name}"))

    def _keys(self, method: Method) -> dict[str, Any]:
        base = {key: value for key, value in self.run.items() if not _excluded(key, method.keys)}
        return {**base, **method.keys}


def _excluded(key: str, own: Mapping[str, Any]) -> bool:
    """Whether a method's own keys leave no place for one of all methods: a plan brings sampling and concurrency."""
    return any(other in own for other in _INSTEAD.get(key, ()))


def _crossed(methods: Sequence[Method], plans: Sequence[Method]) -> tuple[Method, ...]:
    """Every method under every plan; methods that bring a plan of their own stay as they are."""
    if len(methods) * len(plans) > MOST_METHODS:
        raise InvalidInput(f"a comparison may have at most {MOST_METHODS:,} methods, got {len(methods) * len(plans):,}")
    crossed: list[Method] = []
    for method in methods:
        if not plans or any(key in method.keys for key in PLANNED):
            crossed.append(method)
            continue
        crossed += [Method(f"{method.name}, {plan.name}", {**plan.keys, **method.keys}) for plan in plans]
    return tuple(crossed)


def _methods(content: Mapping[str, Any], kind: str, where: str) -> list[Method]:
    tables = content.get(kind, [])
    if not isinstance(tables, list) or any(not isinstance(one, dict) for one in tables):
        raise InvalidInput(f"{where}: {kind} must be tables; write [[{kind}]]")
    found = []
    for number, table in enumerate(tables, 1):
        keys = dict(table)
        name = keys.pop("name", None) or keys.get("algorithm") or keys.get("plan") or keys.get("sampling")
        if not isinstance(name, str):
            raise InvalidInput(f'{where}: [[{kind}]] number {number} needs a name; add name = "..."')
        if kind == "plan" and any(key not in PLANNED for key in keys):
            raise InvalidInput(f"{where}: [[plan]] {name} may have {', '.join(PLANNED)}, got {', '.join(keys)}")
        found.append(Method(name, keys))
    return found


def _tuning(table: Mapping[str, Any], where: str) -> Tuning:
    _check_known(table, tuple(Tuning.__dataclass_fields__), f"{where}, [tuning]")
    keys = dict(table)
    if "rates" in keys:
        rates = keys["rates"]
        keys["rates"] = tuple(numbers(rates, f"{where}: rates"))
    if "seeds" in keys:
        keys["seeds"] = seeds_of(keys["seeds"], f"{where}: seeds of [tuning]", FIRST_TUNING_SEED)
    for key, kind, said in (
        ("holdout", float, "a number"),
        ("extensions", int, "a whole number"),
        ("refit", bool, "true or false"),
    ):
        if not isinstance(keys.get(key, kind()), kind) or (kind is int and isinstance(keys.get(key), bool)):
            raise InvalidInput(f"{where}: {key} of [tuning] must be {said}, got {quoted(keys[key])}")
    if "by" in keys:
        text(keys["by"], f"{where}: by of [tuning]")
    return Tuning(**keys)


def _table(content: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    table = content.get(key, {})
    if not isinstance(table, Mapping):
        raise InvalidInput(f"{where}: {key} must be a table, got {quoted(table)}; write [{key}]")
    return table


def _check_known(content: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in content:
        if key not in known:
            raise InvalidInput(f"{where}: keys are {', '.join(known)}, got '{key}'{nearest(key, known)}")
