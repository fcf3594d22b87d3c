"""Links as a fit finds them: downlinks are seen where a task is sent to a client without others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Fleet, Plan, Trace, fit, simulate
from sojourn.laws.law import Law
from sojourn.timing.fit.downlinks import _by_client, _largest_before, sent_alone
from sojourn.trace import APPLIED, IN_FLIGHT

NAN = float("nan")


def table(client, dispatched, started, finished, **metadata):
    """A trace of these tasks; what has not finished is in flight."""
    done = np.isfinite(finished)
    rows = len(client)
    return Trace(
        client, np.full(rows, 0.5), dispatched, started, finished, finished, np.zeros(rows),
        np.where(done, np.cumsum(done) - 1, -1), done.astype(int), np.where(done, APPLIED, IN_FLIGHT), metadata,
    )  # fmt: skip


def test_by_hand_only_tasks_that_found_their_client_without_others_show_a_downlink():
    # client 0: a task at 0, one at 1 while it is busy, one at 9 when it is free; client 1: its second task overtakes
    trace = table(
        [0, 0, 0, 1, 1], [0, 1, 9, 2, 3], [0.5, 3, 9.25, 7, 4], [3, 5, 10, 8, 6]
    )  # fmt: skip
    busy = np.full(2, -np.inf)
    alone, until, whole = sent_alone(trace, busy)
    assert alone.tolist() == [0, 2, 3]
    assert until.tolist() == [0.5, 9.25, 4.0]  # until the other one began, the overtaken one was surely on its way
    assert whole.tolist() == [True, True, False]
    assert busy.tolist() == [10.0, 8.0]


def test_by_hand_the_downlink_is_the_mean_of_what_was_seen():
    # the task of the first moment is left out; then 0.5 and 1.5 on the way, and one task that waits
    trace = table([0, 0, 0, 0], [0, 2, 5, 7], [0, 2.5, 6.5, 8], [1, 3, 8, 9])
    found = fit(trace, Fleet.of(one=(1, 9.0)))
    assert found.fleet.downlink_rate[0] == pytest.approx(1.0)
    assert np.isinf(found.fleet.uplink_rate).all()


def test_a_fit_finds_the_downlinks_with_which_a_trace_was_made():
    fleet = Fleet.of(far=(4, 2.0), near=(4, 2.0))
    links = {"downlink_rate": np.array([1.0, np.inf]), "downlink_law": (Law("deterministic"), Law("deterministic"))}
    true = Fleet(fleet.name, fleet.count, fleet.rate, **links)
    trace = simulate(true, replace(Plan.uniform(true, 8), cap=np.ones(2)), 4_000, seed=3)
    found = fit(trace, fleet).fleet
    assert found.downlink_rate[0] == pytest.approx(1.0, rel=1e-6)
    assert found.downlink_rate[1] == np.inf
    assert found.rate == pytest.approx(true.rate, rel=0.08)
    assert fit(trace).fleet.downlink_rate[:4] == pytest.approx(np.ones(4), rel=1e-6)


def test_where_clients_are_away_waiting_for_them_is_no_downlink():
    trace = table([0, 0], [0, 2], [0, 2.5], [1, 3], leave=("drop",))
    assert np.isinf(fit(trace, Fleet.of(one=(1, 9.0))).fleet.downlink_rate[0])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=30))
def test_the_largest_before_each_value_of_a_run_is_that_by_hand(pairs):
    pairs = sorted(pairs, key=lambda pair: pair[0])
    run, value = np.array([a for a, _ in pairs], int), np.array([b for _, b in pairs], float)
    expected = [max((value[j] for j in range(i) if run[j] == run[i]), default=-np.inf) for i in range(len(pairs))]
    assert _largest_before(value, run).tolist() == expected


@pytest.mark.parametrize("most", [5, 100_000])
def test_rows_are_put_in_order_by_client_and_dispatch(most):
    rng = np.random.default_rng(1)
    client, sent = rng.integers(0, most, 300), rng.integers(0, 50, 300).astype(float)
    for order in (np.arange(300), np.argsort(sent, kind="stable")):  # the second needs no sorting by time
        trace = table(client[order], sent[order], sent[order] + 1, sent[order] + 2)
        assert _by_client(trace).tolist() == np.lexsort((trace.dispatched_at, trace.client)).tolist()
