"""Plan: a policy (whom to sample, how many tasks in flight and per client, which step size) and its predictions."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import json_text, read_json, write_text
from sojourn.fleet import Fleet, whole_counts
from sojourn.frozen import Frozen, frozen
from sojourn.schedule import Schedule
from sojourn.shown import quoted, short
from sojourn.tabular import Tabular
from sojourn.types import Floats
from sojourn.values import WrongKind, items, number, numbers, optional_number, table, text, whole

SCHEMA = 1
SUM_TOLERANCE = 1e-9
MOST_TASKS = 10**9
MOST_CLIENTS = 2**53  # per group: up to here a float represents every whole number
MOST_CORRECTION = 2  # exponents above 1 have no known use; 2 leaves room to try
Cap = int | float | Sequence[float | None] | Floats | None
"""Most tasks that a client may hold: one number for all, or one for each group; None = no cap."""
PROMISED = (
    *("value", "bound", "steps", "time", "energy", "free_step_size", "largest_step_size", "throughput", "server_rate"),
)  # promises that are numbers, or null
PROMISED_BY_GROUP = ("staleness", "queue")  # and lists of them


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Frozen, Tabular):
    """How to run a federation on one fleet: sampling by group, concurrency, cap, correction, step size.

    `sampling[g]` is the probability of *each client* of group g, so `sum(count * sampling) == 1`. With a cap it is a
    weight: the next task goes to a client that may hold another one, drawn in proportion to the weights of those
    clients.

    >>> fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    >>> Plan.uniform(fleet, concurrency=1000).sampling
    array([0.1, 0.1])
    >>> Plan.of(fleet, {"fast": 0.0075, "slow": 0.1925}, concurrency=1000).concurrency
    1000
    """

    name: tuple[str, ...]
    """Group names, as in the fleet."""
    count: NDArray[np.int64]
    """Clients in each group, as in the fleet."""
    sampling: NDArray[np.float64]
    """Probability of each client of the group (p)."""
    concurrency: int
    """Tasks in flight at any time (C)."""
    step_size: float | None = None
    """Server step size (eta); None = the trainer's default."""
    objective: str | None = None
    """What the plan was chosen to minimise; None = the plan was written by hand."""
    fleet_hash: str | None = None
    """Fingerprint of the fleet that it was made for; None = any fleet with these groups."""
    cap: Floats = field(default_factory=lambda: np.empty(0))
    """Most tasks that each client of the group may hold (b); inf (default) = any number, so that tasks queue."""
    correction: float | None = None
    """Exponent c of an update's weight (q/s)^c: 1 = unbiased, 0 = all count alike; None = the algorithm's own."""
    buffer: int | None = None
    """Updates that the server collects before each step; None = the algorithm's own."""
    adaptive: bool | None = None
    """Whether very stale updates take smaller steps, C / staleness; None = the algorithm's own."""
    schedule: str | None = None
    """How the step size falls, such as `linear(end=budget)` or `cosine(end=1000, over=time)`; None = the trainer's
    default.
    """
    tuned_for: str | None = None
    """The algorithm that the step size was tuned for; None = it was not tuned, or it is not known for which."""
    promises: Mapping[str, Any] = field(default_factory=dict)
    """What theory predicts for the plan: throughput (steps per second), staleness, bound, time (seconds), energy
    (joules).
    """

    def __post_init__(self) -> None:
        count = whole_counts(self.count)
        sampling = np.array(self.sampling, dtype=np.float64)
        if (count < 1).any():
            raise InvalidInput(f"count must hold whole numbers of at least 1, got {short(str(count.tolist()))}")
        if len(set(self.name)) < len(self.name):
            raise InvalidInput(f"group names must be unique, got {short(', '.join(self.name))}")
        if not (len(self.name) == count.size == sampling.size):
            sizes = f"{len(self.name)}, {count.size} and {sampling.size}"
            raise InvalidInput(f"name, count and sampling must have one value for each group, got {sizes} values")
        wrong = ~(np.isfinite(sampling) & (sampling > 0))
        if wrong.any():
            bad = int(np.argmax(wrong))
            raise InvalidInput(
                f"sampling of group '{self.name[bad]}' must be a positive probability, got {sampling[bad]}; "
                "a client that is never sampled must leave the fleet"
            )
        cap = _cap(self.cap, self.name)
        with np.errstate(over="ignore"):  # a sum that overflows to infinity is refused below
            total = float((count * sampling).sum())
        if np.isinf(cap).all() and abs(total - 1) > SUM_TOLERANCE:
            raise InvalidInput(
                f"sampling must sum to 1 over all {count.sum()} clients, got {total:.9g}; "
                "give each client's probability (not the group's), or use Plan.weighted to normalise"
            )
        check_concurrency(self.concurrency)
        if self.concurrency > (count * cap).sum():
            most = int((count * cap).sum())
            raise InvalidInput(
                f"concurrency must be at most the {most:,} tasks that the clients may hold under the cap, "
                f"got {self.concurrency:,}; lower it, or raise the cap"
            )
        _check_policy(self.correction, self.buffer)
        if self.schedule is not None:
            Schedule.parse(self.schedule, steps=1)  # refuses an impossible schedule; the run decides its end
        if self.step_size is not None and not (math.isfinite(self.step_size) and self.step_size > 0):
            raise InvalidInput(f"step_size must be positive and finite, got {self.step_size}; leave it out if unknown")
        count.flags.writeable = sampling.flags.writeable = cap.flags.writeable = False
        object.__setattr__(self, "cap", cap)
        object.__setattr__(self, "promises", frozen(self.promises))
        object.__setattr__(self, "name", tuple(self.name))
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "sampling", sampling)
        object.__setattr__(self, "concurrency", int(self.concurrency))
        object.__setattr__(self, "step_size", None if self.step_size is None else float(self.step_size))

    @classmethod
    def uniform(cls, fleet: Fleet, concurrency: int, step_size: float | None = None, cap: Cap = None) -> "Plan":
        """Sample every client with the same probability 1/n; with a cap, every client that may hold another task."""
        return cls.weighted(fleet, np.ones(fleet.groups), concurrency, step_size, cap)

    @classmethod
    def by_speed(cls, fleet: Fleet, concurrency: int, step_size: float | None = None, cap: Cap = None) -> "Plan":
        """Sample every client in proportion to its service rate."""
        return cls.weighted(fleet, fleet.rate, concurrency, step_size, cap)

    @classmethod
    def weighted(
        cls, fleet: Fleet, weights: ArrayLike, concurrency: int, step_size: float | None = None, cap: Cap = None
    ) -> "Plan":
        """Sample every client in proportion to its group's weight; `weights` has one value per group, in any scale."""
        values = np.asarray(weights, dtype=np.float64)
        if values.shape != (fleet.groups,):
            raise InvalidInput(f"weights must have one value for each of {fleet.groups} groups, got {values.size}")
        if not (np.isfinite(values) & (values > 0)).all():
            raise InvalidInput(f"weights must be positive and finite, got {values.tolist()}")
        values = values / values.max()  # no overflow, whatever the scale
        sampling = values / (fleet.count * values).sum()
        return cls(
            fleet.name, fleet.count, sampling, concurrency, step_size, fleet_hash=fleet.hash, cap=_cap(cap, fleet.name)
        )

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        sampling: Mapping[str, float],
        concurrency: int,
        step_size: float | None = None,
        cap: Cap = None,
    ) -> "Plan":
        """Make a plan from the probability of each client, given by the name of its group."""
        for name in sampling:
            fleet.index(name)
        missing = [name for name in fleet.name if name not in sampling]
        if missing:
            raise InvalidInput(f"sampling must name every group, '{missing[0]}' is missing; add {missing[0]}=...")
        values = np.array([sampling[name] for name in fleet.name])
        return cls(
            fleet.name, fleet.count, values, concurrency, step_size, fleet_hash=fleet.hash, cap=_cap(cap, fleet.name)
        )

    def check(self, fleet: Fleet) -> None:
        """Raise an error if this plan was not made for `fleet`."""
        if self.name != fleet.name or not np.array_equal(self.count, fleet.count):
            raise InvalidInput("the plan's groups must be those of the fleet, got others; make a plan for this fleet")
        if self.fleet_hash is not None and self.fleet_hash != fleet.hash:
            raise InvalidInput(
                f"the plan was made for fleet {self.fleet_hash}, this is fleet {fleet.hash}; make a new plan, "
                "or remove fleet_hash from the plan file to use it all the same"
            )

    @property
    def capped(self) -> bool:
        """Whether some clients may hold only a limited number of tasks."""
        return bool(np.isfinite(self.cap).any())

    @property
    def one_each(self) -> bool:
        """Whether every client may hold only one task, so that no task waits."""
        return bool((self.cap == 1).all())

    def _policy(self) -> dict[str, Any]:
        """Return what a plan may have beyond the paper's: cap, correction, buffer, schedule; null where it has none."""
        each = [None if np.isinf(one) else int(one) for one in self.cap.tolist()]
        cap = each[0] if len(set(each)) == 1 else each
        return {
            "cap": cap,
            "correction": self.correction,
            "buffer": self.buffer,
            "adaptive": self.adaptive,
            "schedule": self.schedule,
        }

    def _tuned_for(self) -> dict[str, str]:
        return {} if self.tuned_for is None else {"tuned_for": self.tuned_for}

    @property
    def hash(self) -> str:
        """Fingerprint of the decisions: groups, sampling, concurrency, step size."""
        facts = [self.name, self.count.tolist(), self.sampling.tolist(), self.concurrency, self.step_size]
        policy = {key: value for key, value in self._policy().items() if value is not None}
        policy |= self._tuned_for()
        facts += [policy] if policy else []  # plans without these keep the hash of older versions
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def timing_hash(self) -> str:
        """Fingerprint of what decides the timing: all decisions except the step size."""
        untimed = dict.fromkeys(("step_size", "tuned_for", "correction", "buffer", "adaptive", "schedule"))
        return replace(self, **untimed).hash  # type: ignore[arg-type]

    def save(self, path: str | Path, made_by: str | None = None) -> None:
        """Write the plan as JSON; `made_by`, the command that made it, is kept in the file for its report."""
        write_text(path, self.text(made_by), "plan file")

    def text(self, made_by: str | None = None) -> str:
        """Return the text of the file that `save` writes."""
        groups = [
            {"name": name, "count": int(count), "sampling": float(p)}
            for name, count, p in zip(self.name, self.count, self.sampling, strict=True)
        ]
        content = {
            "sojourn_plan": SCHEMA,
            "concurrency": self.concurrency,
            "step_size": self.step_size,
            **self._tuned_for(),
            **self._policy(),
            "objective": self.objective,
            "fleet_hash": self.fleet_hash,
            "groups": groups,
            "promises": dict(self.promises),
            **({} if made_by is None else {"made_by": made_by}),
        }
        return json_text(content)

    @classmethod
    def load(cls, path: str | Path) -> "Plan":
        """Read a plan written by `save`, or by hand."""
        content = _content(Path(path))
        try:
            groups = [table(group, "a group") for group in items(content["groups"], "groups")]
            names = tuple(text(group["name"], "name of a group") for group in groups)
            return cls(
                names,
                np.array([number(group["count"], "count of a group") for group in groups]),
                np.array([number(group["sampling"], "sampling of a group") for group in groups]),
                content["concurrency"],
                optional_number(content.get("step_size"), "step_size"),
                _optional_text(content, "objective"),
                _optional_text(content, "fleet_hash"),
                cap=_cap(_told_cap(content.get("cap")), names),
                correction=optional_number(content.get("correction"), "correction"),
                buffer=None if content.get("buffer") is None else whole(content["buffer"], "buffer"),
                adaptive=_optional_truth(content, "adaptive"),
                schedule=_optional_text(content, "schedule"),
                tuned_for=_optional_text(content, "tuned_for"),
                promises=_promises(content.get("promises")),
            )
        except KeyError as error:
            raise InvalidInput(f"plan file {path}: key {error} is required and missing; add it") from None
        except WrongKind as error:
            raise UnreadableFile(f"plan file {path} has a value of the wrong kind: {error}") from None
        except InvalidInput as error:
            raise InvalidInput(f"plan file {path}: {error}") from None

    def _title(self) -> str:
        made = f", least {self.objective}" if self.objective else ""
        step = "" if self.step_size is None else f", step size {self.step_size:.4g}"
        most = {1.0: ", one each at most", np.inf: ""}.get(float(self.cap.max()), f", at most {self.cap.max():g} each")
        return f"Plan for {int(self.count.sum()):,} clients: {self.concurrency:,} tasks in flight{most}{step}{made}"

    def _table(self) -> dict[str, list[Any]]:
        found = {"name": list(self.name), "count": self.count.tolist(), "sampling": self.sampling.tolist()}
        for key in PROMISED_BY_GROUP:
            if isinstance(self.promises.get(key), tuple) and len(self.promises[key]) == len(self.name):
                found[key] = list(self.promises[key])
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        same = (self.objective, self.fleet_hash, self.promises) == (other.objective, other.fleet_hash, other.promises)
        return same and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)


