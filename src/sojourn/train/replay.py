"""Replay: what the tasks of a timeline were worth to an Algorithm, one by one in the order in which they came back.

A task is pinned when it is dispatched: to the model that it carries, a reference to a tensor that never changes. Model
versions live as long as a task in flight needs them, so that at most C are held. Which batches a task sees depends on
its name alone.
"""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import SojournError
from sojourn.fleet import Fleet
from sojourn.trace import Trace
from sojourn.train.algorithms.base import Algorithm, Arrival, Info, Sent, Setting
from sojourn.train.federation import Federation
from sojourn.train.local import Update, work
from sojourn.train.timeline import Ended, Name, Recorded, Timeline

STATS_SHARE = 0.1  # of a client's statistics in the server's, each time it sends them


class Diverged(SojournError):
    """A gradient that is not a number."""


class Pinned(NamedTuple):
    """What a task in flight carries."""

    sent: Sent
    """The model."""
    stats: Tensor | None
    """Its statistics; None = it has none."""


@dataclass
class Tally:
    """What a run has cost so far."""

    received: int = 0
    """Updates received."""
    gradients: int = 0
    """Stochastic gradients computed for them."""
    unused: int = 0
    """Of these, gradients of updates that the algorithm did not use."""
    lost: int = 0
    """Tasks that never came back."""
    bits_up: int = 0
    """Bits sent by clients."""
    bits_down: int = 0
    """Bits sent to clients."""
    worked: int = 0
    """Tasks that did a local step."""
    loss: float = 0.0
    """Sum of their training losses."""


class Replay:
    """A run of an algorithm over a trace, or over the engine as it runs, to be advanced step by step."""

    def __init__(
        self, algorithm: Algorithm, federation: Federation, timeline: Trace | Timeline, setting: Setting
    ) -> None:
        self.algorithm, self.federation, self.setting = algorithm, federation, setting
        self.fleet: Fleet = setting.fleet
        self._timeline = Recorded(timeline) if isinstance(timeline, Trace) else timeline
        self._down, self._up = algorithm.bits_each_way(federation.model.size + federation.model.stats.numel())
        self.ended = 0
        self.time = 0.0
        self.state: Any = algorithm.init(federation.first, setting)
        self.stats = federation.first_stats
        self.kept: dict[int, Any] = {}
        self.pending: dict[Name, Pinned] = {}
        self.tally = Tally()
        self.staleness = np.zeros(self.fleet.groups, dtype=np.int64)
        self.between = np.zeros(self.fleet.groups, dtype=np.int64)
        self.arrivals = np.zeros(self.fleet.groups, dtype=np.int64)
        self._group: list[int] = self.fleet.group_of_client.tolist()
        self._weight: list[float] = setting.weights.tolist()
        self._fresh = True

    @property
    def received(self) -> int:
        """Updates received so far."""
        return self.tally.received

    @property
    def params(self) -> Tensor:
        """The server's model."""
        params: Tensor = self.state.params
        return params

    def advance(self, received: int) -> None:
        """Go on until so many updates have been received, or nothing more happens."""
        if self._fresh:
            self._fresh = False
            self._dispatch()
        while self.tally.received < received:
            task = self._timeline.next()
            if task is None:
                return
            if task.applied:
                self._receive(task, self.pending[task.name])
            else:
                self.tally.lost += 1
            del self.pending[task.name]
            self.ended += 1
            self._dispatch()

    def snapshot(self) -> dict[str, Any]:
        """Where the run stands, as a tree of tensors and plain values."""
        return {
            "ended": self.ended,
            "time": self.time,
            "state": self.state,
            "stats": self.stats,
            "kept": self.kept,
            "pending": self.pending,
            "tally": asdict(self.tally),
            "staleness": self.staleness.tolist(),
            "between": self.between.tolist(),
            "arrivals": self.arrivals.tolist(),
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Go from the beginning to where a snapshot was taken."""
        self.ended, self.time, self.state, self.stats = (tree[key] for key in ("ended", "time", "state", "stats"))
        self.kept, self.pending, self.tally = dict(tree["kept"]), dict(tree["pending"]), Tally(**tree["tally"])
        for key in ("staleness", "between", "arrivals"):
            setattr(self, key, np.array(tree[key], dtype=np.int64))
        self._fresh = self.ended == 0 and not self.pending
        if not self._fresh:
            self._timeline.skip(self.ended)

    def _receive(self, task: Ended, pinned: Pinned) -> None:
        client = task.name[0]
        kept, update = self._work(task, pinned)
        self._check(update, task)
        if kept is not None:
            self.kept[client] = kept
        arrival = Arrival(
            client=client,
            step=task.step,
            dispatched_step=task.dispatched_step,
            time=task.time,
            prob=task.prob,
            weight=self._weight[client],
            sent=pinned.sent,
            update=update,
        )
        behind = self.state.version - pinned.sent.version
        self.state, info = self.algorithm.apply(self.state, arrival)
        self._count(arrival, info, behind)
        if update.stats is not None:
            self.stats = torch.lerp(self.stats, update.stats, STATS_SHARE)
        self.tally.received += 1
        self.time = arrival.time
        if task.closes:
            self.state = self.algorithm.tick(self.state)

    def _work(self, task: Ended, pinned: Pinned) -> tuple[Any, Update]:
        """What the client does: the algorithm's client side around the local work of this very task."""
        client, nth = task.name
        federation, local = self.federation, self.federation.local
        most = local.steps_of(federation.batches.held[client])
        steps = most if local.epochs is not None else task.work
        federation.model.begin(pinned.stats)
        if federation.model.random:
            torch.manual_seed(hash((federation.seed, client, nth)) & 0x7FFF_FFFF_FFFF_FFFF)
        rate = local.rate * local.schedule.factor(task.dispatched_step, task.dispatched_at)
        batches = (federation.batch(one) for one in federation.batches.of(client, nth, steps, most))

        def do(start: Tensor, scale: float = 1.0) -> Update:
            return work(federation.model, local, start, batches, rate * scale)

        return self.algorithm.work(self.kept.get(client), pinned.sent, do)

    def _check(self, update: Update, task: Ended) -> None:
        vector = update.gradient if update.gradient is not None else update.delta
        assert vector is not None
        if not isfinite(torch.dot(vector, vector).item()):
            client, nth = task.name
            raise Diverged(
                f"the update of client {client} ('{self.fleet.client_name(client)}'), its task {nth}, is not finite at "
                f"step {task.step}; lower the rates, or clip"
            )

    def _count(self, arrival: Arrival, info: Info, behind: int) -> None:
        tally, group = self.tally, self._group[arrival.client]
        tally.gradients += arrival.update.steps
        tally.unused += 0 if info.used else arrival.update.steps
        tally.bits_up += self._up
        if arrival.update.steps:
            tally.worked += 1
            tally.loss += arrival.update.loss.item()
        self.staleness[group] += behind
        self.between[group] += arrival.staleness
        self.arrivals[group] += 1

    def _dispatch(self) -> None:
        """Pin the tasks that leave with the present model."""
        stats = self.stats if self.stats.numel() else None
        for name in self._timeline.leaving():
            self.pending[name] = Pinned(self.algorithm.send(self.state, name[0]), stats)
            self.tally.bits_down += self._down
