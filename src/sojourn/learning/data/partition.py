"""Partition: which client holds which examples."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sojourn.errors import InvalidInput
from sojourn.learning.data.dataset import PARTITION, generator
from sojourn.learning.data.dealing import DEALERS
from sojourn.own_code import names_code, own_call
from sojourn.text import Options, parse_choice
from sojourn.types import Integers

_CHOICES: dict[str, Options] = {**{name: options for name, (_, options) in DEALERS.items()}, "natural": {}}


@dataclass(frozen=True, eq=False)
class Partition:
    """The examples of each client: disjoint, at least one per client.

    >>> shared = Partition.by_owner([0, 1, 0, 1, 1])
    >>> shared.of(1)
    array([1, 3, 4])
    >>> shared.table(labels=[0, 0, 1, 1, 1], classes=2)
    array([[1, 1],
           [1, 2]])
    """

    order: Integers
    """Example numbers, those of client 0 first."""
    start: Integers
    """Where each client's examples begin in `order`, and at the end the length of `order`."""
    name: str = "given"
    """Name of the way in which it was made."""

    def __post_init__(self) -> None:
        for key in ("order", "start"):
            values = np.array(getattr(self, key), dtype=np.int64)
            values.flags.writeable = False
            object.__setattr__(self, key, values)
        if self.start.size < 2 or self.start[0] != 0 or self.start[-1] != self.order.size:
            raise InvalidInput(
                f"partition {self.name}: start must run from 0 to the {self.order.size} examples, got {self.start}"
            )
        if (self.sizes < 1).any():
            raise InvalidInput(
                f"partition {self.name}: every client needs an example, client {int(np.argmin(self.sizes))} has none; "
                "lower the number of clients"
            )
        if self.order.min() < 0 or np.unique(self.order).size != self.order.size:
            raise InvalidInput(f"partition {self.name}: order must hold example numbers, each at most once")

    @classmethod
    def by_owner(cls, owner: ArrayLike, clients: int | None = None, name: str = "natural") -> "Partition":
        """Make the partition in which example j belongs to client `owner[j]`."""
        holder = np.asarray(owner, dtype=np.int64)
        if holder.size == 0:
            raise InvalidInput(f"partition {name}: there must be at least one example, got none")
        many = int(holder.max()) + 1 if clients is None else clients
        if holder.min() < 0 or holder.max() >= many:
            raise InvalidInput(
                f"partition {name}: owners must be client numbers from 0 to {many - 1}, "
                f"got {holder.min()} to {holder.max()}"
            )
        sizes = np.bincount(holder, minlength=many)
        return cls(np.argsort(holder, kind="stable"), np.concatenate([[0], np.cumsum(sizes)]), name)

    @property
    def clients(self) -> int:
        """Number of clients."""
        return self.start.size - 1

    @property
    def sizes(self) -> Integers:
        """Number of examples of each client."""
        return np.diff(self.start)

    def of(self, client: int) -> Integers:
        """Return the numbers of the examples of one client."""
        if not 0 <= client < self.clients:
            raise InvalidInput(f"client must be a number from 0 to {self.clients - 1}, got {client}")
        return self.order[self.start[client] : self.start[client + 1]]

    def table(self, labels: ArrayLike, classes: int) -> Integers:
        """Return how many examples of each class each client holds, one row per client."""
        values = np.asarray(labels)
        examples = int(self.order.max()) + 1
        if values.ndim != 1 or values.size < examples:
            raise InvalidInput(f"labels must be one class number for each of {examples} examples, got {values.size}")
        wrong = ~np.isin(values, np.arange(classes))
        if wrong.any():
            raise InvalidInput(f"labels must be class numbers from 0 to {classes - 1}, got {values[wrong][0]}")
        holder = np.repeat(np.arange(self.clients), self.sizes)
        cell = holder * classes + values[self.order].astype(np.int64)
        return np.bincount(cell, minlength=self.clients * classes).reshape(self.clients, classes)

    @cached_property
    def hash(self) -> str:
        """Fingerprint of which client holds what; the name does not count."""
        return hashlib.sha256(self.start.tobytes() + self.order.tobytes()).hexdigest()[:16]


def partition(text: str, labels: ArrayLike, clients: int, seed: int, owner: ArrayLike | None = None) -> Partition:
    """Deal the examples with these labels to the clients, and return the Partition; the same seed gives the same one.

    The text is `iid`, `iid(sizes=power(exponent=1.5, least=10))`, `classes(k=7)`, `dirichlet(alpha=0.3, least=10)`,
    `shards(k=2)` or `by-speed(k=2, slow=50, alone=3)` (see `sojourn.learning.data.dealing`), `natural` (by the
    dataset's `owner`), or your own `package.module:function(key=value)`, which is called with the labels, the number of
    clients and a NumPy generator, and returns the client of each example.

    >>> partition("shards(k=1)", [0, 1, 0, 1], clients=2, seed=0).table([0, 1, 0, 1], classes=2)
    array([[0, 2],
           [2, 0]])
    """
    own = names_code(text)
    name, options = (text.strip(), {}) if own else parse_choice("partition", text, _CHOICES)
    values = np.asarray(labels)
    if not 1 <= clients <= len(values):
        raise InvalidInput(
            f"partition {name}: clients must be at least 1 and at most the {len(values)} examples, got {clients}"
        )
    if name == "natural":
        return _natural(owner, clients, len(values))
    if own:
        dealt = own_call("partition", text, values, clients, generator(seed, PARTITION))
        if isinstance(dealt, Partition):
            return _fitting(dealt, clients, len(values))
        return Partition.by_owner(_checked(name, dealt, len(values)), clients, name)
    deal, _ = DEALERS[name]
    if name != "iid" and (values.ndim != 1 or values.dtype.kind not in "iu"):
        raise InvalidInput(f"partition {name} needs class numbers as labels, got {values.dtype} values; use iid")
    return Partition.by_owner(deal(values, clients, generator(seed, PARTITION), **options), clients, text.strip())


def _checked(name: str, dealt: ArrayLike, examples: int) -> ArrayLike:
    """Check and return what a user's function has dealt."""
    owner = np.asarray(dealt)
    if owner.shape != (examples,) or owner.dtype.kind not in "iu":
        raise InvalidInput(
            f"partition {name}: the function must return a client number for each of the {examples} examples, "
            f"got {owner.dtype} values of shape {owner.shape}"
        )
    return owner


def _natural(owner: ArrayLike | None, clients: int, examples: int) -> Partition:
    if owner is None:
        raise InvalidInput("partition natural needs a dataset whose examples have owners, this one has none; use iid")
    return _fitting(Partition.by_owner(owner), clients, examples)


def _fitting(found: Partition, clients: int, examples: int) -> Partition:
    if (found.clients, found.order.size) != (clients, examples):
        raise InvalidInput(
            f"partition {found.name}: the owners are {found.clients} clients of {found.order.size} examples, "
            f"got {clients} clients and {examples} examples; make them equal, or name another partition"
        )
    return found
