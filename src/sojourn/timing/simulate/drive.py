"""Drive the event engine: in one compiled loop for traces and summaries, or task by task from Python."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.clock import Clock, Steps, Task
from sojourn.compiled import bare, hot
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.plan import Plan
from sojourn.scenario import MOST_LOCAL_STEPS, Scenario
from sojourn.timing.dispatch.own import check_fault, prepare
from sojourn.timing.dispatch.room import NO_CAP, full_pools
from sojourn.timing.shares import Shares, as_dispatched
from sojourn.timing.simulate import engine
from sojourn.timing.simulate.alias import alias_table
from sojourn.timing.simulate.draws import LAW, law_fields, stream
from sojourn.timing.simulate.engine import NOBODY, OWN, PAUSED, ROOM, ROUTED, TOGGLES, Engine
from sojourn.timing.simulate.event_tree import IDS, NO_SEAT, empty, push
from sojourn.timing.simulate.jump_chain import Tally, staleness_bin, tally
from sojourn.timing.simulate.schedules import SCHEDULE, first_toggle, schedule_fields
from sojourn.trace import APPLIED, IN_FLIGHT, LOST
from sojourn.types import Floats, Integers, Records

SPAN = 1_000_000  # events between two checks for Ctrl-C
MOST_EVENTS = 20_000_000  # events without an applied update, which take a second or two, before the run is given up


class TaskRows(NamedTuple):
    """Columns of the tasks that have ended, as in a Trace."""

    client: NDArray[np.int32]
    prob: Floats
    dispatched_at: Floats
    started_at: Floats
    finished_at: Floats
    applied_at: Floats
    dispatched_step: Integers
    applied_step: Integers
    work: NDArray[np.int32]
    fate: NDArray[np.int8]


class Stays(NamedTuple):
    """Sums of clock times of the applied tasks, and losses; by group."""

    sojourn: Floats
    waiting: Floats
    lost: Integers


def task_rows(size: int) -> TaskRows:
    """Return space for `size` rows; with size 0 nothing is recorded."""
    return TaskRows(
        client=np.empty(size, np.int32),
        prob=np.empty(size),
        dispatched_at=np.empty(size),
        started_at=np.empty(size),
        finished_at=np.empty(size),
        applied_at=np.empty(size),
        dispatched_step=np.empty(size, np.int64),
        applied_step=np.empty(size, np.int64),
        work=np.empty(size, np.int32),
        fate=np.empty(size, np.int8),
    )


def stays(groups: int) -> Stays:
    """Return empty sums."""
    return Stays(np.zeros(groups), np.zeros(groups), np.zeros(groups, np.int64))


_KEYS = {"routing": 0, "service_key": 1, "server_key": 4, "uplink_key": 5, "downlink_key": 6}
_KEYS |= {"loss_key": 7, "toggle_key": 8}


def build(
    fleet: Fleet,
    plan: Plan,
    scenario: Scenario,
    queues: Integers,
    keys: NDArray[np.uint64],
    under_way: tuple[Integers, Floats] | None = None,
    ticks: int = 0,
    first: Integers | None = None,
) -> Engine:
    """Return a run at its beginning: `queues` initial tasks are sent to each client at time 0 with the model of step 0.

    `under_way` gives, for clients with a task, where the task is and its remaining time there; without it all are sent
    now. `ticks` is how many times of its own the server may have set at once, `first` the
    local steps of each client's initial tasks, if these are not the scenario's.
    """
    plan.check(fleet)
    scenario.dispatcher.kind.check(fleet, plan)
    plan = as_dispatched(plan, scenario)
    if plan.capped and (scenario.dispatcher.name == "shuffled" or scenario.dispatcher.own is not None):
        raise InvalidInput(
            f"dispatcher {scenario.dispatcher.name} does not check caps, got a plan with a cap; "
            "use routed, or a plan without a cap"
        )
    if max(fleet.clients, plan.concurrency) > IDS:
        raise InvalidInput(f"the event engine takes up to {IDS:,} clients and tasks, got more; use the jump chain")
    numbers: list[float] = [0.0]
    tree, seats, number = empty(_most_events(fleet, plan, scenario) + ticks)
    world = _world(scenario, keys, numbers)
    own = scenario.dispatcher.own
    if own is not None:
        prepare(world, own, fleet, plan, numbers)
    if plan.capped and world["dispatcher"][0] == ROUTED:
        world["dispatcher"] = ROOM
    groups = _groups(fleet, plan, scenario, numbers)
    pools, room, places = _room(groups, fleet, plan, own is not None)
    believed = Shares(fleet, plan, scenario, queues)
    world["estimated"] = own is None and scenario.dispatcher.queued and not believed.exact
    if world["dispatcher"][0] != ROOM or world["estimated"][0]:  # otherwise they are set when they are needed
        groups["share"] = believed.by_group if own is None and scenario.dispatcher.queued else 1 / fleet.clients
    made = Engine(
        world=world,
        groups=groups,
        clients=np.zeros(fleet.clients, engine.CLIENT),
        slots=np.zeros(int(queues.sum()), engine.SLOT),
        tree=tree,
        seats=seats,
        numbers=np.array(numbers),
        pools=pools,
        room=room,
        received=np.zeros(fleet.clients if world["estimated"][0] else 1, np.int64),
        order=np.arange(fleet.clients) if own is None else np.zeros(fleet.clients, np.int64),
    )
    made.world["changing"] = any(item.changes or item.drift for item in scenario.availability)
    made.world["seats"] = made.world["free"] = number
    made.world["hole"] = NO_SEAT
    made.clients["group"] = fleet.group_of_client
    made.clients["room_place"] = places
    made.clients["remaining"] = np.nan
    work = np.full(fleet.clients, scenario.local_steps) if first is None else first
    _open(made, queues, *(under_way or (np.empty(0, np.int64), np.empty(0))), work, tally(fleet.groups, 2, 1))
    return made


def _most_events(fleet: Fleet, plan: Plan, scenario: Scenario) -> int:
    """Return how many events can be set at once: one per task served or under way, one per client
    that comes and goes.
    """
    linked = np.isfinite(fleet.uplink_rate).any() or np.isfinite(fleet.downlink_rate).any()
    only_service = not linked and np.isinf(scenario.server_rate)
    tasks = min(fleet.clients, plan.concurrency) if only_service else plan.concurrency
    return tasks + (fleet.clients if any(item.name != "always" for item in scenario.availability) else 0)


def _world(scenario: Scenario, keys: NDArray[np.uint64], numbers: list[float]) -> Records:
    world = np.zeros(1, engine.WORLD)
    world["dispatcher"] = engine.CODES.get(scenario.dispatcher.name, OWN)
    world["local_steps"], world["one_draw"] = scenario.local_steps, scenario.one_draw
    world["server_time"] = 1 / scenario.server_rate
    _fill(world, "server", [scenario.server_law], numbers)
    for name, index in _KEYS.items():
        world[name] = keys[index]
    return world


def _groups(fleet: Fleet, plan: Plan, scenario: Scenario, numbers: list[float]) -> Records:
    groups = np.zeros(fleet.groups, engine.GROUP)
    groups["first"], groups["members"] = fleet.first_client, fleet.count
    groups["keep"], groups["other"] = alias_table(fleet.count * plan.sampling)
    groups["service_time"] = 1 / fleet.rate
    groups["uplink_time"], groups["downlink_time"] = 1 / fleet.uplink_rate, 1 / fleet.downlink_rate
    _fill(groups, "service", fleet.law, numbers)
    _fill(groups, "uplink", fleet.uplink_law, numbers)
    _fill(groups, "downlink", fleet.downlink_law, numbers)
    rows = schedule_fields(fleet, scenario.availability, numbers)
    for index, (name, _) in enumerate(SCHEDULE):
        groups[name] = [row[index] for row in rows]
    return groups


def _room(groups: Records, fleet: Fleet, plan: Plan, own: bool) -> tuple[Records, Integers, Integers]:
    """Return lists of the clients that may hold another task: by weight, or for a user's dispatcher the idle ones."""
    groups["weight"] = 1.0 if own or not plan.capped else plan.sampling / plan.sampling.max()
    groups["cap"] = 1 if own else np.minimum(plan.cap, NO_CAP)
    groups["weight_class"], pools, listed, places = full_pools(groups["weight"], fleet.count)
    return pools, np.append(listed, 0), places


