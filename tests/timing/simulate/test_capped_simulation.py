"""Simulated capped networks meet the exact ones: in both engines, for caps, weights, laws and links of many kinds."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from sojourn import Availability, Dispatcher, Fleet, InvalidInput, Law, Plan, Scenario, measure, simulate, transient
from sojourn.timing.exact.capped import capped_network
from sojourn.timing.shares import Shares
from sojourn.timing.simulate import one_each
from sojourn.timing.simulate.runners import runner
from sojourn.timing.simulate.start import place

ERRORS = 4.0
FLEET = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
HALVES = Fleet.of(fast=(50, 1 / 2), slow=(50, 1 / 16))
FIVE = Fleet.of(a=(1, 5.0), b=(1, 2.0), c=(1, 1.0), d=(1, 1.0), e=(1, 0.3))
MIXED = Plan.of(FIVE, {"a": 0.3, "b": 0.1, "c": 0.2, "d": 0.25, "e": 0.15}, 4, cap=[1, 3, 2, 1, 2])
IDLE, PURE = Scenario(Dispatcher("idle")), Scenario(Dispatcher("pure"))


def assert_within(found, expected):
    distance = np.abs(np.asarray(found.value) - np.asarray(expected))
    assert (distance <= ERRORS * np.asarray(found.error) + 1e-9).all(), distance / np.asarray(found.error)


def assert_meets(summary, throughput, staleness, share):
    """Throughput, mean staleness, time that clients are busy and shares of all updates within four standard errors."""
    assert_within(summary.throughput, throughput)
    assert_within(summary.staleness, staleness)
    assert_within(summary.utilisation, throughput * np.asarray(share) / summary.fleet.rate)
    found = summary.arrivals / summary.fleet.count / summary.arrivals.sum()
    error = np.array([np.sqrt(1 + law.scv) for law in summary.fleet.law]) / np.sqrt(summary.arrivals)  # of renewals
    assert (np.abs(found / share - 1) <= ERRORS * error).all(), (found / share - 1) / error


def most_held(trace):
    """The most tasks that each client holds at once; of equal times those that end come first."""
    ended = np.where(np.isnan(trace.applied_at), np.inf, trace.applied_at)
    client = np.concatenate([trace.client, trace.client])
    time = np.concatenate([ended, trace.dispatched_at])
    change = np.concatenate([np.full(len(trace), -1), np.full(len(trace), 1)])
    most = {}
    held = {}
    for row in np.lexsort((change, time)):
        held[client[row]] = held.get(client[row], 0) + change[row]
        most[client[row]] = max(most.get(client[row], 0), held[client[row]])
    return most


@pytest.mark.parametrize("engine", ["jump chain", "events"])
@pytest.mark.parametrize(
    ("tasks", "throughput", "staleness", "share"),
    [
        (10, 53.3576289541, (5.91289356674, 49.1915024889), (0.0103185444495, 0.00713309995432)),
        (50, 338.866946392, (41.3808430202, 337.017362906), (0.0108247550824, 0.00257720425836)),
        (90, 651.048152623, (80.3826055382, 649.944882803), None),
        (100, 730.0, (90.25, 729.0), (8 / 730, 1 / 730)),
    ],
)
def test_a_cap_of_one_meets_the_check_values(engine, tasks, throughput, staleness, share):
    plan = Plan.uniform(FLEET, tasks, cap=1)
    share = capped_network(FLEET, [1, 1], tasks, 1).share if share is None else share
    summary = measure(FLEET, plan, 20_000, replications=20, seed=tasks, engine=engine)
    assert summary.engine == engine
    assert_meets(summary, throughput, staleness, share)


@pytest.mark.parametrize("engine", ["jump chain", "events"])
def test_weights_by_speed_keep_all_clients_equally_busy(engine):
    summary = measure(FLEET, Plan.by_speed(FLEET, 50, cap=1), 20_000, replications=20, seed=1, engine=engine)
    assert_meets(summary, 365.0, (44.6691919192, 360.818181818), FLEET.rate / 730)


@pytest.mark.parametrize(
    ("cap", "throughput", "staleness"),
    [(2, 10.9081223365, (26.8085832772, 301.410862144)), (3, 6.59731089661, (15.3099532827, 226.207623387))],
)
def test_caps_of_two_and_three_meet_the_check_values(cap, throughput, staleness):
    summary = measure(HALVES, Plan.uniform(HALVES, 100, cap=cap), 20_000, replications=20, seed=cap)
    assert_meets(summary, throughput, staleness, capped_network(HALVES, [1, 1], 100, cap).share)


def test_mixed_caps_and_weights_meet_the_check_values():
    share = (0.356872304519, 0.141023813988, 0.240915057191, 0.175548471779, 0.085640352522)
    staleness = (0.341109709962, 1.30113817679, 3.06836861768, 2.52403332621, 17.6607111578)
    assert_meets(measure(FIVE, MIXED, 10_000, replications=20, seed=3), 3.38036560939, staleness, share)


def test_links_count_as_places():
    fleet = Fleet(
        ("a", "b", "c"), [1, 1, 1], [2, 1, 0.5], downlink_rate=[1 / 0.3, 5, 1], uplink_rate=[1 / 0.7, 10, 2.5]
    )
    plan = Plan.of(fleet, {"a": 0.5, "b": 0.2, "c": 0.3}, 4, cap=[2, 1, 3])
    summary = measure(fleet, plan, 10_000, replications=20, start="even", warmup=1000, seed=4)
    flow = summary.arrivals / summary.time
    assert flow == pytest.approx((0.7649, 0.2917, 0.4478), rel=0.02)
    assert flow * summary.sojourn.value == pytest.approx((1.2163, 0.3793, 2.4045), rel=0.02)
    trace = simulate(fleet, plan, 2000, start="even", seed=1)
    assert most_held(trace) == {0: 2, 1: 1, 2: 3}


@pytest.mark.parametrize("law", ["deterministic", "lognormal(sigma=1)", "hyperexponential(scv=4)"])
@pytest.mark.parametrize("links", [False, True])
def test_a_cap_of_one_is_exact_for_any_law_of_service(law, links):
    rate = np.array([20.0, 4.0]) if links else np.array([np.inf, np.inf])
    fleet = replace(FLEET, law=(Law.parse(law),) * 2, uplink_rate=rate, downlink_law=(Law.parse("gamma(shape=2)"),) * 2)
    fleet = replace(fleet, downlink_rate=rate)
    exact = capped_network(fleet, [1, 1], 50, 1)
    summary = measure(fleet, Plan.uniform(fleet, 50, cap=1), 10_000, replications=20, seed=5)
    assert_meets(summary, exact.throughput, exact.staleness, exact.share)


CASES = {
    "cap 1, jump chain": (FLEET, Plan.uniform(FLEET, 50, cap=1), "jump chain", Scenario()),
    "cap 1, events": (FLEET, Plan.by_speed(FLEET, 50, cap=1), "events", Scenario()),
    "full": (FLEET, Plan.uniform(FLEET, 100, cap=1), "events", Scenario()),
    "cap 3": (HALVES, Plan.uniform(HALVES, 100, cap=3), "events", Scenario()),
    "mixed": (FIVE, MIXED, "events", Scenario()),
    "some without a cap": (FIVE, Plan.uniform(FIVE, 12, cap=[1, None, 2, 1, 3]), "events", Scenario()),
    "idle": (FLEET, Plan.by_speed(FLEET, 50), "events", IDLE),
    "losses": (
        FLEET,
        Plan.uniform(FLEET, 120, cap=2),
        "events",
        Scenario(availability=(Availability.parse("churn(on=2, off=1, leave=lose, loss=0.1)"),)),
    ),
    "a busy server": (FLEET, Plan.uniform(FLEET, 120, cap=2), "events", Scenario(server_rate=100.0)),
}


@pytest.mark.parametrize("start", ["even", "routed"])
@pytest.mark.parametrize("name", list(CASES))
def test_nobody_ever_holds_more_than_its_cap_and_c_tasks_are_in_flight(name, start):
    fleet, plan, engine, scenario = CASES[name]
    trace = simulate(fleet, plan, 3000, start=start, seed=7, engine=engine, scenario=scenario)
    cap = np.ones(fleet.groups) if scenario.dispatcher.name == "idle" else plan.cap
    for client, most in most_held(trace).items():
        assert most <= cap[fleet.group_of_client[client]]
    ended = ~np.isnan(trace.applied_at)
    assert (~ended).sum() == plan.concurrency
    assert np.array_equal(np.sort(trace.dispatched_at)[plan.concurrency :], np.sort(trace.applied_at[ended]))


@pytest.mark.parametrize("start", ["even", "routed", "stationary"])
@pytest.mark.parametrize("name", ["cap 3", "mixed", "some without a cap", "full"])
def test_no_start_puts_more_at_a_client_than_its_cap(name, start):
    fleet, plan, _, _ = CASES[name]
    for seed in range(20):
        queues = place(start, fleet, plan, np.random.default_rng(seed))
        assert queues.sum() == plan.concurrency
        assert (queues <= np.repeat(plan.cap, fleet.count)).all()


def stationary_law(theta, cap, tasks):
    """Probability of each state of a tiny network, by counting all of them."""
    states = [x for x in product(*(range(int(b) + 1) for b in cap)) if sum(x) == tasks]
    weight = np.array([np.prod(np.asarray(theta) ** np.array(x)) for x in states])
    return states, weight / weight.sum()


def chi_square(states, law, drawn):
    counted = np.array([drawn.count(state) for state in states])
    return float(((counted - len(drawn) * law) ** 2 / (len(drawn) * law)).sum()), len(states) - 1


def test_a_stationary_start_draws_every_state_of_a_tiny_network_as_often_as_it_occurs():
    states, law = stationary_law(MIXED.sampling / FIVE.rate, MIXED.cap, 4)
    rng = np.random.default_rng(1)
    drawn = [tuple(place("stationary", FIVE, MIXED, rng).tolist()) for _ in range(4000)]
    found, freedom = chi_square(states, law, drawn)
    assert found < freedom + 5 * np.sqrt(2 * freedom)


def test_a_stationary_start_that_draws_some_and_keeps_others_back_has_the_same_law(monkeypatch):
    monkeypatch.setattr("sojourn.timing.exact.capped_draw._TABLE", 10)
    states, law = stationary_law(MIXED.sampling / FIVE.rate, MIXED.cap, 4)
    rng = np.random.default_rng(2)
    drawn = [tuple(place("stationary", FIVE, MIXED, rng).tolist()) for _ in range(4000)]
    found, freedom = chi_square(states, law, drawn)
    assert found < freedom + 5 * np.sqrt(2 * freedom)


def brute_force(rate, weight, tasks):
    """Throughput and share of each client of the chain with a cap of 1, from its generator over all busy sets."""
    states = [x for x in product((0, 1), repeat=len(rate)) if sum(x) == tasks]
    place_of = {state: place for place, state in enumerate(states)}
    q = np.zeros((len(states), len(states)))
    for state in states:
        for i in np.flatnonzero(state):
            idle = [j for j in range(len(rate)) if not state[j] or j == i]
            for j in idle:
                after = list(state)
                after[i] -= 1
                after[j] += 1
                q[place_of[state], place_of[tuple(after)]] += rate[i] * weight[j] / sum(weight[k] for k in idle)
    q -= np.diag(q.sum(axis=1))
    pi = np.linalg.lstsq(np.vstack([q.T, np.ones(len(states))]), np.append(np.zeros(len(states)), 1), rcond=None)[0]
    flow = np.array(rate) * (pi @ np.array(states))
    return flow.sum(), flow / flow.sum()


@pytest.mark.parametrize("engine", ["jump chain", "events"])
def test_a_tiny_network_meets_its_generator_by_brute_force(engine):
    rate, weight = [5.0, 2.0, 1.0, 0.3], [1.0, 3.0, 0.5, 2.0]
    fleet = Fleet.of_rates(rate)
    flow, share = brute_force(rate, weight, 2)
    summary = measure(
        fleet, Plan.weighted(fleet, weight, 2, cap=1), 20_000, start="even", warmup=200, replications=20, engine=engine
    )
    assert_within(summary.throughput, flow)
    assert summary.arrivals / summary.arrivals.sum() == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize("engine", ["jump chain", "events"])
def test_many_distinct_rates_and_weights_meet_the_exact_network(engine):
    rng = np.random.default_rng(3)
    fleet = Fleet.of_rates(rng.lognormal(sigma=1.5, size=60))
    plan = Plan.weighted(fleet, rng.lognormal(sigma=1.5, size=60), 30, cap=1)
    exact = capped_network(fleet, plan.sampling, 30, 1)
    summary = measure(fleet, plan, 10_000, replications=60, seed=8, engine=engine)
    assert_meets(summary, exact.throughput, exact.staleness, exact.share)


def test_the_share_of_a_client_is_what_the_trace_keeps():
    trace = simulate(FIVE, MIXED, 500, seed=1)
    exact = capped_network(FIVE, MIXED.sampling, 4, MIXED.cap).share
    assert trace.metadata["prob"] == "exact"
    assert trace.prob == pytest.approx(exact[trace.client], rel=1e-12)
    by_word = simulate(FLEET, Plan.uniform(FLEET, 50), 500, start="even", scenario=IDLE)
    assert by_word.prob == pytest.approx(
        np.where(by_word.client < 90, 0.0108247550824, 0.00257720425836), rel=1e-9
    )  # as with the cap
    finisher = simulate(FLEET, Plan.uniform(FLEET, 100), 500, start="even", scenario=PURE)
    assert finisher.prob == pytest.approx(FLEET.rate[FLEET.group_of_client[finisher.client]] / 730)
    assert simulate(FLEET, Plan.uniform(FLEET, 100), 500).metadata["prob"] == "exact"


def test_tasks_that_stay_with_half_the_clients_give_shares_to_these():
    fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    trace = simulate(fleet, Plan.uniform(fleet, 2), 20_000, start="even", seed=3, scenario=PURE)
    share = np.bincount(trace.client[trace.applied], minlength=4) / trace.applied.sum()
    assert trace.metadata["prob"] == "exact"
    for client in np.flatnonzero(share):
        assert trace.prob[trace.client == client][0] == pytest.approx(share[client], rel=0.05)


def test_where_no_share_is_known_it_is_estimated_from_what_was_received_before():
    fleet = replace(HALVES, law=(Law.parse("lognormal(sigma=1)"),) * 2)
    trace = simulate(fleet, Plan.uniform(fleet, 100, cap=2), 20_000, start="even", seed=1)
    assert trace.metadata["prob"] == "estimated"
    applied = trace.client[trace.applied]
    share = np.bincount(applied, minlength=100) / applied.size
    late = trace.dispatched_step > 19_000
    assert np.mean(trace.prob[late] / share[trace.client[late]]) == pytest.approx(1, rel=0.03)
    prior = Shares(fleet, Plan.uniform(fleet, 100, cap=2), Scenario(), np.ones(100)).by_group
    for row in np.flatnonzero(trace.applied_step >= 0)[[100, 5000, 15_000]]:
        client, sent = trace.client[row], trace.dispatched_step[row]
        received = (applied[:sent] == client).sum()
        guess = prior[fleet.group_of_client[client]] * 100
        assert trace.prob[row] == pytest.approx((received + guess) / (sent + 100), rel=1e-12)


def test_an_estimate_does_not_know_the_future():
    scenario = Scenario(server_rate=200.0)
    short, long = (
        simulate(FLEET, Plan.uniform(FLEET, 50, cap=1), steps, start="even", seed=2, scenario=scenario)
        for steps in (500, 5000)
    )
    assert short.metadata["prob"] == "estimated"
    assert short.prob[:500].tobytes() == long.prob[:500].tobytes()


def test_the_large_network_is_a_good_guess_of_the_shares():
    plan = Plan.uniform(HALVES, 100, cap=2)
    guess = Shares(HALVES, plan, Scenario(server_rate=1e9), np.ones(100)).by_group
    assert guess == pytest.approx(capped_network(HALVES, [1, 1], 100, 2).share, rel=0.01)
    assert (HALVES.count * guess).sum() == pytest.approx(1)


def test_a_cap_that_never_binds_changes_nothing_but_the_name():
    plan = Plan.of(FIVE, dict(zip(FIVE.name, MIXED.sampling, strict=True)), 4)
    free = measure(FIVE, plan, 10_000, replications=20, seed=1)
    capped = measure(FIVE, replace(plan, cap=np.full(5, 4.0)), 10_000, replications=20, seed=2)
    spread = np.hypot(free.staleness.error, capped.staleness.error)
    assert (np.abs(free.staleness.value - capped.staleness.value) <= ERRORS * spread).all()
    trace = simulate(FIVE, replace(plan, cap=np.full(5, 4.0)), 100)
    assert trace.prob == pytest.approx(plan.sampling[trace.client], rel=1e-9)


@pytest.mark.slow
def test_a_million_clients_of_different_rates_and_weights_run():
    rng = np.random.default_rng(1)
    fleet = Fleet.of_rates(rng.lognormal(size=1_000_000))
    plan = Plan.weighted(fleet, rng.lognormal(size=1_000_000), 300_000, cap=1)
    for engine in ("jump chain", "events"):
        run = runner(fleet, plan, start="stationary", seed=1, engine=engine)
        assert run.name == engine
        run.rows(100_000)
        assert np.unique(run.in_flight()["client"]).size == 300_000


SMALL = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))


@pytest.mark.parametrize("start", ["stationary", "even"])
@pytest.mark.parametrize("law", ["exponential", "lognormal(sigma=1)"])
@pytest.mark.slow
def test_the_transient_of_a_capped_network_ends_at_its_exact_staleness(law, start):
    fleet = replace(SMALL, law=(Law.parse(law),) * 2)
    plan = Plan.uniform(fleet, 5, cap=1)
    curves = transient(fleet, plan, 250, replications=600, start=start, seed=3)
    late = slice(100, 130)  # settled, and with time enough to come back
    found = curves.conditional[:, late].mean(axis=1)
    error = curves.conditional_error[:, late].mean(axis=1) / np.sqrt(5)  # neighbours share tasks: 30 count as five
    assert (np.abs(found - capped_network(fleet, [1, 1], 5, 1).staleness) <= ERRORS * error).all()


def early_flow(start, law):
    """Updates within a tenth of a mean service time from the start of a full network, over those of the long run."""
    fleet = replace(SMALL, law=(Law.parse(law),) * 2)
    flows = []
    for seed in range(400):
        run = runner(fleet, Plan.uniform(fleet, 10, cap=1), start=start, seed=seed, engine="events")
        flows.append((run.rows(20)["applied_at"] < 0.1).sum() / (0.1 * 28.0))
    return np.mean(flows), np.std(flows) / np.sqrt(len(flows))


@pytest.mark.parametrize("law", ["deterministic", "lognormal(sigma=0.5)", "hyperexponential(scv=4)"])
@pytest.mark.slow
def test_a_full_network_flows_from_the_first_moment_on_after_a_stationary_start(law):
    found, error = early_flow("stationary", law)
    assert abs(found - 1) <= ERRORS * error
    fresh, spread = early_flow("even", law)  # all begin together: regular tasks come late, short ones early
    assert abs(fresh - 1) > ERRORS * spread


def test_the_chain_may_be_cut_anywhere():
    plan = Plan.by_speed(FLEET, 50, cap=1)
    whole = runner(FLEET, plan, start="even", seed=1).rows(1000)
    run = runner(FLEET, plan, start="even", seed=1)
    first, second = run.rows(300), run.rows(700)
    for key in ("client", "dispatched_step"):
        assert np.concatenate([first[key], second[key]]).tobytes() == whole[key].tobytes()
    assert np.concatenate([first["applied_at"], second["applied_at"]]) == pytest.approx(whole["applied_at"], rel=1e-9)


def test_what_cannot_be_is_refused_in_a_sentence():
    plan = Plan.uniform(FLEET, 50, cap=1)
    with pytest.raises(InvalidInput, match="dispatcher shuffled does not check caps, got a plan with a cap"):
        simulate(FLEET, plan, 10, start="even", scenario=Scenario(Dispatcher("shuffled")))
    with pytest.raises(InvalidInput, match=r"the jump chain .* no cap or a cap of 1"):
        simulate(FLEET, Plan.uniform(FLEET, 50, cap=2), 10, engine="jump chain")
    with pytest.raises(InvalidInput, match=r"start stationary needs .* or a cap of 1"):
        simulate(FLEET, plan, 10, start="stationary", scenario=Scenario(server_rate=10.0))
    with pytest.raises(InvalidInput, match="at most one task per client"):
        one_each.state(FLEET, plan, np.full(100, 2), np.zeros(9, np.uint64))
