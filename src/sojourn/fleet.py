"""Fleet: the clients of a federation, as groups of equal clients.

A group of a million equal clients costs one row. Clients are numbered from 0, group after group. A fleet whose clients
all differ has groups of one client each (`Fleet.of_rates`).
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sojourn.errors import InvalidInput
from sojourn.fleet_file import COLUMNS, read_columns, write_columns
from sojourn.frozen import Frozen
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.shown import quoted, short
from sojourn.tabular import Tabular
from sojourn.types import Floats, Integers

PIECE = 10_000  # values that are turned into text at a time


MOST_CLIENTS = 10**17
LEAST_RATE = sys.float_info.min  # below, numbers lose digits, and the mean time 1/rate may be infinite

# number columns with the rule that each value must satisfy (NaN = not stated, where allowed)
_RULES: dict[str, tuple[str, Callable[[Floats], NDArray[np.bool_]]]] = {
    "rate": ("positive and finite", lambda x: np.isfinite(x) & (x > 0)),
    "uplink_rate": ("positive (inf = no link)", lambda x: x > 0),
    "downlink_rate": ("positive (inf = no link)", lambda x: x > 0),
    "data_size": ("positive and finite", lambda x: np.isnan(x) | (np.isfinite(x) & (x > 0))),
    "power": ("non-negative and finite", lambda x: np.isnan(x) | (np.isfinite(x) & (x >= 0))),
    "uplink_power": ("non-negative and finite", lambda x: np.isnan(x) | (np.isfinite(x) & (x >= 0))),
    "downlink_power": ("non-negative and finite", lambda x: np.isnan(x) | (np.isfinite(x) & (x >= 0))),
}


@dataclass(frozen=True, eq=False, repr=False)
class Fleet(Frozen, Tabular):
    """The clients of a federation, as groups of equal clients: name, count, service rate, laws, links, data, power.

    >>> fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    >>> fleet.clients
    10
    >>> fleet.rate
    array([1.2, 1. ])
    >>> fleet == Fleet(name=("fast", "slow"), count=[5, 5], rate=[1.2, 1.0])
    True
    """

    name: tuple[str, ...]
    """Unique name of each group."""
    count: Integers
    """Clients in each group."""
    rate: Floats
    """Tasks that one client of the group serves per second while it is busy (mu)."""
    law: tuple[Law, ...] = ()
    """Law of the service time around its mean 1/rate, per group; by default exponential."""
    uplink_rate: Floats = field(default_factory=lambda: np.empty(0))
    """Updates that a client can send per second; inf (default) = sending takes no time."""
    uplink_law: tuple[Law, ...] = ()
    """Law of the uplink time."""
    downlink_rate: Floats = field(default_factory=lambda: np.empty(0))
    """Models that a client can receive per second; inf (default) = receiving takes no time."""
    downlink_law: tuple[Law, ...] = ()
    """Law of the downlink time."""
    data_size: Floats = field(default_factory=lambda: np.empty(0))
    """Number of training examples that one client holds; NaN = not stated."""
    power: Floats = field(default_factory=lambda: np.empty(0))
    """Power of one client while it computes, in watts; NaN = not stated."""
    uplink_power: Floats = field(default_factory=lambda: np.empty(0))
    """Power of one client while it sends, in watts; NaN = not stated."""
    downlink_power: Floats = field(default_factory=lambda: np.empty(0))
    """Power of one client while it receives, in watts; NaN = not stated."""

    def __post_init__(self) -> None:
        groups = len(self.name)
        if groups == 0:
            raise InvalidInput("a fleet needs at least one group, got none; add a group with name, count and rate")
        for key, (_, _, default) in COLUMNS.items():
            object.__setattr__(self, key, _column(key, getattr(self, key), groups, default))
        self._check()

    def _check(self) -> None:
        repeated = [name for name, times in Counter(self.name).items() if times > 1]
        if repeated:
            raise InvalidInput(f"group names must be unique, got '{repeated[0]}' more than once; rename one")
        for name in self.name:
            if not name or name != name.strip() or any(mark in "=," or not mark.isprintable() for mark in name):
                raise InvalidInput(f"a group name must be printable, without '=', ',' or outer spaces, got {name!r}")
        if (self.count < 1).any():
            bad = int(np.argmax(self.count < 1))
            raise InvalidInput(
                f"count of group '{self.name[bad]}' must be at least 1, got {self.count[bad]}; leave the group out"
            )
        for key, (rule, holds) in _RULES.items():
            self._refuse(key, ~holds(getattr(self, key)), rule, "correct that row")
        for key in ("rate", "uplink_rate", "downlink_rate"):
            rule = f"at least {LEAST_RATE:.3g}"
            self._refuse(key, getattr(self, key) < LEAST_RATE, rule, "use a longer unit of time")

    def _refuse(self, key: str, wrong: NDArray[np.bool_], rule: str, way_out: str) -> None:
        if wrong.any():
            bad = int(np.argmax(wrong))
            value = getattr(self, key)[bad]
            raise InvalidInput(f"{key} of group '{self.name[bad]}' must be {rule}, got {value}; {way_out}")

    @classmethod
    def of(cls, **groups: tuple[int, float]) -> "Fleet":
        """Build a fleet from `name=(count, rate)`; rates are in tasks per second."""
        for name, pair in groups.items():
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise InvalidInput(
                    f"a group must be given as name=(clients, tasks per second), got {name}={quoted(pair)}; write for "
                    f"example {name}=(50, 8.0)"
                )
        return cls(tuple(groups), np.array([c for c, _ in groups.values()]), np.array([r for _, r in groups.values()]))

    @classmethod
    def of_rates(cls, rates: ArrayLike) -> "Fleet":
        """Build a fleet of single clients, one per rate (tasks per second), named client-0, client-1, ..."""
        values = np.asarray(rates, dtype=np.float64)
        names = tuple(f"client-{index}" for index in range(values.size))
        return cls(names, np.ones(values.size, dtype=np.int64), values)

    @classmethod
    def load(cls, path: str | Path) -> "Fleet":
        """Read a fleet from a CSV or TOML file."""
        columns: dict[str, Any] = dict(read_columns(Path(path)))
        try:
            return cls(**columns)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None

    @classmethod
    def from_log(
        cls,
        log: Any,
        groups: int | str = "auto",
        *,
        device: str | None = None,
        start: str | None = None,
        end: str | None = None,
        duration: str | None = None,
        status: str | None = None,
        succeeded: Sequence[str] | str = (),
        time_unit: str | None = None,
        law: Law | str | None = None,
        latest: float = 1.0,
    ) -> "Fleet":
        """Build a fleet from a log of how long tasks took: a CSV or Parquet file, a DataFrame or a dict of columns.

        Every row is a task, with its device and either its start and end or its duration. Columns called device or
        client, start, end, duration and status are recognised; name others by the arguments `device`, `start` and so
        on.

        - `groups`: `auto` (by speed, as many groups as the log shows), a number of groups, or `device` for one group
          each
        - `time_unit`: unit of times that are plain numbers; by default seconds
        - `succeeded`: words in the status column that mean success

        `sojourn.fit` takes the same arguments and also returns intervals and notes.

        >>> log = {"device": ["a", "b", "c"] * 60, "seconds": [1.0, 4.0, 1.0, 1.2, 4.4, 1.2] * 30}
        >>> Fleet.from_log(log)
        <Fleet of 3 clients: 2 fast at 0.9091, 1 b at 0.2381>
        """
        from sojourn.timing.fit.from_log import fit_log

        found = fit_log(
            log,
            groups=groups,
            law=law,
            latest=latest,
            device=device,
            start=start,
            end=end,
            duration=duration,
            status=status,
            succeeded=succeeded,
            time_unit=time_unit,
        )
        return found.fleet

    def save(self, path: str | Path) -> None:
        """Write a CSV or TOML file; loading it gives an equal fleet."""
        write_columns(Path(path), self._columns())

    def expanded(self) -> "Fleet":
        """Return the same clients, each in a group of its own, so that equal clients can get
        different probabilities.
        """
        source = np.repeat(np.arange(len(self.name)), self.count)
        columns: dict[str, Any] = {
            key: np.asarray(getattr(self, key))[source] if key not in _TUPLES else _pick(getattr(self, key), source)
            for key in COLUMNS
        }
        columns["name"] = tuple(
            name if many == 1 else f"{name}-{number}"
            for name, many in zip(self.name, self.count.tolist(), strict=True)
            for number in range(many)
        )
        columns["count"] = np.ones(self.clients, dtype=np.int64)
        return Fleet(**columns)

    def with_rates(self, rate: ArrayLike) -> "Fleet":
        """Return the same fleet with other service rates (tasks per second), one for each group."""
        return replace(self, rate=np.asarray(rate, dtype=np.float64))

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.name)

    @property
    def clients(self) -> int:
        """Number of clients (n)."""
        return int(self.count.sum())

    @property
    def link_time(self) -> Floats:
        """Mean time in seconds that a client's task spends on its links, downlink and uplink together, per group."""
        return np.asarray(1 / self.uplink_rate + 1 / self.downlink_rate)

    @property
    def first_client(self) -> Integers:
        """Number of the first client of each group."""
        return np.concatenate([[0], np.cumsum(self.count)[:-1]]).astype(np.int64)

    @property
    def group_of_client(self) -> Integers:
        """Index of the group of each client."""
        return np.repeat(np.arange(self.groups, dtype=np.int64), self.count)

    @property
    def exponential(self) -> bool:
        """Whether every service time is exponential and there are no links: the paper's closed Jackson network."""
        no_links = bool(np.isinf(self.uplink_rate).all() and np.isinf(self.downlink_rate).all())
        return no_links and all(law is EXPONENTIAL or law == EXPONENTIAL for law in self.law)

    @cached_property
    def hash(self) -> str:
        """Fingerprint of everything in the fleet; plans and traces carry it."""
        digest, before = hashlib.sha256(), "{"
        for key in COLUMNS:
            digest.update(f'{before}"{key}": ['.encode())
            for text in _texts(getattr(self, key)):
                digest.update(text)
            before = "], "
        digest.update(b"]}")
        return digest.hexdigest()[:16]

    def client_name(self, client: int) -> str:
        """Return the name of a client: its group's name, with a number if the group has several clients."""
        group = int(np.searchsorted(np.cumsum(self.count), client, side="right"))
        number = client - int(self.first_client[group])
        return self.name[group] if self.count[group] == 1 else f"{self.name[group]}-{number}"

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.name)}

    def index(self, name: str) -> int:
        """Return the position of the group called `name`."""
        if name not in self._places:
            raise InvalidInput(f"the fleet has no group '{name}'; its groups are {_listed(self.name)}")
        return self._places[name]

    def _title(self) -> str:
        if self.groups > 6:
            return f"Fleet of {self.clients:,} clients in {self.groups:,} groups"
        each = zip(self.count.tolist(), self.name, self.rate.tolist(), strict=True)
        said = ", ".join(f"{count:,} {name} at {rate:.4g}" for count, name, rate in each)
        return f"Fleet of {self.clients:,} clients: {said}"

    def _table(self) -> dict[str, list[Any]]:
        stated = ("name", "count", "rate", "law")
        columns = self._columns()
        bare = type(self)(self.name, self.count, self.rate)._columns()
        return {key: values for key, values in columns.items() if key in stated or str(values) != str(bare[key])}

    def _columns(self) -> dict[str, list[Any]]:
        return {key: _plain(getattr(self, key)) for key in COLUMNS}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fleet):
            return NotImplemented
        return all(_equal(getattr(self, item.name), getattr(other, item.name)) for item in fields(self))

    def __hash__(self) -> int:
        return hash(self.hash)


