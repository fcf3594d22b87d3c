"""What is observed under each plan of a live run does not depend on the pieces in which its trace is read."""

from dataclasses import replace

import numpy as np
import pytest

from sojourn import Fleet, Plan, simulate
from sojourn.timing.fit.observed import pieces_of
from sojourn.timing.observe.periods import BATCHES, Periods, Thinned

FLEET = Fleet.of(fast=(3, 4.0), slow=(2, 1.0))
MADE = simulate(FLEET, Plan.uniform(FLEET, 8), 4000, start="even", seed=3)
BEGINS = (0.0, 100.0, 350.0)
PLANS = [{"time": at, "step": 0, "concurrency": 8, "reason": "start", "throughput": 7.0} for at in BEGINS]
TRACE = replace(MADE, metadata={**MADE.metadata, "plans": PLANS})


def periods(fleet, size):
    found = Periods(TRACE.metadata, fleet)
    for piece in pieces_of(TRACE, size):
        found.add(piece)
    return found.done(2 if fleet is not None else 5)


@pytest.mark.parametrize("size", [10_000, 97])
def test_periods_are_counted_by_plan(size):
    at, sent = TRACE.applied_at[TRACE.applied], TRACE.dispatched_at[TRACE.applied]
    ends = [*BEGINS[1:], at.max()]
    group = FLEET.group_of_client[TRACE.client[TRACE.applied]]
    for one, begin, end in zip(periods(FLEET, size), BEGINS, ends, strict=True):
        last = end == at.max()
        during = at[(at >= begin) & ((at < end) | last)]
        counts = np.histogram(during, BATCHES, (begin, end))[0]
        assert one.updates == during.size
        assert one.observed == pytest.approx(during.size / (end - begin))
        assert one.error == pytest.approx(counts.std(ddof=1) * np.sqrt(BATCHES) / (end - begin))
        mine = ((sent > begin) | (begin == 0)) & ((sent <= end) | last)
        for at_group in range(2):
            theirs = mine & (group == at_group)
            assert one.observed_share[at_group] == pytest.approx(theirs.sum() / mine.sum())
            assert one.observed_staleness[at_group] == pytest.approx(TRACE.staleness[theirs].mean())


def test_without_a_fleet_every_client_is_a_group():
    whole, pieces = periods(None, 10_000), periods(None, 7)
    for one, other in zip(whole, pieces, strict=True):
        assert one.observed_staleness.tolist() == other.observed_staleness.tolist()
        assert one.observed_share.size == 5


@pytest.mark.parametrize("sizes", [[100], [40, 60], [7] * 14 + [2]])
def test_times_are_thinned_evenly_when_there_are_too_many(monkeypatch, sizes):
    monkeypatch.setattr(Thinned, "MOST", 100)
    kept, times = Thinned(), np.arange(1000.0)
    kept.add(times[:100])
    assert kept.times.tolist() == times[:100].tolist()
    assert kept.every == 1
    begin = 100
    for size in sizes * 9:
        kept.add(times[begin : begin + size])
        begin += size
    assert kept.every == 16
    assert kept.times.tolist() == times[::16].tolist()
