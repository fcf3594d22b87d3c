"""The loop of a live run: it keeps tasks in flight, applies updates as they arrive, and commits what it has done.

At most C tasks are in flight, and no more than the clients present may hold; the rest is parked and sent when a place
opens. A task carries the model of its dispatch. An update is applied through the same Server as in a simulated run, so
replaying the recorded trace gives the same model to the bit. An update is acknowledged once it is on the disk.

With a follower the plan may change while the run goes on. Tasks in flight stay under the plan that they were sent
under; `plans` lists when each plan took effect, so that a replay knows which one a task belongs to.

What ends a task: its update is applied; it is lost (its client is gone, or took too long); it is dropped (its client
had not fetched it yet when it left, or when the server was started again); or it is refused (its update was of no use).
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, isnan, nan, nextafter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import UnreadableFile
from sojourn.learning.algorithms.base import Sent
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server import Diverged, Pinned, Server
from sojourn.learning.replay.timeline import Ended
from sojourn.learning.storable import check
from sojourn.live.chooser import Chooser, InForce
from sojourn.live.controls import Controls
from sojourn.live.engine import Arrived, Engine, Event, Joined, Left, Offer, Pulled, Rejected, TaskName
from sojourn.live.follower import Follower, Moment
from sojourn.live.journal import ROW, Commit, Journal
from sojourn.live.patience import Patience
from sojourn.live.planner import Found
from sojourn.trace import APPLIED, DROPPED, FATES, IN_FLIGHT, LOST, REFUSED
from sojourn.types import Floats

Report = Callable[[str, Mapping[str, Any]], None]
"""Called with the name of what happened and facts about it."""
IDLE = 0.5  # seconds to wait for an event if nothing else is due
LOOK = 0.25  # seconds between two looks at who takes too long
RECENT = 4096  # ended tasks that are remembered, to answer repeated messages, besides those not committed
EACH = 3, 32  # of these, per client: at least and at most; a client may hear of its updates several tasks later
LATE, UNKNOWN = "it came too late", "the server does not know this task"
REMEMBERED = 1000  # refusals that the trace keeps with their reasons


class Flying(NamedTuple):
    """A task in flight."""

    name: TaskName
    """Its name."""
    sent: Sent
    """What it carries; after a restart the model is gone, and only its version is known."""
    dispatched_at: float
    """Time of dispatch."""
    dispatched_step: int
    """Number of updates in its model."""
    prob: float
    """The client's share as believed at dispatch."""
    pulled_at: float = nan
    """Time at which the client received it; NaN = not yet, or before a restart."""
    deadline: float = inf
    """Time at which it is given up."""
    known: bool = True
    """False after a restart, until the client says that it has the task."""


@dataclass
class Limits:
    """When the loop ends, and how much it tolerates."""

    updates: float = inf
    """Updates to receive."""
    time: float = inf
    """Time to run for, in seconds."""
    begin_with: int = 1
    """Clients that must be present before the first task is sent."""
    strikes: int = 3
    """Refused messages in a row after which a client is expelled."""


@dataclass
class Faults:
    """What went wrong so far, by kind; refusals with their reasons."""

    counts: Counter[str] = field(default_factory=Counter)
    """Numbers: lost, dropped, refused, late, timeouts, expelled."""
    refusals: list[dict[str, Any]] = field(default_factory=list)
    """The first refusals: time, client, nth, reason."""
    strikes: Counter[int] = field(default_factory=Counter)
    """Refusals in a row, by client."""
    expelled: dict[int, str] = field(default_factory=dict)
    """Clients that are admitted no more, and why."""


