"""Server: what the server does with updates, whether they are replayed along a trace or come from real clients.

It holds the algorithm's state, pins each task to the model that it is sent with, applies updates in the order in which
they come back, and counts. Replay and the live loop decide when; both end with the same bits for the same updates.
"""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sojourn.correction import Correction, correction_of
from sojourn.errors import SojournError, UnreadableFile
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Algorithm, Arrival, Info, Sent, Setting
from sojourn.learning.replay.local import Update
from sojourn.learning.replay.timeline import Ended, Name
from sojourn.learning.storable import check, storable
from sojourn.learning.wrappers.wrapped import columns_of, measures_of, missed

STATS_SHARE = 0.1  # weight of a client's statistics in the server's, each time it sends them


class Diverged(SojournError):
    """An update or a model is not finite."""

    def __init__(self, what: str, kept: str = "") -> None:
        super().__init__(f"{what}; {kept}" if kept else what)
        self.what = what  # without where the run is kept


@storable("pinned")
class Pinned(NamedTuple):
    """What a task in flight carries."""

    sent: Sent
    """The model."""
    stats: Tensor | None
    """Its statistics; None = it has none."""


@dataclass
class Tally:
    """The costs of a run so far."""

    received: int = 0
    """Updates received."""
    gradients: int = 0
    """Number of stochastic gradients computed."""
    unused: int = 0
    """Number of these that belong to updates which the algorithm did not use or to tasks that the server gave up, or
    that the server's call interrupted.
    """
    lost: int = 0
    """Number of tasks that never came back."""
    bits_up: int = 0
    """Bits sent by clients."""
    bits_down: int = 0
    """Bits sent to clients."""
    worked: int = 0
    """Number of tasks that did a local step and told its loss."""
    loss: float = 0.0
    """Sum of their training losses."""