def tell_shares(e: Engine, share: Floats) -> None:
    """Tell the run the shares before anything is recorded; tasks under way get theirs too."""
    e.groups["share"] = share
    e.slots["prob"] = share[e.clients["group"][e.slots["client"]]]


def _fill(records: Records, prefix: str, laws: Sequence[Law], numbers: list[float]) -> None:
    rows = law_fields(laws, numbers)
    for index, (name, _) in enumerate(LAW):
        records[f"{prefix}_{name}"] = [row[index] for row in rows]


@bare
def _open(e: Engine, queues: Integers, stage: Integers, left: Floats, work: Integers, nothing: Tally) -> None:
    """Schedule when clients come and go, and send the initial tasks."""
    for client in range(queues.size):
        there, changes = first_toggle(e.groups, e.clients[client].group, client, e.world[0].toggle_key, e.numbers)
        e.clients[client].there = there
        e.clients[client].service = stream(e.world[0].service_key, client)
        if changes < np.inf:
            push(e.world, e.tree, e.seats, changes, client, TOGGLES)
    slot = 0
    for client in range(queues.size):
        prob = e.groups[e.clients[client].group].share
        for _ in range(queues[client]):
            if stage.size > 0:
                engine.find(e, nothing, slot, client, prob, work[client], stage[slot], left[slot])
            else:
                engine.send(e, nothing, slot, client, prob, work[client], 0.0)
            slot += 1


