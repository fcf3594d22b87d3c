"""Bins of updates give the sums of any batch of a short trace, and of batches of whole bins of a long one."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Fleet, Plan, simulate
from sojourn.errors import InvalidInput
from sojourn.timing.observe import step_bins
from sojourn.timing.observe.step_bins import StepBins
from sojourn.timing.observe.tally import tally

STEPS, GROUPS = 500, 3
RNG = np.random.default_rng(1)
GROUP, STALE, AT = RNG.integers(0, GROUPS, STEPS), RNG.integers(0, 40, STEPS), np.sort(RNG.random(STEPS))
FLEET = Fleet.of(fast=(5, 4.0), slow=(5, 1.0))


def binned(*cuts, begin=0):
    bins = StepBins(begin)
    for low, high in itertools.pairwise([0, *sorted(cuts), STEPS]):
        here = RNG.permutation(np.arange(low, high))
        bins.add(here, GROUP[here], STALE[here], AT[here], GROUPS)
    return bins


def by_hand(edges):
    ends = [*edges[1:], STEPS]
    seen = [np.bincount(GROUP[low:high], minlength=GROUPS) for low, high in zip(edges, ends, strict=True)]
    sums = [np.bincount(GROUP[low:high], STALE[low:high], GROUPS) for low, high in zip(edges, ends, strict=True)]
    return np.array(seen), np.array(sums), AT[np.array([edges[0], *ends]) - 1]


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, STEPS), max_size=6),
    st.lists(st.integers(1, STEPS - 1), min_size=1, max_size=8, unique=True),
)
def test_batches_of_a_short_trace_may_begin_anywhere(cuts, edges):
    edges = np.array(sorted(edges))
    bins = binned(*cuts)
    assert bins.width == 1
    for found, expected in zip(bins.batches(edges, GROUPS), by_hand(edges), strict=True):
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("cuts", [(), (3, 200), (499,)])
def test_bins_of_a_long_trace_double_and_lose_nothing(monkeypatch, cuts):
    monkeypatch.setattr(step_bins, "MOST", 64)
    bins = binned(*cuts)
    assert bins.width == 8
    edges = np.array([16, 96, 408])
    for found, expected in zip(bins.batches(edges, GROUPS), by_hand(edges), strict=True):
        assert found.tolist() == expected.tolist()


def test_what_is_left_out_may_end_anywhere_although_bins_are_wide(monkeypatch):
    monkeypatch.setattr(step_bins, "MOST", 64)
    bins = binned(100, begin=37)
    edges = np.array([37, 37 + 8 * 20])
    for found, expected in zip(bins.batches(edges, GROUPS), by_hand(edges), strict=True):
        assert found.tolist() == expected.tolist()


def test_more_groups_have_fewer_bins(monkeypatch):
    monkeypatch.setattr(step_bins, "CELLS", 256)
    monkeypatch.setattr(step_bins, "LEAST", 16)
    bins = StepBins()
    for groups in (1, 3, 9):  # clients turn up one after the other
        bins.add(np.arange(100), np.zeros(100, int), np.ones(100, int), AT[:100], groups)
    seen, stale, _ = bins.batches(np.array([0]), 9)
    assert bins.width == 8
    assert seen.tolist() == stale.tolist() == [[300.0, *[0.0] * 8]]


def test_a_tally_by_wide_bins_is_nearly_that_by_single_updates(monkeypatch):
    trace = simulate(FLEET, Plan.uniform(FLEET, 10), 20_000, seed=1)
    exact = tally(trace, FLEET)
    monkeypatch.setattr(step_bins, "MOST", 1 << 10)
    rounded = tally(trace, FLEET)
    assert 0 <= rounded.warmup - exact.warmup < 32
    assert rounded.batches == exact.batches == 32
    assert rounded.updates + rounded.warmup == 20_000
    assert rounded.staleness.value == pytest.approx(exact.staleness.value, rel=1e-3)
    assert rounded.staleness.error == pytest.approx(exact.staleness.error, rel=0.1)
    assert float(rounded.throughput.value) == pytest.approx(float(exact.throughput.value), rel=1e-3)


def test_a_warm_up_that_is_given_is_kept_although_bins_are_wide(monkeypatch):
    trace = simulate(FLEET, Plan.uniform(FLEET, 10), 3000, seed=1)
    exact = tally(trace, FLEET, warmup=777)
    monkeypatch.setattr(step_bins, "MOST", 1 << 10)
    rounded = tally(trace, FLEET, warmup=777)
    assert (rounded.warmup, rounded.updates, rounded.time) == (777, 2223, exact.time)
    assert rounded.staleness.value.tolist() == exact.staleness.value.tolist()
    with pytest.raises(InvalidInput, match="warmup must be from 0 to 2999"):
        tally(trace, FLEET, warmup=3000)
