"""Scenario: the part of timing that is neither fleet nor plan: dispatcher, local steps, server, availability.

A dispatcher decides who gets the next task. These are their names, as used on the command line:

routed      a client drawn by p; a busy client queues the task (the paper's network, and the default); if the plan has a
            cap, drawn by p among the clients that may hold another task
pure        the client that has just finished a task
shuffled    clients in a random order, a new order when all have had their turn
idle        a client drawn by p among those without a task (needs C <= n): the same as a cap of 1
rounds      C clients drawn without replacement; the server waits for all of them (or the first `wait`), and then for
            the time `interaction`
periodic    every client works on its own, up to K local steps; once every `waiting + interaction` the server calls
            `contacts` clients, interrupts them and collects what they have done

held        the server holds arrivals until there are `wait`, or until a tick every `waiting` seconds, then applies
            them together and sends as many new tasks
restarting  every client works on one task after the other; running tasks are cancelled and begin anew, all of them
            whenever `wait` updates have come back, or each when it is `age` updates old
groups      the server gives each task so many local steps, from `least` to K, that several clients come back together

A dispatcher of your own is written `package.module:Class(key=value)`: see `sojourn.dispatching`.
"""

import hashlib
import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from sojourn.availability import Availability
from sojourn.dispatching import QUEUED, DispatcherKind, check_complete, made, own_dispatcher, place
from sojourn.errors import InvalidInput
from sojourn.fleet import LEAST_RATE
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.plan import Plan
from sojourn.text import parse_call

MOST_LOCAL_STEPS = 100_000  # a task has a million random numbers to itself, and a service time may take several


@dataclass(frozen=True)
class Dispatcher:
    """Who gets the next task.

    >>> Dispatcher.parse("rounds(wait=8, interaction=3)")
    Dispatcher(name='rounds', wait=8, contacts=None, waiting=0.0, interaction=3.0)
    """

    name: str = "routed"
    """Name of a dispatcher, or `package.module:Class` for one of your own."""
    wait: int | None = None
    """rounds: number of updates to wait for; None = all. The other updates are dropped."""
    contacts: int | None = None
    """periodic: number of clients that the server calls each time."""
    waiting: float = 0.0
    """periodic: time in seconds that the server waits between two calls."""
    interaction: float = 0.0
    """rounds, periodic: time in seconds that the server takes to send and receive."""

    own: DispatcherKind | None = field(default=None, repr=False)
    """The object of a dispatcher that has options of its own, yours or the package's; `Dispatcher.of` sets it."""

    def __post_init__(self) -> None:
        if self.name != "routed" or any(
            getattr(self, item.name) != item.default for item in fields(self)[1:]
        ):  # the default is built later, so that merely naming it stays fast
            _ = self.kind

    @cached_property
    def kind(self) -> DispatcherKind:
        """The object behind the name: the options, their rules, and the choice."""
        options = {
            item.name: getattr(self, item.name)
            for item in fields(self)[1:-1]
            if getattr(self, item.name) != item.default
        }
        if self.own is None:
            return made(self.name, options)
        if options:
            raise InvalidInput(f"dispatcher {self.name} has its own options, got {', '.join(options)}; leave it out")
        check_complete(type(self.own))
        return self.own

    @property
    def queued(self) -> bool:
        """Whether tasks wait in queues at their clients; otherwise the server acts on its own."""
        return self.name in QUEUED if self.own is None else self.own.queued

    @classmethod
    def of(cls, kind: DispatcherKind) -> "Dispatcher":
        """Return the Dispatcher for an object of a dispatcher class: your own, or one with options of its own."""
        return cls(place(type(kind)), own=kind)

    @classmethod
    def named(cls, name: str, **options: Any) -> "Dispatcher":
        """Return one of the package's dispatchers that have options of their own, by its name."""
        return cls.of(made(name, options))

    @classmethod
    def parse(cls, text: str) -> "Dispatcher":
        """Read a dispatcher from its text form, such as `rounds(wait=8)`."""
        own = own_dispatcher(text)
        if own is not None:
            return cls.of(own)
        name, options = parse_call("dispatcher", text, {item.name: float for item in fields(cls)[1:-1]})
        for key in ("wait", "contacts"):
            if key in options and math.isfinite(options[key]) and options[key] == int(options[key]):
                options[key] = int(options[key])
        return cls(name, **options)

    def __str__(self) -> str:
        given = [(item.name, getattr(self.kind, item.name), item.default) for item in fields(self.kind)]
        inside = ", ".join(f"{key}={value}" for key, value, default in given if value != default)
        return f"{self.name}({inside})" if inside else self.name


