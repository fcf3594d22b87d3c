"""Readings: what the paper may have meant by its experiment on CIFAR-10, and the methods that it compares.

It leaves open how many tasks are in flight, how much a task computes, and what the 200 steps of its axis are:

updates    200 updates received; of FedBuff 200 updates, or 200 full buffers (not with 20 local steps: 40,000 gradients)
rounds     200 rounds of as many updates as there are tasks
periods    200 periods of the server, of 4 + 3 units of time, in which many updates arrive; or 200 full buffers
as many    as many updates as arrive in these periods with one task per client, whatever the time

The likeliest reading is tried again with another normalisation, and with slow clients twice as fast; the shortest one
with momentum at the server.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from queuing_dynamics.cifar10.size import FAST_FAVOURED, Size
from queuing_dynamics.fleets import FAST_RATE, SLOW_FAVOURED, SLOW_RATE

UPDATES_A_CLIENT = 58  # in 200 periods with one task per client, at rates 1/2 and 1/16
PLANNED, FASTER = "generalized, planned", "generalized, fast favoured"
ROOT, SPEED = "generalized, by the root of speed", "generalized, by speed"
IDLE, PURE, UNWEIGHTED = "fedbuff, idle clients", "asyncsgd, back to the finisher", "asyncsgd, by speed"
RATES = {1: (0.01, 0.03, 0.1, 0.3), 4: (0.01, 0.03, 0.1), 20: (0.003, 0.01, 0.03)}
BUFFERED_RATES = {1: (0.03, 0.1, 0.3, 1.0), 4: (0.03, 0.1, 0.3), 20: (0.01, 0.03, 0.1)}


class Contestant(NamedTuple):
    """One of the paper's methods."""

    name: str
    """Its name here."""
    paper: float
    """Its accuracy in the paper, in percent."""
    spread: float
    """The paper's standard deviation."""


PAPER = (
    Contestant("fedbuff", 49.89, 0.77),
    Contestant("asyncsgd", 59.09, 1.97),
    Contestant("generalized", 66.61, 3.26),
)


@dataclass(frozen=True)
class Reading:
    """One reading of the experiment."""

    axis: str
    """The meaning of the axis: updates, rounds, periods, as many."""
    local_steps: int
    """Number of gradients per task."""
    share: float
    """Tasks in flight, as a part of the clients."""
    norm: str = "batch"
    """Normalisation of the network: batch or group."""
    slow_rate: float = SLOW_RATE
    """Service rate of slow clients; fast ones have 1/2."""
    server: str = "sgd"
    """How the server steps."""

    @property
    def ends(self) -> tuple[str, ...]:
        """Where FedBuff may be read: see `settled`."""
        if self.axis == "rounds":
            return ("end",)
        if self.axis != "updates":
            return ("end", "buffers")
        return ("end", "updates") if self.local_steps < 20 else ("updates",)

    def name(self, size: Size) -> str:
        """Return the name of the reading."""
        work = "a gradient" if self.local_steps == 1 else f"{self.local_steps} local steps"
        other = ", GroupNorm" if self.norm == "group" else ""
        other += f", slow clients at 1/{1 / self.slow_rate:g}" if self.slow_rate != SLOW_RATE else ""
        other += f", {self.server}" if self.server != "sgd" else ""
        return f"{self.axis}, {work} a task, {self.tasks(size)} tasks{other}"

    def tasks(self, size: Size) -> int:
        """Return the number of tasks in flight."""
        return max(1, round(self.share * size.clients))

    def rates(self, method: str) -> tuple[float, ...]:
        """Return the step sizes that a method is tried at."""
        rates = (BUFFERED_RATES if method.startswith("fedbuff") else RATES)[self.local_steps]
        return rates if self.server == "sgd" else tuple(round(rate / 10, 6) for rate in rates)

    def most(self, size: Size) -> float:
        """Return the number of updates after which the run is read; a run that goes on belongs to another reading."""
        return size.steps * self.tasks(size) if self.axis == "rounds" else inf

    def keys(self, size: Size, method: str) -> dict[str, Any]:
        """Return the keys of a run of a method."""
        keys: dict[str, Any] = {"concurrency": self.tasks(size), "local_steps": self.local_steps}
        keys |= {"model": size.network(self.norm), "server": self.server}
        keys |= algorithm(size, method)
        if self.axis == "periods":
            return {**keys, "time": size.time, "evaluate_every": max(1, size.steps * 5 // 4)}
        whole = size.steps if self.axis == "updates" else UPDATES_A_CLIENT * size.clients * size.steps // 200
        buffers = method == "fedbuff" and self.axis == "updates" and self.local_steps < 20
        many = whole * (size.buffer if buffers else 1)
        return {**keys, "steps": many, "evaluate_every": max(1, many // 20)}


def algorithm(size: Size, method: str) -> dict[str, Any]:
    """Return a method as keys of a run: the paper's three, and those that a user would compare them with."""
    if method == PLANNED:
        return {"algorithm": "generalized-asyncsgd", "sampling": size.sampling(size.planned()[1])}
    return {
        "asyncsgd": {"algorithm": "asyncsgd"},
        PURE: {"algorithm": "asyncsgd(assignment=pure)"},
        "generalized": {"algorithm": "generalized-asyncsgd", "sampling": size.sampling(SLOW_FAVOURED)},
        FASTER: {"algorithm": "generalized-asyncsgd", "sampling": size.sampling(FAST_FAVOURED)},
        ROOT: {"algorithm": "generalized-asyncsgd", "sampling": size.sampling(by_speed(0.5))},
        SPEED: {"algorithm": "generalized-asyncsgd", "sampling": size.sampling(by_speed(1.0))},
        UNWEIGHTED: {"algorithm": "fedbuff(size=1, dispatch=routed)", "sampling": size.sampling(by_speed(1.0))},
        "fedbuff": {"algorithm": f"fedbuff(size={size.buffer}, dispatch=routed)"},
        IDLE: {"algorithm": f"fedbuff(size={size.buffer})"},
    }[method]


def by_speed(power: float) -> float:
    """Return a fast client's probability in units of the uniform one, in proportion to a power of speed.

    >>> round(by_speed(1.0), 4)
    1.7778
    """
    ratio = float((FAST_RATE / SLOW_RATE) ** power)
    return round(2 * ratio / (1 + ratio), 6)


def readings() -> Iterator[Reading]:
    """Yield all readings, the likelier ones first."""
    for share in (1.0, 0.1, 0.5):
        yield Reading("periods", 1, share)
    yield Reading("as many", 1, 0.1)
    for local_steps in (1, 4, 20):
        for share in (0.1, 1.0):
            yield Reading("updates", local_steps, share)
    yield Reading("rounds", 1, 0.1)
    yield Reading("updates", 1, 0.1, server="momentum")
    yield Reading("as many", 1, 0.1, norm="group")
    yield Reading("as many", 1, 0.1, slow_rate=2 * SLOW_RATE)
