"""Theory against simulation: two roads to the same network, compared within four standard errors.

Two hundred replications of 100 000 steps each; the comments state the largest relative standard error reached.
"""

import numpy as np
import pytest

from sojourn import Fleet, Plan, analyze, measure
from sojourn.timing.simulate.jump_chain import CLASSES

QUANTITIES = ("throughput", "staleness", "queue", "utilisation", "sojourn", "waiting")

TWO = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
THREE = Fleet.of(fast=(4, 8.0), middle=(3, 2.0), slow=(2, 0.5))
FORTY = Fleet.of_rates(np.geomspace(0.2, 50, 40))

PLANS = {
    "two clusters, 20 tasks": (TWO, Plan.uniform(TWO, 20)),
    "two clusters, 1000 tasks": (TWO, Plan.uniform(TWO, 1000)),
    "three groups, each with a p of its own": (THREE, Plan.weighted(THREE, [3.0, 2.0, 0.6], 12)),
    "three groups, fewer tasks than clients": (THREE, Plan.weighted(THREE, [3.0, 2.0, 0.6], 5)),
    "forty distinct rates": (FORTY, Plan.weighted(FORTY, np.sqrt(FORTY.rate), 30)),
}
# relative standard errors that the simulation must reach, so that agreement means something
#   measured: .0017, .0057, .0034, .0028, .022 (waiting is the widest everywhere)
SHARPNESS = dict(zip(PLANS, (0.0025, 0.008, 0.005, 0.005, 0.03), strict=True))


def exact_values(fleet, plan):
    analysis = analyze(fleet, plan)
    return {name: analysis.staleness() if name == "staleness" else getattr(analysis, name) for name in QUANTITIES}


@pytest.mark.parametrize("case", PLANS)
def test_simulated_means_are_the_exact_ones(case):
    fleet, plan = PLANS[case]
    summary = measure(fleet, plan, 100_000, replications=200, start="stationary", seed=1)
    assert summary.error_from == "replications"
    for name, exact in exact_values(fleet, plan).items():
        estimate = getattr(summary, name)
        assert (estimate.error < SHARPNESS[case] * exact).all(), name
        assert (abs(estimate.value - exact) < 4 * estimate.error).all(), name


def test_forty_distinct_rates_need_composition_and_rejection():
    assert np.unique(FORTY.rate).size > CLASSES


def test_many_rates_in_one_class_and_one_far_away_are_simulated_exactly():
    # twenty rates within one percent share a class with a bound of their own; the far one stretches the range
    fleet = Fleet.of_rates(np.append(np.linspace(1.0, 1.01, 20), 1e4))
    plan = Plan.weighted(fleet, np.append(np.linspace(1.0, 2.0, 20), 30.0), 25)
    summary = measure(fleet, plan, 50_000, replications=200, seed=2)
    for name, exact in exact_values(fleet, plan).items():  # standard error .8% for the queues of the near ones
        estimate = getattr(summary, name)
        assert (abs(estimate.value - exact) < 4 * estimate.error).all(), name


@pytest.mark.parametrize("case", ["two clusters, 20 tasks", "three groups, each with a p of its own"])
def test_the_simulated_queue_tail_is_the_exact_one(case):
    fleet, plan = PLANS[case]
    analysis = analyze(fleet, plan)
    tails = np.array([measure(fleet, plan, 50_000, seed=seed).queue_tail for seed in range(60)])
    mean, error = tails.mean(axis=0), tails.std(axis=0, ddof=1) / np.sqrt(len(tails))
    assert tails.shape[1:] == (fleet.groups, plan.concurrency + 1)
    for group, name in enumerate(fleet.name):
        exact = np.cumsum(analysis.queue_distribution(name)[::-1])[::-1]
        seen = exact > 1e-4  # rarer levels are too seldom seen for a standard error
        seen[0] = False  # P(X >= 0) = 1
        assert seen.sum() > 3
        # standard error at most .0014 at level 1, and 6% of the value where that is 1e-3
        assert (abs(mean[group] - exact)[seen] < 4 * error[group][seen]).all()
        assert mean[group][0] == 1


def test_a_lone_task_is_never_stale_and_never_waits():
    plan = Plan.weighted(THREE, [3.0, 2.0, 0.6], 1)
    summary = measure(THREE, plan, 100_000, replications=100, seed=3)
    exact = exact_values(THREE, plan)
    assert summary.staleness.value.tolist() == [0, 0, 0]
    assert summary.oldest.tolist() == [0, 0, 0]
    assert summary.waiting.value == pytest.approx([0, 0, 0], abs=1e-9)
    for name in ("throughput", "queue", "utilisation", "sojourn"):  # standard error .13%
        estimate = getattr(summary, name)
        assert (abs(estimate.value - exact[name]) < 4 * estimate.error).all(), name


def test_a_lone_client_is_always_busy_and_every_task_waits_for_all_others():
    fleet = Fleet.of(only=(1, 2.0))
    summary = measure(fleet, Plan.uniform(fleet, 7), 100_000, replications=100, seed=4)
    assert summary.staleness.value.tolist() == [6]
    assert summary.oldest.tolist() == [6]
    assert summary.utilisation.value == pytest.approx(1, rel=1e-12)
    assert summary.queue.value == pytest.approx(7, rel=1e-12)
    for name, exact in (("throughput", 2.0), ("sojourn", 3.5), ("waiting", 3.0)):  # standard error .04%
        estimate = getattr(summary, name)
        assert abs(estimate.value - exact) < 4 * estimate.error, name


def test_mean_staleness_over_all_updates_is_c_minus_one():
    for seed, (fleet, plan) in enumerate(PLANS.values()):
        summary = measure(fleet, plan, 50_000, replications=20, seed=seed)
        # the sum differs from (C - 1) T by the ages of the C tasks in flight at both ends only
        assert summary.mean_staleness == pytest.approx(plan.concurrency - 1, rel=0.003)


@pytest.mark.parametrize(
    ("replications", "steps", "source"),
    [(20, 5000, "replications"), (1, 100_000, "batches"), (3, 20_000, "batches")],
)
@pytest.mark.slow
def test_standard_errors_are_honest(replications, steps, source):
    plan = PLANS["three groups, each with a p of its own"][1]
    exact = analyze(THREE, plan)
    scores = []
    for seed in range(80):
        summary = measure(THREE, plan, steps, replications=replications, start="even", warmup=2000, seed=seed)
        assert summary.error_from == source
        staleness = (summary.staleness.value - exact.staleness()) / summary.staleness.error
        scores.append([staleness, (summary.queue.value - exact.queue) / summary.queue.error])
    # with true errors 94% to 95% of the scores lie within two (Student, 19 to 95 degrees of freedom); the standard
    # error of such a share over 80 seeds is 2.6%
    inside = (np.abs(scores) < 2).mean(axis=0)
    assert inside.min() > 0.85
    assert inside.max() < 1


def test_from_an_even_start_the_papers_fleet_is_still_settling_after_a_million_steps():
    # exact, stationary: 48.79 and 1949.2; a discrete-event simulation of a million steps from an even start gave
    # 54.7 +- 1.5 and 1942 +- 2; here 54 +- .3 and 1943 +- .4
    summary = measure(TWO, PLANS["two clusters, 1000 tasks"][1], 1_000_000, replications=20, start="even", seed=5)
    assert summary.warmup == 0
    assert np.all(abs(summary.staleness.value - [54.7, 1942]) < 4 * np.hypot(summary.staleness.error, [1.5, 2]))
    assert summary.staleness.value[0] > 48.79 + 4 * summary.staleness.error[0]