def _cap(given: Any, names: Sequence[str]) -> Floats:
    """Return one cap for each group (inf = none), from one number for all, one for each group, or None."""
    if given is None or (isinstance(given, np.ndarray) and given.size == 0):
        return np.full(len(names), np.inf)
    if isinstance(given, np.ndarray) and given.shape == (len(names),) and _right_caps(given):
        return np.array(given, dtype=np.float64)
    listed = given if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else [given] * len(names)
    values = [np.inf if one is None else one for one in listed]
    if len(values) != len(names):
        raise InvalidInput(f"cap must be one number, or one for each of the {len(names)} groups, got {len(values)}")
    for name, one in zip(names, values, strict=True):
        kind = isinstance(one, int | float | np.number) and not isinstance(one, bool)
        if not kind or not (one >= 1 and (one == np.inf or (one == int(one) and one <= MOST_TASKS))):
            raise InvalidInput(
                f"cap of group '{name}' must be a whole number of at least 1, or none, got {quoted(one)}; "
                "1 = nobody waits"
            )
    return np.array(values, dtype=np.float64)


def _right_caps(given: np.ndarray) -> bool:
    """Whether all values of an array are caps; of a thousand groups, this is much faster than one by one."""
    if given.dtype != np.float64:
        return False
    whole = (given == np.floor(given)) & (given <= MOST_TASKS)
    return bool(((given >= 1) & (np.isinf(given) | whole)).all())


