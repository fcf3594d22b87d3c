"""Throughput, shares and staleness as a trace shows them, with standard errors from batches of its updates.

The first updates are left out, because the first tasks carry step 0 and look younger than they are. A batch is a run of
successive updates; there are 32, or fewer so that each is a few times as long as the largest mean staleness, but 16 at
least. How long the trace is shows only at its end, and it is read once: batches are made of the bins of `step_bins`. So
the edges of the batches of a long trace, and the updates left out, are rounded to bins, to less than 1/32768 of the
updates where there are at most 64 groups.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.timing.fit.gathering import longer
from sojourn.timing.fit.observed import PIECE, check, pieces_of
from sojourn.timing.observe.step_bins import StepBins
from sojourn.timing.simulate.estimate import Estimate, RatioSums, batch_correlation
from sojourn.timing.simulate.memory import ENOUGH
from sojourn.timing.simulate.summary import BATCHES
from sojourn.trace import FATES, Trace
from sojourn.types import Integers

FEWEST = 16  # batches, if there are so many updates; the errors of fewer are uncertain themselves
LONG = 4  # a batch should be this many times as long as the largest mean staleness
MOST_LEFT_OUT = 5  # at most one in so many updates is left out at the beginning


@dataclass(frozen=True)
class Tally:
    """What a trace shows, by group."""

    updates: int
    """Updates counted."""
    warmup: int
    """Updates at the beginning that are not counted."""
    time: float
    """Seconds that the counted updates took."""
    batches: int
    """Number of batches, from which the standard errors come."""
    batch_correlation: float
    """Largest correlation of neighbouring batches' mean staleness over the groups."""
    throughput: Estimate
    """Updates applied per second."""
    share: Estimate
    """Share of all updates, by group."""
    staleness: Estimate
    """Mean staleness of the updates, by group."""
    mean_staleness: Estimate
    """Mean staleness over all updates."""
    fates: dict[str, Integers]
    """Number of tasks of the whole trace by fate and group."""


class Tallying:
    """Counts what a trace shows, piece by piece; without a fleet every client is a group."""

    def __init__(self, fleet: Fleet | None, warmup: int | None = None) -> None:
        self._fleet, self._warmup = fleet, warmup
        self._bins, self._rows = StepBins(max(0, warmup or 0)), 0
        self._fates, self._stale, self._first = np.zeros((0, len(FATES)), np.int64), np.zeros(0), np.inf

    def add(self, piece: Trace) -> None:
        """Add the next rows of the trace."""
        client = piece.client.astype(np.int64)
        group = client if self._fleet is None else self._fleet.group_of_client[client]
        groups = max(self._stale.size, int(group.max(initial=-1)) + 1, 0 if self._fleet is None else self._fleet.groups)
        fates = np.bincount(group * len(FATES) + piece.fate, minlength=groups * len(FATES)).reshape(groups, len(FATES))
        fates[: self._stale.size] += self._fates
        applied, stale = piece.applied, piece.staleness
        _check_applied(piece, self._rows)
        self._fates, self._rows = fates, self._rows + len(piece)
        self._stale = longer(self._stale, groups) + np.bincount(group[applied], stale, groups)
        self._first = min(self._first, float(np.min(piece.dispatched_at, initial=np.inf)))
        self._bins.add(piece.applied_step[applied], group[applied], stale, piece.applied_at[applied], groups)

    def done(self, groups: int) -> Tally:
        """Return what was counted, of this many groups."""
        fates = np.concatenate([self._fates, np.zeros((groups - self._stale.size, len(FATES)), np.int64)])
        arrivals, stale = fates[:, FATES.index("applied")], longer(self._stale, groups)
        steps = int(arrivals.sum())
        if steps == 0:
            raise InvalidInput("a trace must have an applied update, got none; record a longer one")
        oldest = float((stale[arrivals > 0] / arrivals[arrivals > 0]).max()) + 1
        edges = self._edges(steps, oldest)
        warmup, units = int(edges[0]), edges.size
        seen, sums, ends = self._bins.batches(edges, groups)
        ends = np.maximum(ends, self._first)
        flow, shares, by_group, over_all = RatioSums(1), RatioSums(groups), RatioSums(groups), RatioSums(1)
        for unit in range(units):
            flow.add(seen[unit].sum(), ends[unit + 1] - ends[unit])
            shares.add(seen[unit], np.full(groups, seen[unit].sum()))
            by_group.add(sums[unit], seen[unit])
            over_all.add(sums[unit].sum(), seen[unit].sum())
        with np.errstate(invalid="ignore"):
            series = sums / seen
        return Tally(
            updates=steps - warmup,
            warmup=warmup,
            time=float(ends[-1] - ends[0]),
            batches=units,
            batch_correlation=batch_correlation([series]),
            throughput=_single(flow),
            share=shares.estimate(),
            staleness=by_group.estimate(),
            mean_staleness=_single(over_all),
            fates={name: fates[:, number] for number, name in enumerate(FATES)},
        )

    def _edges(self, steps: int, oldest: float) -> Integers:
        """Return the first update of each batch; all but a warm-up that was given lie at edges of bins."""
        self._bins.cover(steps)
        width, warmup = self._bins.width, self._warmup
        if warmup is None:
            warmup = min(steps // MOST_LEFT_OUT, int(ENOUGH * oldest))
            warmup = min(-(-warmup // width), (steps - 1) // width) * width
        if not 0 <= warmup < steps:
            raise InvalidInput(
                f"warmup must be from 0 to {steps - 1}, below the trace's {steps:,} updates, got {warmup}"
            )
        counted = steps - warmup
        units = min(counted, int(np.clip(counted / (LONG * oldest), FEWEST, BATCHES)))
        edges = np.linspace(warmup, steps, units + 1).astype(np.int64)[:-1] - warmup
        return np.unique((edges + width // 2) // width) * width + warmup


def tally(trace: Trace | str | Path, fleet: Fleet, warmup: int | None = None) -> Tally:
    """Count what a trace shows for the groups of a fleet; `warmup` = updates to leave out, by default chosen here.

    >>> from sojourn import Plan, simulate
    >>> fleet = Fleet.of(fast=(5, 4.0), slow=(5, 1.0))
    >>> found = tally(simulate(fleet, Plan.uniform(fleet, 10), 10_000, seed=1), fleet)
    >>> found.batches, bool(abs(found.mean_staleness.value - 9) < 0.1), found.fates["in_flight"].sum()
    (32, True, np.int64(10))
    """
    counted, rows = Tallying(fleet, warmup), 0
    for piece in pieces_of(trace, PIECE):
        check(piece, fleet, rows)
        rows += len(piece)
        counted.add(piece)
    return counted.done(fleet.groups)


def _single(sums: RatioSums) -> Estimate:
    found = sums.estimate()
    return Estimate(found.value[0], found.error[0])


def _check_applied(piece: Trace, before: int) -> None:
    """Refuse an applied update without a time; `before` counts the rows of earlier pieces."""
    wrong = piece.applied & np.isnan(piece.applied_at)
    if wrong.any():
        raise InvalidInput(
            f"applied_at must be a time where an update was applied, got NaN in row {before + int(np.argmax(wrong))}; "
            "the trace is damaged: record or write it again"
        )
