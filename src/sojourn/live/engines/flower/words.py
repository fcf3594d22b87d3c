"""The words of a Flower message that server and clients agree on; what every client needs, and quick to import."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Message, RecordDict

from sojourn.errors import InvalidInput

PROTOCOL = 1
OURS, ARRAYS, CONFIG, METRICS = "sojourn", "arrays", "config", "metrics"
TRAIN = "train"  # the type of all messages: an app that trains has a function for it
NAME, UPDATE = "name", "update"  # what a message asks for
MODEL, GRADIENT, DELTA = "model", "gradient", "delta"  # what the arrays of a reply are


def question() -> RecordDict:
    """Return the content that asks a node for its name."""
    return RecordDict({OURS: ConfigRecord({"ask": NAME, "protocol": PROTOCOL})})


class Ask(NamedTuple):
    """What a message asks of a client."""

    what: str
    """`name` or `update`."""
    facts: Mapping[str, Any]
    """The record of sojourn."""


def asked(message: Message) -> Ask | None:
    """Return what a message asks; None = it is not from sojourn."""
    facts = message.content.config_records.get(OURS)
    if facts is None:
        return None
    if facts.get("protocol") != PROTOCOL:
        raise InvalidInput(
            f"the client speaks protocol {PROTOCOL}, the server {facts.get('protocol')}; install the same sojourn"
        )
    return Ask(str(facts["ask"]), facts)


def signed(content: RecordDict, name: str) -> RecordDict:
    """Return the content of a reply with the client's name in it."""
    facts = dict(content.config_records.get(OURS, {}))
    content[OURS] = ConfigRecord({"kind": MODEL, **facts, "name": name, "protocol": PROTOCOL})
    return content


def name_in(content: RecordDict) -> str:
    """Return the name that a reply is signed with; "" = none."""
    name = content.config_records.get(OURS, {}).get("name", "")
    return name if isinstance(name, str) else ""
