"""Roster: the nodes of a Flower federation, and the clients that they are.

Flower gives a SuperNode a number, which may change whenever it is started. A client is known by its own name, from the
node's configuration. So every node that appears is asked for its name before it gets tasks. If the node was registered
under a name (`flwr supernode register --name`), that name is the only one that it may have.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sojourn.errors import InvalidInput
from sojourn.live.engine import Offer, TaskName
from sojourn.live.registry import check_name
from sojourn.shown import quoted

ASK_AGAIN = 60.0  # seconds after which a node whose app failed is asked for its name again


@dataclass
class Node:
    """A SuperNode, as the SuperLink lists it."""

    id: int
    """Its number at the SuperLink."""
    since: str
    """When it was last started, by the SuperLink; another time means that what it held is gone."""
    registered: str
    """The name under which it was registered; "" = none."""
    question: str | None = None
    """Id of the message that asks for its name; None = there is none on its way."""
    client: int | None = None
    """Number of its client; None = not known, or refused."""
    ask_at: float = 0.0
    """When it is to be asked for its name."""


@dataclass
class Handed:
    """A task that was handed over to a node."""

    offer: Offer
    """The task."""
    node: int
    """The node that has it."""
    first_at: float | None = None
    """When it became the first of its node's tasks; None = it waits behind another."""


@dataclass
class Member:
    """A client: its queue, and the tasks in its hands."""

    number: int
    """Its number in the fleet."""
    node: int | None = None
    """Its node; None = it is not there."""
    queue: OrderedDict[TaskName, Offer] = field(default_factory=OrderedDict)
    """Tasks that wait here."""
    hands: OrderedDict[str, Handed] = field(default_factory=OrderedDict)
    """Tasks that its node has, by the id of their message, in the order in which they were handed over."""


class Names:
    """Numbers of clients by name."""

    def __init__(self, names: Mapping[str, int], open_slots: Iterable[int], wishes: Mapping[str, int]) -> None:
        """`names` are known, and `open_slots` the numbers for others; `wishes` are names of the fleet's clients, which
        get their own numbers if these are free.
        """
        self.numbers = dict(names)
        """Number of each client."""
        taken = set(self.numbers.values())
        self._slots = [slot for slot in dict.fromkeys(open_slots) if slot not in taken]
        self._wishes, self._expelled = dict(wishes), dict[int, str]()

    def number(self, name: str, registered: str) -> int:
        """Return the number of a client that says its name; refuse a name that it may not have."""
        check_name(name)
        if registered and name != registered:
            raise InvalidInput(
                f"the node was registered as {quoted(registered)}, it says that it is {quoted(name)}; give it that "
                "name in --node-config"
            )
        if name not in self.numbers:
            if not self._slots:
                raise InvalidInput(
                    f"the fleet has {len(self.numbers)} clients and all have names, {quoted(name)} is not among them; "
                    "check the name, or plan for a larger fleet"
                )
            wish = self._wishes.get(name)
            slot = wish if wish in self._slots else self._slots[0]
            assert slot is not None
            self._slots.remove(slot)
            self.numbers = self.numbers | {name: slot}  # a new mapping: other threads may read the old one
        number = self.numbers[name]
        if number in self._expelled:
            raise InvalidInput(f"the client {name} was expelled: {self._expelled[number]}")
        return number

    def expel(self, number: int, reason: str) -> None:
        """Admit a client no more."""
        self._expelled[number] = reason
