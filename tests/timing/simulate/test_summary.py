"""A summary is the trace of the same seed, added up; one seed, one result; bad sizes are refused."""

from dataclasses import fields, replace

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Law, Plan, measure, simulate
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.simulate.estimate import Estimate
from sojourn.timing.simulate.jump_chain import EXACT_STALENESS, STALENESS_BINS, bin_edges
from sojourn.timing.simulate.summary import BATCHES

THREE = Fleet.of(fast=(4, 8.0), middle=(3, 2.0), slow=(2, 0.5))
MANY = Fleet.of_rates(np.geomspace(0.2, 50, 70))


def plan_of(fleet, concurrency):
    return Plan.weighted(fleet, np.linspace(1, 2, fleet.groups), concurrency)


@pytest.fixture(scope="module", params=[(THREE, 15), (THREE, 400), (MANY, 40)], ids=["few", "crowded", "many groups"])
def both(request):
    """The trace and the summary of one seed."""
    fleet, concurrency = request.param
    plan = plan_of(fleet, concurrency)
    trace = simulate(fleet, plan, 20_000, start="even", seed=7)
    return trace, measure(fleet, plan, 20_000, replications=1, warmup=0, start="even", seed=7)


def by_group(summary, trace):
    """Staleness of the applied tasks of each group."""
    group = summary.fleet.group_of_client[trace.client[trace.applied]]
    return [trace.staleness[group == g] for g in range(summary.fleet.groups)]


def bits(summary):
    """Everything that was simulated, as bytes."""
    found = {}
    for item in fields(summary):
        value = getattr(summary, item.name)
        if isinstance(value, Estimate):
            found[item.name] = (np.asarray(value.value).tobytes(), np.asarray(value.error).tobytes())
        elif isinstance(value, np.ndarray | float):
            found[item.name] = np.asarray(value).tobytes()
        elif item.name not in ("fleet", "plan"):
            found[item.name] = value
    return found


def test_summary_and_trace_count_the_same_arrivals(both):
    trace, summary = both
    assert summary.arrivals.tolist() == [staleness.size for staleness in by_group(summary, trace)]
    assert summary.steps == trace.applied.sum() == 20_000


def test_summary_and_trace_have_the_same_staleness(both):
    trace, summary = both
    seen = by_group(summary, trace)
    assert np.allclose(summary.staleness.value, [staleness.mean() for staleness in seen], rtol=1e-13, atol=0)
    assert summary.oldest.tolist() == [staleness.max() for staleness in seen]
    assert summary.mean_staleness == pytest.approx(trace.staleness.mean(), rel=1e-13)


def test_summary_and_trace_have_the_same_staleness_histogram(both):
    trace, summary = both
    seen = by_group(summary, trace) if summary.fleet.groups <= 64 else [trace.staleness]
    expected = [np.histogram(staleness, bins=bin_edges())[0] for staleness in seen]
    assert np.array_equal(summary.staleness_bins, expected)


def test_summary_and_trace_take_the_same_time(both):
    trace, summary = both
    assert summary.time == pytest.approx(trace.applied_at[trace.applied][-1], rel=1e-12)
    assert summary.throughput.value == pytest.approx(20_000 / trace.applied_at[trace.applied][-1], rel=1e-12)


def test_time_at_the_clients_is_the_same_in_summary_and_trace(both):
    trace, summary = both
    fleet = summary.fleet
    end = trace.applied_at[trace.applied][-1]
    group = fleet.group_of_client[trace.client]
    present = np.where(trace.applied, trace.applied_at, end) - trace.dispatched_at
    busy = np.where(trace.applied, trace.finished_at, end) - np.where(np.isnan(trace.started_at), end, trace.started_at)
    tasks = np.bincount(group, weights=present, minlength=fleet.groups)
    assert np.allclose(summary.queue.value, tasks / (fleet.count * end), rtol=1e-9)
    assert np.allclose(summary.sojourn.value, tasks / summary.arrivals, rtol=1e-9)
    worked = np.bincount(group, weights=busy, minlength=fleet.groups)
    assert np.allclose(summary.utilisation.value, worked / (fleet.count * end), rtol=1e-9)


