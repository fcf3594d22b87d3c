"""The facts about each key of a run (its part, its help text, its values), written once where the key is defined.

A configuration is a dataclass whose fields are made by `run_key`. The flags of the command line, the checks of files
and the lists of related keys all come from `keys_of`.
"""

from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any

PARTS = {
    "fleet": "the clients and their speeds",
    "plan": "whom to send tasks, and how many",
    "timing": "when tasks begin and end",
    "world": "laws, links, the server's time, which clients are online",
    "length": "when the run ends",
    "data": "the examples, for training and for testing",
    "partition": "who holds which examples",
    "model": "what is trained, and its loss",
    "algorithm": "what the server does with an update",
    "local work": "what a client does with a model",
    "seed": "every draw of a run",
    "arithmetic": "the device and precision of the computation",
    "execution": "the order of the computation",
    "judging": "how the model is evaluated during training",
}
"""The parts of a run that keys decide, each with a description."""


@dataclass(frozen=True)
class Key:
    """A key of a run."""

    name: str
    """Its name in files; the flag has - in place of _."""
    kind: str
    """Its type annotation, as text."""
    part: str
    """Which part of a run it decides, one of PARTS."""
    help: str
    """What `--help` says of it."""
    default: Any
    """Its default value; MISSING = the key is required."""
    choices: tuple[str, ...] = ()
    """The words that it may have as value; empty = any."""
    code: bool = False
    """Whether its text may name the user's own code."""
    path: bool = False
    """Whether it is the path of a file; then the content of the file counts, not its path."""
    instead: str = ""
    """The key that it replaces; giving both is an error."""
    several: bool = False
    """Whether its flag may be repeated; in a file, `;` separates the values."""
    duration: bool = False
    """Whether it is a time: a number, or a text with units such as `90s`, `1h`, `2 days`."""
    short: str = ""
    """A one-letter form of its flag."""
    later: bool = False
    """Whether it was added later: at its default it is left out of the hash of a cell, so that
    older cells are found.
    """

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def whole(self) -> bool:
        """Whether it is a whole number."""
        return "int" in self.kind


def run_key(part: str, help: str, *, default: Any = MISSING, **facts: Any) -> Any:
    """Return a field of a configuration; `facts` are fields of `Key`."""
    return field(default=default, metadata={"part": part, "help": help, **facts})


def keys_of(kind: Any, **asked: Any) -> dict[str, Key]:
    """Return the keys of a configuration by name; only those whose facts equal everything in `asked`.

    >>> from sojourn.learning.run.config import TrainConfig
    >>> list(keys_of(TrainConfig, part="data"))
    ['data', 'holdout', 'judged_on']
    """
    return {one.name: one for one in _every(kind) if all(getattr(one, fact) == value for fact, value in asked.items())}


@cache
def _every(kind: Any) -> tuple[Key, ...]:
    return tuple(Key(item.name, str(item.type), default=item.default, **item.metadata) for item in fields(kind))