def _check_policy(correction: float | None, buffer: int | None) -> None:
    if correction is not None and not 0 <= correction <= MOST_CORRECTION:
        raise InvalidInput(
            f"correction must be a number from 0 (none) to {MOST_CORRECTION}, got {correction}; 1 = unbiased"
        )
    if buffer is not None and not 1 <= buffer <= MOST_TASKS:
        raise InvalidInput(f"buffer must be a whole number of at least 1, got {buffer}")


def _told_cap(given: Any) -> Cap:
    """Read a cap from a file: null, a number, or a list in which null stands for no cap."""
    if given is None or isinstance(given, int | float):
        return given if given is None else number(given, "cap")
    return [None if one is None else number(one, "cap of a group") for one in items(given, "cap")]


def plan_for(fleet: Fleet, given: Any) -> Plan:
    """Return the Plan in `given`, checked against the fleet; raise an error for anything that holds no plan.

    >>> fleet = Fleet.of(all=(10, 1.0))
    >>> plan_for(fleet, Plan.uniform(fleet, 5)).concurrency
    5
    """
    fleet_of(fleet)
    plan = getattr(given, "plan", given)  # the result of make_plan holds a plan
    if not isinstance(plan, Plan):
        whole = isinstance(given, int) and not isinstance(given, bool)
        way = (
            f"Plan.uniform(fleet, {given})"
            if whole
            else "Plan.uniform(fleet, concurrency), or pass the result of make_plan"
        )
        if isinstance(given, str | Path):
            way = f"Plan.load({str(given)!r})"
        raise InvalidInput(f"plan must be a Plan, got {quoted(given)}; write {way}")
    plan.check(fleet)
    return plan


