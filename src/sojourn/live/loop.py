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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isnan, nan, nextafter
from typing import Any

import numpy as np

from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server import Diverged, Pinned
from sojourn.learning.replay.timeline import Ended
from sojourn.live.batches import Batches
from sojourn.live.chooser import Chooser, InForce
from sojourn.live.controls import Controls
from sojourn.live.draining import drain
from sojourn.live.engine import (
    Arrived,
    Asked,
    Engine,
    Event,
    Joined,
    Left,
    Moving,
    Offer,
    Pulled,
    Rejected,
    TaskName,
    TurnedAway,
)
from sojourn.live.faults import Faults
from sojourn.live.flying import IN_HAND, UNDECIDED, Flying, row_of, service_of, waiting
from sojourn.live.follower import Follower, Moment
from sojourn.live.journal import ROW, Commit, Journal
from sojourn.live.loop_state import snapshot
from sojourn.live.patience import Patience
from sojourn.live.planner import Found
from sojourn.live.recent import Recent
from sojourn.live.run_clock import RunClock
from sojourn.live.server import LiveServer
from sojourn.live.sound import check_model, check_most, diverged, wrong_step_size
from sojourn.live.worker import Task
from sojourn.trace import APPLIED, DROPPED, FATES, IN_FLIGHT, LOST, REFUSED
from sojourn.types import Floats

Report = Callable[[str, Mapping[str, Any]], None]
"""Called with the name of what happened and facts about it."""
IDLE = 0.5  # seconds to wait for an event if nothing else is due
LOOK = 0.25  # seconds between two looks at who takes too long
LATE, UNKNOWN = "it came too late", "the server does not know this task"


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


