"""Replay: apply the tasks of a timeline to an Algorithm, one by one in the order in which they came back.

When a task is dispatched it is pinned to the model that it carries, a reference to a tensor that never changes. A model
version is kept as long as a task in flight needs it, so at most C are held. The batches of a task depend only on its
name.
"""

from collections.abc import Set
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sojourn.correction import Correction, correction_of
from sojourn.errors import SojournError, UnreadableFile
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Algorithm, Arrival, Info, Sent, Setting
from sojourn.learning.execute.executor import Course, Executor, Job, OneByOne, run_courses
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Update
from sojourn.learning.replay.timeline import Ended, Name, Recorded, Timeline
from sojourn.learning.storable import check, storable
from sojourn.trace import Trace

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


@storable("ready")
class Ready(NamedTuple):
    """A task in flight that has been computed already."""

    start: Tensor
    """Where its local work began."""
    update: Update
    """Its update."""


@dataclass
class Tally:
    """The costs of a run so far."""

    received: int = 0
    """Updates received."""
    gradients: int = 0
    """Number of stochastic gradients computed."""
    unused: int = 0
    """Number of these that belong to updates which the algorithm did not use."""
    lost: int = 0
    """Number of tasks that never came back."""
    bits_up: int = 0
    """Bits sent by clients."""
    bits_down: int = 0
    """Bits sent to clients."""
    worked: int = 0
    """Number of tasks that did a local step."""
    loss: float = 0.0
    """Sum of their training losses."""


