"""Chooser: who gets the next task, among the clients that are present, and what share of updates each client has.

`routed` draws by the plan's sampling among present clients that may hold another task; `idle` is the same with a cap of
1; `pure` gives the next task to the client that has just finished, and otherwise to the one that holds the fewest.
`shuffled` goes through the clients in a random order. Who is absent when all others have had their turn misses it: then
a new order begins.

The share that is recorded with a task (`prob`) makes corrections work while clients come and go. Shares are estimated
from the updates received while a client was present, with a prior worth one update per client; where tasks queue
without a cap, the share is the sampling itself (`routed`) or equal for all (`shuffled`). While only some clients are
present, an update counts for as many as there would be in the same time if all were: 1 over the sum of the shares
present. Otherwise clients that stayed while others were away would seem faster than they are. Shares are scaled so that
those of the clients present sum to the part Q of the objective's weights that these clients have. So a correction of 1
steps along

    sum over present clients of (q_i / Q) f_i,

the objective of the clients present, with their weights renormalised.

When the plan changes (`adopt`), the updates counted so far belong to the old one. They are forgotten, and the shares
that the new plan promises are the prior, worth `ADOPTED` updates per client, since they come from measured speeds.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.storable import check
from sojourn.plan import Plan
from sojourn.random import TaskKeys
from sojourn.types import Floats, Integers

KNOWN = ("routed", "idle", "pure", "shuffled")
ADOPTED = 10.0  # worth of the shares that a plan promises for measured speeds, in updates per client
_UNIT = 2.0**-63


class InForce(NamedTuple):
    """What a plan says of every client."""

    sampling: Floats
    """Probability or weight of each client."""
    cap: Floats
    """Most tasks that each client may hold; inf = any number."""
    share: Floats
    """Promised share of each client in all updates, if all are present."""
    concurrency: int
    """Tasks in flight."""


@dataclass(eq=False)
class Chooser:
    """The clients that are present, what they hold, and the draw of the next one.

    >>> plan = Plan(("all",), np.array([3]), np.array([1 / 3]), 2, cap=np.ones(1))
    >>> chooser = Chooser(plan, np.full(3, 1 / 3), np.full(3, 1 / 3))
    >>> chooser.choose(None) is None
    True
    >>> chooser.arrive(1); chooser.choose(None), round(chooser.share(1), 3)
    (1, 0.333)
    """

    plan: Plan
    """The plan, with the cap that the dispatcher implies."""
    weights: Floats
    """Weight q of every client in the objective."""
    prior: Floats
    """Expected share of every client in all updates, if all are present."""
    dispatcher: str = "routed"
    """Name of the dispatcher: routed, idle, pure or shuffled."""
    seed: int = 0
    """Seed of the draws."""
    present: NDArray[np.bool_] = field(init=False)
    """Whether a client is there and may get tasks."""
    held: NDArray[np.int64] = field(init=False)
    """Number of tasks that each client holds, in its queue or in its hands."""
    received: NDArray[np.int64] = field(init=False)
    """Number of updates received from each client while it was present."""
    missed: Floats = field(init=False)
    """Updates while the client was absent, up to when it last came, as many as if all had been present."""
    drawn: int = 0
    """Number of draws so far: the random state."""
    worth: float = 1.0
    """Worth of the prior, in updates per client."""

    def __post_init__(self) -> None:
        if self.dispatcher not in KNOWN:
            raise InvalidInput(
                f"a live run dispatches by {', '.join(KNOWN)}, got {self.dispatcher}; use an algorithm that lets tasks "
                "queue, or give it a dispatch option"
            )
        clients = int(self.plan.count.sum())
        sampling, cap = (np.repeat(one, self.plan.count) for one in (self.plan.sampling, self.plan.cap))
        self._obey(InForce(sampling, cap, self.prior, self.plan.concurrency))
        self._keys = TaskKeys(self.seed)
        self.present, self._had = (np.zeros(clients, np.bool_) for _ in range(2))  # had: its turn in this order
        self.held, self.received = (np.zeros(clients, np.int64) for _ in range(2))
        self.missed = np.zeros(clients)
        self._left = np.zeros(clients)  # the total when the client left
        self._total = 0.0  # updates, as many as if all clients had always been present

    def adopt(self, plan: InForce) -> None:
        """Follow another plan from now on, and count shares anew."""
        self._obey(plan)
        self.prior, self.worth = plan.share, ADOPTED
        self._total = 0.0
        for one in (self.received, self.missed, self._left):
            one[:] = 0

    def _obey(self, plan: InForce) -> None:
        """Take over whom to sample and how much a client may hold, as the dispatcher reads them."""
        even = self.dispatcher == "shuffled"
        self._sampling = np.full(plan.cap.size, 1 / plan.cap.size) if even else plan.sampling
        cap = np.ones(plan.cap.size) if self.dispatcher == "idle" else plan.cap
        self._cap = np.minimum(cap, plan.concurrency).astype(np.int64)
        self._fixed = self.dispatcher in ("routed", "shuffled") and not np.isfinite(plan.cap).any()

    @property
    def shares(self) -> Floats:
        """Share of every client, as `share` has it; those of absent clients are as if they had come."""
        weight = float(self.weights[self.present].sum())
        believed = self._sampling if self._fixed else self._believed()
        return np.asarray(believed / believed[self.present].sum() * weight)

    @property
    def places(self) -> int:
        """Number of tasks that the clients present may hold."""
        return int(self._cap[self.present].sum())

    def arrive(self, client: int) -> None:
        """Note that a client is present."""
        if not self.present[client]:
            self.present[client] = True
            self.missed[client] += self._total - self._left[client]

    def depart(self, client: int) -> None:
        """Note that a client is absent; it gets no tasks until it arrives again."""
        if self.present[client]:
            self.present[client] = False
            self._left[client] = self._total

    def take(self, client: int) -> None:
        """Note that a client gets a task."""
        self.held[client] += 1

    def release(self, client: int, used: bool) -> None:
        """Note that a task of a client has ended; `used` = its update was received."""
        self.held[client] -= 1
        if used and self.present[client]:
            self._total += 1.0 if self._fixed else 1 / float(self._believed()[self.present].sum())
            self.received[client] += 1

    def choose(self, finisher: int | None) -> int | None:
        """Return the client that gets the next task; None = no client present has room.

        `finisher` is the client whose task has just ended; None = there is none.
        """
        if self.dispatcher == "pure":
            return self._next(finisher)
        room = np.flatnonzero(self.present & (self.held < self._cap))
        if self.dispatcher == "shuffled":
            return self._turn(room)
        return self._drawn(room)

    def _drawn(self, among: Integers) -> int | None:
        """Draw one of these clients by the sampling; None = there is none."""
        if among.size <= 1:
            return int(among[0]) if among.size else None
        edges = np.cumsum(self._sampling[among])
        point = self._keys(0, self.drawn) * _UNIT * edges[-1]
        self.drawn += 1
        return int(among[min(int(np.searchsorted(edges, point, side="right")), among.size - 1)])

    def _turn(self, room: Integers) -> int | None:
        """Draw one of these clients that has not had its turn; if all have, a new order begins."""
        if self._had[room].all():
            self._had[:] = False
        client = self._drawn(room[~self._had[room]])
        if client is not None:
            self._had[client] = True
        return client

    def _next(self, finisher: int | None) -> int | None:
        if finisher is not None and self.present[finisher] and self.held[finisher] < self._cap[finisher]:
            return finisher
        room = np.flatnonzero(self.present & (self.held < self._cap))
        return int(room[np.argmin(self.held[room])]) if room.size else None

    def share(self, client: int) -> float:
        """Return the client's share of updates, scaled so that those of the clients present sum to their weights."""
        weight = float(self.weights[self.present].sum())
        if self._fixed:
            return float(self._sampling[client] / self._sampling[self.present].sum() * weight)
        believed = self._believed()
        return float(believed[client] / believed[self.present].sum() * weight)

    def _believed(self) -> Floats:
        """Return the share of each client if all were present, as far as is known; it holds for those present."""
        many = self.present.size * self.worth
        return np.asarray((self.received + many * self.prior) / (self._total - self.missed + many))

    def snapshot(self) -> dict[str, Any]:
        """Return the state, as a tree of tensors and numbers; presence is not part of it."""
        left = np.where(self.present, self._total, self._left)
        arrays = {"received": self.received, "missed": self.missed, "left": left, "had": self._had}
        tensors: dict[str, Any] = {key: torch.from_numpy(one.copy()) for key, one in arrays.items()}
        return tensors | {"drawn": self.drawn, "total": self._total}

    def restore(self, tree: dict[str, Any]) -> None:
        """Take over the state of a snapshot; nobody is present, and nobody holds a task."""
        check(tree, {"received": Tensor, "missed": Tensor, "left": Tensor, "drawn": int, "total": float})
        self.drawn, self._total = tree["drawn"], tree["total"]
        if "had" in tree:  # older checkpoints do not have it
            check(tree, {"had": Tensor})
            self._had[:] = tree["had"].numpy()
        for key, mine in (("received", self.received), ("missed", self.missed), ("left", self._left)):
            mine[:] = tree[key].numpy()
