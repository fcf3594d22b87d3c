"""An experiment: one figure, table or section of a paper, reproduced by a function."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sojourn.report.reproduction.claim import Claim

Watch = Callable[[str, int, int], None]
"""A function that is told what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Experiment:
    """One thing that a paper shows."""

    name: str
    """The name that it is selected by."""
    title: str
    """What it is about."""
    where: str
    """Its place in the paper."""
    run: Callable[[Path, bool, Watch], list[Claim]]
    """Takes the folder for data and pictures, whether to be fast, and whom to tell; returns the claims."""


def telling(watch: Watch, what: str) -> Callable[[int, int], None]:
    """A callback(done, total) that passes its numbers on to `watch`, with a text that says what is being done."""
    return lambda done, total: watch(what, done, total)
