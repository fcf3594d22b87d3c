"""Scenario: how tasks are dispatched and what the world does to them, apart from fleet and plan.

Dispatchers decide who gets the next task; the text form is used on the command line.

routed      client drawn by p; a busy client queues it (the paper's network, and the default)
pure        the client that has just finished
shuffled    clients in a random order, a new order when all have had their turn
idle        uniform over the clients without a task (needs C <= n)
rounds      C clients drawn without replacement; the server waits for all (or the first `wait`), then `interaction`
periodic    every client works by itself, up to K local steps; each `waiting + interaction` the server calls `contacts`
            clients, interrupts them and takes what they have done
"""

import hashlib
import math
from dataclasses import dataclass, field, fields
from typing import Any

from sojourn.availability import Availability
from sojourn.errors import InvalidInput
from sojourn.fleet import LEAST_RATE
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.plan import MOST_TASKS
from sojourn.text import parse_call

QUEUED = ("routed", "pure", "shuffled", "idle")
DISPATCHERS = (*QUEUED, "rounds", "periodic")
MOST_LOCAL_STEPS = 100_000  # a task has a million random numbers to itself, and a service time may take several


@dataclass(frozen=True)
class Dispatcher:
    """Who gets the next task.

    >>> Dispatcher.parse("rounds(wait=8, interaction=3)")
    Dispatcher(name='rounds', wait=8, contacts=None, waiting=0.0, interaction=3.0)
    """

    name: str = "routed"
    """One of `DISPATCHERS`."""
    wait: int | None = None
    """rounds: updates to wait for; None = all. The others are dropped."""
    contacts: int | None = None
    """periodic: clients that the server calls each time."""
    waiting: float = 0.0
    """periodic: time that the server waits between two calls."""
    interaction: float = 0.0
    """rounds, periodic: time that the server takes to send and receive."""

    def __post_init__(self) -> None:
        if self.name not in DISPATCHERS:
            raise InvalidInput(f"dispatcher must be one of {', '.join(DISPATCHERS)}, got '{self.name}'")
        allowed = {"rounds": {"wait", "interaction"}, "periodic": {"contacts", "waiting", "interaction"}}
        for item in fields(self)[1:]:
            value = getattr(self, item.name)
            if value != item.default and item.name not in allowed.get(self.name, set()):
                raise InvalidInput(f"dispatcher {self.name} has no option {item.name}, got {value}; leave it out")
        for name, value in (("waiting", self.waiting), ("interaction", self.interaction)):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"dispatcher {self.name}: {name} must be non-negative and finite, got {value}")
        for name, count in (("wait", self.wait), ("contacts", self.contacts)):
            if count is not None and not (1 <= count <= MOST_TASKS and count == int(count)):
                raise InvalidInput(f"dispatcher {self.name}: {name} must be a whole number of at least 1, got {count}")
        if self.name == "periodic" and (self.contacts is None or self.waiting + self.interaction <= 0):
            raise InvalidInput(
                "dispatcher periodic needs contacts and a positive waiting + interaction; "
                "write periodic(contacts=20, waiting=4, interaction=3)"
            )

    @classmethod
    def parse(cls, text: str) -> "Dispatcher":
        """Read the text form."""
        name, options = parse_call("dispatcher", text, {item.name: float for item in fields(cls)[1:]})
        for key in ("wait", "contacts"):
            if key in options and math.isfinite(options[key]) and options[key] == int(options[key]):
                options[key] = int(options[key])
        return cls(name, **options)


@dataclass(frozen=True)
class Scenario:
    """Everything about a simulated run that is neither fleet nor plan.

    >>> Scenario(local_steps=5, server_rate=20.0).plain
    False
    """

    dispatcher: Dispatcher = field(default_factory=Dispatcher)
    """Who gets the next task."""
    local_steps: int = 1
    """Local steps of a task (K); each takes a service time of its own. periodic: the most a client does."""
    one_draw: bool = False
    """Charge one service time a task, however many local steps."""
    server_rate: float = math.inf
    """Updates that the server applies per unit of time, one after the other; inf = at once."""
    server_law: Law = EXPONENTIAL
    """Law of the server's time."""
    availability: tuple[Availability, ...] = ()
    """When clients are there, what is lost, how rates change."""

    def __post_init__(self) -> None:
        if self.local_steps != int(self.local_steps) or self.local_steps < 1:
            raise InvalidInput(f"local_steps must be a whole number of at least 1, got {self.local_steps}")
        if self.local_steps > MOST_LOCAL_STEPS:
            raise InvalidInput(f"local_steps must be at most {MOST_LOCAL_STEPS:,}, got {self.local_steps}")
        if not self.server_rate > 0:
            raise InvalidInput(f"server_rate must be positive (inf = no time), got {self.server_rate}")
        if self.server_rate < LEAST_RATE:
            raise InvalidInput(f"server_rate must be at least {LEAST_RATE:.3g}, got {self.server_rate}")
        if self.dispatcher.name not in QUEUED:
            if math.isfinite(self.server_rate):
                raise InvalidInput(f"dispatcher {self.dispatcher.name} has its own interaction time; no server_rate")
            if self.availability:
                raise InvalidInput(
                    f"availability needs a dispatcher with queues ({', '.join(QUEUED)}), got {self.dispatcher.name}"
                )

    @property
    def plain(self) -> bool:
        """Whether this is the paper's network: routed, one local step, nothing in the way."""
        return self == Scenario()

    @property
    def availability_hash(self) -> str | None:
        """Fingerprint of when clients are there; None = always."""
        return hashlib.sha256(repr(self.availability).encode()).hexdigest()[:16] if self.availability else None

    @property
    def facts(self) -> dict[str, Any]:
        """What a trace says of it, for whoever reads its times.

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
