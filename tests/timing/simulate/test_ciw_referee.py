"""An independent referee: Ciw simulates the same closed network event by event, and finds the exact values."""

from dataclasses import replace

import ciw
import numpy as np
import pytest

from sojourn import Fleet, Law, Plan, analyze, measure

RATE = [1.0, 2.5, 4.0]
SAMPLING = [0.2, 0.5, 0.3]
TASKS = 4
FLEET = Fleet.of_rates(RATE)
PLAN = Plan(FLEET.name, FLEET.count, np.array(SAMPLING), TASKS)

SEEDS, TIME, FORGOTTEN = 20, 1500.0, 50.0


EXPONENTIAL = [ciw.dists.Exponential(rate=rate) for rate in RATE]
OTHERS = {
    "deterministic": [ciw.dists.Deterministic(value=1 / rate) for rate in RATE],
    "lognormal(sigma=1)": [ciw.dists.Lognormal(mean=-np.log(rate) - 0.5, sd=1.0) for rate in RATE],
}


def closed_network(service):
    """All tasks enter at client 0 at time 0; every row of the routing matrix is p, so nobody ever leaves."""
    never = ciw.dists.Sequential([float("inf")])
    return ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([0.0] * TASKS + [float("inf")]), never, never],
        service_distributions=service,
        routing=[SAMPLING] * len(RATE),
        number_of_servers=[1] * len(RATE),
    )


def observed(seed, service=EXPONENTIAL):
    """Throughput, and mean staleness and mean sojourn by client, of one run; the beginning is left out."""
    ciw.seed(seed)
    simulation = ciw.Simulation(closed_network(service))
    simulation.simulate_until_max_time(TIME)
    records = simulation.get_all_records()
    assert len({record.id_number for record in records}) == TASKS
    node = np.array([record.node for record in records]) - 1
    dispatched = np.array([record.arrival_date for record in records])
    applied = np.array([record.exit_date for record in records])
    steps = np.sort(applied)
    # updates strictly between: all up to dispatch came before, the task's own does not count
    before = np.searchsorted(steps, dispatched, side="right")
    staleness = np.searchsorted(steps, applied, side="left") - before
    kept = applied > FORGOTTEN
    means = [
        values[kept & (node == client)].mean() for values in (staleness, applied - dispatched) for client in range(3)
    ]
    return np.array([kept.sum() / (TIME - FORGOTTEN), *means])


@pytest.fixture(scope="module")
def referee():
    """Means and standard errors over independent runs, about 6000 steps each."""
    runs = np.array([observed(seed) for seed in range(SEEDS)])
    return runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(SEEDS)


def test_ciw_finds_the_exact_throughput_staleness_and_sojourn(referee):
    analysis = analyze(FLEET, PLAN)
    exact = np.array([analysis.throughput, *analysis.staleness(), *analysis.sojourn])
    mean, error = referee
    assert (error < 0.03 * exact).all()  # reached: .4% of the throughput, 1% to 1.5% of staleness and sojourn
    assert (abs(mean - exact) < 4 * error).all()


def test_ciw_and_the_jump_chain_agree(referee):
    summary = measure(FLEET, PLAN, 50_000, replications=20, seed=1)
    estimates = (summary.throughput, summary.staleness, summary.sojourn)
    ours = np.concatenate([np.atleast_1d(estimate.value) for estimate in estimates])
    our_error = np.concatenate([np.atleast_1d(estimate.error) for estimate in estimates])
    mean, error = referee
    assert (abs(mean - ours) < 4 * np.hypot(error, our_error)).all()


@pytest.mark.slow
@pytest.mark.parametrize("text", OTHERS)
def test_ciw_and_the_event_engine_agree_where_no_formula_is_exact(text):
    fleet = replace(FLEET, law=(Law.parse(text),) * 3)
    plan = replace(PLAN, fleet_hash=None)
    summary = measure(fleet, plan, 50_000, start="even", warmup=500, replications=20, seed=1)
    estimates = (summary.throughput, summary.staleness, summary.sojourn)
    ours = np.concatenate([np.atleast_1d(estimate.value) for estimate in estimates])
    our_error = np.concatenate([np.atleast_1d(estimate.error) for estimate in estimates])
    runs = np.array([observed(seed, OTHERS[text]) for seed in range(SEEDS)])
    mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    assert (abs(mean - ours) < 4 * np.hypot(error, our_error)).all()
    exact = analyze(fleet, plan)
    assert abs(exact.throughput - ours[0]) > 10 * our_error[0]  # the law matters
