"""Cells: single training runs of a larger set, found by a hash of everything that decides their bits.

A cell's folder is `cells/NAME-HASH`, an ordinary run folder. No other file records what is done, so folders from two
machines can be copied into one and hold the work of both. The name is for people. The hash covers the contents of
fleet and plan files but not their paths, and the source of the user's own code; it does not depend on where images are
stored.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import InvalidInput, SojournError, UnreadableFile
from sojourn.experiments.own_source import sources
from sojourn.files import no_links, read_json
from sojourn.fleet import Fleet
from sojourn.learning.run.config import OLD_KEYS, TrainConfig, keys, renamed
from sojourn.learning.run.metrics import read_metrics
from sojourn.own_code import object_or
from sojourn.plan_text import plan_of
from sojourn.scenario import Scenario
from sojourn.scenario_text import availability_of
from sojourn.shown import quoted
from sojourn.trace import Trace
from sojourn.values import LARGEST, items, optional_number, table, text, whole

DIVERGED = "diverged.json"
MOST_SUMMARY = 2**20  # bytes
PICTURES = ("pdf", "svg", "png")
OURS = (  # what is written into the folder of a comparison or a sweep
    *("cells", "failures", "summary.json", "comparison.svg", "comparison.png"),
    *("sweep-response.svg", "sweep-response.png"),
    *(f"comparison-{axis}.{kind}" for axis in ("time", "received", "version", "gradients") for kind in PICTURES),
    *(f"{table}.csv" for table in ("tuning", "runs", "table", "curves")),
)
_FOLDER = re.compile(r"(?<=\()folder=[^,)]*,?\s*|,\s*folder=[^,)]*")
_FIRST = {now: before for before, now in OLD_KEYS.items()}  # keys may be renamed, hashes stay
_ELSEWHERE = ("fleet", "plan", "sampling", "data", "trace", "availability")  # hashed by their meaning
IDENTITY = ("fleet_hash", "plan_hash", "dataset_hash", "partition_hash")
MOST_SEEDS = 1_000_000
Part = tuple[int, int]
"""Which of how many machines this is, counted from 1."""


@dataclass(frozen=True)
class Cell:
    """A run and its name."""

    name: str
    """The name that people read; part of the folder's name."""
    config: TrainConfig
    """The run."""

    @cached_property
    def hash(self) -> str:
        """Fingerprint of everything that decides the run."""
        facts = {_FIRST.get(key, key): value for key, value in asdict(self.config).items() if key not in _ELSEWHERE}
        facts = {key: value for key, value in facts.items() if value is not None or key not in keys(later=True)}
        facts["algorithm"] = self.config.algorithm.replace("server_step_size", "server_rate")
        facts["data"] = _FOLDER.sub("", self.config.data).replace("()", "")
        facts["schedule"] = self.config.schedule or "constant"
        facts["fleet"], facts["plan"] = _contents(self.config)
        if self.config.availability is not None:
            facts["availability"] = Scenario(availability=availability_of(self.config.availability)).availability_hash
        if self.config.trace is not None:
            facts["trace"] = _trace_hash(self.config.trace, _state(self.config.trace))
        if self.sources:
            facts["sources"] = self.sources
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    @cached_property
    def sources(self) -> dict[str, str]:
        """Fingerprints of the user's own code that the run names."""
        return sources(code_texts(self.config))

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
        """Folders by hash.

        A cell can be there twice, copied from machines that named it differently. Then the one that has ended counts.
        """
        no_links(self.folder, *OURS)
        home, found = self.folder / "cells", dict[str, Path]()
        for path in sorted(home.glob("*-*")):
            key = path.name.rpartition("-")[2]
            if key not in found or ended(path) is not None:
                found[key] = path
        return found

    def of(self, cell: Cell) -> Path:
        """The folder of a cell, whether it exists yet or not."""
        return self._found.get(cell.hash, self.folder / "cells" / cell.folder_name)

    def finished(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that have ended: complete or diverged."""
        return [cell for cell in cells if ended(self.of(cell)) is not None]


def ended(folder: Path) -> str | None:
    """How the run in a folder ended, `complete` or `diverged`; None = it has not ended."""
    for name, word in (("summary.json", "complete"), (DIVERGED, "diverged")):
        try:
            facts = table(read_json(folder / name, "summary", MOST_SUMMARY), "summary")
            rows = read_metrics(folder)
            whole = bool(rows) and (word == "diverged" or rows[-1]["received"] == facts.get("received"))
        except (SojournError, KeyError):  # absent, or only partly copied
            continue
        if rows and whole:
            return word
    return None


def readable(text: str) -> str:
    """A text, made fit to be part of a file name.

    >>> readable("FedBuff(size=10), step size 0.1")
    'fedbuff-size-10-step-size-0.1'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:80] or "cell"


def without_twins(cells: Iterable[Cell]) -> list[Cell]:
    """The cells without repetitions: of those with the same hash, the first."""
    return list({cell.hash: cell for cell in reversed(list(cells))}.values())[::-1]


def in_part(cells: Iterable[Cell], part: Part | None) -> list[Cell]:
    """The cells that this machine trains: cells are divided evenly by their hashes."""
    return [cell for cell in cells if part is None or int(cell.hash, 16) % part[1] == part[0] - 1]