class Replay:
    """A run of an algorithm along a trace, or along the simulator as it runs, which is advanced step by step."""

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        timeline: Trace | Timeline,
        setting: Setting,
        executor: Executor | None = None,
        total: float = inf,
    ) -> None:
        self.algorithm, self.federation, self.setting = algorithm, federation, setting
        self.executor = executor or OneByOne(federation.model, federation.examples, federation.local)
        self.total = total  # number of updates of the whole run
        self.fleet: Fleet = setting.fleet
        self._timeline = Recorded(timeline) if isinstance(timeline, Trace) else timeline
        self._down, self._up = algorithm.bits_each_way(federation.model.size + federation.model.stats.numel())
        self.ended = 0
        self.time = 0.0
        self.state: Any = algorithm.init(federation.first, setting)
        self.stats = federation.first_stats
        self.kept: dict[int, Any] = {}
        self.pending: dict[Name, Pinned] = {}
        self.ready: dict[Name, Ready] = {}
        self.spoilt = False  # an update that is not finite was found only after it was applied
        self._unsettled: list[tuple[Ended, Tensor, Tensor]] = []
        self.tally = Tally()
        self.staleness = np.zeros(self.fleet.groups, dtype=np.int64)
        self.between = np.zeros(self.fleet.groups, dtype=np.int64)
        self.arrivals = np.zeros(self.fleet.groups, dtype=np.int64)
        self._group: list[int] = self.fleet.group_of_client.tolist()
        self._weight: list[float] = setting.weights.tolist()
        self.correction = Correction(correction_of(algorithm, setting.plan), setting.weights, setting.share)
        self._fresh = True

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
    def done(self) -> bool:
        """Whether all updates of the run have been received, so that tasks in flight are not needed."""
        return self.tally.received >= self.total

    def advance(self, received: int) -> None:
        """Continue until `received` updates have been received, or nothing more happens."""
        run_courses([(self.course(received), self.executor)])
        self.settle()

    def course(self, received: int) -> Course[None]:
        """Do the same, but yield the jobs to the caller, who must call `settle` before reading losses."""
        if self._fresh:
            self._fresh = False
            self._dispatch()
        while self.tally.received < received:
            task = self._timeline.next()
            if task is None:
                break
            if task.applied:
                if task.name not in self.ready:
                    yield from self._wave(task)
                self._receive(task, self.pending[task.name], self.ready[task.name])
                del self.ready[task.name]
            else:
                self.tally.lost += 1
            del self.pending[task.name]
            self.ended += 1
            self._dispatch()

    def _wave(self, task: Ended) -> Course[None]:
        """Compute the task, and with it all others that can be computed, if the executor wants them."""
        tasks = [task]
        if self.executor.waves:
            known = (self._timeline.ahead(name) for name in self.pending if name not in self.ready)
            tasks = sorted((one for one in known if one and one.step < self.total), key=lambda one: one.step) or tasks
        jobs = {one.name: self._job(one) for one in self._independent(tasks)}
        updates = yield list(jobs.values())
        for (name, job), update in zip(jobs.items(), updates, strict=True):
            self.ready[name] = Ready(job.start, update)

    def _independent(self, tasks: list[Ended]) -> list[Ended]:
        """Return the tasks that do not depend on what their client keeps from another task in flight."""
        if not self.algorithm.remembers:
            return tasks
        first = {name[0]: name[1] for name in sorted(self.pending, reverse=True)}
        return [task for task in tasks if first[task.name[0]] == task.name[1]]

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
        """Return the state of the run, as a tree of tensors and plain values."""
        self.settle()
        return {
            "ended": self.ended,
            "time": self.time,
            "state": self.state,
            "stats": self.stats,
            "kept": dict(self.kept),
            "pending": {} if self.done else dict(self.pending),
            "ready": {} if self.done else dict(self.ready),
            "tally": asdict(self.tally),
            "staleness": tuple(self.staleness.tolist()),
            "between": tuple(self.between.tolist()),
            "arrivals": tuple(self.arrivals.tolist()),
            "corrected": self.correction.seen,
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Go from the beginning to the point at which a snapshot was taken."""
        self._check_tree(tree)
        self.ended, self.time, self.state, self.stats = (tree[key] for key in ("ended", "time", "state", "stats"))
        self.kept, self.pending, self.tally = dict(tree["kept"]), dict(tree["pending"]), Tally(**tree["tally"])
        self.ready = dict(tree["ready"])
        self.correction.seen = tree.get("corrected", (0, 0.0))  # older checkpoints have none
        for key in ("staleness", "between", "arrivals"):
            setattr(self, key, np.array(tree[key], dtype=np.int64))
        self._fresh = self.ended == 0 and not self.pending
        if not self._fresh:
            self._timeline.skip(self.ended)

    def _check_tree(self, tree: dict[str, Any]) -> None:
        """Refuse a tree that is not a snapshot of this run: values of other kinds, models of
        another size, other tasks.
        """
        counts, plain = dict[str, int | float], tuple[int, ...]
        kinds = {"ended": int, "time": float, "state": type(self.state), "stats": Tensor, "kept": dict[int, Any]}
        kinds |= {"pending": dict[Name, Pinned], "ready": dict[Name, Ready], "tally": counts}
        if "corrected" in tree:  # older checkpoints have none
            kinds["corrected"] = tuple[int, float]
        check(tree, {**kinds, "staleness": plain, "between": plain, "arrivals": plain})
        pinned, ready = tree["pending"].values(), tree["ready"].values()
        models = [tree["state"].params, *(one.sent.params for one in pinned), *(one.start for one in ready)]
        models += [vector for one in ready for vector in (one.update.gradient, one.update.delta) if vector is not None]
        whole = (
            all(one.shape == self.params.shape and one.dtype == self.params.dtype for one in models),
            tree["stats"].shape == self.stats.shape,
            all(len(tree[key]) == self.fleet.groups for key in ("staleness", "between", "arrivals")),
            tree["tally"].keys() == asdict(self.tally).keys(),
            tree["ready"].keys() <= tree["pending"].keys(),
            all(one.update.loss.numel() == 1 for one in ready),
        )
        if not (all(whole) and self._at_hand(tree["ended"], tree["tally"]["received"], tree["pending"].keys())):
            raise UnreadableFile("the checkpoint does not belong to this run: its models or its tasks are others")

    def _at_hand(self, ended: int, received: int, tasks: Set[Name]) -> bool:
        """Whether a trace has this many updates received by then, and these tasks in flight."""
        if not isinstance(self._timeline, Recorded):
            return True
        step, flying = self._timeline.at(ended)
        useless = not tasks and (ended == 0 or received >= self.total)
        return received == step and (useless or tasks == flying)

    def _receive(self, task: Ended, pinned: Pinned, ready: Ready) -> None:
        client = task.name[0]
        kept, update = self.algorithm.finish(self.kept.get(client), pinned.sent, ready.start, ready.update)
        self._note(task, update)
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
            factor=self.correction.factor(client, task.prob),
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

    def _job(self, task: Ended) -> Job:
        """Return the local work of a task."""
        client, nth = task.name
        pinned, federation, local = self.pending[task.name], self.federation, self.federation.local
        most = local.steps_of(federation.batches.held[client])
        steps = most if local.epochs is not None else task.work
        step_size = local.step_size * local.schedule.factor(task.dispatched_step, task.dispatched_at)
        start, scale = self.algorithm.start(self.kept.get(client), pinned.sent)
        rows = list(federation.batches.of(client, nth, steps, most))
        return Job(start, pinned.stats, rows, step_size * scale, federation.keys(client, nth))

    def _note(self, task: Ended, update: Update) -> None:
        """Check an update's size and loss; later if they are on a device that must not be waited for."""
        vector = update.gradient if update.gradient is not None else update.delta
        assert vector is not None
        norm = torch.dot(vector, vector)
        if vector.is_cuda:
            self._unsettled.append((task, norm, update.loss))
            return
        self._check(task, norm.item())
        self.tally.loss += update.loss.item()

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
        tally.bits_up += self._up
        tally.worked += arrival.update.steps > 0
        self.staleness[group] += behind
        self.between[group] += arrival.staleness
        self.arrivals[group] += 1

    def _dispatch(self) -> None:
        """Pin the tasks that are sent with the present model."""
        stats = self.stats if self.stats.numel() else None
        for name in self._timeline.leaving():
            self.pending[name] = Pinned(self.algorithm.send(self.state, name[0]), stats)
            self.tally.bits_down += self._down
