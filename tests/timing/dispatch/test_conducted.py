"""Servers that hold arrivals, cancel tasks or set local steps: by hand on small fleets, and laws that hold for any."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from sojourn import Dispatcher, Fleet, InvalidInput, Law, Plan, Scenario, measure, simulate
from sojourn.learning.replay.timeline import closing
from sojourn.random import keys
from sojourn.timing.dispatch.conducted import conducted
from sojourn.timing.dispatch.groups import Groups, _assign
from sojourn.trace import APPLIED, COLUMNS, DROPPED, IN_FLIGHT

STEADY = Law.parse("deterministic")


def steady(*times):
    """A fleet of one client per time, each of which takes exactly that long for a local step."""
    fleet = Fleet.of(**{f"c{i}": (1, 1 / time) for i, time in enumerate(times)})
    return replace(fleet, law=(STEADY,) * len(times))


def run(fleet, text, steps, local_steps=1, tasks=None, **options):
    plan = Plan.uniform(fleet, tasks or fleet.clients)
    scenario = Scenario(Dispatcher.parse(text), local_steps=local_steps)
    return simulate(fleet, plan, steps, start="even", scenario=scenario, engine="events", **options)


def rows(trace, fate=APPLIED):
    """(client, sent at, ended at, local steps) of the rows with a fate."""
    mine = trace.fate == fate
    return list(
        zip(
            *(getattr(trace, key)[mine].tolist() for key in ("client", "dispatched_at", "applied_at", "work")),
            strict=True,
        )
    )


# held


def test_a_tick_takes_whoever_has_returned_and_lets_the_others_go_on():
    # tau = (1, 2.5), a tick every second: the second client is back at 2.5 and restarts at 3
    trace = run(steady(1, 2.5), "held(waiting=1)", 7)
    expected = [(0, 0, 1), (0, 1, 2), (1, 0, 3), (0, 2, 3), (0, 3, 4), (0, 4, 5), (1, 3, 6), (0, 5, 6)]
    assert [row[:3] for row in rows(trace)] == expected
    assert closing(trace)[trace.applied].tolist() == [True, True, False, True, True, True, False, True]
    assert trace.dispatched_step[trace.applied].tolist() == [0, 1, 0, 2, 4, 5, 4, 6]


def test_an_update_that_is_there_with_the_tick_counts_for_it_also_where_times_are_rounded():
    trace = run(steady(0.3, 0.7), "held(waiting=0.1)", 70)
    gaps = [np.diff(trace.applied_at[trace.applied & (trace.client == one)]) for one in (0, 1)]
    assert gaps[0] == pytest.approx(0.3)  # three windows, not four
    assert gaps[1] == pytest.approx(0.7)


def test_windows_in_which_nobody_returns_are_passed():
    trace = run(steady(1.0, 3.0), "held(waiting=1e-6)", 8)
    assert trace.applied_at[trace.applied] == pytest.approx([1, 2, 3, 3, 4, 5, 6, 6], abs=1e-5)


@pytest.mark.parametrize("assign", ["pure", "shuffled", "routed"])
def test_the_server_waits_for_so_many_arrivals_and_sends_as_many_tasks(assign):
    trace = run(steady(1, 1.5, 2.2), f"held(wait=2, assign={assign})", 40)
    applied = trace.applied_at[trace.applied].reshape(-1, 2)
    assert (applied[:, 0] == applied[:, 1]).all()
    assert closing(trace)[trace.applied].tolist() == [False, True] * 20
    later = trace.dispatched_step > 0
    assert (trace.dispatched_step % 2 == 0).all()
    assert np.unique(trace.dispatched_step[later], return_counts=True)[1].tolist() == [2] * 20
    if assign == "pure":
        # at 1.5 clients 0 and 1; at 2.5 (client 2 waits since 2.2) client 0 again; at 3 and 3.5 client 1 and 0
        assert trace.client[trace.applied].reshape(-1, 2)[:3].tolist() == [[0, 1], [2, 0], [1, 0]]
        assert applied[:3, 0].tolist() == pytest.approx([1.5, 2.5, 3.5])
    if assign == "shuffled":
        times_chosen = np.bincount(trace.client[later], minlength=3)  # 40 assignments: 13 blocks of three, and one
        assert sorted(times_chosen.tolist()) == [13, 13, 14]


def test_two_releases_at_one_time_stay_two():
    trace = run(steady(1, 1), "held(wait=1)", 6)
    assert trace.applied_at[trace.applied].tolist() == [1, 1, 2, 2, 3, 3]
    assert closing(trace)[trace.applied].all()


# restarting


def test_all_tasks_are_cancelled_whenever_so_many_updates_are_back():
    trace = run(steady(1, 2.5), "restarting(wait=2)", 4)
    assert rows(trace) == [(0, 0, 1, 1), (0, 1, 2, 1), (0, 2, 3, 1), (0, 3, 4, 1)]
    assert rows(trace, DROPPED) == [(1, 0, 2, 1), (1, 2, 4, 1)]
    assert np.isnan(trace.finished_at[trace.fate == DROPPED]).all()
    assert trace.dispatched_step.tolist() == [0, 0, 1, 2, 2, 3, 4, 4]  # the cancelled task before what cancels it


def test_all_tasks_are_cancelled_when_the_harmonic_mean_is_reached():
    # client 0 is back at 1 and 2, client 1 at 2.5: 2 / (1/2 + 1) = 4/3
    times = {
        text: rows(run(steady(1, 2.5), text, 5), DROPPED)[:1]
        for text in (
            "restarting(harmonic=2)",
            "restarting(harmonic=2.6)",
            "restarting(harmonic=3)",
        )
    }
    assert times["restarting(harmonic=2)"] == times["restarting(harmonic=2.6)"] == [(0, 2, 2.5, 1)]
    assert times["restarting(harmonic=3)"] == [(1, 2.5, 3.0, 1)]  # three of client 0: 2 / (1/3 + 1) = 3/2


def test_a_strict_mean_needs_one_more_where_it_is_met_exactly():
    loose, strict = (run(steady(1, 1.25), f"restarting(harmonic=2, strict={word})", 4) for word in ("false", "true"))
    assert rows(loose, DROPPED)[0] == (0, 1.0, 1.25, 1)  # one each at 1.25
    assert rows(strict, DROPPED)[0] == (1, 1.25, 2.0, 1)  # (2, 1) at 2


def test_a_task_is_cancelled_when_it_is_too_old():
    trace = run(steady(1, 2.5), "restarting(age=2)", 5)
    assert trace.staleness.max() <= 1
    assert rows(trace, DROPPED) == [(1, 0, 2, 1), (1, 2, 4, 1)]
    assert not (run(steady(1, 2.5), "restarting(age=3)", 5).fate == DROPPED).any()


def test_the_work_of_a_cancelled_task_is_the_steps_that_it_had_begun():
    trace = run(steady(1, 2.5), "restarting(wait=2)", 4, local_steps=3)
    assert rows(trace, DROPPED)[0] == (1, 0, 6, 3)  # two steps in 5 seconds, and half of the third
    trace = run(steady(1, 3.5), "restarting(wait=1)", 2, local_steps=2)
    assert rows(trace, DROPPED)[0] == (1, 0, 2, 1)


def test_equally_fast_clients_are_back_in_turn_and_none_is_preferred():
    trace = run(steady(1, 1, 1), "restarting(wait=1)", 30)
    assert np.bincount(trace.client[trace.applied]).tolist() == [10, 10, 10]


# groups


def test_clients_get_so_many_steps_that_they_return_together():
    # v = (1, 3); client 0 opens a group of 100 steps; client 1, back at 300, opens one for 450: floor(150 / 3) = 50
    trace = run(steady(1, 3), "groups(least=20)", 12, local_steps=100)
    assert rows(trace)[:7] == [
        (0, 0, 100, 100),
        (0, 100, 200, 100),
        (1, 0, 300, 100),
        (0, 200, 300, 100),
        (0, 300, 400, 100),
        (1, 300, 450, 50),
        (0, 400, 450, 50),
    ]
    # from here on they return together: client 0 opens with 100 steps, client 1 joins with floor(100 / 3)
    assert {row[3] for row in rows(trace)[7:] if row[0] == 1} == {33}
    assert {row[3] for row in rows(trace)[7:] if row[0] == 0} == {100}


def test_a_client_joins_the_open_group_that_gives_it_most_steps():
    # the check value of the method: a group expected at 100, a client of 3 seconds a step at 1 joins with 33 steps
    fleet, n = steady(1.0, 3.0), 2
    plan = Plan.uniform(fleet, n)
    kind = Groups(least=20)
    scenario = Scenario(Dispatcher.of(kind), local_steps=100)
    e, memory = conducted(kind, fleet, plan, scenario, keys(0), np.random.default_rng(0))
    memory.speed[:] = (1.0, 3.0)
    assert _assign(e, memory, 0, 20, 1.5) == 100  # opens one
    assert memory.groups["expected"].max() == 100
    assert memory.groups["latest"].max() == 150
    e.world["clock"] = 1.0
    assert _assign(e, memory, 1, 20, 1.5) == 33
    assert memory.group[0] == memory.group[1]
    assert _assign(e, memory, 1, 34, 1.5) == 83  # too few steps: a new one, at floor((150 + 100 - 1) / 3)
    assert memory.group[0] != memory.group[1]


def test_a_group_waits_until_its_latest_time_and_takes_who_is_late_the_next_time():
    fleet = replace(Fleet.of(fast=(3, 1.0), slow=(3, 0.3)), law=(Law.parse("lognormal(sigma=0.8)"),) * 2)
    trace = run(fleet, "groups(least=2, slack=1.1)", 400, local_steps=10)
    late = (trace.fate == DROPPED).sum()
    assert late > 0
    assert np.isfinite(trace.finished_at[trace.fate == DROPPED]).all()  # computed in vain, and counted so
    waited = (trace.applied_at - trace.finished_at)[trace.applied]
    assert waited.min() >= 0
    assert waited.max() > 0
    assert trace.work[trace.applied].min() >= 2
    assert trace.work[trace.applied].max() <= 10


# any fleet

TEXTS = (
    "held(wait=2)",
    "held(wait=3, assign=routed)",
    "held(waiting=0.7)",
    "held(waiting=0.4, assign=shuffled)",
    "restarting(wait=3)",
    "restarting(harmonic=7.5)",
    "restarting(age=4)",
    "groups(slack=1.2)",
)


@settings(max_examples=12)
@given(
    text=some.sampled_from(TEXTS),
    rates=some.lists(some.floats(0.2, 5.0), min_size=3, max_size=5),
    law=some.sampled_from(("exponential", "deterministic", "lognormal(sigma=1)")),
    local_steps=some.integers(1, 4),
    seed=some.integers(0, 1000),
)
def test_tasks_are_conserved_models_exist_and_runs_repeat(text, rates, law, local_steps, seed):
    fleet = Fleet.of(**{f"c{i}": (1, rate) for i, rate in enumerate(rates)})
    fleet = replace(fleet, law=(Law.parse(law),) * len(rates))
    trace = run(fleet, text, 40, local_steps, seed=seed)
    applied, n = trace.applied, fleet.clients
    assert trace.applied_step[applied].tolist() == list(range(int(applied.sum())))
    assert (np.diff(trace.applied_at[trace.fate != IN_FLIGHT]) >= 0).all()
    before = np.cumsum(applied) - applied
    assert (trace.dispatched_step <= before).all()
    assert (trace.started_at[applied] >= trace.dispatched_at[applied]).all()
    assert (trace.applied_at[applied] >= trace.finished_at[applied]).all()
    # whenever tasks end, as many are sent; each client's tasks follow each other
    flying = int((trace.fate == IN_FLIGHT).sum())
    assert flying == n if "groups" not in text else n <= flying <= 2 * n
    ended = trace.applied_at[trace.fate != IN_FLIGHT]
    if "groups" not in text:
        assert np.array_equal(np.sort(trace.dispatched_at), np.concatenate([np.zeros(n), np.sort(ended)]))
    again = run(fleet, text, 40, local_steps, seed=seed)
    assert all(np.array_equal(getattr(trace, key), getattr(again, key), equal_nan=True) for key in COLUMNS)


@pytest.mark.parametrize("text", TEXTS)
def test_a_summary_counts_what_a_trace_shows(text):
    fleet = Fleet.of(fast=(3, 4.0), slow=(3, 1.0))
    plan = Plan.uniform(fleet, 6)
    scenario = Scenario(Dispatcher.parse(text), local_steps=2)
    summary = measure(fleet, plan, 600, start="even", scenario=scenario, warmup=0, seed=4)
    trace = simulate(fleet, plan, 600, start="even", scenario=scenario, seed=4)
    mine = fleet.group_of_client[trace.client]
    assert summary.arrivals.tolist() == np.bincount(mine[trace.applied], minlength=2).tolist()
    assert summary.lost.tolist() == np.bincount(mine[trace.fate == DROPPED], minlength=2).tolist()
    assert summary.mean_staleness == pytest.approx(trace.staleness.mean(), rel=1e-12)
    assert summary.time == pytest.approx(trace.applied_at[trace.applied].max())
    sojourn = np.bincount(mine[trace.applied], trace.sojourn) / summary.arrivals
    assert summary.sojourn.value == pytest.approx(sojourn, rel=1e-9)


@pytest.mark.parametrize("text", ["held(wait=2)", "held(waiting=1.5)", "groups"])
def test_links_count_as_time_away(text):
    fleet = replace(Fleet.of(a=(2, 2.0), b=(2, 1.0)), uplink_rate=np.array([3.0, 1.0]))
    trace = run(fleet, text, 60, local_steps=2)
    assert (trace.applied_at[trace.applied] > trace.finished_at[trace.applied]).all()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("held", "needs the number of arrivals to wait for or the time between two ticks, one of them"),
        ("held(wait=2, waiting=1)", "needs the number of arrivals to wait for or the time between two ticks"),
        ("held(wait=2, assign=idle)", "assign must be one of pure, routed, shuffled, got 'idle'"),
        ("held(wait=9)", "wait must be at most the 4 tasks in flight, got 9; lower wait, or raise the concurrency"),
        ("held(waiting=-1)", "waiting must be non-negative and finite, got -1"),
        ("held(contacts=2)", "dispatcher held: options are wait, waiting, assign, got 'contacts=2'"),
        ("restarting", "needs one of wait, harmonic and age"),
        ("restarting(wait=2, age=3)", "needs one of wait, harmonic and age"),
        ("restarting(harmonic=0)", "harmonic must be positive and finite, got 0"),
        ("restarting(age=0)", "age must be a whole number of at least 1, got 0"),
        ("restarting(harmonic=4, strict=maybe)", "true or false must be one of them, got 'maybe'"),
        ("groups(least=3)", "least must be at most the 1 local steps of the run, got 3"),
        ("groups(slack=0.5)", "slack must be finite and at least 1, got 0.5"),
        ("groups(momentum=0)", r"momentum must lie in \(0, 1\], got 0"),
    ],
)
def test_what_cannot_be_is_refused(text, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        run(steady(1, 1, 1, 1), text, 3)


def test_cancelling_needs_everybody_at_work_and_no_links():
    with pytest.raises(InvalidInput, match="restarting keeps every client at work: concurrency must be n, got 2 and 4"):
        run(steady(1, 1, 1, 1), "restarting(wait=1)", 3, tasks=2)
    with pytest.raises(InvalidInput, match="cancels tasks at once, but this fleet has links; remove the links"):
        run(replace(steady(1, 1), uplink_rate=np.array([1.0, 1.0])), "restarting(wait=1)", 3)
    fleet = steady(1, 1)
    plan = replace(Plan.uniform(fleet, 2), cap=np.ones(2))
    with pytest.raises(InvalidInput, match="does not check caps, got a plan with a cap"):
        simulate(fleet, plan, 3, start="even", scenario=Scenario(Dispatcher.parse("held(wait=1)")))