def _contents(config: TrainConfig) -> tuple[str, str]:
    fleet = _fleet(config.fleet, _state(config.fleet))
    plan = plan_of(fleet, config.sampling, config.plan, config.concurrency, config.cap, config.correction)
    return fleet.hash, plan.hash


def code_texts(config: TrainConfig) -> list[str]:
    """Return the texts of a run that may name code of the user's own; the laws of its fleet are among them."""
    return [*config.code.values(), *_laws(config)]


def _laws(config: TrainConfig) -> list[str]:
    fleet = _fleet(config.fleet, _state(config.fleet))
    return [law.name for law in (*fleet.law, *fleet.uplink_law, *fleet.downlink_law)]


@lru_cache(maxsize=16)
def _fleet(path: str, state: tuple[int, int]) -> Fleet:
    found: Fleet = object_or(path, Fleet.load)
    return found


@lru_cache(maxsize=16)
def _trace_hash(path: str, state: tuple[int, int]) -> str:
    return Trace.load(path).hash


def _state(path: str) -> tuple[int, int]:
    """A text that changes when the contents of the file change."""
    try:
        facts = Path(path).stat()
    except OSError:
        return (0, 0)  # whoever reads it reports what is wrong
    return facts.st_mtime_ns, facts.st_size


@dataclass(frozen=True, eq=False)
class EndedCell:
    """A cell that has ended."""

    cell: Cell
    """The cell."""
    folder: Path
    """Its folder."""
    diverged: bool
    """Whether it ended with numbers that are not finite."""

    @property
    def budget(self) -> float | None:
        """Its virtual time; None = it was given updates."""
        return self.cell.config.time

    @cached_property
    def rows(self) -> list[dict[str, float]]:
        """Its metrics, one row per evaluation."""
        return read_metrics(self.folder)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The contents of its config.json."""
        path = self.folder / "config.json"
        try:
            return _checked(table(read_json(path, "configuration"), "it"))
        except (InvalidInput, UnreadableFile) as error:
            raise UnreadableFile(f"{path} cannot be read ({error}); remove the folder of this cell") from None

    @property
    def last(self) -> dict[str, float]:
        """The last evaluation; of a run that diverged, only what it had cost."""
        row = self.rows[-1]
        if not self.diverged:
            return row
        costs = ("received", "version", "time", "gradients", "unused", "lost", "bits_up", "bits_down")
        return {key: value if key in costs else math.nan for key, value in row.items()}

    def column(self, key: str) -> NDArray[np.float64]:
        """A column of the metrics."""
        if key not in self.rows[0]:
            raise UnreadableFile(f"the metrics of {self.folder} have no column {key}; remove the folder of this cell")
        return np.array([row[key] for row in self.rows])

    def identity(self) -> dict[str, Any]:
        """Hashes, device and versions, for a row of a CSV file."""
        config, versions = self.facts["config"], self.facts["versions"]
        hashes = {key: self.facts[key] for key in IDENTITY}
        return {**hashes, "device": config["device"], "execution": config["execution"], **versions}


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    """The contents of config.json, after a check that every entry needed later is there and has the right type."""
    facts["config"] = renamed(table(facts.get("config"), "config"))
    config, versions = facts["config"], table(facts.get("versions"), "versions")
    for key in IDENTITY:
        text(facts.get(key), key)
    for key in ("device", "execution"):
        text(config.get(key), key)
    for key, value in versions.items():
        text(value, f"version of {key}")
    for key in items(facts.get("unused", []), "unused"):
        text(key, "a key of unused")
    optional_number(config.get("step_size"), "step_size")
    whole(facts.get("parameters"), "parameters")
    return facts


def find(cells: Iterable[Cell], folder: str | Path) -> dict[str, EndedCell]:
    """The cells that have ended, by hash."""
    where, found = Cells(Path(folder)), {}
    for cell in cells:
        path = where.of(cell)
        word = ended(path)
        if word is not None:
            found[cell.hash] = EndedCell(cell, path, word == "diverged")
    return found


def seeds_of(given: Any, where: str, first: int = 0) -> tuple[int, ...]:
    """The seeds that a number (how many) or a list stands for.

    >>> seeds_of(3, "seeds"), seeds_of([5, 7], "seeds"), seeds_of(2, "seeds", first=10)
    ((0, 1, 2), (5, 7), (10, 11))
    """
    if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first <= LARGEST - MOST_SEEDS:
        raise InvalidInput(
            f"{where}: seed in [run], the first of them, must be a whole number from 0 on, got {quoted(first)}"
        )
    if isinstance(given, int) and not isinstance(given, bool):
        if not 1 <= given <= MOST_SEEDS:
            most = f" and at most {MOST_SEEDS:,}" if given > 1 else ""
            raise InvalidInput(f"{where} must be a whole number of at least 1{most}, or a list, got {quoted(given)}")
        return tuple(range(first, first + given))
    if not isinstance(given, list | tuple) or not given:
        raise InvalidInput(f"{where} must be a whole number of at least 1, or a list, got {quoted(given)}")
    for seed in given:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= LARGEST:
            raise InvalidInput(f"{where} must hold whole numbers of at least 0, got {quoted(seed)}")
    if len(set(given)) != len(given):
        raise InvalidInput(f"{where} must be different, got {list(given)}")
    return tuple(given)