class Loop:
    """Keeps C tasks in flight over an engine, and applies what comes back."""

    def __init__(
        self,
        server: LiveServer,
        local: Local,
        engine: Engine,
        chooser: Chooser,
        journal: Journal,
        limits: Limits,
        patience: Patience,
        epoch: int = 1,
        report: Report | None = None,
        follower: Follower | None = None,
        batches: Batches | None = None,
    ) -> None:
        self.server, self.local, self.engine, self.chooser = server, local, engine, chooser
        self.journal, self.limits, self.patience, self.epoch = journal, limits, patience, epoch
        self.concurrency = server.setting.plan.concurrency
        self.pending: dict[tuple[int, int], Flying] = {}
        self.faults = Faults()
        self.names: dict[str, int] = {}
        self.resumes: list[dict[str, Any]] = []
        self.follower, self.batches = follower, batches or Batches()
        self.controls = Controls()
        self._paused = False
        if follower is not None:
            self.controls.never_replans = None
        self.plans: list[dict[str, Any]] = []
        """The plans so far: when each took effect, and what it promises; empty = the plan never changes."""
        self.force: InForce | None = None  # None = the plan of the beginning
        self._report = report or (lambda what, facts: None)
        self.doable: Callable[[Task], bool] = lambda task: True
        """Whether a task that the server does itself gives an update of use."""
        self.sent = np.zeros(server.fleet.clients, np.int64)
        self._rows: list[tuple[Any, ...]] = []
        self._safe: list[TaskName] = []
        self.recent = Recent(server.fleet.clients)
        self.clock = RunClock(engine.now)
        self.clock.set(0.0)
        self.clock.hold()
        self.waiting = True
        """Whether the clients that are needed to begin, or after a restart the first one, are still to come."""
        self.stopping = False
        """Whether no more tasks are sent, since the run is about to stop."""
        self.looked = 0.0
        """When the server last looked who takes too long."""
        self.latest = 0.0
        self.begun = False
        self._changed = True
        self.begin: float | None = None  # when the first task was sent; time counts from there

    @property
    def now(self) -> float:
        """Seconds that the run has been going; times without a server, or in a pause without tasks, do not count."""
        return self.clock.now

    @property
    def done(self) -> bool:
        """Whether the run has reached its end."""
        return self.server.received >= self.limits.updates or (self.begun and self.now >= self.limits.time)

    def run(
        self, stop: threading.Event, watch: Callable[[], None] = lambda: None, seconds_to_drain: float = 0.0
    ) -> bool:
        """Run until the end, or until `stop` is set; return whether the end was reached.

        `watch` is called after every event. When it is stopped it waits so many seconds at most for tasks in flight. At
        the end everything is committed and acknowledged.
        """
        self.stopping = False
        while not self.done and not stop.is_set():
            self.turn()
            watch()
        if seconds_to_drain and not self.done:
            drain(self, seconds_to_drain, self._report, watch)
        self.commit()
        return self.done

    def turn(self, most: float = IDLE) -> None:
        """Wait for an event, `most` seconds at most, and do all that is due."""
        event = self.engine.receive(min(most, self._timeout()))
        finisher = None if event is None else self.handle(event)
        self._give_up()
        self._heed()
        self._follow()
        self._fill(finisher)
        self._save()

    def handle(self, event: Event) -> int | None:
        """Take note of an event; return the client whose task has ended, if one has."""
        match event:
            case Arrived():
                return self._arrived(event)
            case Pulled(name, at):
                self._pulled(name, at)
            case Moving(name):
                self._moving(name)
            case Joined():
                self._joined(event)
            case Asked(client):
                self._back(client)
            case Left(client, reason):
                self._left(client, reason)
            case Rejected(client, name, reason):
                self._rejected(client, name, reason)
            case TurnedAway():
                self.faults.note_turned_away(self.now, event.who, event.reason)
                self._report("turned away", event._asdict())
                self._changed = True
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
        if self.waiting or (self._paused and not self.pending):
            self.clock.hold()
        elif not self._paused:
            self.clock.go_on()
        if self.controls.planning and self.follower is not None:
            self.controls.planning = False
            self.follower.ask()

    # plans

    def _follow(self) -> None:
        """Learn whether there is a new plan, and let it take effect."""
        if self.follower is None or not self.begun:
            return
        time, updates = self.limits.time - self.now, self.limits.updates - self.server.received
        moment = Moment(self.now, self.server.received, self.chooser.present, self._ages, max(time, 0.0), updates)
        found = self.follower.look(moment)
        if found is not None:
            self.adopt(*found)

    def adopt(self, found: Found, reason: str) -> None:
        """Send all further tasks under a new plan."""
        assert self.follower is not None
        at = self.latest = max(self.now, self.latest)
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
        self.take_up(found.force)
        self._changed = True
        self._report("plan", {"number": len(self.plans) - 1, **entry})

    def take_up(self, force: InForce) -> None:
        """Let a plan be in force."""
        self.force, self.concurrency = force, force.concurrency
        self.chooser.adopt(force)
        self.server.correction.follow(self.plans)

    def _ages(self) -> Floats:
        """Return how long each client has had the task in its hands; 0 = it has none."""
        ages = np.zeros(self.sent.size)
        for one in self.pending.values():
            if not isnan(one.pulled_at):
                ages[one.name.client] = max(ages[one.name.client], self.now - one.pulled_at)
        return ages

    # tasks out

    def _fill(self, finisher: int | None) -> None:
        """Send tasks until C are in flight, or as many as a batch still needs, or no client present has room."""
        if finisher is not None:
            self.batches.returned.append(finisher)
        if self._paused or self.stopping:
            return
        if not self.begun:
            if int(self.chooser.present.sum()) < self.limits.begin_with:
                return
            self.begun, self.waiting = True, False
            self.clock.set(self.begin or 0.0)
        while len(self.pending) < self.batches.tasks(self.server.received, self.concurrency):
            client = self.chooser.choose(self.batches.next())
            if client is None:
                break
            self._send(client)
        self.batches.sent(self.server.received)

    def _send(self, client: int) -> None:
        at, step = max(self.now, nextafter(self.latest, inf)), self.server.received
        self.latest = at  # no two tasks are sent at the same time, so that their order can be read from the trace
        name = TaskName(client, int(self.sent[client]), self.epoch)
        self.sent[client] += 1
        pinned: Pinned = self.server.send((client, name.nth))
        self.pending[client, name.nth] = Flying(name, pinned.sent, at, step, self.chooser.share(client))
        self.chooser.take(client)
        step_size, version = self.local.step_size_at(step, at), pinned.sent.version
        work = self._work_of(client)
        self.engine.offer(Offer(name, pinned.sent.params, pinned.stats, step, step_size, work, version))
        self._changed = True

    def _work_of(self, client: int) -> int:
        """Return the local steps of a client's next task; 0 = as many as its epochs need."""
        return self.server.steps_for(client) or (0 if self.local.epochs is not None else self.local.steps)

    def _pulled(self, name: TaskName, at: float) -> None:
        flying = self._flying(name)
        if flying is not None:
            begun = self.clock.at(at)
            deadline = begun + self.patience.of(name.client)
            self.pending[name.client, name.nth] = flying._replace(pulled_at=begun, deadline=deadline, place=IN_HAND)

    def _moving(self, name: TaskName) -> None:
        """Wait for the next part of a task or of its update: each of them is a sign of life."""
        flying = self._flying(name)
        if flying is not None:
            deadline = max(flying.deadline, self.now + self.patience.least)
            self.pending[name.client, name.nth] = flying._replace(deadline=deadline)

    # updates in

    def _arrived(self, event: Arrived) -> int | None:
        name, flying = event.name, self._flying(event.name)
        if flying is None:
            self._unexpected(event)
            return None
        wrong = wrong_step_size(event.update, self.local.step_size_at(flying.dispatched_step, flying.dispatched_at))
        if wrong:
            return self._refuse(flying, wrong)
        at = self.now
        began, ended = service_of(flying, event, self.clock.at(event.at))
        task = Ended(
            name=(name.client, name.nth),
            applied=True,
            step=self.server.received,
            dispatched_step=flying.dispatched_step,
            time=at,
            dispatched_at=flying.dispatched_at,
            prob=flying.prob,
            work=event.update.steps,
            closes=self.batches.closes(self.server.received),
        )
        try:
            self.server.receive(task, flying.sent, event.update._replace(bits=8 * event.size or None))
        except Diverged:
            return self._refuse(flying, "its numbers are too large")
        self.patience.note(name.client, event.held if isnan(flying.pulled_at) else at - flying.pulled_at)
        if self.follower is not None:
            took = self.clock.at(event.at) - flying.pulled_at  # NaN = not known
            travel = nan if isnan(took) else max(0.0, took - event.held)
            self.follower.note(name.client, min(event.service, event.service if isnan(took) else took), travel)
        self.faults.strikes.pop(name.client, None)
        self._end(flying, APPLIED, began, ended, at, task.step, task.work)
        self._safe.append(name)
        return name.client

    def _unexpected(self, event: Arrived) -> None:
        """Answer an update that nobody waits for: repeated, late, or of a task that a crash has undone."""
        name = event.name
        fate = self.recent.fate(name)
        if fate == APPLIED:
            self._acknowledge_again(name)
            return
        self.patience.note(name.client, event.held)
        if self.follower is not None:
            self.follower.note(name.client, event.service, nan)
        self.server.missed(name.client)
        self.faults.counts["late"] += 1
        reason = LATE if fate is not None else UNKNOWN
        self._note_refusal(name.client, name.nth, reason)
        self.engine.refuse(name, reason)
        self._back(name.client)

    def _refuse(self, flying: Flying, reason: str) -> int:
        """End a task whose update is of no use, and return its client."""
        name = flying.name
        self.check_model()
        self.server.missed(name.client)
        self.engine.refuse(name, reason)
        self._end(flying, REFUSED, nan, nan, self.now)
        self._strike(name.client, name.nth, reason, flying)
        return name.client

    def check_model(self) -> None:
        """Raise an error if the model has diverged: no client is to blame for what it can do nothing with."""
        check_model(self.server.params, self.server.received, self.journal.path.parent)

    def _rejected(self, client: int, name: TaskName | None, reason: str) -> None:
        """The engine has refused a message: the task that it was about has ended, if it was in flight."""
        self.check_model()
        flying = None if name is None else self._flying(name)
        if flying is not None:
            self._end(flying, REFUSED, nan, nan, self.now)
        self._strike(client, -1 if name is None else name.nth, reason, flying)

    def _strike(self, client: int, nth: int, reason: str, flying: Flying | None) -> None:
        self._note_refusal(client, nth, reason)
        if client in self.faults.expelled:  # a message that was on its way
            return
        if self.faults.strikes[client] + 1 >= self.limits.strikes:
            self._check_blame(client, reason, flying)
        why = self.faults.strike(client, reason, self.limits.strikes)
        if why is not None:
            self._report("expelled", {"client": client, "reason": reason})
            self.engine.expel(client, why)
            self._left(client, "expelled")

    def _check_blame(self, client: int, reason: str, flying: Flying | None) -> None:
        """Raise an error if a client that would be expelled now need not be to blame."""
        received, folder = self.server.received, self.journal.path.parent
        if not self.doable(self._once_more(client, flying)):
            raise diverged("a task that the server does itself gives numbers that are not finite", received, folder)
        refused = {client, *self.faults.expelled, *(one for one, many in self.faults.strikes.items() if many)}
        check_most(refused, np.flatnonzero(self.sent).tolist(), received, reason, folder)

    def _once_more(self, client: int, flying: Flying | None) -> Task:
        """Return a task of a client, for the server to do: the one in flight, or with the present model if there is
        none, or its model is gone with an earlier server.
        """
        server = self.server
        nth, step, at, params = 0, server.received, self.now, server.params
        if flying is not None:
            nth, step, at = flying.name.nth, flying.dispatched_step, flying.dispatched_at
            params = flying.sent.params if flying.sent.params.numel() else params
        stats = server.stats if server.stats.numel() else None
        return Task(client, nth, step, params, stats, self.local.step_size_at(step, at), self._work_of(client))

    def _note_refusal(self, client: int, nth: int, reason: str) -> None:
        self._changed = True
        self._report("refused", self.faults.note_refusal(self.now, client, nth, reason))

    # clients

    def _joined(self, event: Joined) -> None:
        client, held = event.client, set(event.held)
        if client in self.faults.expelled:  # it came before the engine knew
            return
        self.names, self._changed = dict(getattr(self.engine, "names", self.names)), True
        self.chooser.arrive(client)
        if self.begun and self.waiting:
            self.waiting = False
            self.clock.go_on()
        for flying in self._of(client):
            if flying.name in held:
                deadline = self.now + self.patience.of(client)
                self.pending[client, flying.name.nth] = flying._replace(deadline=deadline, place=IN_HAND)
            elif not waiting(flying):
                self._lose(flying, DROPPED if flying.place == UNDECIDED else LOST, "its client does not have it")
        for name in reversed(event.held):  # the last first: a client that remembers undoes its tasks in this order
            fate = self.recent.fate(name)
            if self._flying(name) is None and fate == APPLIED:
                self._acknowledge_again(name)
            elif self._flying(name) is None:
                self.engine.refuse(name, UNKNOWN if fate is None else LATE)
        self._report("joined", {"client": client, "present": int(self.chooser.present.sum())})

    def _acknowledge_again(self, name: TaskName) -> None:
        """Tell a client that its update was applied, and until then remember it like one that has just ended."""
        self.recent.add(name, APPLIED)
        self._safe.append(name)  # the commit that has it may not be on the disk yet
        self._changed = True

    def _left(self, client: int, reason: str) -> None:
        self.chooser.depart(client)
        for flying in self._of(client):
            self._lose(flying, DROPPED if waiting(flying) else LOST, reason)
        self._report("left", {"client": client, "reason": reason, "present": int(self.chooser.present.sum())})

    def _back(self, client: int) -> None:
        """A client that had been given up has been heard from."""
        if client not in self.faults.expelled:
            self.chooser.arrive(client)

    def _give_up(self) -> None:
        """Lose the tasks that take too long; their clients get no more until they are heard from."""
        if self.now - self.looked < LOOK:
            return
        self._excuse(self.now - self.looked - LOOK - IDLE)
        self.looked = self.now
        for flying in [one for one in self.pending.values() if one.deadline < self.looked]:
            if self._flying(flying.name) is None:
                continue  # it went with another task of its client
            self.faults.counts["timeouts"] += 1
            self._lose(flying, DROPPED if waiting(flying) else LOST, "it took too long")
            self.chooser.depart(flying.name.client)
            for another in filter(waiting, self._of(flying.name.client)):
                self._lose(another, DROPPED, "its client took too long with another")
        if self.begun:
            self._set_deadlines()

    def _excuse(self, deaf: float) -> None:
        """Give all tasks the time in which the server heard nobody, because it was busy or stopped itself."""
        if deaf > 0:
            for key, one in self.pending.items():
                self.pending[key] = one._replace(deadline=one.deadline + deaf)

    def _set_deadlines(self) -> None:
        """Give a deadline to tasks of earlier servers, and to the first task of a client that has none in its hands."""
        watched = {one.name.client for one in self.pending.values() if one.deadline < inf}
        for flying in list(self.pending.values()):
            client, nth, _ = flying.name
            if flying.deadline == inf and (flying.place == UNDECIDED or client not in watched):
                watched.add(client)
                self.pending[client, nth] = flying._replace(deadline=self.looked + self.patience.of(client))

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
        self.recent.add(flying.name, fate)
        self._rows.append(row_of(flying, began, ended, at, step, work, fate))
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
        self.check_model()
        rows, self._rows = np.array(self._rows, ROW).tobytes(), []
        safe, self._safe = self._safe, []
        self._changed = False
        self.journal.commit(Commit(rows, snapshot(self), lambda: self.engine.acknowledge(safe)))
        self.recent.committed()

    def drop_all(self, reason: str) -> None:
        """Drop the tasks in flight of earlier servers; others will be sent."""
        for flying in list(self.pending.values()):
            self._lose(flying, DROPPED, reason)
        self.recent.settle()

    def in_flight(self) -> bytes:
        """Return the rows of the tasks in flight."""
        rows = [row_of(one, one.pulled_at, nan, nan, -1, 0, IN_FLIGHT) for one in self.pending.values()]
        return np.array(rows, ROW).tobytes()
