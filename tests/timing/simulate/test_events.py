"""The event engine: its exact laws for any service law, and the jump chain's law where service is exponential."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Fleet, InvalidInput, Law, Plan, analyze, measure, simulate
from sojourn.random import keys
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.simulate.drive import OnlineEngine
from sojourn.trace import APPLIED, DROPPED, IN_FLIGHT

ANY = settings(max_examples=40)
LAWS = ["exponential", "deterministic", "lognormal(sigma=1)", "gamma(shape=0.5)", "weibull(shape=2)"]
LAWS += ["hyperexponential(scv=3)", "empirical(0.2 0.9 1.9)"]
TWO = Fleet.of(fast=(4, 3.0), slow=(4, 1.0))


def with_law(fleet, text):
    return replace(fleet, law=(Law.parse(text),) * fleet.groups)


@st.composite
def cases(draw, dispatchers=("routed", "pure", "shuffled", "idle")):
    groups = draw(st.integers(1, 3))
    fleet = Fleet(
        name=tuple("abc"[:groups]),
        count=[draw(st.integers(1, 3)) for _ in range(groups)],
        rate=[draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in range(groups)],
        law=[Law.parse(draw(st.sampled_from(LAWS))) for _ in range(groups)],
        uplink_rate=[draw(st.sampled_from([np.inf, 2.0])) for _ in range(groups)],
        downlink_rate=[draw(st.sampled_from([np.inf, 5.0])) for _ in range(groups)],
    )
    weights = [draw(st.sampled_from([1.0, 2.0, 5.0])) for _ in range(groups)]
    dispatcher = draw(st.sampled_from(dispatchers))
    tasks = draw(st.integers(1, fleet.clients if dispatcher == "idle" else 12))
    scenario = Scenario(
        Dispatcher(dispatcher),
        local_steps=draw(st.integers(1, 3)),
        server_rate=draw(st.sampled_from([np.inf, 4.0])),
    )
    return fleet, Plan.weighted(fleet, weights, tasks), scenario, draw(st.integers(0, 1000))


@ANY
@given(case=cases())
def test_tasks_keep_the_laws_of_queues_whatever_the_law_and_the_dispatcher(case):
    fleet, plan, scenario, seed = case
    steps = 150
    trace = simulate(fleet, plan, steps, start="even", seed=seed, scenario=scenario, engine="events")
    applied = trace.applied
    # population: C tasks to begin with, one new for each step; those not applied are in flight
    assert len(trace) == steps + plan.concurrency
    assert (trace.fate[~applied] == IN_FLIGHT).all()
    assert np.sort(trace.dispatched_step).tolist() == [0] * plan.concurrency + list(range(1, steps + 1))
    assert trace.applied_step[applied].tolist() == list(range(steps))
    assert (np.diff(trace.applied_at[applied]) >= 0).all()
    # times in order
    served = applied | np.isfinite(trace.finished_at)
    assert (trace.started_at[served] >= trace.dispatched_at[served]).all()
    assert (trace.finished_at[served] >= trace.started_at[served]).all()
    assert (trace.applied_at[applied] >= trace.finished_at[applied]).all()
    for client in range(fleet.clients):
        # no client serves two tasks at once
        mine = (trace.client == client) & np.isfinite(trace.started_at)
        order = np.argsort(trace.started_at[mine], kind="stable")
        begins, ends = trace.started_at[mine][order], trace.finished_at[mine][order]
        assert (begins[1:] >= ends[:-1]).all()
        if np.isinf(fleet.downlink_rate[fleet.group_of_client[client]]):  # a downlink may change the order
            assert (np.diff(trace.dispatched_step[mine][order]) >= 0).all()


@ANY
@given(case=cases(dispatchers=("pure", "idle")))
def test_pure_and_idle_dispatch_never_let_a_task_wait(case):
    fleet, plan, scenario, seed = case
    plan = Plan.uniform(fleet, min(plan.concurrency, fleet.clients))
    trace = simulate(fleet, plan, 150, start="one-each", seed=seed, scenario=scenario)
    begun = np.isfinite(trace.started_at) & np.isinf(fleet.downlink_rate[fleet.group_of_client[trace.client]])
    assert (trace.started_at[begun] == trace.dispatched_at[begun]).all()


def test_pure_dispatch_gives_the_finisher_its_next_task():
    trace = simulate(TWO, Plan.uniform(TWO, 5), 300, start="one-each", scenario=Scenario(Dispatcher("pure")))
    finisher = trace.client[trace.applied]
    sent = trace.client[np.argsort(trace.dispatched_step, kind="stable")][5:]
    assert sent.tolist() == finisher.tolist()


def test_shuffled_dispatch_gives_every_client_one_task_in_every_turn():
    trace = simulate(TWO, Plan.uniform(TWO, 5), 400, start="even", scenario=Scenario(Dispatcher("shuffled")))
    sent = trace.client[np.argsort(trace.dispatched_step, kind="stable")][5:]
    turns = sent.reshape(-1, 8)
    assert (np.sort(turns, axis=1) == np.arange(8)).all()
    assert len({tuple(turn) for turn in turns.tolist()}) > 40  # the order changes


def test_exponential_service_through_events_has_the_jump_chains_law():
    plan = Plan.of(TWO, {"fast": 0.1, "slow": 0.15}, 12)
    exact = analyze(TWO, plan)
    summary = measure(TWO, plan, 20_000, start="routed", warmup=4000, replications=24, seed=4, engine="events")
    for name in ("queue", "utilisation", "sojourn", "waiting"):
        estimate = getattr(summary, name)
        assert (abs(estimate.value - getattr(exact, name)) < 4 * estimate.error).all(), name
    assert (abs(summary.staleness.value - exact.staleness()) < 4 * summary.staleness.error).all()
    assert abs(summary.throughput.value - exact.throughput) < 4 * summary.throughput.error


def test_rates_that_are_very_far_apart_are_simulated_by_events():
    # the jump chain would refuse nearly every client that it draws from a class of such different rates
    far = Fleet.of_rates(np.geomspace(1e-100, 1e100, 20))
    summary = measure(far, Plan.uniform(far, 5), 1000, start="even", seed=1)
    assert (summary.engine, summary.steps) == ("events", 1000)
    near = Fleet.of_rates(np.geomspace(1e-10, 1e10, 20))
    assert measure(near, Plan.uniform(near, 5), 1000, start="even", seed=1).engine == "jump chain"


def test_links_and_a_busy_server_agree_with_the_exact_network():
    fleet = replace(TWO, uplink_rate=np.array([2.0, 1.0]), downlink_rate=np.array([4.0, np.inf]))
    plan = Plan.uniform(fleet, 15)
    exact = analyze(fleet, plan, server_rate=6.0)
    scenario = Scenario(server_rate=6.0)
    summary = measure(fleet, plan, 20_000, start="even", warmup=4000, replications=24, seed=1, scenario=scenario)
    assert (abs(summary.staleness.value - exact.staleness()) < 4 * summary.staleness.error).all()
    assert (abs(summary.sojourn.value - exact.sojourn) < 4 * summary.sojourn.error).all()
    assert (abs(summary.queue.value - exact.queue) < 4 * summary.queue.error).all()
    assert abs(summary.throughput.value - exact.throughput) < 4 * summary.throughput.error


@pytest.mark.parametrize("text", LAWS)
def test_what_is_exact_for_every_law_holds(text):
    fleet = with_law(TWO, text)
    plan = Plan.of(fleet, {"fast": 0.1, "slow": 0.15}, 12)
    summary = measure(fleet, plan, 20_000, start="routed", warmup=2000, replications=12, seed=2)
    shares = fleet.count * plan.sampling
    # sum of p_i staleness_i = C - 1: tasks at the ends of a run move it by less than C^2 / steps
    assert (shares * summary.staleness.value).sum() == pytest.approx(11, abs=0.05)
    # throughput * p = rate * utilisation, and Little's law for the queue
    flow = summary.throughput.value * plan.sampling
    assert flow == pytest.approx(fleet.rate * summary.utilisation.value, rel=0.02)
    assert summary.queue.value == pytest.approx(flow * summary.sojourn.value, rel=0.02)
    assert (fleet.count * summary.queue.value).sum() == pytest.approx(12, rel=1e-9)


def test_the_law_of_service_matters():
    # long runs: n=10, C=1000, fast staleness 48.8 exponential, 27.6 deterministic, 63.5 lognormal(1)
    fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    found = {}
    for text in ("deterministic", "lognormal(sigma=1)"):
        shaped = with_law(fleet, text)
        plan = Plan.uniform(shaped, 1000)
        settled = measure(shaped, plan, 200_000, start="even", warmup=600_000, replications=10, seed=3)
        found[text] = settled.staleness.value[0]
    assert found["deterministic"] < 40 < found["lognormal(sigma=1)"]


def test_two_dispatchers_see_the_same_client_slow_at_the_same_task():
    fleet = with_law(TWO, "lognormal(sigma=1)")
    durations = []
    for name in ("routed", "shuffled", "pure"):
        trace = simulate(fleet, Plan.uniform(fleet, 6), 500, start="one-each", scenario=Scenario(Dispatcher(name)))
        applied = trace.applied
        time = (trace.finished_at - trace.started_at)[applied]
        mine = [time[trace.client[applied] == client] for client in range(8)]
        durations.append(mine)
    for client in range(8):
        # the nth service of a client takes the same time, whoever sent it (up to the rounding of the clock)
        size = min(len(found[client]) for found in durations)
        assert size >= 0
        for found in durations[1:]:
            np.testing.assert_allclose(found[client][:size], durations[0][client][:size], rtol=1e-9, atol=1e-9)
    assert sum(min(len(found[c]) for found in durations) for c in range(8)) > 100


def test_local_steps_are_charged_one_service_time_each():
    fleet = with_law(TWO, "deterministic")
    for one_draw, expected in ((False, 5.0), (True, 1.0)):
        scenario = Scenario(local_steps=5, one_draw=one_draw)
        trace = simulate(fleet, Plan.uniform(fleet, 8), 200, start="even", scenario=scenario)
        time = (trace.finished_at - trace.started_at)[trace.applied] * fleet.rate[trace.client[trace.applied] // 4]
        assert time == pytest.approx(expected)
        assert (trace.work[trace.applied] == 5).all()


def test_equal_times_are_served_in_the_order_of_dispatch_and_not_by_client():
    fleet = with_law(Fleet.of(all=(6, 1.0)), "deterministic")
    trace = simulate(fleet, Plan.uniform(fleet, 6), 6, start="one-each", scenario=Scenario(Dispatcher("pure")))
    assert trace.applied_at[trace.applied] == pytest.approx(1)
    assert trace.dispatched_step[trace.applied].tolist() == [0] * 6


def test_rounds_wait_for_all_and_then_begin_together():
    scenario = Scenario(Dispatcher("rounds", interaction=0.5), local_steps=2)
    trace = simulate(TWO, Plan.uniform(TWO, 5), 100, start="even", scenario=scenario)
    assert len(trace) == 100
    rounds = trace.applied_at.reshape(-1, 5)
    assert (rounds == rounds[:, :1]).all()
    ends, begins = rounds[:, 0], trace.dispatched_at.reshape(-1, 5)[:, 0]
    assert begins[1:] == pytest.approx(ends[:-1] + 0.5)
    assert (trace.finished_at.reshape(-1, 5).max(axis=1) == ends).all()  # the slowest one ends the round
    assert (trace.dispatched_step.reshape(-1, 5) == np.arange(0, 100, 5)[:, None]).all()
    assert all(len(set(row)) == 5 for row in trace.client.reshape(-1, 5).tolist())  # without replacement


def test_rounds_may_wait_for_the_first_and_drop_the_others():
    scenario = Scenario(Dispatcher("rounds", wait=3))
    trace = simulate(TWO, Plan.uniform(TWO, 8), 30, start="even", scenario=scenario)
    fates = trace.fate.reshape(-1, 8)
    assert (fates[:, :3] == APPLIED).all()
    assert (fates[:, 3:] == DROPPED).all()
    over = trace.applied_at.reshape(-1, 8)
    assert (over == over[:, :1]).all()  # all are over when the round is
    assert (trace.applied_step.reshape(-1, 8)[:, 3:] == -1).all()
    late = trace.finished_at.reshape(-1, 8)[:, 3:]
    assert np.isnan(late).all()  # not finished when the round ended
    fast = (trace.client[trace.applied] < 4).mean()
    assert fast > 0.6  # the barrier of the first favours fast clients


def test_clients_whose_work_is_dropped_were_busy_until_the_end_of_the_round():
    # deterministic, all eight clients: the fast ones need 1/3, the slow ones are cut off then; interaction 1/3
    fleet = with_law(TWO, "deterministic")
    scenario = Scenario(Dispatcher("rounds", wait=1, interaction=1 / 3))
    summary = measure(fleet, Plan.uniform(fleet, 8), 1000, start="even", scenario=scenario)
    assert summary.utilisation.value == pytest.approx([0.5, 0.5], rel=1e-3)  # the last interaction is not counted
    assert summary.queue.value == pytest.approx([0.5, 0.5], rel=1e-3)
    assert int(summary.lost.sum()) == 7000


def test_with_links_only_the_time_at_work_counts_as_busy_whoever_is_dropped():
    # down 1, work 1/3 and 1, up 1; the first is back at 7/3: the fast have worked 1/3 then, the slow 1
    fleet = replace(with_law(TWO, "deterministic"), uplink_rate=[1.0, 1.0], downlink_rate=[1.0, 1.0])
    fleet = replace(fleet, uplink_law=fleet.law, downlink_law=fleet.law)
    summary = measure(
        fleet, Plan.uniform(fleet, 8), 1000, start="even", scenario=Scenario(Dispatcher("rounds", wait=1))
    )
    assert summary.utilisation.value == pytest.approx([1 / 7, 3 / 7])
    trace = simulate(fleet, Plan.uniform(fleet, 8), 50, start="even", scenario=Scenario(Dispatcher("rounds", wait=1)))
    assert int((trace.fate == DROPPED).sum()) == 350


@pytest.mark.parametrize("wait", [2, 5])
def test_exponential_clients_in_rounds_are_busy_as_the_order_statistics_say(wait):
    # C = n equal clients: k of n have finished after a mean of sum 1/(n - j), j < k; each finishes at rate 1 while it
    # works, so that a client's mean time at work is the mean number of its finished tasks, wait / n
    fleet = Fleet.of(all=(6, 1.0))
    scenario = Scenario(Dispatcher("rounds", wait=wait))
    summary = measure(fleet, Plan.uniform(fleet, 6), 20_000, start="even", replications=10, scenario=scenario)
    round_time = sum(1 / (6 - j) for j in range(wait))
    assert abs(summary.utilisation.value[0] - wait / 6 / round_time) < 4 * summary.utilisation.error[0]
    assert abs(summary.throughput.value - wait / round_time) < 4 * summary.throughput.error


def test_periodic_calls_interrupt_and_record_partial_work():
    fleet = with_law(TWO, "deterministic")  # fast: 1/3 a step, slow: 1 a step
    scenario = Scenario(Dispatcher("periodic", contacts=2, waiting=4.0, interaction=3.0), local_steps=20)
    trace = simulate(fleet, Plan.uniform(fleet, 8), 400, start="even", scenario=scenario)
    applied = trace.applied
    assert sorted(set(np.round(np.diff(np.unique(trace.applied_at[applied])), 9))) == [7.0]
    gap = (trace.applied_at - trace.dispatched_at)[applied]
    step = np.where(trace.client[applied] < 4, 1 / 3, 1.0)
    assert trace.work[applied].tolist() == np.minimum(20, np.floor(gap / step + 1e-9)).astype(int).tolist()
    busy = (trace.finished_at - trace.started_at)[applied]
    full = trace.work[applied] == 20
    assert busy[full] == pytest.approx(20 * step[full])  # then it idles
    assert busy[~full] == pytest.approx(gap[~full])  # interrupted at the call
    assert full.any()
    assert (~full).any()
    assert int((trace.fate == IN_FLIGHT).sum()) == 8


def test_an_online_loop_chooses_client_and_work_for_every_task():
    online = OnlineEngine(TWO, Plan.uniform(TWO, 4), Scenario(), np.array([1, 1, 1, 1, 0, 0, 0, 0]), keys(3))
    seen = []
    for task in online.tasks(50):
        seen.append(task)
        online.send(client=(task.client + 1) % 8, work=1 + task.applied_step % 3)
    assert [task.applied_step for task in seen] == list(range(50))
    assert {task.work for task in seen} == {1, 2, 3}
    with pytest.raises(InvalidInput, match="send must follow an ended task"):
        online.send()


def test_an_online_loop_that_leaves_everything_to_the_dispatcher_is_the_simulation():
    plan = Plan.uniform(TWO, 6)
    trace = simulate(TWO, plan, 300, start="routed", seed=9, engine="events")
    initial = trace.client[trace.dispatched_step == 0]
    queues = np.bincount(initial, minlength=8)
    online = OnlineEngine(TWO, plan, Scenario(), queues, keys(9))
    assert [task.client for task in online.tasks(300)] == trace.client[trace.applied].tolist()


@pytest.mark.parametrize(
    ("scenario", "tasks", "message"),
    [
        (Scenario(Dispatcher("idle")), 9, "dispatcher idle needs concurrency <= clients, got 9 > 8"),
        (Scenario(Dispatcher("rounds")), 9, "concurrency must be between 1 and the 8 clients"),
        (Scenario(Dispatcher("rounds", wait=6)), 5, "wait must be between 1 and the 5 tasks of a round"),
        (Scenario(Dispatcher("periodic", contacts=9, waiting=1.0)), 8, "contacts must be between 1 and the 8 clients"),
        (Scenario(Dispatcher("periodic", contacts=2, waiting=1.0)), 5, "concurrency must be n, got 5 and 8 clients"),
    ],
)
def test_a_dispatcher_refuses_sizes_that_it_cannot_serve(scenario, tasks, message):
    with pytest.raises(InvalidInput, match=message):
        simulate(TWO, Plan.uniform(TWO, tasks), 10, start="even", scenario=scenario)


def test_the_jump_chain_says_what_it_cannot_do():
    fleet = with_law(TWO, "deterministic")
    with pytest.raises(InvalidInput, match="cannot key service times by task; use engine events"):
        simulate(fleet, Plan.uniform(fleet, 5), 10, start="even", engine="jump chain")
    far = Fleet.of_rates(np.geomspace(1e-100, 1e100, 20))
    with pytest.raises(InvalidInput, match="too far apart for the jump chain; use engine events"):
        simulate(far, Plan.uniform(far, 5), 10, start="even", engine="jump chain")
    with pytest.raises(InvalidInput, match="engine must be one of auto, jump chain, events, got 'heap'"):
        simulate(TWO, Plan.uniform(TWO, 5), 10, engine="heap")
    with pytest.raises(InvalidInput, match="start stationary needs the paper's network"):
        simulate(fleet, Plan.uniform(fleet, 5), 10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("round", "dispatcher must be one of routed, pure"),
        ("pure(wait=3)", "dispatcher pure has no option wait"),
        ("rounds(wait=0)", "wait must be a whole number of at least 1, got 0"),
        ("rounds(speed=3)", "dispatcher rounds: options are wait, contacts, waiting, interaction, got 'speed=3'"),
        ("rounds(interaction=-1)", "interaction must be non-negative and finite, got -1"),
        ("periodic", "dispatcher periodic needs contacts and a positive waiting"),
        ("periodic(contacts=x)", "contacts must be a number, got 'x'"),
        ("rounds(", r"must read like name or name\(key=value"),
    ],
)
def test_a_dispatcher_written_wrongly_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        Dispatcher.parse(text)


def test_a_scenario_refuses_what_does_not_go_together():
    with pytest.raises(InvalidInput, match="local_steps must be a whole number of at least 1, got 0"):
        Scenario(local_steps=0)
    with pytest.raises(InvalidInput, match="local_steps must be at most 100,000, got 10000000000"):
        Scenario(local_steps=10**10)
    with pytest.raises(InvalidInput, match="server_rate must be positive"):
        Scenario(server_rate=-1.0)
    with pytest.raises(InvalidInput, match=r"server_rate must be at least 2\.23e-308, got 5e-324"):
        Scenario(server_rate=5e-324)
    with pytest.raises(InvalidInput, match="has its own interaction time; leave server_rate out"):
        Scenario(Dispatcher("rounds"), server_rate=3.0)
