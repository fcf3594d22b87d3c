"""Judgement: whether chance explains how far a run lies from what theory promises for its fitted fleet.

A run that is not long against the network's memory cannot be judged: its batches are nearly one batch, and their spread
says little about the error of their mean. The memory is the largest mean staleness, promised or observed; the observed
one alone is too small where the run is short. The means of a group that has fewer than two updates per batch are left
out for the same reason.

The more figures there are, and the fewer batches, the further off the worst one lies by chance. The limit is that which
chance exceeds in one run of twenty at most, and never below three standard errors. Measured with correct simulations of
six fleets: 0 to 2 of 30 runs lie beyond it at any length that is judged.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from sojourn.timing.observe.observation import Figure, Observation
from sojourn.timing.observe.tally import FEWEST, MOST_LEFT_OUT

CHANCE = 3.0  # standard errors that chance explains, however few figures there are
WRONG = 0.05  # part of the correct runs that may lie beyond the limit
MEMORIES = 2  # a batch is at least so many times as long as the largest mean staleness
PER_BATCH = 2  # updates per batch, for the figures of a group
CORRELATED = 0.3  # correlation of neighbouring batches above which their errors are too small


@dataclass(frozen=True)
class Judgement:
    """Which figures of a run can be judged, and which of them lie further off than chance explains."""

    judged: tuple[Figure, ...]
    """Figures that can be judged, those furthest off first; none if the run is too short."""
    limit: float
    """Up to so many standard errors chance explains a difference."""
    enough: int
    """Updates that would do, if the run is too short; 0 = it is long enough."""
    correlated: bool
    """Whether neighbouring batches are more alike than few independent ones would be: the errors are too small."""
    reasons: tuple[str, ...]
    """Why theory may not describe this run, in words; the notes of the observation say more."""

    @property
    def far(self) -> tuple[Figure, ...]:
        """Figures that lie further off than chance explains, the furthest first."""
        return tuple(one for one in self.judged if abs(one.z) > self.limit)


def judge(seen: Observation) -> Judgement:
    """Judge how far a run lies from what was promised.

    >>> from sojourn import Fleet, Plan, observe, simulate
    >>> fleet = Fleet.of(fast=(6, 8.0), slow=(4, 1.0))
    >>> plan = Plan.uniform(fleet, 10)
    >>> short, long = (judge(observe(simulate(fleet, plan, steps, seed=1), fleet, plan)) for steps in (20, 2000))
    >>> short.enough > 20, len(short.judged), long.enough, len(long.judged), long.far
    (True, 0, 0, 5, ())
    """
    batches, enough = seen.tally.batches, _enough(seen)
    judged = () if enough else tuple(sorted(_judged(seen), key=lambda one: -abs(one.z)))
    limit = CHANCE
    if judged:
        limit = max(CHANCE, float(stdtrit(batches - 1, 1 - WRONG / (2 * len(judged)))))
    correlated = seen.tally.batch_correlation > max(CORRELATED, 2 / math.sqrt(batches))
    return Judgement(judged, limit, enough, correlated, tuple(_reasons(seen)))


def can_be_judged(one: Figure) -> bool:
    """Return whether a figure is judged at all; the mean staleness of all follows from the number of tasks in flight.

    >>> can_be_judged(Figure("staleness", "all", 9.0, 9.0, 9.1, 0.1))
    False
    """
    return one.figure == "throughput" or one.group != "all"


def _judged(seen: Observation) -> list[Figure]:
    tally = seen.tally
    often = dict(zip(seen.fleet.name, tally.share.value * tally.updates >= PER_BATCH * tally.batches, strict=True))
    return [
        one
        for one in seen.figures()
        if can_be_judged(one) and math.isfinite(one.z) and (one.figure == "throughput" or often[one.group])
    ]


def _enough(seen: Observation) -> int:
    """Return the length of a run that can be judged, with two digits; 0 = this one is as long."""
    tally = seen.tally
    stale = np.concatenate([seen.promised.staleness(), tally.staleness.value])
    memory = float(stale[np.isfinite(stale)].max(initial=0.0)) + 1
    if tally.batches >= FEWEST and tally.updates >= MEMORIES * memory * tally.batches:
        return 0
    steps = max(MEMORIES * memory * FEWEST, FEWEST) * MOST_LEFT_OUT / (MOST_LEFT_OUT - 1)
    unit = 10.0 ** max(0, math.floor(math.log10(steps)) - 1)
    return int(math.ceil(steps / unit) * unit)


def _reasons(seen: Observation) -> list[str]:
    """Return why theory may not describe the run: what its notes say, in short."""
    other = ("the fleet is not the one", "the trace was recorded under another plan")
    reasons = {
        "theory was asked about another fleet or plan": any(note.startswith(other) for note in seen.notes),
        "the theory describes another system": any(note.startswith("the theory") for note in seen.notes),
        "not all tasks ended well": any("does not model" in note for note in seen.notes),
    }
    return [reason for reason, holds in reasons.items() if holds]
