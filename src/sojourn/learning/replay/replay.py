"""Replay: apply the tasks of a timeline to an Algorithm, one by one in the order in which they came back.

When a task is dispatched it is pinned to the model that it carries, a reference to a tensor that never changes. A model
version is kept as long as a task in flight needs it, so at most C are held. The batches of a task depend only on its
name.
"""

from collections.abc import Mapping, Set
from math import inf
from typing import Any, NamedTuple

from torch import Tensor

from sojourn.errors import UnreadableFile
from sojourn.learning.algorithms.base import Algorithm, Setting
from sojourn.learning.execute.executor import Course, Executor, Job, OneByOne, run_courses
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Update
from sojourn.learning.replay.online import Online
from sojourn.learning.replay.server import Diverged, Pinned, Server, Tally
from sojourn.learning.replay.timeline import Ended, Name, Recorded, Timeline
from sojourn.learning.storable import check, storable
from sojourn.trace import Trace

__all__ = ["Diverged", "Pinned", "Ready", "Replay", "Tally"]


@storable("ready")
class Ready(NamedTuple):
    """A task in flight that has been computed already."""

    start: Tensor
    """Where its local work began."""
    update: Update
    """Its update."""


class Replay(Server):
    """A run of an algorithm along a trace, or along the simulator as it runs, which is advanced step by step."""

    whole = False

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        timeline: Trace | Timeline,
        setting: Setting,
        executor: Executor | None = None,
        total: float = inf,
    ) -> None:
        super().__init__(algorithm, federation.first, federation.first_stats, setting)
        self.federation = federation
        self.executor = executor or OneByOne(federation.model, federation.examples, federation.local)
        self.total = total  # number of updates of the whole run
        if isinstance(timeline, Trace):
            self.correction.follow(timeline.metadata.get("plans", ()))
        self._timeline = Recorded(timeline) if isinstance(timeline, Trace) else timeline
        self._forgotten = forgotten_in(timeline) if isinstance(timeline, Trace) else set()
        self.ended = 0
        self.kept: dict[int, Any] = {}
        self.pending: dict[Name, Pinned] = {}
        self.ready: dict[Name, Ready] = {}
        self._fresh = True

    @property
    def over(self) -> bool:
        """Whether the time of a run is over whose timing is computed as it goes on."""
        return isinstance(self._timeline, Online) and self._timeline.over

    @property
    def done(self) -> bool:
        """Whether all updates of the run have been received, so that tasks in flight are not needed."""
        return self.tally.received >= self.total or self.over

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
                self._lose(task)
            self._discard(task)
            del self.pending[task.name]
            self.ended += 1
            self._dispatch()

    def _wave(self, task: Ended) -> Course[None]:
        """Compute the task, and with it all others that can be computed, if the executor wants them: where local work
        begins with what a client keeps, only the next of each client.
        """
        tasks = [task]
        if self.executor.waves:
            in_turn = getattr(self.algorithm, "starts_from_memory", self.algorithm.remembers)
            known = (self._timeline.ahead(name, in_turn) for name in self.pending if name not in self.ready)
            tasks = sorted((one for one in known if one and one.step < self.total), key=lambda one: one.step) or tasks
        jobs = {one.name: self._job(one) for one in tasks}
        updates = yield list(jobs.values())
        for (name, job), update in zip(jobs.items(), updates, strict=True):
            self.ready[name] = Ready(job.start, update)

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the run, as a tree of tensors and plain values."""
        flying = {"pending": dict(self.pending), "ready": dict(self.ready)}
        return {
            **super().snapshot(),
            "ended": self.ended,
            "kept": dict(self.kept),
            **({"decided": self._timeline.decided} if isinstance(self._timeline, Online) else {}),
            **({"pending": {}, "ready": {}} if self.done else flying),
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Go from the beginning to the point at which a snapshot was taken."""
        super().restore(tree)
        self.ended, self.kept = tree["ended"], dict(tree["kept"])
        self.pending, self.ready = dict(tree["pending"]), dict(tree["ready"])
        self._fresh = self.ended == 0 and not self.pending
        if not self._fresh and isinstance(self._timeline, Online):
            self._timeline.skip(self.ended, tree["decided"])
        elif not self._fresh:
            self._timeline.skip(self.ended)

    def _check_tree(self, tree: dict[str, Any]) -> None:
        """Refuse a tree that is not a snapshot of this run: values of other kinds, models of
        another size, other tasks.
        """
        kinds = {"ended": int, "kept": dict[int, Any], "pending": dict[Name, Pinned], "ready": dict[Name, Ready]}
        if isinstance(self._timeline, Online):
            kinds["decided"] = tuple[int, ...]
        check(tree, kinds)
        super()._check_tree(tree)
        pinned, ready = tree["pending"].values(), tree["ready"].values()
        models = [*(one.sent.params for one in pinned), *(one.start for one in ready)]
        models += [vector for one in ready for vector in (one.update.gradient, one.update.delta) if vector is not None]
        whole = (
            all(one.shape == self.params.shape and one.dtype == self.params.dtype for one in models),
            tree["ready"].keys() <= tree["pending"].keys(),
            all(one.update.loss is not None and one.update.loss.numel() == 1 for one in ready),
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
        done = ready.update._replace(key=self.federation.keys(*task.name))
        kept, update = self.algorithm.finish(self._memory(task), pinned.sent, ready.start, done)
        self.receive(task, pinned.sent, update)
        if kept is not None:
            self.kept[client] = kept

    def _discard(self, task: Ended) -> None:
        """Count the local steps of a task that were begun for nothing."""
        if task.discarded:
            begun = self.federation.steps_of(task.name[0], task.discarded)
            self.tally.gradients += begun
            self.tally.unused += begun

    def _lose(self, task: Ended) -> None:
        """Count a task that was not received. The update of one that came back before it was given up was sent: it
        counts as many bits as the last one received, since it is not computed.
        """
        self.tally.lost += 1
        if task.superseded:
            self.tally.bits_up += self.last_bits
            self.missed(task.name[0])

    def _memory(self, task: Ended) -> Any:
        """Return what the client of a task remembers: nothing if it had been started again before this one."""
        client = task.name[0]
        return None if (client, task.step) in self._forgotten else self.kept.get(client)

    def _job(self, task: Ended) -> Job:
        """Return the local work of a task."""
        pinned, local = self.pending[task.name], self.federation.local
        start, scale = self.algorithm.start(self._memory(task), pinned.sent)
        step_size = local.step_size_at(task.dispatched_step, task.dispatched_at) * scale
        return self.federation.job(*task.name, start, pinned.stats, task.work, step_size)

    def _dispatch(self) -> None:
        """Pin the tasks that are sent with the present model."""
        for name in self._timeline.leaving(self.steps_for):
            self.pending[name] = self.send(name)


def forgotten_in(trace: Trace) -> set[tuple[int, int]]:
    """Return client and step of the updates of a recorded trace whose clients had begun again with an empty memory."""
    memory = trace.metadata.get("memory")
    rows = memory.get("forgotten") if isinstance(memory, Mapping) else None
    pairs = [tuple(row) for row in rows] if isinstance(rows, list | tuple) else []
    return {pair for pair in pairs if len(pair) == 2 and all(isinstance(one, int) for one in pair)}