def dispatcher_said(name: str, plan: Plan) -> str:
    """Return a dispatcher in words: routing with a cap of 1 sends tasks to idle clients only and is called `idle`."""
    if name != "routed" or not plan.capped:
        return name
    ends = {f"{one:g}" if np.isfinite(one) else "none" for one in (plan.cap.min(), plan.cap.max())}
    return "idle" if plan.one_each else f"routed (cap {' to '.join(sorted(ends))})"


@dataclass(frozen=True)
class Scenario:
    """Everything about a simulated run that is neither fleet nor plan.

    >>> Scenario(local_steps=5, server_rate=20.0).plain
    False
    """

    dispatcher: Dispatcher = field(default_factory=Dispatcher)
    """Who gets the next task."""
    local_steps: int = 1
    """Local steps per task (K); each takes a service time of its own. periodic: the most that a client does."""
    one_draw: bool = False
    """Whether a task takes one service time in all, however many local steps it has."""
    server_rate: float = math.inf
    """Updates that the server applies per second, one after the other; inf = at once."""
    server_law: Law = EXPONENTIAL
    """Law of the server's time per update."""
    availability: tuple[Availability, ...] = ()
    """When clients are online, which tasks are lost, how rates change."""

    def __post_init__(self) -> None:
        if self.local_steps != int(self.local_steps) or self.local_steps < 1:
            raise InvalidInput(f"local_steps must be a whole number of at least 1, got {self.local_steps}")
        if self.local_steps > MOST_LOCAL_STEPS:
            raise InvalidInput(f"local_steps must be at most {MOST_LOCAL_STEPS:,}, got {self.local_steps}")
        if not self.server_rate > 0:
            raise InvalidInput(f"server_rate must be positive (inf = no time), got {self.server_rate}")
        if self.server_rate < LEAST_RATE:
            raise InvalidInput(f"server_rate must be at least {LEAST_RATE:.3g}, got {self.server_rate}")
        if not self.dispatcher.queued:
            if math.isfinite(self.server_rate):
                raise InvalidInput(
                    f"dispatcher {self.dispatcher.name} has its own interaction time; leave server_rate out"
                )
            if self.availability:
                raise InvalidInput(
                    f"availability needs a dispatcher with queues ({', '.join(QUEUED)}), got {self.dispatcher.name}"
                )

    @property
    def plain(self) -> bool:
        """Whether this is the paper's network: routed, one local step, no server time, clients always online."""
        return self == Scenario()

    @property
    def availability_hash(self) -> str | None:
        """Fingerprint of the availability; None = clients are always online."""
        return hashlib.sha256(repr(self.availability).encode()).hexdigest()[:16] if self.availability else None

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that a trace stores about the scenario, for reading its times.

        >>> Scenario(server_rate=20.0).facts
        {'dispatcher': 'routed', 'local_steps': 1, 'one_draw': False, 'server_rate': 20.0, 'leave': []}
        """
        return {
            "dispatcher": self.dispatcher.name,
            "local_steps": self.local_steps,
            "one_draw": self.one_draw,
            "server_rate": self.server_rate if math.isfinite(self.server_rate) else None,
            "leave": sorted({item.leave for item in self.availability if item.name != "always"}),
        }
