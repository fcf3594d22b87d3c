"""Ways to deal examples to clients. Each returns the client of every example, so every example is dealt exactly once.

iid         at random, in equal parts (to within one) or in sizes that follow a power law
classes     each client holds k classes, drawn at random; a class is dealt evenly to its holders
dirichlet   each class is cut among the clients in proportions drawn from a symmetric Dirichlet law
shards      sorted by class and cut into clients * k equal shards; each client gets k random shards
by-speed    each client holds k classes, and some classes are held by the last clients of the fleet alone
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput
from sojourn.text import Options, parse_choice
from sojourn.types import Integers

Labels = NDArray[Any]


@dataclass(frozen=True)
class PowerSizes:
    """Sizes by a power law: `least` examples each, the rest in proportion to rank^-exponent.

    >>> PowerSizes(exponent=1, least=1).of(examples=14, clients=3)
    array([7, 4, 3])
    """

    exponent: float = 1.5
    """0 = all equal; the larger it is, the more the first clients hold."""
    least: int = 10
    """Fewest examples that a client holds."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.exponent) and self.exponent >= 0):
            raise InvalidInput(f"sizes power: exponent must be finite and at least 0, got {self.exponent}")

    @classmethod
    def parse(cls, text: str) -> "PowerSizes":
        """Read the text form `power(exponent=1.5, least=10)`."""
        return cls(**parse_choice("sizes", text, {"power": {"exponent": float, "least": int}})[1])

    def of(self, examples: int, clients: int) -> Integers:
        """Return the sizes, largest first; what rounding down leaves over goes to those that lost most by it."""
        _check_least("sizes power", self.least, examples, clients)
        share = np.arange(1.0, clients + 1) ** -self.exponent
        exact = (examples - clients * self.least) * share / share.sum()
        sizes: Integers = self.least + exact.astype(np.int64)
        sizes[np.argsort(np.floor(exact) - exact, kind="stable")[: examples - sizes.sum()]] += 1
        return sizes


def iid(labels: Labels, clients: int, rng: np.random.Generator, sizes: PowerSizes | None = None) -> Integers:
    """Deal examples at random; sizes are equal, or given sizes are assigned to the clients at random."""
    law = PowerSizes(exponent=0.0, least=1) if sizes is None else sizes
    return rng.permutation(np.repeat(rng.permutation(clients), law.of(len(labels), clients)))


def classes(labels: Labels, clients: int, rng: np.random.Generator, k: int = 7) -> Integers:
    """Let each client draw k distinct classes, with no class left out; holders of a class share it evenly at random."""
    kinds, label = np.unique(labels, return_inverse=True)
    if not 1 <= k <= kinds.size:
        raise InvalidInput(f"partition classes: k must be from 1 to {kinds.size}, the number of classes, got {k}")
    if clients * k < kinds.size:
        raise InvalidInput(
            f"partition classes: {clients} clients with k={k} cannot hold all {kinds.size} classes; raise k or clients"
        )
    holds = _drawn_classes(kinds.size, clients, k, rng)
    owner = np.empty(label.size, dtype=np.int64)
    for kind in range(kinds.size):
        holders = rng.permutation(np.flatnonzero(holds[:, kind]))
        examples = rng.permutation(np.flatnonzero(label == kind))
        _check_holders("classes", kinds[kind], examples.size, holders.size)
        owner[examples] = np.resize(holders, examples.size)  # in turn
    return owner


def _check_holders(name: str, kind: Any, examples: int, holders: int) -> None:
    if examples < holders:
        raise InvalidInput(
            f"partition {name}: class {kind} has {examples} examples for {holders} holders; "
            "lower k or the number of clients"
        )