@bare
def record(e: Engine, out: TaskRows, row: int, slot: int, applied: bool) -> None:
    """Write a task that has ended into a row."""
    task = e.slots[slot]
    out.client[row] = task.client
    out.prob[row] = task.prob
    out.dispatched_at[row] = task.dispatched_at
    out.started_at[row] = task.started_at
    out.finished_at[row] = task.finished_at
    out.applied_at[row] = e.world[0].clock
    out.dispatched_step[row] = task.dispatched_step
    out.applied_step[row] = e.world[0].step if applied else -1
    out.work[row] = task.work
    out.fate[row] = APPLIED if applied else LOST


@hot
def add_up(e: Engine, sums: Tally, times: Stays, slot: int, group: int, by_group: bool) -> None:
    """Add a task of a group's client, which is applied now, to the sums."""
    task = e.slots[slot]
    staleness = e.world[0].step - task.dispatched_step
    sums.arrivals[group] += 1
    sums.staleness[group] += staleness
    sums.oldest[group] = max(sums.oldest[group], staleness)
    sums.bins[group if by_group else 0, staleness_bin(staleness)] += 1
    times.sojourn[group] += e.world[0].clock - task.dispatched_at
    times.waiting[group] += task.started_at - task.reached_at


@bare
def advance(e: Engine, sums: Tally, times: Stays, out: TaskRows, steps: int, began: float) -> tuple[int, int, bool]:
    """Apply up to `steps` updates, or as many as fit into `out`; return (steps, rows) done, and whether it can go on.

    If clients come and go or tasks are lost, it stops after SPAN events; such a stop does not change the run. Times are
    added up from `began` on; call `close` at the end.
    """
    most = e.world[0].sequence + SPAN
    by_group = sums.bins.shape[0] > 1
    room = out.client.size
    done = rows = 0
    routed = e.world[0].dispatcher == ROUTED and not e.world[0].estimated
    chosen, prob = 0, 0.0
    while done < steps and (room == 0 or rows < room):
        routing = e.world[0].routing
        if routed:  # drawn before it is known who finishes, so that the processor works on both at once
            chosen, prob = engine.choose(e, 0)
        slot, applied = engine.arrive(e, sums, began, most)
        if slot < 0:
            e.world[0].routing = routing  # no task was sent
            return done, rows, slot == PAUSED
        client = e.slots[slot].client
        group = e.clients[client].group
        if room > 0:
            record(e, out, rows, slot, applied)
        rows += 1
        if applied:
            add_up(e, sums, times, slot, group, by_group)
            engine.count_in(e, client)
            done += 1
        else:
            times.lost[group] += 1
        engine.free(e, client)
        if not routed:
            chosen, prob = engine.choose(e, client)
        engine.send(e, sums, slot, chosen, prob, e.world[0].local_steps, began)
        if not applied and e.world[0].sequence >= most:
            break
    return done, rows, True


@bare
def close(e: Engine, sums: Tally, lasted: float) -> None:
    """Close the time integrals: a task still in a queue counts until now."""
    levels = sums.level_time.shape[1]
    for client in range(e.clients.size):
        group, length = e.clients[client].group, e.clients[client].length
        sums.task_time[group] += length * lasted
        for level in range(1, min(length + 1, levels)):
            sums.level_time[group, level] += lasted


