"""How staleness settles after the start: the paper's stationarity figure, five clients of ten ten times faster."""

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Plan, analyze, simulate, transient

FLEET = Fleet.of(fast=(5, 10.0), slow=(5, 1.0))
PLAN = Plan.uniform(FLEET, 10)
CONDITIONAL, INDICATOR = 0.730288, 0.0730288  # exact, fast client


@pytest.fixture(scope="module")
def seeds():
    """Curves of 25 seeds, 300 runs each, of 400 steps from an even start."""
    return [transient(FLEET, PLAN, 400, replications=300, seed=seed) for seed in range(25)]


def mean_and_error(values):
    return np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(len(values))


def test_the_expected_values_are_those_of_the_theory():
    analysis = analyze(FLEET, PLAN)
    assert analysis.staleness()[0] == pytest.approx(CONDITIONAL, abs=5e-7)
    assert analysis.staleness("indicator")[0] == pytest.approx(INDICATOR, abs=5e-8)


def test_the_curves_settle_at_the_exact_values(seeds):
    analysis = analyze(FLEET, PLAN)
    for name in ("conditional", "indicator"):
        exact = analysis.staleness(name)[0]
        mean, error = mean_and_error([getattr(curves, name)[0, 99:300].mean() for curves in seeds])
        assert error < 0.005 * exact  # reached: .4%
        assert abs(mean - exact) < 4 * error


def test_after_fifty_steps_the_start_is_forgotten_to_two_percent(seeds):
    mean, error = mean_and_error([curves.conditional[0, 49:100].mean() for curves in seeds])
    assert error < 0.008 * CONDITIONAL  # reached: .5%
    assert mean == pytest.approx(CONDITIONAL, rel=0.02 + 0.016)


def test_slow_tasks_settle_too_when_the_run_is_long_enough():
    exact = analyze(FLEET, PLAN).staleness()[1]
    curves = [transient(FLEET, PLAN, 800, replications=100, seed=seed).conditional[1] for seed in range(20)]
    mean, error = mean_and_error([curve[199:400].mean() for curve in curves])
    assert error < 0.02 * exact
    assert abs(mean - exact) < 4 * error


def test_from_an_even_start_fast_clients_begin_with_older_tasks(seeds):
    # all ten clients are busy at first; later the tasks gather at the slow ones and the fast ones are mostly idle
    mean, error = mean_and_error([curves.conditional[0] for curves in seeds])
    assert mean[0] > CONDITIONAL + 10 * error[0]
    assert mean[0] > mean[9] > mean[39]


@pytest.mark.slow
def test_a_stationary_start_is_stationary_in_time_and_not_yet_in_steps():
    # Steps see the network just after a service, weighted by the rate of the busy clients: what a dispatched task
    # finds at its first step from pi_C is not yet what it finds in the long run (first value .529, exact .7303).
    curves = transient(FLEET, PLAN, 150, replications=4000, start="stationary", seed=1)
    beginning, error = curves.conditional[0], curves.conditional_error[0]
    assert beginning[0] < CONDITIONAL - 4 * error[0]
    assert beginning[0] == pytest.approx(0.529, abs=4 * error[0])
    assert beginning[49:90].mean() == pytest.approx(CONDITIONAL, rel=0.03)


def test_standard_errors_of_the_curves_are_those_between_seeds(seeds):
    for name in ("conditional", "indicator"):
        told = np.mean([getattr(curves, name + "_error")[0, 100:300] for curves in seeds])
        seen = np.std([getattr(curves, name)[0, 100:300] for curves in seeds], axis=0, ddof=1).mean()
        assert told == pytest.approx(seen, rel=0.05)


def test_indicator_and_conditional_are_one_curve_told_twice(seeds):
    # by group: indicator * clients = conditional * (share of runs that sent task k to the group)
    curves = seeds[0]
    share = (curves.indicator * FLEET.count[:, None])[:, :300] / curves.conditional[:, :300]
    assert np.allclose(share * 300, np.round(share * 300), atol=1e-9)
    assert np.allclose(share.sum(axis=0), 1)


def test_the_curves_are_the_traces_averaged():
    curves = transient(FLEET, PLAN, 50, replications=2, seed=3)
    trace = simulate(FLEET, PLAN, 50, start="even", seed=3)  # the first of the two runs
    group = FLEET.group_of_client[trace.client]
    age = np.where(trace.applied, trace.applied_step, 50) - trace.dispatched_step
    first = np.full((2, 50), np.nan)
    later = trace.dispatched_step > 0
    first[group[later], trace.dispatched_step[later] - 1] = age[later]
    # where both runs sent task k to different groups, the conditional mean of a group is that of one run
    alone = np.isfinite(curves.conditional).all(axis=0)
    assert alone.sum() > 10
    mine = np.isfinite(first[:, alone])
    assert np.array_equal(curves.conditional[:, alone][mine], first[:, alone][mine])
    assert np.array_equal(curves.indicator[:, alone][mine], first[:, alone][mine] / 2 / 5)


def test_a_task_not_back_at_the_end_counts_with_the_steps_it_has_seen():
    curves = transient(FLEET, PLAN, 30, replications=50, seed=1)
    assert np.nanmax(curves.conditional[:, -1]) == 0  # sent at the last step: nothing happened since
    assert (np.nanmax(curves.conditional, axis=0) <= 30 - np.arange(1, 31)).all()


def test_one_seed_gives_the_same_bits_on_one_worker_and_on_two():
    one, two = (transient(FLEET, PLAN, 100, replications=300, seed=2, workers=workers) for workers in (1, 2))
    for name in ("conditional", "conditional_error", "indicator", "indicator_error"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()


def test_different_seeds_give_different_curves(seeds):
    assert len({curves.indicator.tobytes() for curves in seeds}) == len(seeds)


def test_progress_counts_replications():
    told = []
    transient(FLEET, PLAN, 10, replications=150, progress=lambda done, total: told.append((done, total)))
    assert told == [(64, 150), (128, 150), (150, 150)]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 10, "seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"steps": 10, "replications": 0}, "replications must be a whole number of at least 1, got 0"),
        ({"steps": 10, "replications": 1}, "replications must be at least 2 for a standard error, got 1"),
        ({"steps": 10, "start": "fair"}, "start must be one of even, routed, stationary, one-each, got 'fair'"),
    ],
)
def test_sizes_that_mean_nothing_are_refused(sizes, message):
    with pytest.raises(InvalidInput) as refusal:
        transient(FLEET, PLAN, **sizes)
    assert str(refusal.value) == message


def test_a_capped_network_forgets_its_start():
    fleet = Fleet.of(fast=(9, 8.0), slow=(3, 1.0))
    plan = Plan.uniform(fleet, 6, cap=1)
    exact = analyze(fleet, plan).staleness()
    for start in ("even", "stationary"):
        found = transient(fleet, plan, steps=400, replications=600, start=start, seed=1)
        late = found.conditional[:, 40:120].mean(axis=1)  # the last tasks of a run are cut off
        error = np.sqrt(np.square(found.conditional_error[:, 40:120]).mean(axis=1))
        assert np.abs(late - exact).max() < 4 * error.max()
