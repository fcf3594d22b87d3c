"""Cell: one training run among many, found by a hash of what decides its bits.

Its folder is `cells/NAME-HASH`, an ordinary folder of a run. Nothing else says what is done: folders from two machines,
copied into one, are the work of both. The name is for people; the hash knows the contents of fleet and plan files, not
their paths, and nothing of where images lie.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from sojourn.errors import SojournError
from sojourn.files import no_links, read_json
from sojourn.fleet import Fleet
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.read_metrics import read_metrics
from sojourn.plan_text import plan_of
from sojourn.scenario import Scenario
from sojourn.scenario_text import availability_of
from sojourn.trace import Trace
from sojourn.values import table

DIVERGED = "diverged.json"
MOST_SUMMARY = 2**20  # bytes
OURS = (  # what is written into the folder of a comparison or a sweep
    *("cells", "failures", "summary.json", "comparison.svg", "comparison.png"),
    *(f"{table}.csv" for table in ("tuning", "runs", "table", "curves")),
)
Part = tuple[int, int]
"""Which of how many machines this is, from 1 on."""
_FOLDER = re.compile(r"(?<=\()folder=[^,)]*,?\s*|,\s*folder=[^,)]*")
_ELSEWHERE = ("fleet", "plan", "sampling", "data", "trace", "availability")  # in the hash by what they mean

_LATER = ("law", "uplink", "downlink", "server_rate", "dispatcher")  # not in the hash where they are left open


@dataclass(frozen=True)
class Cell:
    """A run and its name."""

    name: str
    """What people call it; part of the folder's name."""
    config: TrainConfig
    """The run."""

    @cached_property
    def hash(self) -> str:
        """Fingerprint of everything that decides the run."""
        facts = {key: value for key, value in asdict(self.config).items() if key not in _ELSEWHERE}
        facts = {key: value for key, value in facts.items() if value is not None or key not in _LATER}
        facts["data"] = _FOLDER.sub("", self.config.data).replace("()", "")
        facts["fleet"], facts["plan"] = _contents(self.config)
        if self.config.availability is not None:
            facts["availability"] = Scenario(availability=availability_of(self.config.availability)).availability_hash
        if self.config.trace is not None:
            facts["trace"] = _trace_hash(self.config.trace, _state(self.config.trace))
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def folder_name(self) -> str:
        """Name and hash."""
        return f"{readable(self.name)}-{self.hash}"


@dataclass(frozen=True)
class Cells:
    """The cells in a folder, as they were found when it was opened."""

    folder: Path
    """The folder above `cells`."""

    @cached_property
    def _found(self) -> dict[str, Path]:
        """By hash; of two folders of one cell, which copying from machines with other names for it makes, the ended."""
        no_links(self.folder, *OURS)
        home, found = self.folder / "cells", dict[str, Path]()
        for path in sorted(home.glob("*-*")):
            key = path.name.rpartition("-")[2]
            if key not in found or ended(path) is not None:
                found[key] = path
        return found

    def of(self, cell: Cell) -> Path:
        """Where a cell lies, or will lie."""
        return self._found.get(cell.hash, self.folder / "cells" / cell.folder_name)

    def finished(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those that have ended: complete, or diverged."""
        return [cell for cell in cells if ended(self.of(cell)) is not None]


def ended(folder: Path) -> str | None:
    """How the run in a folder ended, `complete` or `diverged`; None = it has not."""
    for name, word in (("summary.json", "complete"), (DIVERGED, "diverged")):
        try:
            facts = table(read_json(folder / name, "summary", MOST_SUMMARY), "summary")
            rows = read_metrics(folder)
            whole = bool(rows) and (word == "diverged" or rows[-1]["received"] == facts.get("received"))
        except (SojournError, KeyError):  # not there, or half copied
            continue
        if rows and whole:
            return word
    return None


def readable(text: str) -> str:
    """A text as part of a file's name.

    >>> readable("FedBuff(size=10), rate 0.1")
    'fedbuff-size-10-rate-0.1'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:80] or "cell"


def without_twins(cells: Iterable[Cell]) -> list[Cell]:
    """The cells, of those with the same hash the first."""
    return list({cell.hash: cell for cell in reversed(list(cells))}.values())[::-1]


def in_part(cells: Iterable[Cell], part: Part | None) -> list[Cell]:
    """The cells that are this machine's: hashes are dealt evenly."""
    return [cell for cell in cells if part is None or int(cell.hash, 16) % part[1] == part[0] - 1]


def _contents(config: TrainConfig) -> tuple[str, str]:
    fleet = _fleet(config.fleet, _state(config.fleet))
    return fleet.hash, plan_of(fleet, config.sampling, config.plan, config.concurrency).hash


@lru_cache(maxsize=16)
def _fleet(path: str, state: tuple[int, int]) -> Fleet:
    return Fleet.load(path)


@lru_cache(maxsize=16)
def _trace_hash(path: str, state: tuple[int, int]) -> str:
    return Trace.load(path).hash


def _state(path: str) -> tuple[int, int]:
    """Changes when the file does."""
    try:
        facts = Path(path).stat()
    except OSError:
        return (0, 0)  # reading it says what is wrong
    return facts.st_mtime_ns, facts.st_size