class OnlineEngine(Clock):
    """The engine driven from Python: a Clock for timing that depends on the values that training computes.

    >>> from sojourn.random import keys
    >>> fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    >>> online = OnlineEngine(fleet, Plan.uniform(fleet, 4), Scenario(), np.ones(4, np.int64), keys(1))
    >>> for task in online.tasks(3):
    ...     sent_to = online.send(work=task.applied_step + 1)
    >>> online.step
    3
    """

    def __init__(
        self,
        fleet: Fleet,
        plan: Plan,
        scenario: Scenario,
        queues: Integers,
        keys: NDArray[np.uint64],
        first: Integers | None = None,
    ) -> None:
        """`first` are the local steps of each client's initial tasks, if these are not the scenario's."""
        self._run = build(fleet, plan, scenario, queues, keys, first=first)
        if self._run.world["dispatcher"][0] == ROOM and not self._run.world["estimated"][0]:
            tell_shares(self._run, Shares(fleet, as_dispatched(plan, scenario), scenario, queues).by_group)
        self._sums = tally(fleet.groups, 2, 1)
        self._patience = Patience(self._run)
        self._last: Task | None = None
        self._sent_work = scenario.local_steps

    @property
    def step(self) -> int:
        """Number of updates applied so far."""
        return int(self._run.world["step"][0])

    def started_at(self, slot: int) -> float:
        """Return when the client began to serve the task in this slot; NaN = not yet."""
        return float(self._run.slots[slot]["started_at"])

    def tasks(self, steps: int) -> Iterator[Task]:
        """Yield ended tasks until `steps` more are applied; if the caller does not call `send`, the
        dispatcher sends.
        """
        stop = self.step + steps
        while self.step < stop:
            yield self.arrive()
            if self._last is not None:
                self.send()

    def arrive(self) -> Task:
        """Return the next task that ends; the caller must then call `send`."""
        slot, applied = PAUSED, False
        while slot == PAUSED:
            most = int(self._run.world["sequence"][0]) + SPAN
            slot, applied = engine.arrive(self._run, self._sums, 0.0, most)
            self._patience.look(int(applied), int(slot >= 0 and not applied), slot != NOBODY)
        task, world = self._run.slots[slot], self._run.world[0]
        ended = Task(
            slot=int(slot),
            client=int(task["client"]),
            prob=float(task["prob"]),
            dispatched_at=float(task["dispatched_at"]),
            started_at=float(task["started_at"]),
            applied_at=float(world["clock"]),
            dispatched_step=int(task["dispatched_step"]),
            applied_step=self.step if applied else -1,
            work=int(task["work"]),
            applied=bool(applied),
            finished_at=float(task["finished_at"]),
        )
        engine.free(self._run, ended.client)
        if applied:
            engine.count_in(self._run, ended.client)
        self._last = ended
        return ended

    def send(self, client: int | None = None, work: int | Steps | None = None) -> int:
        """Dispatch the next task to `client`, or to the client that the dispatcher chooses; return the client.

        `work` is its number of local steps, or says it once the client is known.
        """
        if self._last is None:
            raise InvalidInput("send must follow an ended task, got a second send; take the next task first")
        chosen, prob = engine.choose(self._run, self._last.client) if client is None else (client, np.nan)
        asked = work(int(chosen)) if callable(work) else work
        steps = int(self._run.world["local_steps"][0]) if asked is None else asked
        if not 1 <= steps <= MOST_LOCAL_STEPS:
            raise InvalidInput(f"a task must have from 1 to {MOST_LOCAL_STEPS:,} local steps, got {steps}")
        self._sent_work = steps
        engine.send(self._run, self._sums, self._last.slot, chosen, prob, steps, 0.0)
        self._last = None
        return int(chosen)

    @property
    def sent_work(self) -> int:
        """Local steps of the task that was sent last."""
        return self._sent_work

    def in_flight(self) -> dict[str, NDArray[Any]]:
        """Return the tasks that have not ended, as columns of a Trace."""
        return in_flight(self._run)


class Patience:
    """Watches a run from call to call, and raises an error if it cannot go on or makes no progress."""

    def __init__(self, run: Engine) -> None:
        self._world = run.world
        self._clients = run.clients.size
        self._since = 0
        self._lost = 0

    def look(self, applied: int, lost: int, alive: bool) -> None:
        """Record what a call did; raise an error if no task will ever end again, or if none has for long."""
        check_fault(self._world, self._clients)
        step, events = int(self._world["step"][0]), int(self._world["sequence"][0])
        if applied > 0:
            self._since, self._lost = events, 0
            return
        self._lost += lost
        if not alive and lost == 0:
            raise InvalidInput(
                f"the run came to a stop after {step} steps: no client will finish another task; "
                "let clients come back, or keep their rates from vanishing"
            )
        if events - self._since >= MOST_EVENTS:
            reason = "clients come and go, and none finishes a task while it is online; let them stay longer"
            if self._lost > 0:
                reason = (
                    f"{self._lost:,} tasks were lost, and none came back; lower the loss, or let clients stay longer"
                )
            raise InvalidInput(
                f"the run makes no progress: no update was applied in {MOST_EVENTS:,} events after step {step}; "
                f"{reason}"
            )


def in_flight(e: Engine) -> dict[str, NDArray[Any]]:
    """Return the columns of the tasks that have not ended, in the order of their dispatch."""
    tasks = e.slots[np.lexsort((np.arange(e.slots.size), e.slots["dispatched_step"]))]
    size = tasks.size
    return {
        "client": tasks["client"].astype(np.int32),
        **{key: tasks[key] for key in ("prob", "dispatched_at", "started_at", "finished_at")},
        "applied_at": np.full(size, np.nan),
        "dispatched_step": tasks["dispatched_step"],
        "applied_step": np.full(size, -1, np.int64),
        "work": np.zeros(size, np.int32),
        "fate": np.full(size, IN_FLIGHT, np.int8),
    }
