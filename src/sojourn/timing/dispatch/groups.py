"""groups: the server gives each task as many local steps as let several clients come back together.

For every client it keeps an estimate v of its time per local step: the first observation, then v <- (1 - m) v + m times
the observed one. When a client has returned, it is assigned to a group of arrival. It joins the open group for which
Q = floor((T - now) / v) local steps are most and lie between `least` and K; T is when the group is expected. If there
is none it opens a group: Q is the most of floor((latest + v_f K - now) / v), over the open groups, that is at most K
(at least `least`; K if there is none), where v_f is the group's fastest client. The new group is expected after Q v,
and at the latest after `slack` times that. K is the run's number of local steps; a first task has K.

Who comes back in time waits until its group is complete, or for the latest time. Then the server applies the group's
updates together, and with them those that came too late for other groups since; members are assigned anew, the fastest
first. Who comes too late is assigned anew at once, and its update waits for the next group that is applied. A client
counts once then: an older update of it is dropped. The first update of a client is applied by itself.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from sojourn.compiled import bare
from sojourn.dispatching import register
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan import Plan
from sojourn.timing.dispatch.conducted import ENDLESS, Conducted, check_everyone
from sojourn.timing.simulate import engine
from sojourn.timing.simulate.drive import Stays, TaskRows, add_up, record
from sojourn.timing.simulate.engine import NOBODY, TICKED, TICKS, Engine
from sojourn.timing.simulate.event_tree import clear, push, upcoming
from sojourn.timing.simulate.jump_chain import Tally
from sojourn.trace import DROPPED
from sojourn.types import Flags, Floats, Integers, Records

NONE, RETURNED = -1, -2  # in place of a client's group: it never returned; it is about to be assigned
FREE, OPEN, OVER = range(3)  # states of a group; OVER = applied or past its latest time, with clients still to come
ROUNDING = 1e-9  # of a step or of a time: less than this is the same
GROUP = np.dtype(
    [
        *[("state", "i8"), ("expected", "f8"), ("latest", "f8"), ("born", "i8")],
        *[("running", "i8"), ("arrived", "i8"), ("seat", "i8")],
    ]
)


class Compass(NamedTuple):
    """What the server knows about its clients and groups."""

    speed: Floats
    """Estimated time per local step of each client; NaN = not seen yet."""
    group: Integers
    """Group of each client, NONE or RETURNED."""
    groups: Records
    """The groups."""
    waiting: Integers
    """Slots of the tasks that wait for their group, in the order of arrival."""
    late: Integers
    """Clients with an update that came too late and waits for the next group, in the order of arrival."""
    has_late: Flags
    """Whether a client has such an update; it is kept in slot n + client."""
    counts: Integers
    """[tasks that wait, late updates, groups opened so far]."""


@bare
def _assign(e: Engine, m: Compass, client: int, least: int, slack: float) -> int:
    """Assign a client to a group; return the local steps of its next task."""
    now, v = e.world[0].clock, m.speed[client]
    most: Any = np.int64(e.world[0].local_steps)
    best: Any = np.int64(-1)
    found = -1
    for g in range(m.groups.size):
        if m.groups[g].state == OPEN:
            steps = np.int64(np.floor((m.groups[g].expected - now) / v + ROUNDING))
            later = steps > best or (steps == best and m.groups[g].born > m.groups[found].born)
            if least <= steps <= most and later:
                best, found = steps, g
    if found < 0:
        return _open(e, m, client, least, slack)
    m.groups[found].running += 1
    m.group[client] = found
    return best


@bare
def _open(e: Engine, m: Compass, client: int, least: int, slack: float) -> int:
    """Open a group for a client; return the local steps of its next task."""
    now, v = e.world[0].clock, m.speed[client]
    most: Any = np.int64(e.world[0].local_steps)
    best: Any = np.int64(-1)
    place = -1
    for g in range(m.groups.size):
        if m.groups[g].state == FREE:
            place = g
        elif m.groups[g].state == OPEN and now < m.groups[g].latest:
            fastest = np.inf
            for other in range(m.group.size):
                if m.group[other] == g:
                    fastest = min(fastest, m.speed[other])
            fitting = np.int64(np.floor((m.groups[g].latest + fastest * most - now) / v + ROUNDING))
            if fitting <= most:
                best = max(best, fitting)
    steps: Any = most if best < 0 else max(best, np.int64(least))
    m.groups[place].state = OPEN
    m.groups[place].expected = now + steps * v
    m.groups[place].latest = now + steps * v * slack
    m.groups[place].running = 1
    m.groups[place].arrived = 0
    m.groups[place].born = m.counts[2]
    m.counts[2] += 1
    m.groups[place].seat = push(e.world, e.tree, e.seats, m.groups[place].latest, place, TICKS)
    m.group[client] = place
    return steps


@bare
def _apply(e: Engine, sums: Tally, times: Stays, out: TaskRows, row: int, slot: int) -> None:
    """Apply the task in a slot."""
    add_up(e, sums, times, slot, e.clients[e.slots[slot].client].group, sums.bins.shape[0] > 1)
    if out.client.size > 0:
        record(e, out, row, slot, True)
    e.world[0].step += 1


@bare
def _drop_late(e: Engine, m: Compass, times: Stays, out: TaskRows, row: int, client: int) -> int:
    """Drop the late update of a client, because it has a newer one; return the rows filled."""
    m.has_late[client] = False
    kept = 0
    for i in range(m.counts[1]):
        if m.late[i] != client:
            m.late[kept] = m.late[i]
            kept += 1
    m.counts[1] = kept
    times.lost[e.clients[client].group] += 1
    if out.client.size > 0:
        record(e, out, row, m.group.size + client, False)
        out.fate[row] = DROPPED
    return 1


@bare
def _aggregate(e: Engine, m: Compass, sums: Tally, times: Stays, out: TaskRows, row: int, g: int) -> tuple[int, int]:
    """Apply a group and the late updates; return the updates applied and the rows filled. Members become RETURNED."""
    rows = 0
    for i in range(m.counts[0]):
        client: Any = np.int64(e.slots[m.waiting[i]].client)
        if m.group[client] == g and m.has_late[client]:
            rows += _drop_late(e, m, times, out, row + rows, client)
    done = 0
    for i in range(m.counts[1]):
        _apply(e, sums, times, out, row + rows, m.group.size + m.late[i])
        m.has_late[m.late[i]] = False
        rows += 1
        done += 1
    m.counts[1] = 0
    for i in range(m.counts[0]):
        client = np.int64(e.slots[m.waiting[i]].client)
        if m.group[client] == g:
            _apply(e, sums, times, out, row + rows, m.waiting[i])
            m.group[client] = RETURNED
            rows += 1
            done += 1
    m.groups[g].arrived = 0
    m.groups[g].state = OVER if m.groups[g].running > 0 else FREE
    return done, rows


@bare
def _send_returned(e: Engine, m: Compass, sums: Tally, began: float, least: int, slack: float) -> None:
    """Assign and send the tasks of the clients that have returned, the fastest first."""
    while True:
        first = -1
        for i in range(m.counts[0]):
            client: Any = np.int64(e.slots[m.waiting[i]].client)
            if m.group[client] == RETURNED and (
                first < 0 or m.speed[client] < m.speed[np.int64(e.slots[m.waiting[first]].client)]
            ):
                first = i
        if first < 0:
            break
        slot = m.waiting[first]
        for i in range(first, m.counts[0] - 1):
            m.waiting[i] = m.waiting[i + 1]
        m.counts[0] -= 1
        _send(e, m, sums, slot, began, least, slack)


@bare
def _send(e: Engine, m: Compass, sums: Tally, slot: int, began: float, least: int, slack: float) -> None:
    client: Any = np.int64(e.slots[slot].client)
    steps = _assign(e, m, client, least, slack)
    engine.send(e, sums, slot, client, e.slots[slot].prob, steps, began)


@bare
def play_groups(
    e: Engine,
    m: Compass,
    sums: Tally,
    times: Stays,
    out: TaskRows,
    steps: int,
    began: float,
    least: int,
    slack: float,
    momentum: float,
) -> tuple[int, int]:
    """Play until `steps` updates are applied or `out` may have no room for another group."""
    clients, room = m.group.size, out.client.size
    done = rows = 0
    while done < steps and (room == 0 or rows + 2 * clients + 1 <= room):
        slot, _ = engine.arrive(e, sums, began, ENDLESS)
        if slot == NOBODY:
            break
        now = e.world[0].clock
        if slot <= TICKED:
            g = TICKED - slot
            following = upcoming(e.world, e.tree, e.seats)
            if following <= now * (1 + ROUNDING * ROUNDING):  # it is due at this very time, and comes before
                m.groups[g].seat = push(e.world, e.tree, e.seats, following, g, TICKS)
            elif m.groups[g].arrived > 0:
                more, filled = _aggregate(e, m, sums, times, out, rows, g)
                done, rows = done + more, rows + filled
                _send_returned(e, m, sums, began, least, slack)
            else:
                m.groups[g].state = OVER
            continue
        client: Any = np.int64(e.slots[slot].client)
        seen = (now - e.slots[slot].dispatched_at) / e.slots[slot].work
        m.speed[client] = seen if np.isnan(m.speed[client]) else (1.0 - momentum) * m.speed[client] + momentum * seen
        g = m.group[client]
        if g == NONE:
            _apply(e, sums, times, out, rows, slot)
            done, rows = done + 1, rows + 1
            _send(e, m, sums, slot, began, least, slack)
            continue
        m.groups[g].running -= 1
        if m.groups[g].state == OVER:
            if m.groups[g].running == 0:
                m.groups[g].state = FREE
            if m.has_late[client]:
                rows += _drop_late(e, m, times, out, rows, client)
            e.slots[clients + client] = e.slots[slot]
            m.has_late[client] = True
            m.late[m.counts[1]] = client
            m.counts[1] += 1
            _send(e, m, sums, slot, began, least, slack)
            continue
        m.waiting[m.counts[0]] = slot
        m.counts[0] += 1
        m.groups[g].arrived += 1
        if m.groups[g].running == 0:
            clear(e.world, e.tree, e.seats, m.groups[g].seat)
            more, filled = _aggregate(e, m, sums, times, out, rows, g)
            done, rows = done + more, rows + filled
            _send_returned(e, m, sums, began, least, slack)
    return done, rows


@register
@dataclass(frozen=True)
class Groups(Conducted):
    """Groups of arrival: tasks have as many local steps as let their clients come back together."""

    name = "groups"
    not_live = "plans when groups of clients return, and a live server acts on arrivals alone"
    supersedes = True

    least: int = 1
    """Fewest local steps of a task."""
    slack: float = 1.5
    """The latest time of a group as a multiple of its expected time."""
    momentum: float = 0.9
    """Weight of the newest observation in the estimate of a client's time per local step."""

    def __post_init__(self) -> None:
        self.check_count("least")
        if not (isfinite(self.slack) and self.slack >= 1):
            raise InvalidInput(f"dispatcher groups: slack must be finite and at least 1, got {self.slack}")
        if not 0 < self.momentum <= 1:
            raise InvalidInput(f"dispatcher groups: momentum must lie in (0, 1], got {self.momentum}")

    def ticks(self, fleet: Fleet) -> int:
        """Return one latest time per group."""
        return fleet.clients + 1

    def check(self, fleet: Fleet, plan: Plan) -> None:
        """Raise an error unless every client works."""
        check_everyone(self, fleet, plan)

    def spare(self, fleet: Fleet) -> int:
        """Return one slot per client for a late update."""
        return fleet.clients

    def begin(self, e: Engine, fleet: Fleet, plan: Plan) -> Compass:
        """Begin with no groups."""
        most, n = int(e.world["local_steps"][0]), fleet.clients
        if self.least > most:
            raise InvalidInput(
                f"dispatcher groups: least must be at most the {most} local steps of the run, got {self.least}; "
                "lower least, or give more local steps"
            )
        if e.world["one_draw"][0]:
            raise InvalidInput("dispatcher groups sets local steps, so that tasks cannot take epochs; give local steps")
        return Compass(
            np.full(n, np.nan),
            np.full(n, NONE),
            np.zeros(n + 1, GROUP),
            np.empty(n, np.int64),
            np.empty(n, np.int64),
            np.zeros(n, np.bool_),
            np.zeros(3, np.int64),
        )

    def in_flight(self, e: Engine, memory: Compass) -> Flags:
        """Return which slots hold a task: one per client, and its late update if it has one."""
        return np.concatenate([np.ones(memory.has_late.size, np.bool_), memory.has_late])

    def play(
        self, e: Engine, memory: Compass, sums: Tally, times: Stays, out: TaskRows, steps: int, began: float
    ) -> tuple[int, int]:
        """Play group by group."""
        rules = (self.least, self.slack, self.momentum)
        return play_groups(e, memory, sums, times, out, steps, began, *rules)
