"""Throughput, shares and staleness as a trace shows them, with standard errors from batches of its updates.

The first updates are left out, because the first tasks carry step 0 and look younger than they are. A batch is a run of
successive updates; there are 32, or fewer so that each is a few times as long as the largest mean staleness, but 16 at
least.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.timing.fit.observed import PIECE, check, pieces_of
from sojourn.timing.simulate.estimate import Estimate, RatioSums, batch_correlation
from sojourn.timing.simulate.memory import ENOUGH
from sojourn.timing.simulate.summary import BATCHES
from sojourn.trace import FATES, Trace
from sojourn.types import Floats, Integers

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


def tally(trace: Trace | str | Path, fleet: Fleet, warmup: int | None = None) -> Tally:
    """Count what a trace shows for the groups of a fleet; `warmup` = updates to leave out, by default chosen here.

    >>> from sojourn import Plan, simulate
    >>> fleet = Fleet.of(fast=(5, 4.0), slow=(5, 1.0))
    >>> found = tally(simulate(fleet, Plan.uniform(fleet, 10), 10_000, seed=1), fleet)
    >>> found.batches, bool(abs(found.mean_staleness.value - 9) < 0.1), found.fates["in_flight"].sum()
    (32, True, np.int64(10))
    """
    fates, arrivals, stale, first = _whole(trace, fleet)
    steps = int(arrivals.sum())
    if steps == 0:
        raise InvalidInput("a trace must have an applied update, got none; record a longer one")
    oldest = float((stale[arrivals > 0] / arrivals[arrivals > 0]).max()) + 1
    if warmup is None:
        warmup = int(min(steps // MOST_LEFT_OUT, ENOUGH * oldest))
    if not 0 <= warmup < steps:
        raise InvalidInput(f"warmup must be from 0 to {steps - 1}, below the trace's {steps:,} updates, got {warmup}")
    counted = steps - warmup
    units = min(counted, int(np.clip(counted / (LONG * oldest), FEWEST, BATCHES)))
    edges = np.linspace(warmup, steps, units + 1).astype(np.int64)
    seen, sums, ends = _batches(trace, fleet, edges, first)
    flow, shares, by_group, over_all = RatioSums(1), RatioSums(fleet.groups), RatioSums(fleet.groups), RatioSums(1)
    for unit in range(units):
        flow.add(seen[unit].sum(), ends[unit + 1] - ends[unit])
        shares.add(seen[unit], np.full(fleet.groups, seen[unit].sum()))
        by_group.add(sums[unit], seen[unit])
        over_all.add(sums[unit].sum(), seen[unit].sum())
    with np.errstate(invalid="ignore"):
        series = sums / seen
    return Tally(
        updates=counted,
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


def _single(sums: RatioSums) -> Estimate:
    found = sums.estimate()
    return Estimate(found.value[0], found.error[0])


def _whole(trace: Trace | str | Path, fleet: Fleet) -> tuple[Integers, Integers, Floats, float]:
    """Return the fates by group, the updates and their total staleness by group, and the first moment."""
    fates, rows, first = np.zeros((fleet.groups, len(FATES)), np.int64), 0, np.inf
    stale = np.zeros(fleet.groups)
    for piece in pieces_of(trace, PIECE):
        check(piece, fleet, rows)
        rows += len(piece)
        group = fleet.group_of_client[piece.client]
        fates += np.bincount(group * len(FATES) + piece.fate, minlength=fates.size).reshape(fates.shape)
        stale += np.bincount(group[piece.applied], piece.staleness, fleet.groups)
        first = min(first, float(np.min(piece.dispatched_at, initial=np.inf)))
    return fates, fates[:, FATES.index("applied")], stale, first


def _batches(trace: Trace | str | Path, fleet: Fleet, edges: Integers, first: float) -> tuple[Floats, Floats, Floats]:
    """Return updates and total staleness by batch and group, and the times between the batches."""
    units = edges.size - 1
    seen, sums = np.zeros((units + 1, fleet.groups)), np.zeros((units + 1, fleet.groups))
    ends = np.full(units + 1, first)
    for piece in pieces_of(trace, PIECE):
        applied = piece.applied
        unit = np.searchsorted(edges[:-1], piece.applied_step[applied], side="right")  # 0 = left out
        place = unit * fleet.groups + fleet.group_of_client[piece.client[applied]]
        seen += np.bincount(place, minlength=seen.size).reshape(seen.shape)
        sums += np.bincount(place, piece.staleness, sums.size).reshape(sums.shape)
        np.maximum.at(ends, unit, piece.applied_at[applied])
    return seen[1:], sums[1:], ends
