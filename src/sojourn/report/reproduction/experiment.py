"""An experiment: one figure, table or section of a paper, made again by a function."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sojourn.report.reproduction.claim import Claim

Watch = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Experiment:
    """One thing that a paper shows."""

    name: str
    """What it is asked for by."""
    title: str
    """What it is about."""
    where: str
    """Where in the paper it stands."""
    run: Callable[[Path, bool, Watch], list[Claim]]
    """Folder to write data and pictures into, whether to be fast, whom to tell; returns the claims."""


def telling(watch: Watch, what: str) -> Callable[[int, int], None]:
    """A callback(done, total) that tells `watch` what it is about."""
    return lambda done, total: watch(what, done, total)
