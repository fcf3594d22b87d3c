"""One interface to a run, whether the jump chain, the event engine, rounds or periods drive it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from threading import Event
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import cold
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan, plan_for
from sojourn.random import START, keys
from sojourn.scenario import Scenario
from sojourn.timing.dispatch.conducted import Conducted, conducted
from sojourn.timing.dispatch.without_queues import Scratch, WithoutQueues
from sojourn.timing.shares import KNOWN, Shares, as_dispatched, as_served
from sojourn.timing.simulate import drive, jump_chain, one_each
from sojourn.timing.simulate.capped_start import stages
from sojourn.timing.simulate.engine import Engine
from sojourn.timing.simulate.jump_chain import Tally
from sojourn.timing.simulate.start import place
from sojourn.trace import APPLIED, COLUMNS, IN_FLIGHT

Columns = Mapping[str, NDArray[Any]]
ENGINES = ("auto", "jump chain", "events")
DRAWN = "drawn"  # prob is the probability that the dispatcher gives for its draw
_PIECE = 100_000
_ROWS = 4_000_000  # tasks of rounds that are held in memory at once


class Runner(Protocol):
    """A run that can be advanced, either tallied or recorded."""

    name: str
    prob: str
    """What the column `prob` of its tasks holds: exact or estimated shares, or probabilities as drawn."""

    @property
    def steps(self) -> int:
        """Number of updates applied so far."""

    def tally(self, steps: int, sums: Tally, times: drive.Stays, stop: Event | None = None) -> float:
        """Apply at least `steps` more updates (fewer once `stop` is set) and add them up; return the time they took."""

    def rows(self, steps: int, stop: Event | None = None) -> Columns:
        """Apply at least `steps` more updates (fewer once `stop` is set); return their tasks as columns of a Trace."""

    def in_flight(self) -> Columns:
        """Return the tasks that have not come back."""


def runner(
    fleet: Fleet,
    plan: Plan,
    *,
    start: str,
    seed: int,
    replication: int = 0,
    scenario: Scenario | None = None,
    engine: str = "auto",
) -> Runner:
    """Return a run at its beginning, on the engine that fits or the one asked for."""
    scene = scenario or Scenario()
    if engine not in ENGINES:
        raise InvalidInput(f"engine must be one of {', '.join(ENGINES)}, got '{engine}'")
    plan = plan_for(fleet, plan)
    mine = keys(seed, replication)
    rng = np.random.default_rng(int(mine[START]))
    if not scene.dispatcher.queued:
        if engine == "jump chain":
            raise InvalidInput(
                f"the jump chain simulates only routed tasks, got {scene.dispatcher.name}; use engine auto"
            )
        if isinstance(scene.dispatcher.kind, Conducted):
            return _Conducted(fleet, plan, scene, mine, rng)
        return _Rounds(fleet, plan, scene, mine)
    scene.dispatcher.kind.check(fleet, plan)
    held = as_dispatched(plan, scene)
    if start == "stationary":
        held = _settled(fleet, held, scene)
    queues = place(start, as_served(fleet, scene), held, rng)
    if engine == "jump chain":
        _check_jumps(fleet, held, scene)
    if engine == "jump chain" or (engine == "auto" and _jumps(fleet, plan, scene)):
        return _OneEach(fleet, held, queues, mine) if held.capped else _JumpChain(fleet, plan, queues, mine)
    under_way = None
    if start == "stationary" and held.one_each and not (fleet.exponential and scene.local_steps == 1):
        under_way = stages(fleet, 1 if scene.one_draw else scene.local_steps, np.flatnonzero(queues), rng)
    return _Events(fleet, plan, scene, queues, mine, under_way)


def _settled(fleet: Fleet, plan: Plan, scene: Scenario) -> Plan:
    """Return the plan whose stationary law a run may begin with; raise an error if that law is not known."""
    alone = math.isinf(scene.server_rate) and not scene.availability
    name = scene.dispatcher.name
    if alone and name == "pure" and plan.concurrency == fleet.clients:
        return replace(plan, cap=np.ones(fleet.groups))
    simple = fleet.exponential and (scene.local_steps == 1 or scene.one_draw)
    if not (alone and name in ("routed", "idle") and (plan.one_each or simple)):
        raise InvalidInput(
            "start stationary needs the paper's network (exponential, routed, no links, no server time), or a cap of 1 "
            "and no server time, this scenario has more; use start even or routed"
        )
    return plan


def _check_jumps(fleet: Fleet, plan: Plan, scene: Scenario) -> None:
    """Raise an error if neither jump chain can simulate this run."""
    plain = Scenario(scene.dispatcher) == scene and scene.dispatcher.name in ("routed", "idle") and fleet.exponential
    if not plain or (plan.capped and not plan.one_each):
        raise InvalidInput(
            "the jump chain draws who finishes next and never a duration: it needs exponential service, routed tasks, "
            "no links, no cap or a cap of 1, and it cannot key service times by task; use engine events"
        )
    if not plan.capped and not jump_chain.bearable(fleet):
        raise InvalidInput("the rates of this fleet are too far apart for the jump chain; use engine events")


class _JumpChain:
    name = "jump chain"
    prob = KNOWN[True]

    def __init__(self, fleet: Fleet, plan: Plan, queues: NDArray[np.int64], mine: NDArray[np.uint64]) -> None:
        self._net = jump_chain.network(fleet, plan)
        self._run = jump_chain.state(self._net, queues, mine)
        self._sampling = plan.sampling
        self._nothing = jump_chain.tally(fleet.groups, 2, 1)

    @property
    def steps(self) -> int:
        return int(self._run.step[0])

    def tally(self, steps: int, sums: Tally, times: drive.Stays, stop: Event | None = None) -> float:
        before, busy_before = sums.task_time.copy(), sums.level_time[:, 1].copy()
        lasted = jump_chain.advance(self._net, self._run, sums, jump_chain.rows(0), steps)
        # without links a task is in its client's queue from dispatch to application
        stayed = sums.task_time - before
        times.sojourn[...] += stayed
        times.waiting[...] += stayed - (sums.level_time[:, 1] - busy_before)
        return lasted

    def rows(self, steps: int, stop: Event | None = None) -> Columns:
        begin = self.steps
        out = jump_chain.rows(steps)
        jump_chain.advance(self._net, self._run, self._nothing, out, steps)
        return {
            "client": out.client.astype(np.int32),
            "prob": self._sampling[self._net.group[out.client]],
            "dispatched_at": out.dispatched_at,
            "started_at": out.started_at,
            "finished_at": out.applied_at,
            "applied_at": out.applied_at,
            "dispatched_step": out.dispatched_step,
            "applied_step": np.arange(begin, begin + steps, dtype=np.int64),
            "work": np.ones(steps, dtype=np.int32),
            "fate": np.full(steps, APPLIED, dtype=np.int8),
        }

    def in_flight(self) -> Columns:
        run = self._run
        owner, place_in_queue, slots = jump_chain.waiting_tasks(run)
        return {
            "client": owner.astype(np.int32),
            "prob": self._sampling[self._net.group[owner]],
            "dispatched_at": run.dispatched_at[slots],
            "started_at": np.where(place_in_queue == 0, run.begun[owner], np.nan),
            "finished_at": np.full(owner.size, np.nan),
            "dispatched_step": run.dispatched_step[slots],
            **_unfinished(owner.size),
        }


class _OneEach:
    """The jump chain in which no client holds two tasks."""

    name = "jump chain"
    prob = KNOWN[True]

    def __init__(self, fleet: Fleet, plan: Plan, queues: NDArray[np.int64], mine: NDArray[np.uint64]) -> None:
        self._run = one_each.state(fleet, plan, queues, mine)
        self._shares = Shares(fleet, plan, Scenario(), queues)
        self._nothing = jump_chain.tally(fleet.groups, 2, 1)

    @property
    def steps(self) -> int:
        return int(self._run.step[0])

    def tally(self, steps: int, sums: Tally, times: drive.Stays, stop: Event | None = None) -> float:
        before = sums.task_time.copy()
        lasted = one_each.advance(self._run, sums, jump_chain.rows(0), steps)
        stayed = sums.task_time - before  # the whole stay is service
        times.sojourn[...] += stayed
        sums.level_time[:, 1] += stayed
        return lasted

    def rows(self, steps: int, stop: Event | None = None) -> Columns:
        begin = self.steps
        out = jump_chain.rows(steps)
        one_each.advance(self._run, self._nothing, out, steps)
        return {
            "client": out.client.astype(np.int32),
            "prob": self._shares.by_group[self._run.clients["group"][out.client]],
            "dispatched_at": out.dispatched_at,
            "started_at": out.started_at,
            "finished_at": out.applied_at,
            "applied_at": out.applied_at,
            "dispatched_step": out.dispatched_step,
            "applied_step": np.arange(begin, begin + steps, dtype=np.int64),
            "work": np.ones(steps, dtype=np.int32),
            "fate": np.full(steps, APPLIED, dtype=np.int8),
        }

    def in_flight(self) -> Columns:
        busy = one_each.busy_clients(self._run)
        return {
            "client": busy.astype(np.int32),
            "prob": self._shares.by_group[self._run.clients["group"][busy]],
            "dispatched_at": self._run.dispatched_at[busy],
            "started_at": self._run.dispatched_at[busy],
            "finished_at": np.full(busy.size, np.nan),
            "dispatched_step": self._run.clients["dispatched_step"][busy],
            **_unfinished(busy.size),
        }


class _Events:
    name = "events"

    def __init__(
        self,
        fleet: Fleet,
        plan: Plan,
        scene: Scenario,
        queues: NDArray[np.int64],
        mine: NDArray[np.uint64],
        under_way: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
    ) -> None:
        self._engine = drive.build(fleet, plan, scene, queues, mine, under_way)
        self._shares = None if scene.dispatcher.own else Shares(fleet, as_dispatched(plan, scene), scene, queues)
        self.prob = DRAWN if self._shares is None else KNOWN[self._shares.exact]
        self._told = self.prob != KNOWN[True]
        self._patience = drive.Patience(self._engine)
        self._sums = jump_chain.tally(fleet.groups, 2, 1)
        self._times = drive.stays(fleet.groups)

    @property
    def steps(self) -> int:
        return int(self._engine.world["step"][0])

    @property
    def _clock(self) -> float:
        return float(self._engine.world["clock"][0])

    def tally(self, steps: int, sums: Tally, times: drive.Stays, stop: Event | None = None) -> float:
        before, last = self._clock, self.steps + steps
        while self.steps < last and not _set(stop):
            self._advance(sums, times, drive.task_rows(0), last - self.steps, before)
        drive.close(self._engine, sums, self._clock - before)
        return self._clock - before

    def _tell(self) -> None:
        """Tell the run its shares, which it needs before anything is recorded."""
        if not self._told and self._shares is not None:
            drive.tell_shares(self._engine, self._shares.by_group)
            self._told = True

    def rows(self, steps: int, stop: Event | None = None) -> Columns:
        self._tell()
        pieces = [drive.task_rows(0)._asdict()]
        last = self.steps + steps
        while self.steps < last and not _set(stop):
            left = last - self.steps
            out = drive.task_rows(left + 16)
            filled = self._advance(self._sums, self._times, out, left, self._clock)
            whole = 2 * filled > left  # otherwise a copy, so that memory is freed
            pieces.append({key: c[:filled] if whole else c[:filled].copy() for key, c in out._asdict().items()})
        return {key: np.concatenate([piece[key] for piece in pieces]) for key in COLUMNS}

    def _advance(self, sums: Tally, times: drive.Stays, out: drive.TaskRows, steps: int, began: float) -> int:
        """Continue for a while; return the number of tasks that ended."""
        applied, ended, alive = drive.advance(self._engine, sums, times, out, steps, began)
        self._patience.look(applied, ended - applied, alive)
        return ended

    def in_flight(self) -> Columns:
        self._tell()
        return drive.in_flight(self._engine)


class _Rounds:
    """Rounds with a barrier, and periodic calls: whole rounds or periods at a time."""

    prob = DRAWN

    def __init__(self, fleet: Fleet, plan: Plan, scene: Scenario, mine: NDArray[np.uint64]) -> None:
        self._fleet = fleet
        self.name = scene.dispatcher.name
        self._engine = self._build(fleet, plan, scene, mine)
        kind = scene.dispatcher.kind
        assert isinstance(kind, WithoutQueues)
        self._kind = kind
        self._tasks = kind.tasks(fleet, plan)
        self._batch = kind.applied(self._tasks)
        size = self._tasks
        self._scratch = Scratch(np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64))

    @staticmethod
    def _build(fleet: Fleet, plan: Plan, scene: Scenario, mine: NDArray[np.uint64]) -> Engine:
        queued = Scenario(local_steps=scene.local_steps, one_draw=scene.one_draw)
        made = drive.build(fleet, plan, queued, np.zeros(fleet.clients, np.int64), mine)
        return made._replace(slots=np.zeros(fleet.clients, made.slots.dtype))

    @property
    def steps(self) -> int:
        return int(self._engine.world["step"][0])

    def rows(self, steps: int, stop: Event | None = None) -> Columns:
        pieces = list(self._pieces(steps, stop))
        return {key: np.concatenate([piece[key] for piece in pieces]) for key in COLUMNS}

    def _pieces(self, steps: int, stop: Event | None) -> Iterator[Columns]:
        """Yield at least one round, and not too many at once."""
        last = self.steps + steps
        while True:
            left = min(last - self.steps, _PIECE)
            yield self._play(min(-(-left // self._batch), max(1, _ROWS // self._tasks)))
            if self.steps >= last or _set(stop):
                return

    def _play(self, number: int) -> dict[str, NDArray[Any]]:
        """Play this many rounds or periods."""
        out = drive.task_rows(number * self._tasks)
        self._kind.play(self._engine, self._scratch, out, number)
        return out._asdict()

    def tally(self, steps: int, sums: Tally, times: drive.Stays, stop: Event | None = None) -> float:
        before = float(self._engine.world["clock"][0])
        for piece in self._pieces(steps, stop):
            self._add(piece, sums, times)
        return float(self._engine.world["clock"][0]) - before

    def _add(self, rows: Columns, sums: Tally, times: drive.Stays) -> None:
        applied = rows["fate"] == APPLIED
        group = self._fleet.group_of_client[rows["client"]]
        mine = group[applied]
        staleness = (rows["applied_step"] - rows["dispatched_step"])[applied]
        sojourn = (rows["applied_at"] - rows["dispatched_at"])[applied]
        size = self._fleet.groups
        sums.arrivals[...] += np.bincount(mine, minlength=size)
        sums.staleness[...] += np.bincount(mine, weights=staleness, minlength=size).astype(np.int64)
        np.maximum.at(sums.oldest, mine, staleness)
        bins = np.searchsorted(jump_chain.bin_edges(), staleness, side="right") - 1
        np.add.at(sums.bins, (mine if sums.bins.shape[0] > 1 else 0, bins), 1)
        times.sojourn[...] += np.bincount(mine, weights=sojourn, minlength=size)
        times.lost[...] += np.bincount(group[~applied], minlength=size)
        spent = np.bincount(group, weights=self._busy(rows), minlength=size)
        sums.task_time[...] += spent
        sums.level_time[:, 1] += spent

    def _busy(self, rows: Columns) -> NDArray[np.float64]:
        """Return the time that a client spent on each task; a dropped task counts until the end of its round."""
        ends = np.repeat(rows["applied_at"][:: self._tasks], self._tasks)  # the first of every round is applied
        until = np.fmin(rows["finished_at"], ends)
        return np.asarray(until - np.fmin(rows["started_at"], until))

    def in_flight(self) -> Columns:
        if self.name == "rounds":
            return {key: np.empty(0, dtype=kind) for key, kind in COLUMNS.items()}
        tasks, size = self._engine.slots, self._fleet.clients
        return {
            "client": np.arange(size, dtype=np.int32),
            "prob": np.full(size, 1 / size),
            "dispatched_at": tasks["dispatched_at"].copy(),
            "started_at": tasks["dispatched_at"].copy(),
            "finished_at": np.full(size, np.nan),
            "dispatched_step": tasks["dispatched_step"].copy(),
            **_unfinished(size),
        }


class _Conducted:
    """A dispatcher that drives the event engine itself."""

    prob = DRAWN

    def __init__(
        self, fleet: Fleet, plan: Plan, scene: Scenario, mine: NDArray[np.uint64], rng: np.random.Generator
    ) -> None:
        kind = scene.dispatcher.kind
        assert isinstance(kind, Conducted)
        self._kind, self.name = kind, kind.name
        self._engine, self._memory = conducted(kind, fleet, plan, scene, mine, rng)
        self._sums = jump_chain.tally(fleet.groups, 2, 1)
        self._times = drive.stays(fleet.groups)

    @property
    def steps(self) -> int:
        return int(self._engine.world["step"][0])

    @property
    def _clock(self) -> float:
        return float(self._engine.world["clock"][0])

    def tally(self, steps: int, sums: Tally, times: drive.Stays, stop: Event | None = None) -> float:
        before, last = self._clock, self.steps + steps
        while self.steps < last and not _set(stop):
            left = min(last - self.steps, _PIECE)
            self._kind.play(self._engine, self._memory, sums, times, drive.task_rows(0), left, before)
        drive.close(self._engine, sums, self._clock - before)
        return self._clock - before

    def rows(self, steps: int, stop: Event | None = None) -> Columns:
        pieces = [drive.task_rows(0)._asdict()]
        last = self.steps + steps
        while self.steps < last and not _set(stop):
            left = min(last - self.steps, _PIECE)
            out = drive.task_rows(left + 4 * self._engine.slots.size)
            _, filled = self._kind.play(self._engine, self._memory, self._sums, self._times, out, left, self._clock)
            pieces.append({key: column[:filled].copy() for key, column in out._asdict().items()})
        return {key: np.concatenate([piece[key] for piece in pieces]) for key in COLUMNS}

    def in_flight(self) -> Columns:
        held = self._kind.in_flight(self._engine, self._memory)
        return drive.in_flight(self._engine._replace(slots=self._engine.slots[held]))


def _set(stop: Event | None) -> bool:
    return stop is not None and stop.is_set()


def first_use(fleet: Fleet, scenario: Scenario, engine: str, plan: Plan | None = None) -> bool:
    """Whether the engine for this run has yet to be compiled on this machine."""
    capped = plan is not None and plan.capped
    if engine != "events" and _jumps(fleet, plan, scenario):
        return cold("one_each.advance" if capped else "jump_chain.advance")
    return cold("drive.advance")


def _jumps(fleet: Fleet, plan: Plan | None, scenario: Scenario) -> bool:
    """Whether a jump chain is the default engine for this run."""
    if not (scenario.plain and fleet.exponential):
        return False
    return plan.one_each if plan is not None and plan.capped else jump_chain.bearable(fleet)


def _unfinished(size: int) -> dict[str, NDArray[Any]]:
    return {
        "applied_at": np.full(size, np.nan),
        "applied_step": np.full(size, -1, dtype=np.int64),
        "work": np.zeros(size, dtype=np.int32),
        "fate": np.full(size, IN_FLIGHT, dtype=np.int8),
    }
