"""A digest says of a trace what NumPy says of the whole, and the pieces in which it is read do not matter."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Availability, Fleet, Plan, Scenario, simulate
from sojourn.errors import InvalidInput
from sojourn.report.page.digest import EDGES, HELD, LANE, RETURNING, SERVED, STALE, UPDATES, digest
from sojourn.report.page.time_bins import SIZE, TimeBins
from sojourn.trace import COLUMNS, FATES, Trace

FLEET = Fleet.of(fast=(3, 4.0), slow=(2, 1.0))
TRACE = simulate(FLEET, Plan.uniform(FLEET, 8), 4000, start="even", seed=3)
LOSSY = simulate(
    FLEET,
    Plan.uniform(FLEET, 8),
    3000,
    start="even",
    seed=4,
    scenario=Scenario(availability=(Availability("churn", on=20.0, off=10.0, leave="lose", loss=0.1),)),
)


def digested(trace, *cuts):
    ends = [0, *sorted(cuts), len(trace)]
    pieces = [
        Trace(**{key: getattr(trace, key)[begin:end] for key in COLUMNS}, metadata=trace.metadata)
        for begin, end in itertools.pairwise(ends)
    ]
    return digest(pieces, FLEET.group_of_client, FLEET.groups, [0, 3])


@pytest.mark.parametrize("trace", [TRACE, LOSSY], ids=["plain", "with losses"])
def test_counts_are_those_of_the_whole_trace(trace):
    found = digested(trace, 17, 1000)
    group = FLEET.group_of_client[trace.client[trace.applied]]
    assert found.rows == len(trace)
    for at, name in enumerate(FATES):
        assert found.fates[:, at].tolist() == np.bincount(trace.client[trace.fate == at], minlength=5).tolist(), name
    for one in range(2):
        expected = np.histogram(trace.staleness[group == one], EDGES)[0]
        assert found.histogram[one].tolist() == expected.tolist()
    assert found.by_group(found.stale).tolist() == np.bincount(group, trace.staleness).tolist()
    for client in range(5):
        assert found.oldest[client] == trace.staleness[trace.client[trace.applied] == client].max()
        mine = (trace.client == client) & np.isfinite(trace.started_at)
        assert found.waited[client] == pytest.approx((trace.started_at - trace.dispatched_at)[mine].sum())


@pytest.mark.parametrize("trace", [TRACE, LOSSY], ids=["plain", "with losses"])
def test_levels_over_time_are_the_means_over_each_bin(trace):
    found = digested(trace)
    edges = found.time.edges()
    assert 100 < edges.size <= SIZE + 1
    group = FLEET.group_of_client[trace.client]
    ended = np.where(np.isfinite(trace.applied_at), trace.applied_at, edges[-1])
    stopped = np.where(np.isfinite(trace.finished_at), trace.finished_at, ended)
    started = np.where(np.isfinite(trace.started_at), trace.started_at, edges[-1])
    for place in (0, 1, 57, edges.size - 2):
        low, high = edges[place], edges[place + 1]
        for one in range(2):
            mine = group == one
            for kind, begin, end in ((HELD, trace.dispatched_at, ended), (SERVED, started, stopped)):
                overlap = np.clip(np.minimum(end, high) - np.maximum(begin, low), 0, None)[mine].sum()
                assert found.time.levels(kind)[one, place] == pytest.approx(overlap / (high - low), abs=1e-9)
    whole = (found.time.levels(HELD) * np.diff(edges)).sum() / (edges[-1] - edges[0])
    assert whole == pytest.approx(8)
    assert found.time.sums(UPDATES).sum() == trace.applied.sum()
    assert found.time.sums(STALE).sum() == trace.staleness.sum()
    assert (found.time.levels(RETURNING) < 1e-9).all()  # there are no links


def test_a_service_that_goes_on_when_the_trace_ends_is_work_until_then():
    for trace in (TRACE, LOSSY):
        found = digested(trace, 30, 2000)
        served = (found.time.levels(SERVED) * np.diff(found.time.edges())).sum()
        assert found.busy.sum() == pytest.approx(served)
    flying = (TRACE.fate == FATES.index("in_flight")) & np.isfinite(TRACE.started_at)
    assert flying.any()


@settings(max_examples=25)
@given(st.lists(st.integers(0, len(LOSSY)), max_size=12))
def test_any_split_into_pieces_gives_the_same_digest(cuts):
    whole, split = digested(LOSSY), digested(LOSSY, *cuts)
    for key in ("histogram", "fates", "stale", "oldest", "started"):
        assert np.array_equal(getattr(whole, key), getattr(split, key)), key
    assert (whole.time.exponent, whole.time.base) == (split.time.exponent, split.time.base)
    for kind in range(5):
        assert np.allclose(whole.time.levels(kind), split.time.levels(kind), atol=1e-9)
    for one, other in zip(whole.lanes, split.lanes, strict=True):
        assert np.array_equal(one.tasks, other.tasks, equal_nan=True)
        assert one.until == other.until


@settings(max_examples=50)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40), st.randoms())
def test_bins_of_time_do_not_depend_on_the_order(times, random):
    def filled(order):
        bins = TimeBins(1, 1)
        for at in order:
            bins.cover(at, at)
            bins.add(0, np.array([0]), np.array([at]))
        return bins

    first = filled(times)
    random.shuffle(times)
    second = filled(times)
    assert (first.exponent, first.base) == (second.exponent, second.base)
    assert np.array_equal(first.sums(0), second.sums(0))
    assert first.sums(0).sum() == len(times)
    assert first.edges()[0] == min(times)
    assert first.edges()[-1] == max(times)


def test_a_lane_has_all_tasks_of_its_client_until_its_end():
    found = digested(TRACE, 500).lanes[1]
    mine = (TRACE.client == 3) & (TRACE.dispatched_at < found.until)
    kept = [task for task in found.tasks if task[0] < found.until]
    assert len(found.tasks) >= LANE
    assert sorted(task[0] for task in kept) == sorted(TRACE.dispatched_at[mine].tolist())


def test_a_client_that_the_fleet_does_not_have_is_refused():
    with pytest.raises(InvalidInput, match="client numbers must be from 0 to 3, got 4"):
        digest([TRACE], FLEET.group_of_client[:4], 2)