_LAWS = ("law", "uplink_law", "downlink_law")
_TUPLES = ("name", *_LAWS)


def _column(key: str, given: Any, groups: int, default: Any) -> Any:
    values = given if len(given) else [default] * groups
    if len(values) != groups:
        raise InvalidInput(f"{key} must have one value for each of the {groups} groups, got {len(values)}")
    if key == "name":
        return tuple(values)
    if key in _LAWS:
        return tuple(Law.parse(one) if isinstance(one, str) else one for one in values)
    frozen = whole_counts(values) if key == "count" else np.array(values, dtype=np.float64)
    frozen.flags.writeable = False
    return frozen


def whole_counts(values: Any) -> Integers:
    """Return numbers of clients as integers; refuse numbers that are not whole, or more clients
    than a fleet can have.
    """
    array = np.array(values)
    if array.dtype == object:  # integers beyond 64 bits, or no numbers at all
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(f"count must hold whole numbers, got {short(str(array.tolist()))}") from None
    if not np.issubdtype(array.dtype, np.number) or (array != np.floor(array)).any():
        raise InvalidInput(f"count must hold whole numbers, got {short(str(array.tolist()))}")
    total = array.sum(dtype=np.float64)
    if not (np.abs(array) <= MOST_CLIENTS).all() or total > MOST_CLIENTS:
        raise InvalidInput(f"a fleet can have at most {MOST_CLIENTS:.0e} clients, got {total:.3g}; lower the counts")
    return array.astype(np.int64)


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _texts(values: Sequence[Any]) -> Iterator[bytes]:
    """Write the values as a JSON list of texts without its brackets, piece by piece, as there may
    be a million of them.
    """
    for begin in range(0, len(values), PIECE):
        texts = [str(value) for value in _plain(values[begin : begin + PIECE])]
        yield (", " if begin else "").encode() + json.dumps(texts)[1:-1].encode()


def _pick(values: Sequence[Any], source: Iterable[int]) -> tuple[Any, ...]:
    return tuple(values[index] for index in source)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right, equal_nan=left.dtype == np.float64)
    return bool(left == right)


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
