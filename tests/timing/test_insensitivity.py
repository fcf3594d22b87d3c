"""With a cap of 1 only mean durations count, whatever the service law; with a cap of 2 the law matters."""

from dataclasses import replace

import numpy as np
import pytest

from small_runs import with_law
from sojourn import Fleet, Plan, analyze, measure
from sojourn.scenario import Dispatcher, Scenario

FLEET = Fleet.of(fast=(12, 4.0), slow=(6, 0.7))
LINKED = replace(FLEET, uplink_rate=np.array([9.0, 3.0]), downlink_rate=np.array([20.0, 5.0]))
LAWS = ("deterministic", "lognormal(sigma=1)", "hyperexponential(scv=4)", "empirical(0.2 0.4 0.6 2.8)")
RUN = {"steps": 15_000, "replications": 24, "seed": 5}


def off(fleet, plan, **options):
    """Standard errors between theory and 24 replications, of throughput, staleness and time busy."""
    exact, seen = analyze(fleet, plan), measure(fleet, plan, **RUN, **options)
    pairs = [(seen.throughput, exact.throughput), (seen.staleness, exact.staleness())]
    pairs.append((seen.utilisation, exact.utilisation))
    return np.concatenate([np.atleast_1d((one.value - theory) / one.error) for one, theory in pairs])


@pytest.mark.parametrize("fleet", [FLEET, LINKED], ids=["no links", "links"])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 5.0)], ids=["uniform", "skewed"])
@pytest.mark.parametrize("law", LAWS)
def test_with_a_cap_of_1_every_law_has_the_same_exact_means_within_four_standard_errors(law, weights, fleet):
    served = with_law(fleet, law)
    plan = Plan.weighted(served, weights, 9, cap=1)
    assert analyze(served, plan).exact_for_any_law
    assert np.abs(off(served, plan, start="stationary")).max() < 4


@pytest.mark.parametrize("law", LAWS)
def test_with_a_cap_of_2_the_law_matters_and_analyze_says_so(law):
    served = with_law(FLEET, law)
    plan = Plan.uniform(served, 18, cap=2)
    exact = analyze(served, plan)
    assert not exact.exact
    assert not exact.exact_for_any_law
    assert np.abs(off(served, plan, start="even", warmup=3000)).max() > 6


def test_deterministic_clients_in_full_employment_are_within_one_update_of_their_share():
    served = with_law(FLEET, "deterministic")
    plan = Plan.uniform(served, served.clients, cap=1)
    exact = analyze(served, plan)
    from sojourn import simulate

    trace = simulate(served, plan, 4000, start="even", seed=1)
    time = trace.applied_at[trace.applied].max()
    counts = np.bincount(trace.client[trace.applied], minlength=served.clients)
    expected = exact.share[served.group_of_client] * exact.throughput * time
    assert np.abs(counts - expected).max() <= 1 + 1e-9


def test_regular_clients_that_start_together_stay_in_step_and_are_another_network():
    fleet = with_law(Fleet.of(fast=(9, 8.0), slow=(3, 1.0)), "deterministic")
    plan = Plan.uniform(fleet, 6, cap=1)
    together = np.abs(off(fleet, plan, start="even", warmup=500))
    assert together.max() > 10  # what theory means is the network that has forgotten its start; this one never does
    assert np.abs(off(fleet, plan, start="stationary")).max() < 4


def test_idle_and_finisher_are_words_for_a_cap_of_1():
    from sojourn.timing.expected import expected

    uniform, idle = Plan.uniform(FLEET, 9), Scenario(Dispatcher("idle"))
    assert expected(FLEET, uniform, idle).throughput == analyze(FLEET, Plan.uniform(FLEET, 9, cap=1)).throughput
    full, pure = Plan.uniform(FLEET, 18), Scenario(Dispatcher("pure"))
    assert expected(FLEET, full, pure).throughput == pytest.approx((FLEET.count * FLEET.rate).sum())
    assert expected(FLEET, uniform, Scenario()).throughput == analyze(FLEET, uniform).throughput