class Server:
    """The state of an algorithm on the server, and the costs so far."""

    whole = True
    """Whether whole models are sent, as between live processes, whatever `bits` of a message says."""
    at_once = False
    """Whether an update is checked before it is applied, even on a device that would rather not be waited for."""

    def __init__(self, algorithm: Algorithm, first: Tensor, stats: Tensor, setting: Setting) -> None:
        self.algorithm, self.setting = algorithm, setting
        self.fleet: Fleet = setting.fleet
        self._down, self._up = algorithm.bits_each_way(first.numel() + stats.numel())
        self.time = 0.0
        self.state: Any = algorithm.init(first, setting)
        self.stats = stats
        self.spoilt = False  # an update that is not finite was found only after it was applied
        self._unsettled: list[tuple[Ended, Tensor, Tensor]] = []
        self.tally = Tally()
        self.last_bits = self._up  # of the update received last
        self.staleness = np.zeros(self.fleet.groups, dtype=np.int64)
        self.between = np.zeros(self.fleet.groups, dtype=np.int64)
        self.arrivals = np.zeros(self.fleet.groups, dtype=np.int64)
        self._group: list[int] = self.fleet.group_of_client.tolist()
        self._weight: list[float] = setting.weights.tolist()
        self.correction = Correction(correction_of(algorithm, setting.plan), setting.weights, setting.share)

    @property
    def received(self) -> int:
        """Number of updates received so far."""
        return self.tally.received

    @property
    def params(self) -> Tensor:
        """The server's model."""
        params: Tensor = self.state.params
        return params

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of what the algorithm measures itself."""
        return columns_of(self.algorithm, self.setting)

    @property
    def measures(self) -> tuple[float, ...]:
        """Their values."""
        return measures_of(self.algorithm, self.state, self.setting)

    def send(self, name: Name) -> Pinned:
        """Return what a task carries that is sent with the present model."""
        sent = self.algorithm.send(self.state, name[0])
        self.tally.bits_down += self._down if sent.bits is None or self.whole else sent.bits
        return Pinned(sent, self.stats if self.stats.numel() else None)

    def steps_for(self, client: int) -> int | None:
        """Return the local steps of the client's next task, if the algorithm sets them; otherwise None."""
        return self.algorithm.local_steps(self.state, client) if self.algorithm.sets_steps else None

    def missed(self, client: int) -> None:
        """Take note of an update that has come and is not used."""
        self.state = missed(self.algorithm, self.state, client)

    def receive(self, task: Ended, sent: Sent, update: Update) -> None:
        """Apply the update of a task; `sent` is what the task carried."""
        self._note(task, update)
        update = update.on(self.params.device)
        client = task.name[0]
        arrival = Arrival(
            client=client,
            step=task.step,
            dispatched_step=task.dispatched_step,
            time=task.time,
            prob=task.prob,
            weight=self._weight[client],
            sent=sent,
            update=update,
            factor=self.correction.factor(client, task.prob, task.dispatched_at),
        )
        behind = self.state.version - sent.version
        self.state, info = self.algorithm.apply(self.state, arrival)
        self._count(arrival, info, behind)
        if update.stats is not None:
            self.stats = torch.lerp(self.stats, update.stats, STATS_SHARE)
        self.tally.received += 1
        self.time = arrival.time
        if task.closes:
            self.state = self.algorithm.tick(self.state)

    def settle(self) -> None:
        """Add the losses of the last updates and check that these were finite, if the device had
        not reported that yet.
        """
        if not self._unsettled:
            return
        tasks, norms, losses = zip(*self._unsettled, strict=True)
        self._unsettled = []
        self.tally.loss = sum(torch.stack(losses).tolist(), self.tally.loss)
        for task, norm in zip(tasks, torch.stack(norms).tolist(), strict=True):
            self._check(task, norm)

    def snapshot(self) -> dict[str, Any]:
        """Return the state, as a tree of tensors and plain values."""
        self.settle()
        return {
            "time": self.time,
            "state": self.state,
            "stats": self.stats,
            "tally": asdict(self.tally),
            "staleness": tuple(self.staleness.tolist()),
            "between": tuple(self.between.tolist()),
            "arrivals": tuple(self.arrivals.tolist()),
            "corrected": self.correction.seen,
            "last_bits": self.last_bits,
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Take over the state of a snapshot."""
        self._check_tree(tree)
        self.time, self.state, self.stats = tree["time"], tree["state"], tree["stats"]
        self.tally = Tally(**tree["tally"])
        self.correction.seen = tree.get("corrected", (0, 0.0))  # older checkpoints have none
        self.last_bits = tree.get("last_bits", self._up)  # nor these
        for key in ("staleness", "between", "arrivals"):
            setattr(self, key, np.array(tree[key], dtype=np.int64))

    def _check_tree(self, tree: dict[str, Any]) -> None:
        """Refuse a tree that is not a snapshot of this server: values of other kinds, or models of another size."""
        plain = tuple[int, ...]
        kinds: dict[str, Any] = {"time": float, "state": type(self.state), "stats": Tensor}
        kinds |= {"tally": dict[str, int | float], "staleness": plain, "between": plain, "arrivals": plain}
        if "corrected" in tree:  # older checkpoints have none
            kinds["corrected"] = tuple[int, float]
        if "last_bits" in tree:
            kinds["last_bits"] = int
        check(tree, kinds)
        model = tree["state"].params
        whole = (
            model.shape == self.params.shape and model.dtype == self.params.dtype,
            tree["stats"].shape == self.stats.shape,
            all(len(tree[key]) == self.fleet.groups for key in ("staleness", "between", "arrivals")),
            tree["tally"].keys() == asdict(self.tally).keys(),
        )
        if not all(whole):
            raise UnreadableFile("the checkpoint does not belong to this run: its models or its tasks are others")

    def _note(self, task: Ended, update: Update) -> None:
        """Check an update's size and loss; later if they are on a device that must not be waited for."""
        vector = update.vector
        norm = torch.dot(vector, vector)
        loss = torch.zeros_like(norm) if update.loss is None else update.loss
        if vector.is_cuda and not self.at_once:
            self._unsettled.append((task, norm, loss))
            return
        self._check(task, norm.item())
        self.tally.loss += loss.item()

    def _check(self, task: Ended, norm: float) -> None:
        if not isfinite(norm):
            self.spoilt = self.tally.received > task.step
            client, nth = task.name
            raise Diverged(
                f"the update of client {client} ('{self.fleet.client_name(client)}'), its task {nth}, is not finite at "
                f"step {task.step}; lower the step sizes, or clip"
            )

    def _count(self, arrival: Arrival, info: Info, behind: int) -> None:
        tally, group = self.tally, self._group[arrival.client]
        tally.gradients += arrival.update.steps
        tally.unused += 0 if info.used else arrival.update.steps
        own = arrival.update.bits
        self.last_bits = self._up if own is None else own
        tally.bits_up += self.last_bits
        tally.worked += arrival.update.steps > 0 and arrival.update.loss is not None
        self.staleness[group] += behind
        self.between[group] += arrival.staleness
        self.arrivals[group] += 1
