"""What a dispatcher must define, and the table of dispatchers; one file per dispatcher in `sojourn.timing.dispatch`.

A dispatcher of your own is a frozen dataclass whose fields are its options:

    @register
    @dataclass(frozen=True)
    class Shortest(DispatcherKind):
        name = "shortest"          # --dispatcher shortest, or package.module:Shortest without `register`

        @staticmethod
        def choose(state, finisher, key):     # compiled; see `State`
            return ..., prob, key

Registering a dispatcher that lacks one of these raises an error. The package's own dispatchers are imported when they
are named, because their compiled choices belong to the simulator.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.own_code import names_code, own_call
from sojourn.plan import MOST_TASKS, Plan
from sojourn.shown import short
from sojourn.text import parse_call
from sojourn.types import Floats, Integers

QUEUED = ("routed", "pure", "shuffled", "idle")
CONDUCTED = ("held", "restarting", "groups")  # they have options of their own, and drive the event engine themselves
DISPATCHERS = (*QUEUED, "rounds", "periodic", *CONDUCTED)
HOMES = {name: f"sojourn.timing.dispatch.{name}" for name in DISPATCHERS}

REQUIRED = {
    "name": "its name in text",
    "choose": "(state, finisher, key) -> (client, probability, next key), compiled for the simulator",
}
"""What a dispatcher of your own must define."""

_TABLE: dict[str, "type[DispatcherKind]"] = {}

Kind = TypeVar("Kind", bound="type[DispatcherKind]")


class State(NamedTuple):
    """What a dispatcher of your own sees when it chooses; it may change `memory` and nothing else."""

    tasks: Integers
    """Per client: number of tasks that were sent to it and have not ended."""
    idle: Integers
    """The clients without a task, in no particular order."""
    sampling: Floats
    """Per client: the plan's sampling probability."""
    memory: Floats
    """Numbers that the dispatcher keeps from one choice to the next; they begin as its method `memory` returns them."""
    clock: float
    """The time."""
    step: int
    """Updates applied so far."""


@dataclass(frozen=True)
class DispatcherKind:
    """Decides who gets the next task; `REQUIRED` lists what a dispatcher of your own must define."""

    name: ClassVar[str]
    queued: ClassVar[bool] = True
    """Whether tasks wait in queues at their clients; False = the server acts on its own (only the package's dispatchers
    can).
    """

    @property
    def policy(self) -> str:
        """The queued dispatcher that chooses clients."""
        return self.name

    @property
    def not_live(self) -> str:
        """Why a live run cannot dispatch like this, as words after the name of the method; empty = it can."""
        return "has a dispatcher that is compiled for the simulator"

    @property
    def counts_updates(self) -> bool:
        """Whether it gathers updates or cancels tasks by their number, so that the method must use every update."""
        return False

    @property
    def supersedes(self) -> bool:
        """Whether an update that has come back may be replaced by a newer one of its client, and not be used."""
        return False

    def batch(self, concurrency: int) -> int:
        """Return how many updates wait for each other before new tasks are sent; 0 = none do."""
        return 0

    def check(self, fleet: Fleet, plan: Plan) -> None:
        """Raise an error if the dispatcher cannot serve this fleet and plan."""

    def memory(self, clients: int) -> tuple[float, ...]:
        """Return the numbers that `choose` finds in `state.memory` at the start: by default the options, in their
        order.
        """
        return tuple(float(getattr(self, item.name)) for item in fields(self))

    @staticmethod
    def choose(state: State, finisher: int, key: np.uint64) -> tuple[int, float, np.uint64]:
        """Return the client that gets the next task, the probability with which it was drawn, and the stream's next
        key.

        `finisher` is the client whose task has just ended. numba compiles the function; `sojourn.random` turns a key
        into random numbers.
        """
        raise NotImplementedError

    def check_time(self, key: str) -> None:
        """Raise an error unless the option is a time."""
        value = getattr(self, key)
        if not (math.isfinite(value) and value >= 0):
            raise InvalidInput(f"dispatcher {self.name}: {key} must be non-negative and finite, got {value}")

    def check_count(self, key: str) -> None:
        """Raise an error unless the option is a number of clients or tasks, or None."""
        count = getattr(self, key)
        if count is not None and not (1 <= count <= MOST_TASKS and count == int(count)):
            raise InvalidInput(f"dispatcher {self.name}: {key} must be a whole number of at least 1, got {count}")


