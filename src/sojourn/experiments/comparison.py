"""The description of a comparison, by a TOML file or by flags: algorithms, seeds, how step sizes are tuned."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.experiments.cells import Cell, seeds_of
from sojourn.experiments.statistics import Target
from sojourn.files import read_toml
from sojourn.learning.run.config import TrainConfig, check_keys, keys
from sojourn.learning.run.tuned_for import tuned_algorithm
from sojourn.shown import quoted
from sojourn.text import listed, nearest
from sojourn.values import numbers, text

FIRST_TUNING_SEED = 10_000
NEVER = 10**9  # updates between two evaluations of a trial: only the last one counts
JUDGED = ("loss", "accuracy")
MOST_ALGORITHMS = 10_000
MOST_EXTENSIONS = 1000
# a fair comparison has these the same for all: the fleet, the data, the objective, the budget
FAIR = ("fleet", "world", "length", "data", "partition", "model", "seed", "arithmetic", "execution", "judging")
COMMON = (*(name for name, one in keys().items() if one.part in FAIR), "order", "batch_size", "weights")
TEXTS = ("baseline", "dispatch")
OLD_KEYS = {"method": "algorithm", "rates": "step_sizes"}
"""Old names of the keys of a comparison, and their present names."""
PLANNED = tuple(keys(part="plan"))
_INSTEAD = {
    "plan": ("sampling",),
    "sampling": ("plan",),
    "concurrency": ("plan",),
    "cap": ("plan",),
    "local_steps": ("local_epochs",),
    "local_epochs": ("local_steps",),
}


@dataclass(frozen=True)
class Entry:
    """One of the algorithms compared."""

    name: str
    """Its name."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """The keys of a run that it sets itself; if `step_size` is among them, it is not tuned."""

    def __post_init__(self) -> None:
        where = f"algorithm {self.name}"
        check_keys(self.keys, where)
        for key in self.keys:
            if key in COMMON:
                raise InvalidInput(
                    f"{where}: {key} must be the same for all algorithms; move it to [run], or use a sweep"
                )

    @property
    def tuned(self) -> bool:
        """Whether its step size is to be tuned."""
        return "step_size" not in self.keys


@dataclass(frozen=True)
class Tuning:
    """How step sizes are chosen."""

    step_sizes: tuple[float, ...] = ()
    """The grid, the same for every algorithm; empty = no tuning."""
    seeds: tuple[int, ...] = tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + 3))
    """Seeds of the trials."""
    holdout: float = 0.1
    """Share of the training examples that is held out: trials are judged on them and do not learn from them."""
    by: str = "loss"
    """What a trial is judged by at its end: loss or accuracy."""
    extensions: int = 3
    """How often the grid may grow when a best step size lies at its edge."""
    refit: bool = True
    """Whether the final runs learn from the held-out examples too."""

    def __post_init__(self) -> None:
        step_sizes = tuple(sorted(float(step_size) for step_size in self.step_sizes))
        if any(not 0 < step_size < float("inf") for step_size in step_sizes) or len(set(step_sizes)) != len(step_sizes):
            raise InvalidInput(f"step_sizes must be positive, finite and different, got {list(self.step_sizes)}")
        object.__setattr__(self, "step_sizes", step_sizes)
        if self.by not in JUDGED:
            raise InvalidInput(f"tuning: by must be {listed(JUDGED)}, got '{self.by}'")
        if not 0 < self.holdout < 1:
            raise InvalidInput(f"tuning: holdout must be a share between 0 and 1, got {self.holdout}")
        if not 0 <= self.extensions <= MOST_EXTENSIONS:
            rule = f"a whole number from 0 to {MOST_EXTENSIONS}"
            raise InvalidInput(f"tuning: extensions must be {rule}, got {quoted(self.extensions)}")


@dataclass(frozen=True)
class ComparisonSpec:
    """Everything that is compared, and how."""

    run: Mapping[str, Any]
    """Keys of a run that all algorithms share."""
    algorithms: tuple[Entry, ...]
    """The algorithms that are compared."""
    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds of the final runs."""
    tuning: Tuning = field(default_factory=Tuning)
    """How step sizes are chosen."""
    target: Target | None = None
    """The target to be reached; None = there is none."""
    baseline: str | None = None
    """The algorithm that the others are compared with; None = the first."""
    dispatch: str | None = None
    """One dispatcher for all: `same` (the baseline's) or its text; None = each algorithm has its own."""
    moved: tuple[str, ...] = field(default=(), init=False)
    """Algorithms whose own dispatcher is replaced by it."""

    def __post_init__(self) -> None:
        names = [algorithm.name for algorithm in self.algorithms]
        if not names:
            raise InvalidInput("a comparison needs at least one algorithm, got none; give --algorithm or [[algorithm]]")
        for name, times in Counter(names).items():
            if times > 1:
                raise InvalidInput(f"algorithms must have different names, got '{name}' twice; give them names")
        if self.baseline is None:
            object.__setattr__(self, "baseline", names[0])
        if self.baseline not in names:
            raise InvalidInput(f"baseline must be {listed(names)}, got '{self.baseline}'")
        both = sorted(set(self.seeds) & set(self.tuning.seeds)) if self.tuning.step_sizes else []
        if both:
            raise InvalidInput(f"seeds of tuning and of final runs must be disjoint, {both[0]} is in both")
        if self.tuning.step_sizes and "step_size" in self.run:
            raise InvalidInput(
                f"step_size {self.run['step_size']} for all and step_sizes to be tried exclude each other; give one"
            )
        for key in ("holdout", "judged_on"):
            if key in self.run:
                raise InvalidInput(f"run: {key} is set by the comparison; write holdout into [tuning]")
        for algorithm in self.algorithms:  # so that mistakes are reported before the first run
            self.final(algorithm, self.tuning.step_sizes[0] if self.tuning.step_sizes else None, self.seeds[0])
        if self.dispatch is not None:
            self._hold_equal(self.dispatch)

    def _hold_equal(self, dispatch: str) -> None:
        """Find the dispatcher for all, and the algorithms that have another one; refuse those that cannot take it."""
        from sojourn.experiments.same_dispatcher import asked_for, moved

        if "dispatcher" in self.run:
            raise InvalidInput(
                f"dispatcher {self.run['dispatcher']} for all and dispatch {dispatch} exclude each other; give one"
            )
        configs = {one.name: self.final(one, None, self.seeds[0]).config for one in self.algorithms}
        wanted = asked_for(dispatch, configs[str(self.baseline)])
        object.__setattr__(self, "moved", moved(wanted, configs))
        object.__setattr__(self, "dispatch", wanted)

    @classmethod
    def load(cls, path: str | Path) -> "ComparisonSpec":
        """Read a comparison file."""
        return cls.of(read_toml(path, "comparison file"), f"comparison file {path}")

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str) -> "ComparisonSpec":
        """A comparison from the contents of a comparison file."""
        known = ("seeds", "target", "baseline", "dispatch", "run", "tuning", "algorithm", "plan")
        _check_known(content, known, where)
        run = dict(_table(content, "run", where))
        check_keys(run, f"{where}, [run]")
        if "fleet" not in run:
            raise InvalidInput(f"{where}: key fleet is required in [run] and missing; add it")
        seeds = seeds_of(content.get("seeds", 10), f"{where}: seeds", run.pop("seed", 0))
        target = content.get("target")
        return cls(
            run,
            _crossed(_entries(content, "algorithm", where), _entries(content, "plan", where)),
            seeds,
            _tuning(_table(content, "tuning", where), where),
            None if target is None else Target.parse(text(target, f"{where}: target")),
            *(None if content.get(key) is None else text(content[key], f"{where}: {key}") for key in TEXTS),
        )

    def trial(self, algorithm: Entry, step_size: float, seed: int) -> Cell:
        """A run that helps to choose the step size."""
        held = {"holdout": self.tuning.holdout, "judged_on": "holdout", "evaluate_every": NEVER}
        keys = {**self._keys(algorithm), **held, "step_size": step_size, "seed": seed}
        return Cell(
            f"trial {algorithm.name} step size {step_size:g} seed {seed}",
            TrainConfig.of(keys, f"algorithm {algorithm.name}"),
        )

    def final(self, algorithm: Entry, step_size: float | None, seed: int) -> Cell:
        """A run that is compared; without a given step size, it uses its own."""
        keys = {**self._keys(algorithm), "seed": seed}
        if not self.tuning.refit and self.tuning.step_sizes:
            keys["holdout"] = self.tuning.holdout
        if algorithm.tuned and step_size is not None:
            keys["step_size"] = step_size
        said = f" step size {keys['step_size']:g}" if "step_size" in keys else ""
        return Cell(f"{algorithm.name}{said} seed {seed}", TrainConfig.of(keys, f"algorithm {algorithm.name}"))

    def _keys(self, algorithm: Entry) -> dict[str, Any]:
        base = {key: value for key, value in self.run.items() if not _excluded(key, algorithm.keys)}
        held = {"dispatcher": self.dispatch} if algorithm.name in self.moved else {}
        return {**base, **algorithm.keys, **held}


