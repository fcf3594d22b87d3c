"""What is known of each key of a run: its part, its help text, what it may be; told once, where the key is defined.

A configuration is a dataclass whose fields are made by `run_key`. Flags of the command line, checks of files and lists
of keys that belong together are questions to `keys_of`.
"""

from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any

PARTS = {
    "fleet": "the clients and their speeds",
    "plan": "whom to send tasks, and how many",
    "timing": "when tasks begin and end",
    "world": "laws, links, the server's time, who is there",
    "length": "when the run ends",
    "data": "the examples, for learning and for judging",
    "partition": "who holds which examples",
    "model": "what is trained, and its loss",
    "algorithm": "what the server does with an update",
    "local work": "what a client does with a model",
    "seed": "every draw of a run",
    "arithmetic": "where and with which numbers it is computed",
    "execution": "in which order it is computed",
    "judging": "how the model is looked at on the way",
}
"""Which part of a run a key decides."""


@dataclass(frozen=True)
class Key:
    """A key of a run."""

    name: str
    """As in files; the flag has - for _."""
    kind: str
    """Its type, as written."""
    part: str
    """Which part of a run it decides, one of PARTS."""
    help: str
    """What `--help` says of it."""
    default: Any
    """Its value where nothing is said; MISSING = it must be said."""
    choices: tuple[str, ...] = ()
    """The words that it may be; empty = any."""
    code: bool = False
    """Whether its text may name code of the user's own."""
    path: bool = False
    """Whether it is the path of a file: what lies there counts, not where it lies."""
    instead: str = ""
    """The key in whose place it stands; both together are refused."""
    several: bool = False
    """Whether its flag may be repeated; in a file `;` stands between."""
    duration: bool = False
    """Whether it is a time: a number, or a text with units such as `90s`, `1h`, `2 days`."""
    short: str = ""
    """One letter for its flag."""
    later: bool = False
    """Whether runs did without it once: at its default it is not in the hash of a cell."""

    @property
    def flag(self) -> str:
        """As on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def whole(self) -> bool:
        """Whether it is a whole number."""
        return "int" in self.kind


def run_key(part: str, help: str, *, default: Any = MISSING, **facts: Any) -> Any:
    """A field of a configuration; `facts` are those of `Key`."""
    return field(default=default, metadata={"part": part, "help": help, **facts})


def keys_of(kind: Any, **asked: Any) -> dict[str, Key]:
    """The keys of a configuration by name; those alone of which everything asked for is true.

    >>> from sojourn.learning.run.config import TrainConfig
    >>> list(keys_of(TrainConfig, part="data"))
    ['data', 'holdout', 'judged_on']
    """
    return {one.name: one for one in _every(kind) if all(getattr(one, fact) == value for fact, value in asked.items())}


@cache
def _every(kind: Any) -> tuple[Key, ...]:
    return tuple(Key(item.name, str(item.type), default=item.default, **item.metadata) for item in fields(kind))