def _drawn_classes(kinds: int, clients: int, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return who holds which class; a class that nobody drew replaces, at a random client, one that several hold."""
    holds = np.zeros((clients, kinds), dtype=np.bool_)
    np.put_along_axis(holds, rng.random((clients, kinds)).argsort(axis=1)[:, :k], True, axis=1)
    for orphan in np.flatnonzero(~holds.any(axis=0)):
        client, spare = rng.choice(np.argwhere(holds & (holds.sum(axis=0) > 1)))
        holds[client, [spare, orphan]] = False, True
    return holds


def dirichlet(labels: Labels, clients: int, rng: np.random.Generator, alpha: float = 0.3, least: int = 10) -> Integers:
    """Cut each class by proportions from Dirichlet(alpha, ..., alpha): the smaller alpha, the more clients differ.

    A client with fewer than `least` examples gets random ones from clients that hold more.
    """
    if not 0 < alpha <= 1e6:
        raise InvalidInput(f"partition dirichlet: alpha must be above 0 and at most 1e6, got {alpha}")
    _check_least("partition dirichlet", least, labels.size, clients)
    owner = np.empty(labels.size, dtype=np.int64)
    for kind in np.unique(labels):
        examples = rng.permutation(np.flatnonzero(labels == kind))
        cuts = np.rint(np.cumsum(rng.dirichlet(np.full(clients, alpha))) * examples.size)
        owner[examples] = np.searchsorted(cuts[:-1], np.arange(examples.size), side="right")
    return _topped_up(owner, clients, least, rng)


def _topped_up(owner: Integers, clients: int, least: int, rng: np.random.Generator) -> Integers:
    """Fill clients up to `least` with examples that others hold beyond it, drawn at random, so that large ones stay
    large.
    """
    sizes = np.bincount(owner, minlength=clients)
    missing = np.maximum(least - sizes, 0)
    if not missing.any():
        return owner
    shuffled = rng.permutation(owner.size)
    by_client = shuffled[np.argsort(owner[shuffled], kind="stable")]
    rank = np.arange(owner.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    surplus = rng.permutation(by_client[rank >= least])[: missing.sum()]
    topped = owner.copy()
    topped[surplus] = np.repeat(np.arange(clients), missing)
    return topped


def shards(labels: Labels, clients: int, rng: np.random.Generator, k: int = 2) -> Integers:
    """Sort by class, in random order within one; cut into clients * k shards, equal to within one example."""
    count = clients * k
    if k < 1 or count > labels.size:
        raise InvalidInput(
            f"partition shards: k must be at least 1 and {clients} * k at most the {labels.size} examples, got {k}"
        )
    shuffled = rng.permutation(labels.size)
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    owner = np.empty(labels.size, dtype=np.int64)
    owner[order] = (rng.permutation(count) // k)[np.arange(labels.size) * count // labels.size]
    return owner


def by_speed(
    labels: Labels, clients: int, rng: np.random.Generator, k: int = 2, slow: int = 0, alone: int = 3
) -> Integers:
    """Deal so that data depends on speed: `alone` classes are held by the last `slow` clients and by nobody else.

    Put the slowest clients last in the fleet; `slow` = 0 means half of them. Each client holds k classes. The first
    clients draw theirs among the common classes; the last ones draw one among those that only they have, and the others
    among all that are left. Which classes these are is drawn too. A class is dealt evenly to the clients that hold it.
    """
    kinds, label = np.unique(labels, return_inverse=True)
    slow = slow or clients // 2
    if not 1 <= alone < kinds.size or not 1 <= k <= kinds.size - alone:
        raise InvalidInput(
            f"partition by-speed: alone and k must be at least 1 and together at most {kinds.size}, the number of "
            f"classes, got alone={alone} and k={k}"
        )
    if not alone <= slow < clients:
        raise InvalidInput(
            f"partition by-speed: slow must be at least alone={alone} and less than the {clients} clients, got {slow}"
        )
    order = rng.permutation(kinds.size)
    rare, common = order[:alone], order[alone:]
    holds = np.zeros((clients, kinds.size), dtype=np.bool_)
    for client in range(clients):
        if client < clients - slow:
            mine = rng.choice(common, k, replace=False).tolist()
        else:
            own = rare[client % alone]  # in turn, so that none is left out
            mine = [own, *rng.choice(np.setdiff1d(order, [own]), k - 1, replace=False).tolist()]
        holds[client, mine] = True
    for left in np.flatnonzero(~holds.any(axis=0)):  # a common class that nobody drew goes to a fast client
        holds[rng.integers(clients - slow), left] = True
    owner = np.empty(label.size, dtype=np.int64)
    for kind in range(kinds.size):
        examples = rng.permutation(np.flatnonzero(label == kind))
        holders = rng.permutation(np.flatnonzero(holds[:, kind]))
        _check_holders("by-speed", kinds[kind], examples.size, holders.size)
        owner[examples] = np.resize(holders, examples.size)  # in turn
    return owner


def _check_least(what: str, least: int, examples: int, clients: int) -> None:
    if least < 1 or least * clients > examples:
        raise InvalidInput(
            f"{what}: least must be at least 1 and, for {clients} clients, within the {examples} examples, got {least}"
        )


DEALERS: dict[str, tuple[Callable[..., Integers], Options]] = {
    "iid": (iid, {"sizes": PowerSizes.parse}),
    "classes": (classes, {"k": int}),
    "dirichlet": (dirichlet, {"alpha": float, "least": int}),
    "shards": (shards, {"k": int}),
    "by-speed": (by_speed, {"k": int, "slow": int, "alone": int}),
}