def _excluded(key: str, own: Mapping[str, Any]) -> bool:
    """Whether an algorithm's own keys replace a shared key; a plan, for example, brings sampling and concurrency."""
    return any(other in own for other in _INSTEAD.get(key, ()))


def _crossed(algorithms: Sequence[Entry], plans: Sequence[Entry]) -> tuple[Entry, ...]:
    """Every algorithm under every plan; algorithms that have a plan already stay as they are.

    Without algorithms, each plan runs with the one that it was tuned for.
    """
    if not algorithms:
        found = [(tuned_algorithm(plan.keys.get("plan")), plan) for plan in plans]
        if any(name is None for name, _ in found):
            return ()
        return tuple(Entry(f"{name}, {plan.name}", {**plan.keys, "algorithm": name}) for name, plan in found)
    if len(algorithms) * len(plans) > MOST_ALGORITHMS:
        raise InvalidInput(
            f"a comparison may have at most {MOST_ALGORITHMS:,} algorithms, got {len(algorithms) * len(plans):,}"
        )
    crossed: list[Entry] = []
    for algorithm in algorithms:
        if not plans or any(key in algorithm.keys for key in PLANNED if key != "correction"):
            crossed.append(algorithm)
            continue
        crossed += [Entry(f"{algorithm.name}, {plan.name}", {**plan.keys, **algorithm.keys}) for plan in plans]
    return tuple(crossed)


def _entries(content: Mapping[str, Any], kind: str, where: str) -> list[Entry]:
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
        found.append(Entry(name, keys))
    return found


def _tuning(table: Mapping[str, Any], where: str) -> Tuning:
    _check_known(table, tuple(Tuning.__dataclass_fields__), f"{where}, [tuning]")
    keys = dict(table)
    if "step_sizes" in keys:
        step_sizes = keys["step_sizes"]
        keys["step_sizes"] = tuple(numbers(step_sizes, f"{where}: step_sizes"))
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
        if key in OLD_KEYS and OLD_KEYS[key] in known:
            raise InvalidInput(f"{where}: {key} is now called {OLD_KEYS[key]}, got '{key}'; write {OLD_KEYS[key]}")
        if key not in known:
            raise InvalidInput(f"{where}: keys are {', '.join(known)}, got '{key}'{nearest(key, known)}")