class Loop:
    """Keeps C tasks in flight over an engine, and applies what comes back."""

    def __init__(
        self,
        server: Server,
        local: Local,
        engine: Engine,
        chooser: Chooser,
        journal: Journal,
        limits: Limits,
        patience: Patience,
        epoch: int = 1,
        report: Report | None = None,
        follower: Follower | None = None,
    ) -> None:
        self.server, self.local, self.engine, self.chooser = server, local, engine, chooser
        self.journal, self.limits, self.patience, self.epoch = journal, limits, patience, epoch
        self.concurrency = server.setting.plan.concurrency
        self.pending: dict[tuple[int, int], Flying] = {}
        self.faults = Faults()
        self.names: dict[str, int] = {}
        self.resumes: list[dict[str, Any]] = []
        self.follower = follower
        self.controls = Controls()
        self._paused = False
        if follower is not None:
            self.controls.never_replans = None
        self.plans: list[dict[str, Any]] = []
        """The plans so far: when each took effect, and what it promises; empty = the plan never changes."""
        self.force: InForce | None = None  # None = the plan of the beginning
        self._report = report or (lambda what, facts: None)
        self._sent = np.zeros(server.fleet.clients, np.int64)
        self._rows: list[tuple[Any, ...]] = []
        self._safe: list[TaskName] = []
        self._recent: dict[int, list[tuple[TaskName, int]]] = {}
        self._remembered = min(max(EACH[0], RECENT // server.fleet.clients), EACH[1])
        self._ended: Counter[int] = Counter()  # tasks that ended since the last commit, by client
        self._zero = engine.now()
        self._looked = 0.0
        self._latest = 0.0
        self._begun = False
        self._changed = True
        self._begin: float | None = None  # when the first task was sent; time counts from there

    @property
    def now(self) -> float:
        """Seconds that the run has been going; the time that the server was down does not count."""
        return self.engine.now() - self._zero

    @property
    def done(self) -> bool:
        """Whether the run has reached its end."""
        return self.server.received >= self.limits.updates or (self._begun and self.now >= self.limits.time)

    def run(self, stop: threading.Event, watch: Callable[[], None] | None = None) -> bool:
        """Run until the end, or until `stop` is set; return whether the end was reached.

        `watch` is called after every event. At the end everything is committed and acknowledged.
        """
        while not self.done and not stop.is_set():
            event = self.engine.receive(self._timeout())
            finisher = None if event is None else self.handle(event)
            self._give_up()
            self._heed()
            self._follow()
            self._fill(finisher)
            self._save()
            if watch is not None:
                watch()
        self.commit()
        return self.done

    def handle(self, event: Event) -> int | None:
        """Take note of an event; return the client whose task has ended, if one has."""
        match event:
            case Arrived():
                return self._arrived(event)
            case Pulled(name, at):
                self._pulled(name, at)
            case Joined():
                self._joined(event)
            case Left(client, reason):
                self._left(client, reason)
            case Rejected(client, name, reason):
                self._rejected(client, name, reason)
        return None

    def commit(self) -> None:
        """Write everything to the disk now, and acknowledge it."""
        self.journal.flush()
        self._commit()
        self.journal.flush()

    def _heed(self) -> None:
        """Do what people have asked for."""
        if self.controls.paused != self._paused:
            self._paused = self.controls.paused
            self._report("paused" if self._paused else "went on", {"received": self.server.received})
        if self.controls.planning and self.follower is not None:
            self.controls.planning = False
            self.follower.ask()

    # plans

    def _follow(self) -> None:
        """Learn whether there is a new plan, and let it take effect."""
        if self.follower is None or not self._begun:
            return
        time, updates = self.limits.time - self.now, self.limits.updates - self.server.received
        moment = Moment(self.now, self.server.received, self.chooser.present, self._ages, max(time, 0.0), updates)
        found = self.follower.look(moment)
        if found is not None:
            self.adopt(*found)

    def adopt(self, found: Found, reason: str) -> None:
        """Send all further tasks under a new plan."""
        assert self.follower is not None
        at = self._latest = max(self.now, self._latest)
        entry = {
            "time": at,
            "step": self.server.received,
            "reason": reason,
            "hash": found.plan.hash,
            "concurrency": found.force.concurrency,
            "correction": found.correction,
            "mean_factor": found.mean_factor,
            "present": int(self.chooser.present.sum()),
            **found.promises,
        }
        self.follower.keep(len(self.plans), found, entry)
        self.plans.append(entry)
        self._take_up(found.force)
        self._changed = True
        self._report("plan", {"number": len(self.plans) - 1, **entry})

    def _take_up(self, force: InForce) -> None:
        self.force, self.concurrency = force, force.concurrency
        self.chooser.adopt(force)
        self.server.correction.follow(self.plans)

    def _ages(self) -> Floats:
        """Return how long each client has had the task in its hands; 0 = it has none."""
        ages = np.zeros(self._sent.size)
        for one in self.pending.values():
            if not isnan(one.pulled_at):
                ages[one.name.client] = max(ages[one.name.client], self.now - one.pulled_at)
        return ages

    # tasks out

    def _fill(self, finisher: int | None) -> None:
        """Send tasks until C are in flight, or no client present has room."""
        if self._paused:
            return
        if not self._begun:
            if int(self.chooser.present.sum()) < self.limits.begin_with:
                return
            self._begun, self._zero = True, self.engine.now() - (self._begin or 0.0)
        while len(self.pending) < self.concurrency:
            client = self.chooser.choose(finisher)
            finisher = None
            if client is None:
                return
            self._send(client)

    def _send(self, client: int) -> None:
        at, step = max(self.now, nextafter(self._latest, inf)), self.server.received
        self._latest = at  # no two tasks are sent at the same time, so that their order can be read from the trace
        name = TaskName(client, int(self._sent[client]), self.epoch)
        self._sent[client] += 1
        pinned: Pinned = self.server.send((client, name.nth))
        self.pending[client, name.nth] = Flying(name, pinned.sent, at, step, self.chooser.share(client))
        self.chooser.take(client)
        steps = 0 if self.local.epochs is not None else self.local.steps
        step_size = self.local.step_size_at(step, at)
        version = pinned.sent.version
        self.engine.offer(Offer(name, pinned.sent.params, pinned.stats, step, step_size, steps, version))
        self._changed = True

    def _pulled(self, name: TaskName, at: float) -> None:
        flying = self._flying(name)
        if flying is not None:
            begun = at - self._zero
            deadline = begun + self.patience.of(name.client)
            self.pending[name.client, name.nth] = flying._replace(pulled_at=begun, deadline=deadline)

    # updates in

    def _arrived(self, event: Arrived) -> int | None:
        name, flying = event.name, self._flying(event.name)
        if flying is None:
            self._unexpected(event)
            return None
        at = self.now
        began, ended = _service(flying, event, event.at - self._zero)
        task = Ended(
            name=(name.client, name.nth),
            applied=True,
            step=self.server.received,
            dispatched_step=flying.dispatched_step,
            time=at,
            dispatched_at=flying.dispatched_at,
            prob=flying.prob,
            work=event.update.steps,
            closes=False,
        )
        try:
            self.server.receive(task, flying.sent, event.update)
        except Diverged:
            self._refuse(flying, "its numbers are too large")
            return name.client
        self.patience.note(name.client, event.held if isnan(flying.pulled_at) else at - flying.pulled_at)
        if self.follower is not None:
            travel = event.at - self._zero - flying.pulled_at - event.held
            self.follower.note(name.client, event.service, max(0.0, travel) if not isnan(travel) else nan)
        self.faults.strikes.pop(name.client, None)
        self._end(flying, APPLIED, began, ended, at, task.step, task.work)
        self._safe.append(name)
        return name.client

    def _unexpected(self, event: Arrived) -> None:
        """Answer an update that nobody waits for: repeated, late, or of a task that a crash has undone."""
        name = event.name
        fate = next((fate for one, fate in self._recent.get(name.client, []) if one == name), None)
        if fate == APPLIED:
            self._safe.append(name)  # the commit that has it may not be on the disk yet
            self._changed = True
            return
        self.patience.note(name.client, event.held)
        if self.follower is not None:
            self.follower.note(name.client, event.service, nan)
        self.faults.counts["late"] += 1
        reason = LATE if fate is not None else UNKNOWN
        self._note_refusal(name.client, name.nth, reason)
        self.engine.refuse(name, reason)
        self._back(name.client)

    def _refuse(self, flying: Flying, reason: str) -> None:
        """End a task whose update is of no use."""
        self.engine.refuse(flying.name, reason)
        self._end(flying, REFUSED, nan, nan, self.now)
        self._strike(flying.name.client, flying.name.nth, reason)

    def _rejected(self, client: int, name: TaskName | None, reason: str) -> None:
        """The engine has refused a message: the task that it was about has ended, if it was in flight."""
        flying = None if name is None else self._flying(name)
        if flying is not None:
            self._end(flying, REFUSED, nan, nan, self.now)
        self._strike(client, -1 if name is None else name.nth, reason)

    def _strike(self, client: int, nth: int, reason: str) -> None:
        self._note_refusal(client, nth, reason)
        self.faults.strikes[client] += 1
        if self.faults.strikes[client] >= self.limits.strikes:
            self.faults.counts["expelled"] += client not in self.faults.expelled
            why = f"{self.faults.strikes[client]} messages in a row were refused; last: {reason}"
            self.faults.expelled[client] = why
            self._report("expelled", {"client": client, "reason": reason})
            self.engine.expel(client, why)
            self._left(client, "expelled")

    def _note_refusal(self, client: int, nth: int, reason: str) -> None:
        facts = {"time": round(self.now, 6), "client": client, "nth": nth, "reason": reason}
        self.faults.counts["refused"] += 1
        if len(self.faults.refusals) < REMEMBERED:
            self.faults.refusals.append(facts)
        self._changed = True
        self._report("refused", facts)

    # clients

    def _joined(self, event: Joined) -> None:
        client, held = event.client, set(event.held)
        if client in self.faults.expelled:  # it came before the engine knew
            return
        self.names, self._changed = dict(getattr(self.engine, "names", self.names)), True
        self.chooser.arrive(client)
        for flying in self._of(client):
            if flying.name in held:
                deadline = self.now + self.patience.of(client)
                self.pending[client, flying.name.nth] = flying._replace(known=True, deadline=deadline)
            elif not _waiting(flying):
                self._lose(flying, DROPPED if not flying.known else LOST, "its client does not have it")
        recent = dict(self._recent.get(client, []))
        for name in held:
            if self._flying(name) is None and recent.get(name) != APPLIED:
                self.engine.refuse(name, LATE if name in recent else UNKNOWN)
        self._report("joined", {"client": client, "present": int(self.chooser.present.sum())})

    def _left(self, client: int, reason: str) -> None:
        self.chooser.depart(client)
        for flying in self._of(client):
            self._lose(flying, DROPPED if _waiting(flying) else LOST, reason)
        self._report("left", {"client": client, "reason": reason, "present": int(self.chooser.present.sum())})

    def _back(self, client: int) -> None:
        """A client that had been given up has been heard from."""
        if client not in self.faults.expelled:
            self.chooser.arrive(client)

    def _give_up(self) -> None:
        """Lose the tasks that take too long; their clients get no more until they are heard from."""
        if self.now - self._looked < LOOK:
            return
        self._looked = self.now
        for flying in [one for one in self.pending.values() if one.deadline < self._looked]:
            if self._flying(flying.name) is None:
                continue  # it went with another task of its client
            self.faults.counts["timeouts"] += 1
            self._lose(flying, DROPPED if _waiting(flying) else LOST, "it took too long")
            self.chooser.depart(flying.name.client)
            for waiting in filter(_waiting, self._of(flying.name.client)):
                self._lose(waiting, DROPPED, "its client took too long with another")
        if self._begun:
            self._set_deadlines()

    def _set_deadlines(self) -> None:
        """Give a deadline to tasks of earlier servers, and to the first task of a client that has none in its hands."""
        watched = {one.name.client for one in self.pending.values() if one.deadline < inf}
        for flying in list(self.pending.values()):
            client, nth, _ = flying.name
            if flying.deadline == inf and (not flying.known or client not in watched):
                watched.add(client)
                self.pending[client, nth] = flying._replace(deadline=self._looked + self.patience.of(client))

    def _lose(self, flying: Flying, fate: int, reason: str) -> None:
        self.engine.withdraw(flying.name)
        self.server.tally.lost += 1
        self.faults.counts[FATES[fate]] += 1
        began = flying.pulled_at if fate == LOST else nan
        self._end(flying, fate, began, nan, self.now)
        self._report(FATES[fate], {"client": flying.name.client, "nth": flying.name.nth, "reason": reason})

    def _end(
        self, flying: Flying, fate: int, began: float, ended: float, at: float, step: int = -1, work: int = 0
    ) -> None:
        client, nth, _ = flying.name
        del self.pending[client, nth]
        self.chooser.release(client, used=fate == APPLIED)
        self._recent.setdefault(client, []).append((flying.name, fate))
        self._ended[client] += 1
        self._rows.append(_row(flying, began, ended, at, step, work, fate))
        self._changed = True

    def _of(self, client: int) -> list[Flying]:
        return [one for one in self.pending.values() if one.name.client == client]

    def _flying(self, name: TaskName) -> Flying | None:
        found = self.pending.get((name.client, name.nth))
        return found if found is not None and found.name == name else None

    # the disk

    def _timeout(self) -> float:
        return min(IDLE, self.journal.wait()) if self._changed or self.journal.busy else IDLE

    def _save(self) -> None:
        """Commit if something has changed and enough time has passed."""
        self.journal.settle()
        if self._changed and not self.journal.busy and self.journal.wait() == 0.0:
            self._commit()

    def _commit(self) -> None:
        rows, self._rows = np.array(self._rows, ROW).tobytes(), []
        safe, self._safe = self._safe, []
        self._changed = False
        self.journal.commit(Commit(rows, self.snapshot(), lambda: self.engine.acknowledge(safe)))
        for client, many in self._ended.items():  # of others their clients may not have heard yet
            self._recent[client] = self._recent[client][-self._remembered - many :]
        self._ended.clear()

    def snapshot(self) -> dict[str, Any]:
        """Return everything but the rows, as a tree of tensors and plain values."""
        flying = list(self.pending.values())
        table = [[*one.name, one.sent.version, one.dispatched_step] for one in flying]
        times = [[one.dispatched_at, one.prob] for one in flying]
        recent = [[*name, fate] for mine in self._recent.values() for name, fate in mine]
        return {
            "server": self.server.snapshot(),
            "chooser": self.chooser.snapshot(),
            "epoch": self.epoch,
            "time": self.now if self._begun else 0.0,
            "sent": torch.from_numpy(self._sent.copy()),
            "flying": _tensor(table, np.int64, 5),
            "flying_at": _tensor(times, np.float64, 2),
            "recent": _tensor(recent, np.int64, 4),
            "faults": dict(self.faults.counts),
            "refusals": tuple(dict(one) for one in self.faults.refusals),
            "expelled": dict(self.faults.expelled),
            "names": dict(self.names),
            "resumes": tuple(dict(one) for one in self.resumes),
            "plans": tuple(dict(one) for one in self.plans),
            "force": None if self.force is None else _stored(self.force),
            "following": None if self.follower is None else self.follower.snapshot(),
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on where a snapshot was taken: with its tasks in flight, but with no client present yet."""
        check(tree, {"server": dict[str, Any], "chooser": dict[str, Any], "epoch": int, "time": float, "sent": Tensor})
        check(tree, {"flying": Tensor, "flying_at": Tensor, "recent": Tensor, "faults": dict[str, int]})
        if len(tree["sent"]) != self._sent.size:
            raise UnreadableFile("the checkpoint does not belong to this run: its fleet has other clients")
        self.server.restore(tree["server"])
        self._restore_plan(tree)
        self.chooser.restore(tree["chooser"])
        self.epoch = tree["epoch"] + 1
        self._sent[:] = tree["sent"].numpy()
        self._begin, self._latest = tree["time"], max(tree["time"], *tree["flying_at"][:, 0].tolist(), 0.0)
        self.names, self.resumes = dict(tree["names"]), [dict(one) for one in tree["resumes"]]
        self.faults.counts, self.faults.refusals = Counter(tree["faults"]), [dict(one) for one in tree["refusals"]]
        self.faults.expelled = dict(tree.get("expelled", {}))
        for client, why in self.faults.expelled.items():
            self.engine.expel(client, why)
        for client, nth, epoch, fate in tree["recent"].tolist():
            self._recent.setdefault(client, []).append((TaskName(client, nth, epoch), fate))
        nothing = self.server.params.new_empty(0)
        for (client, nth, epoch, version, step), (at, prob) in zip(
            tree["flying"].tolist(), tree["flying_at"].tolist(), strict=True
        ):
            name = TaskName(client, nth, epoch)
            self.pending[client, nth] = Flying(name, Sent(nothing, version), at, step, prob, known=False)
            self.chooser.take(client)
        self._zero, self._begun = self.engine.now() - tree["time"], bool(self._sent.any())
        self.resumes.append({"step": self.server.received, "time": tree["time"], "epoch": self.epoch})
        if getattr(self.server.algorithm, "needs_sent", True):
            self.drop_all("its model is gone with the server that sent it")

    def drop_all(self, reason: str) -> None:
        """Drop the tasks in flight of earlier servers; others will be sent."""
        for flying in list(self.pending.values()):
            self._lose(flying, DROPPED, reason)
        self._ended.clear()

    def _restore_plan(self, tree: dict[str, Any]) -> None:
        """Go on with the plan in force, and with what is known of the clients; older checkpoints have neither."""
        if tree.get("plans"):
            check(tree, {"plans": tuple[dict[str, Any], ...]})
            self.plans = [dict(one) for one in tree["plans"]]
        if tree.get("force") is not None:
            check(tree["force"], {"sampling": Tensor, "cap": Tensor, "share": Tensor, "concurrency": int})
            sampling, cap, share = (tree["force"][key].numpy().copy() for key in InForce._fields[:3])
            self._take_up(InForce(sampling, cap, share, tree["force"]["concurrency"]))
        if self.follower is not None and tree.get("following") is not None:
            self.follower.restore(tree["following"], self.force, self.plans[-1])

    def in_flight(self) -> bytes:
        """Return the rows of the tasks in flight."""
        rows = [_row(one, one.pulled_at, nan, nan, -1, 0, IN_FLIGHT) for one in self.pending.values()]
        return np.array(rows, ROW).tobytes()


def _tensor(rows: list[list[Any]], kind: type, columns: int) -> Tensor:
    """Return a table as a tensor; by way of NumPy, which reads lists ten times as fast."""
    return torch.from_numpy(np.array(rows, kind).reshape(-1, columns))


def _stored(force: InForce) -> dict[str, Any]:
    arrays = {key: torch.from_numpy(getattr(force, key).copy()) for key in InForce._fields[:3]}
    return {**arrays, "concurrency": force.concurrency}


def _waiting(flying: Flying) -> bool:
    """Whether a task waits in the engine's queue: its client has not fetched it yet."""
    return flying.known and isnan(flying.pulled_at)


def _service(flying: Flying, event: Arrived, at: float) -> tuple[float, float]:
    """Return when the client began and ended the service, on the server's clock.

    The client says how long it held the task and how long it worked. What remains of the time since it received the
    task is travel, half of it each way; what it held without working was waiting, before the service.
    """
    travel = 0.0 if isnan(flying.pulled_at) else max(0.0, at - flying.pulled_at - event.held)
    ended = at - travel / 2
    return max(flying.dispatched_at, ended - event.service), ended


def _row(
    flying: Flying, began: float, ended: float, at: float, step: int, work: int, fate: int
) -> tuple[int | float, ...]:
    """Return a row of the trace, in the order of its columns."""
    client, dispatched = flying.name.client, flying.dispatched_at
    return (client, flying.prob, dispatched, began, ended, at, flying.dispatched_step, step, work, fate)