def register(dispatcher: Kind) -> Kind:
    """Class decorator: make a dispatcher available by its name; raise an error if it does not define everything."""
    check_complete(dispatcher)
    name = dispatcher.name
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise InvalidInput(
            f"dispatcher {dispatcher.__name__}: name must be small letters, digits, '-', got '{short(name)}'"
        )
    if HOMES.get(name, dispatcher.__module__) != dispatcher.__module__ or (
        name in _TABLE and place(_TABLE[name]) != place(dispatcher)
    ):
        raise InvalidInput(f"dispatcher {dispatcher.__name__}: the name '{name}' is taken; give it another one")
    _TABLE[name] = dispatcher
    return dispatcher


def check_complete(dispatcher: object) -> None:
    """Raise an error that names everything that a dispatcher class does not define."""
    if not (isinstance(dispatcher, type) and issubclass(dispatcher, DispatcherKind)):
        raise InvalidInput(
            f"a dispatcher must be a class derived from sojourn.dispatching.DispatcherKind, got {dispatcher!r}"
        )
    own = is_dataclass(dispatcher) and "__dataclass_fields__" in vars(dispatcher)
    if not own or not dispatcher.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise InvalidInput(
            f"dispatcher {dispatcher.__name__} must be a frozen dataclass whose fields are its options; "
            "write @dataclass(frozen=True) above it"
        )
    if dispatcher.__module__ == HOMES.get(getattr(dispatcher, "name", "")):
        return  # one of the package's dispatchers, whose choice is a branch of the engine
    if not dispatcher.queued:
        raise InvalidInput(f"dispatcher {dispatcher.__name__}: queued must be True for a dispatcher of your own")
    missing = [
        f"{key} ({what})"
        for key, what in REQUIRED.items()
        if getattr(dispatcher, key, None) is getattr(DispatcherKind, key, None)
    ]
    if missing:
        raise InvalidInput(f"dispatcher {dispatcher.__name__} does not define {', '.join(missing)}; write them")


def dispatcher_class(name: str) -> type[DispatcherKind]:
    """Return the class of a dispatcher by its name."""
    if name in HOMES:
        import_module(HOMES[name])
    if name not in _TABLE:
        known = ", ".join([*DISPATCHERS, *(one for one in _TABLE if one not in DISPATCHERS)])
        raise InvalidInput(f"dispatcher must be one of {known}, got '{short(name)}'")
    return _TABLE[name]


def own_dispatcher(text: str) -> DispatcherKind | None:
    """Return the dispatcher with options of its own that a text describes, one of the package's or the user's; None if
    the text names another, or none.
    """
    name, bracket, rest = text.strip().partition("(")
    if name.strip() in CONDUCTED:
        kind = dispatcher_class(name.strip())
        _, options = parse_call("dispatcher", text, {item.name: _reader(item) for item in fields(kind)})
        return kind(**options)
    if name.strip() in _TABLE and name.strip() not in HOMES:
        text = f"{place(_TABLE[name.strip()])}{bracket}{rest}"
    elif not names_code(text):
        return None
    found = own_call("dispatcher", text)
    check_complete(type(found))
    assert isinstance(found, DispatcherKind)
    return found


def made(name: str, options: Mapping[str, Any]) -> DispatcherKind:
    """Return one of the package's dispatchers, with the options that were given."""
    found = dispatcher_class(name)
    known = {item.name for item in fields(found)}
    for key, value in options.items():
        if key not in known:
            raise InvalidInput(f"dispatcher {name} has no option {key}, got {value}; leave it out")
    return found(**options)


def _reader(item: Any) -> Any:
    """Return a function that reads an option of this field from text."""
    kind = str(getattr(item.type, "__name__", item.type)).removesuffix(" | None")
    readers: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": _truth}
    return readers[kind]


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidInput(f"an option that is true or false must be one of them, got '{short(text)}'")
    return text.lower() == "true"


def place(dispatcher: type[DispatcherKind]) -> str:
    """Return where a class is defined, `package.module:Class`; of the package's own classes, the name."""
    if dispatcher.__module__ == HOMES.get(dispatcher.name):
        return dispatcher.name
    return f"{dispatcher.__module__}:{dispatcher.__qualname__}"