def test_the_queue_tail_of_a_summary_is_that_of_the_trace():
    plan = plan_of(THREE, 15)
    trace = simulate(THREE, plan, 2000, start="even", seed=8)
    summary = measure(THREE, plan, 2000, warmup=0, start="even", seed=8)
    # walk through the trace: between two updates every client's queue is constant
    moments = np.concatenate([[0.0], trace.applied_at[trace.applied]])
    queue = np.bincount(trace.client[trace.dispatched_step == 0], minlength=THREE.clients)
    next_client = trace.client[np.argsort(trace.dispatched_step, kind="stable")][plan.concurrency :]
    expected = np.zeros((THREE.groups, plan.concurrency + 1))
    for step in range(2000):
        for client, tasks in enumerate(queue):
            expected[THREE.group_of_client[client], : tasks + 1] += moments[step + 1] - moments[step]
        queue[trace.client[step]] -= 1
        queue[next_client[step]] += 1
    assert np.allclose(summary.queue_tail, expected / (THREE.count * moments[-1])[:, None], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("q", [0.001, 0.1, 0.5, 0.9, 0.99, 0.9999])
def test_staleness_quantiles_are_those_of_the_trace(both, q):
    trace, summary = both
    seen = by_group(summary, trace) if summary.fleet.groups <= 64 else [trace.staleness]
    exact = np.array([np.quantile(staleness, q, method="inverted_cdf") for staleness in seen])
    found = summary.staleness_quantile(q)
    assert np.array_equal(found[exact < EXACT_STALENESS], exact[exact < EXACT_STALENESS])
    # above 128 the left edge of its bin: at most 1/32 below
    assert (found <= exact).all()
    assert (found > exact / (1 + 1 / 32) - 1e-9).all()


@pytest.mark.parametrize("q", [0, 1, -0.5, 1.5])
def test_a_quantile_outside_of_zero_and_one_is_refused(both, q):
    with pytest.raises(InvalidInput, match=rf"^a quantile must lie between 0 and 1, got {q}$"):
        both[1].staleness_quantile(q)


def test_the_staleness_bins_are_exact_to_128_and_then_32_to_the_octave():
    edges = bin_edges()
    assert edges.size == STALENESS_BINS + 1
    assert edges[:130].tolist() == [*range(128), 128, 132]  # 128 (1 + 1/32) = 132
    assert np.allclose(edges[128 + 32 :] / edges[128:-32], 2, rtol=1e-15)


@pytest.mark.parametrize("replications", [1, 3, 12])
def test_one_seed_gives_the_same_bits_on_one_worker_and_on_several(replications):
    plan = plan_of(THREE, 15)
    one, two, three = (
        bits(measure(THREE, plan, 5000, replications=replications, seed=3, workers=workers)) for workers in (1, 2, 3)
    )
    assert one == two == three


def test_replications_of_one_seed_do_not_depend_on_their_number():
    plan = plan_of(THREE, 15)
    ten = measure(THREE, plan, 1000, replications=10, seed=3)
    eleven = measure(THREE, plan, 1000, replications=11, seed=3)
    added = eleven.staleness_bins - ten.staleness_bins
    assert added.min() >= 0
    assert added.sum() == 1000


def test_different_seeds_give_different_runs():
    plan = plan_of(THREE, 15)
    found = [measure(THREE, plan, 5000, seed=seed) for seed in range(5)]
    assert len({summary.time for summary in found}) == 5
    assert len({summary.staleness_bins.tobytes() for summary in found}) == 5


def test_the_clock_does_not_touch_who_is_served_next():
    # routing, service and clock have streams of their own: slower clients in proportion, the same order of tasks
    plan = Plan(THREE.name, THREE.count, plan_of(THREE, 15).sampling, 15)
    slower = measure(THREE.with_rates(THREE.rate / 4), plan, 5000, start="even", seed=3)
    same = measure(THREE, plan, 5000, start="even", seed=3)
    assert np.array_equal(slower.staleness_bins, same.staleness_bins)
    assert slower.time == pytest.approx(4 * same.time, rel=1e-12)


def test_many_groups_give_one_staleness_histogram_and_no_queue_tail():
    summary = measure(MANY, plan_of(MANY, 40), 10_000, seed=1)
    assert summary.staleness_bins.shape == (1, STALENESS_BINS)
    assert summary.staleness_bins.sum() == 10_000
    assert summary.queue_tail.size == 0
    assert summary.staleness.value.shape == (70,)


def test_sixty_four_groups_are_still_told_in_detail():
    fleet = Fleet.of_rates(np.geomspace(0.2, 50, 64))
    summary = measure(fleet, plan_of(fleet, 40), 10_000, seed=1)
    assert summary.staleness_bins.shape == (64, STALENESS_BINS)
    assert summary.queue_tail.shape == (64, 41)


def test_a_summary_tells_how_it_was_made():
    plan = plan_of(THREE, 15)
    summary = measure(THREE, plan, 1000, replications=3, start="routed", seed=9, warmup=50)
    assert (summary.fleet, summary.plan) == (THREE, plan)
    assert (summary.steps, summary.replications, summary.start, summary.seed) == (3000, 3, "routed", 9)
    assert (summary.warmup, summary.complete, summary.error_from) == (50, True, "batches")


def test_warmup_steps_are_done_in_addition_and_not_counted():
    plan = plan_of(THREE, 15)
    trace = simulate(THREE, plan, 3000, start="even", seed=7)
    summary = measure(THREE, plan, 2000, start="even", warmup=1000, seed=7)
    later = trace.applied & (trace.applied_step >= 1000)
    assert summary.steps == 2000
    assert summary.mean_staleness == pytest.approx((trace.applied_step - trace.dispatched_step)[later].mean())
    assert summary.time == pytest.approx(trace.applied_at[2999] - trace.applied_at[999], rel=1e-9)


def test_only_a_stationary_start_warms_up_unasked():
    plan = plan_of(THREE, 15)
    warmups = {start: measure(THREE, plan, 5000, start=start).warmup for start in ("even", "routed", "stationary")}
    assert warmups["even"] == warmups["routed"] == 0
    assert 100 < warmups["stationary"] < 5000
    assert measure(THREE, plan, 10).warmup == 10  # never more than the steps themselves


def test_fewer_steps_than_batches_still_give_a_summary():
    summary = measure(THREE, plan_of(THREE, 5), BATCHES - 7, start="even", seed=1)
    assert summary.steps == BATCHES - 7
    assert summary.throughput.error > 0


def test_batches_in_which_no_time_passes_count_like_all_others():
    # a thousand services of one unit of time each, all begun together: a thousand updates at 1, 2, 3, ...
    fleet = Fleet(("all",), [1000], [1.0], law=(Law("deterministic"),))
    pure = Scenario(Dispatcher("pure"))
    for warmup in (0, 100):
        summary = measure(fleet, Plan.uniform(fleet, 1000), 20_000, start="one-each", warmup=warmup, scenario=pure)
        assert summary.steps == summary.arrivals.sum() == 20_000
        assert summary.throughput.value == 1000
        assert summary.throughput.error > 0
        assert summary.queue.value == pytest.approx(1)


def test_a_run_in_which_no_time_passes_is_complete_and_has_no_throughput():
    fleet = Fleet(("all",), [1000], [1.0], law=(Law("deterministic"),))
    summary = measure(
        fleet, Plan.uniform(fleet, 1000), 500, start="one-each", warmup=100, scenario=Scenario(Dispatcher("pure"))
    )
    assert (summary.complete, summary.steps, summary.time) == (True, 500, 0.0)
    assert np.isnan(summary.throughput.value)
    assert np.isnan(summary.queue.value[0])
    assert summary.sojourn.value[0] == pytest.approx(1)


def test_one_observation_has_no_error_and_none_has_no_value():
    # every client gets its own task back: one does so at 1, 2, 3, ..., another at 400, the third not for ages
    rare = replace(Fleet.of(often=(1, 1.0), once=(1, 0.0025), never=(1, 1e-9)), law=(Law("deterministic"),) * 3)
    summary = measure(rare, Plan.uniform(rare, 3), 600, start="one-each", scenario=Scenario(Dispatcher("pure")))
    assert summary.arrivals.tolist() == [599, 1, 0]
    for estimate in (summary.staleness, summary.sojourn, summary.waiting):
        assert np.isfinite(estimate.value).tolist() == [True, True, False]
        assert np.isfinite(estimate.error).tolist() == [True, False, False]
    one = measure(THREE, plan_of(THREE, 5), 1, start="even", seed=1)  # by the jump chain, which adds up time in queues
    assert np.isfinite(one.sojourn.value).sum() == 1
    assert not np.isinf(one.sojourn.value).any()


def test_one_step_has_a_value_and_no_error():
    summary = measure(THREE, plan_of(THREE, 5), 1, start="even", seed=1)
    assert summary.arrivals.sum() == 1
    assert summary.mean_staleness == 0
    assert np.isfinite(summary.throughput.value)
    assert np.isnan(summary.throughput.error)
    assert np.isnan(summary.staleness.value).sum() == 2  # two groups have sent nothing back yet


def test_batches_shorter_than_the_memory_of_the_network_give_themselves_away():
    two = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    crowded = Plan.uniform(two, 400)
    short = measure(two, crowded, 6400, seed=1)  # batches of 200 steps, staleness up to thousands
    long = measure(two, Plan.uniform(two, 20), 1_000_000, seed=1)  # batches of 31 250 steps, staleness about 20
    assert short.batch_correlation > 0.6
    assert abs(long.batch_correlation) < 0.4
    assert np.isnan(measure(two, crowded, 100, replications=10).batch_correlation)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 1.5}, "steps must be a whole number of at least 1, got 1.5"),
        ({"steps": True}, "steps must be a whole number of at least 1, got True"),
        ({"steps": 10**19}, "steps must be at most 1,000,000,000,000,000, got 10,000,000,000,000,000,000"),
        (
            {"steps": 10, "warmup": 10**19},
            "warmup must be at most 1,000,000,000,000,000, got 10,000,000,000,000,000,000",
        ),
        ({"steps": 10, "seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"steps": 10, "replications": 0}, "replications must be a whole number of at least 1, got 0"),
        ({"steps": 10, "warmup": -1}, "warmup must be a whole number of at least 0, got -1"),
        ({"steps": 10, "warmup": 1.5}, "warmup must be a whole number of at least 0, got 1.5"),
    ],
)
def test_sizes_that_mean_nothing_are_refused(sizes, message):
    with pytest.raises(InvalidInput) as refusal:
        measure(THREE, plan_of(THREE, 5), **sizes)
    assert str(refusal.value) == message


def test_an_impossible_start_is_refused_before_anything_runs():
    with pytest.raises(InvalidInput, match=r"^start one-each needs concurrency <= clients, got 40 > 9; use even$"):
        measure(THREE, plan_of(THREE, 40), 10**12, start="one-each")
    with pytest.raises(InvalidInput, match=r"^start must be one of even, routed, stationary, one-each, got 'fair'$"):
        measure(THREE, plan_of(THREE, 40), 10**12, start="fair")


@pytest.mark.parametrize("replications", [2, 12])
def test_progress_ends_at_all_steps(replications):
    told = []
    measure(
        THREE,
        plan_of(THREE, 5),
        1000,
        replications=replications,
        warmup=100,
        workers=1,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (1100 * replications, 1100 * replications)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