def fleet_of(given: Any) -> Fleet:
    """Return `given` if it is a Fleet; otherwise raise an error that says what to write."""
    if isinstance(given, Fleet):
        return given
    way = f"Fleet.load({str(given)!r})" if isinstance(given, str | Path) else "Fleet.of(fast=(90, 8.0), slow=(10, 1.0))"
    raise InvalidInput(f"fleet must be a Fleet, got {quoted(given)}; write {way}")


def check_concurrency(concurrency: object, name: str = "concurrency") -> None:
    """Raise an error unless concurrency is a whole number of tasks."""
    whole = isinstance(concurrency, int | np.integer) and not isinstance(concurrency, bool)
    if not whole or not 1 <= int(concurrency) <= MOST_TASKS:  # type: ignore[call-overload]
        raise InvalidInput(f"{name} must be a whole number from 1 to {MOST_TASKS:,}, got {concurrency}")


def _optional_text(content: Mapping[str, Any], key: str) -> str | None:
    return None if content.get(key) is None else text(content[key], key)


def _optional_truth(content: Mapping[str, Any], key: str) -> bool | None:
    found = content.get(key)
    if found is None or isinstance(found, bool):
        return found
    raise WrongKind(f"{key} must be true, false or null, got {quoted(found)}")


def _promises(given: Any) -> dict[str, Any]:
    """Read the predictions: numbers where numbers are needed; other entries of a file are kept as they are."""
    found = table({} if given is None else given, "promises")
    for key in PROMISED:
        optional_number(found.get(key), f"{key} of promises")
    for key in PROMISED_BY_GROUP:
        numbers(found.get(key, []), f"{key} of promises")
    return found


def _content(path: Path) -> dict[str, Any]:
    content = read_json(path, "plan file")
    if not isinstance(content, dict) or "sojourn_plan" not in content:
        raise UnreadableFile(f"plan file {path} is not a sojourn plan: the key 'sojourn_plan' is missing")
    if content["sojourn_plan"] != SCHEMA:
        raise UnreadableFile(
            f"plan file {path} has schema {content['sojourn_plan']}, this sojourn reads {SCHEMA}; update sojourn"
        )
    return content
