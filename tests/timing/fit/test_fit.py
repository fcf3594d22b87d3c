"""Fit: rates and laws found again from traces, with intervals that cover as they say."""

from math import gamma as gamma_function
from math import lgamma

import numpy as np
import pytest
from scipy import stats

from sojourn import Fleet, InvalidInput, Law, Plan, Trace, analyze, measure, simulate, simulate_to_file
from sojourn.timing.fit import gathering, observed
from sojourn.timing.fit.choice import choose, product_limit
from sojourn.timing.fit.from_trace import fit
from sojourn.timing.fit.likelihood import Sample, of_law
from sojourn.timing.fit.population import population
from sojourn.trace import APPLIED, COLUMNS, IN_FLIGHT, LOST

NAN = np.nan
EXPONENTIAL = Law()
LAWS = [
    Law("exponential"),
    Law("lognormal", 1.0),
    Law("gamma", 4.0),
    Law("gamma", 0.5),
    Law("weibull", 0.7),
    Law("weibull", 2.0),
    Law("hyperexponential", 4.0),
]
ONE = Fleet.of(all=(1, 1.0))


def table(client, started, finished, **others):
    """A trace of these services; what has not finished is in flight."""
    started, finished = np.array(started, dtype=float), np.array(finished, dtype=float)
    rows = started.size
    done = np.isfinite(finished)
    columns = {
        "client": client,
        "prob": np.full(rows, 0.5),
        "dispatched_at": np.zeros(rows),
        "started_at": started,
        "finished_at": finished,
        "applied_at": finished,
        "dispatched_step": np.zeros(rows),
        "applied_step": np.where(done, np.arange(rows), -1),
        "work": done.astype(int),
        "fate": np.where(done, APPLIED, IN_FLIGHT),
    }
    return Trace(**{**columns, **others})


def served(rates, law, until, rng, busy=1.0, clients=None):
    """First come, first served at every client from time 0 `until` the end; before a service it may stand idle."""
    client, started, finished = [], [], []
    for number, rate in enumerate(rates):
        size = int(1.5 * until * rate + 8 * np.sqrt(until * rate * max(1, law.scv)) + 40)
        duration = law.draw(rng, size) / rate
        idle = np.where(rng.random(size) < busy, 0.0, rng.exponential(size=size) / rate)
        end = np.cumsum(idle + duration)
        seen = end - duration < until
        assert not seen.all()
        client.append(np.full(seen.sum(), number))
        started.append((end - duration)[seen])
        finished.append(np.where(end <= until, end, NAN)[seen])
    trace = table(np.concatenate(client), np.concatenate(started), np.concatenate(finished))
    last = np.where(np.arange(len(trace)) == 0, until, 0.0)  # the server goes on until the end
    columns = {key: getattr(trace, key) for key in COLUMNS}
    return Trace(**{**columns, "dispatched_at": last}, metadata={"clients": clients or len(rates)})


# by hand


def test_the_rate_is_finished_services_over_time_spent_serving():
    # two finished services of 1 and 3 units: rate 2 / 4; sums of exponentials: 2 E rate is chi-square with 2 N freedoms
    found = fit(table([0, 0], [0, 1], [1, 4]), ONE, law=EXPONENTIAL)
    assert found.fleet.rate[0] == pytest.approx(0.5)
    assert found.rate_low[0] == pytest.approx(stats.chi2.ppf(0.025, 4) / 8)
    assert found.rate_high[0] == pytest.approx(stats.chi2.ppf(0.975, 4) / 8)
    assert (found.observations.tolist(), found.censored.tolist()) == ([2], [0])


def test_a_service_that_still_runs_counts_as_time_but_not_as_a_finish():
    # 1 + 3 units finished, 4 units running at the end (time 8): rate 2 / 8; the interval knows half a finish more
    found = fit(table([0, 0, 0], [0, 1, 4], [1, 4, NAN], dispatched_at=[0, 0, 8]), ONE, law=EXPONENTIAL)
    assert found.fleet.rate[0] == pytest.approx(0.25)
    assert found.rate_high[0] == pytest.approx(stats.gamma.ppf(0.975, 2.5) / 8)
    assert found.censored.tolist() == [1]


def test_a_running_service_of_a_constant_law_tells_nothing_new():
    found = fit(table([0, 0, 0], [0, 2, 4], [2, 4, NAN], dispatched_at=[0, 0, 5]), ONE)
    assert str(found.fleet.law[0]) == "deterministic"
    assert found.fleet.rate[0] == found.rate_low[0] == found.rate_high[0] == 0.5


def test_durations_are_per_local_step():
    found = fit(table([0, 0], [0, 10], [10, 40], work=[5, 5]), ONE, law=EXPONENTIAL)
    assert found.fleet.rate[0] == pytest.approx(2 / (2 + 6))
    assert found.work.tolist() == [5]
    assert "5 local steps" in found.notes[0]


def test_a_running_service_is_held_to_have_the_mean_local_steps():
    # 10 / 5 and 30 / 5 finished; 20 running of a task of about 5 steps: 2 / (2 + 6 + 4)
    trace = table([0, 0, 0], [0, 10, 40], [10, 40, NAN], work=[5, 5, 0], dispatched_at=[0, 0, 60])
    assert fit(trace, ONE, law=EXPONENTIAL).fleet.rate[0] == pytest.approx(2 / 12)


def test_lost_updates_count_when_their_service_was_seen_and_are_left_out_otherwise():
    # the third is lost after its service, the fourth during it: nobody knows when
    trace = table([0] * 4, [0, 1, 4, 6], [1, 4, 6, NAN], fate=[APPLIED, APPLIED, LOST, LOST], dispatched_at=[9] * 4)
    found = fit(trace, ONE, law=EXPONENTIAL)
    assert found.fleet.rate[0] == pytest.approx(3 / 6)
    assert found.censored.tolist() == [0]
    assert found.notes == (
        "1 rows have a service without a start or an end (lost, dropped or refused on the way) and are left out",
    )


def test_the_estimate_of_kaplan_and_meier_hands_on_what_was_cut_off():
    # 1 of 4 ends at 1; one is cut off at 2; of the two left one ends at 3 (3/4 * 1/2), the other at 4
    points, mass = product_limit(np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True]))
    assert points.tolist() == [1, 3, 4]
    assert mass.tolist() == [0.25, 0.375, 0.375]


# laws as distributions


@pytest.mark.parametrize(("law", "known"), [
    (Law("exponential"), stats.expon()),
    (Law("lognormal", 0.8), stats.lognorm(0.8, scale=np.exp(-0.32))),
    (Law("gamma", 2.5), stats.gamma(2.5, scale=1 / 2.5)),
    (Law("weibull", 0.7), stats.weibull_min(0.7, scale=1 / gamma_function(1 + 1 / 0.7))),
])  # fmt: skip
def test_survival_and_mean_beyond_an_age_are_those_of_scipy(law, known):
    x = np.array([0.0, 0.1, 0.7, 1.0, 3.0])
    assert np.exp(law.log_survival(x)) == pytest.approx(known.sf(x))
    assert law.mean_beyond(x) == pytest.approx([known.expect(lb=age) / known.sf(age) for age in x], rel=1e-5)


@pytest.mark.parametrize("law", [*LAWS, Law("deterministic"), Law.empirical([1, 2, 6])], ids=str)
def test_draws_agree_with_survival_and_mean_beyond(law):
    x = law.draw(np.random.default_rng(1), 400_000)
    for age in (0.05, 0.5, 2.0):
        beyond = x[x > age]
        survival = np.exp(law.log_survival(np.array([age])))[0]
        assert beyond.size / x.size == pytest.approx(survival, abs=5 * 0.5 / np.sqrt(x.size))
        if beyond.size > 100:
            error = 5 * beyond.std() / np.sqrt(beyond.size) + 1e-9
            assert beyond.mean() == pytest.approx(law.mean_beyond(np.array([age]))[0], abs=error)


def test_the_likelihood_is_that_of_the_proportions():
    # gamma with unknown scale: integral over log rate = Gamma(Nk) / Gamma(k)^N * prod x^k / (sum x)^(Nk), known exactly
    rng = np.random.default_rng(2)
    x = rng.gamma(2.0, size=30)
    block = np.repeat([0, 1, 2], 10)
    sample = Sample.of(x, np.full(30, np.inf), np.ones(30, dtype=bool), block)

    def exact(k):
        return sum(
            lgamma(10 * k) - 10 * lgamma(k) + k * np.log(part).sum() - 10 * k * np.log(part.sum())
            for part in (sample.value[block == b] for b in range(3))
        )

    for k in (0.7, 1.0, 2.0, 8.0):
        law = EXPONENTIAL if k == 1 else Law("gamma", k)
        assert of_law(law, sample).likelihood == pytest.approx(exact(k), abs=3 / (12 * 10 * k) * 1.2)


# laws found again


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_law_of_a_group_is_found_again(law):
    trace = served(np.full(20, 2.0), law, 250.0, np.random.default_rng(3))
    found = fit(trace, Fleet.of(all=(20, 7.0)))
    got = found.fleet.law[0]
    assert got.name == law.name
    if law.parameter is not None:
        assert got.parameter == pytest.approx(law.parameter, rel=0.1)
    assert found.fleet.rate[0] == pytest.approx(2.0, rel=0.06)
    assert found.distance[0] < 0.02
    assert found.p_value[0] > 0.01
    assert found.notes == ()


@pytest.mark.parametrize("law", [EXPONENTIAL, Law("lognormal", 1.0), Law("gamma", 4.0)], ids=str)
def test_clients_that_are_seen_seldom_share_a_law_that_is_not_distorted_by_their_own_means(law):
    rng = np.random.default_rng(4)
    found = fit(served(rng.gamma(4, 0.25, 400), law, 8.0, rng))
    assert {got.name for got in found.fleet.law} == {law.name}
    if law.parameter is not None:
        assert found.fleet.law[0].parameter == pytest.approx(law.parameter, rel=0.15)


def test_many_running_services_do_not_distort_the_law():
    # each of 3000 clients is seen for 1.5 mean services: a third of all services has no end
    trace = served(np.ones(3000), Law("lognormal", 1.0), 1.5, np.random.default_rng(5))
    found = fit(trace, Fleet.of(all=(3000, 1.0)))
    assert found.fleet.law[0].name == "lognormal"
    assert found.fleet.law[0].parameter == pytest.approx(1.0, rel=0.05)
    assert found.fleet.rate[0] == pytest.approx(1.0, rel=0.05)
    assert "still running" in found.notes[0]


def test_what_no_formula_describes_is_taken_as_it_is():
    rng = np.random.default_rng(6)
    length = np.where(rng.random(3000) < 0.5, rng.normal(1.0, 0.05, 3000), rng.normal(3.0, 0.05, 3000))
    end = np.cumsum(length)
    found = fit(table(np.zeros(3000), end - length, end), ONE)
    assert found.fleet.law[0].name == "empirical"
    assert found.fleet.law[0].scv == pytest.approx(length.var() / length.mean() ** 2, rel=0.02)
    assert found.fleet.rate[0] == pytest.approx(1 / length.mean())
    assert "no law with a formula fits" in found.notes[0]
    assert np.isnan(found.p_value[0])


def test_a_client_with_plenty_of_services_and_a_law_of_its_own_keeps_it():
    rng = np.random.default_rng(7)
    most = served(np.ones(30), EXPONENTIAL, 300.0, rng)
    odd = served([1.0], Law("gamma", 20.0), 300.0, rng)
    columns = {key: np.concatenate([getattr(most, key), getattr(odd, key)]) for key in COLUMNS}
    columns["client"][len(most) :] = 30
    found = fit(Trace(**columns))
    assert [law.name for law in found.fleet.law] == ["exponential"] * 30 + ["gamma"]
    assert any(note.startswith("1 of the clients have a law of their own: client-30 gamma") for note in found.notes)


def test_few_durations_are_held_to_be_exponential():
    found = fit(table([0], [0], [2]), ONE)
    assert found.fleet.law == (EXPONENTIAL,)
    assert np.isnan(found.distance[0])
    assert "too few durations" in found.notes[0]


def test_a_given_law_is_taken_and_judged():
    trace = served(np.ones(5), Law("lognormal", 1.0), 200.0, np.random.default_rng(8))
    fleet = Fleet.of(all=(5, 1.0))
    good, bad = fit(trace, fleet, law=Law("lognormal", 1.0)), fit(trace, fleet, law="exponential")
    assert good.fleet.law == (Law("lognormal", 1.0),)
    assert good.p_value[0] > 0.01
    assert bad.fleet.law == (EXPONENTIAL,)
    assert bad.p_value[0] < 0.01
    assert "all: the law exponential does not fit" in bad.notes[0]
    assert fit(trace, fleet, law="lognormal").fleet.law[0].parameter == pytest.approx(1.0, rel=0.1)
    assert fit(trace, fleet, law="gamma(shape=2)").fleet.law == (Law("gamma", 2.0),)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_p_values_are_uniform_when_the_law_is_true(law):
    rng = np.random.default_rng(9)
    small = []
    for _ in range(100):
        x = law.draw(rng, 200)
        room = rng.exponential(3.0, 200)
        sample = Sample.of(np.minimum(x, room), room, x <= room, np.repeat(np.arange(8), 25))
        small.append(choose(sample, law.name).p_value < 0.1)
    # drawn from the fitted law, not the true one: uniform to first order only
    assert 0.04 < np.mean(small) < 0.2


# pooling


def test_a_client_seen_twice_is_drawn_towards_the_others_and_one_seen_often_is_not():
    rng = np.random.default_rng(10)
    trace = served(rng.gamma(9, 1 / 9, 60), EXPONENTIAL, 30.0, rng)
    lucky = [(60, 0.0, 0.01), (60, 1.0, 1.01)]  # two services of a hundredth: by itself rate 100
    steady = [(61, 0.1 * k, 0.1 * k + 0.1) for k in range(300)]  # a rate of 10 that is sure
    client, started, finished = np.array(lucky + steady).T
    more = table(client, started, finished)
    found = fit(Trace(**{k: np.concatenate([getattr(trace, k), getattr(more, k)]) for k in COLUMNS}),
                law=EXPONENTIAL)  # fmt: skip
    assert 1 < found.fleet.rate[60] < 10
    assert found.rate_low[60] < 2
    assert found.fleet.rate[61] == pytest.approx(10, rel=0.05)


def test_a_client_that_was_never_seen_gets_the_population_and_an_interval_that_says_so():
    rng = np.random.default_rng(11)
    trace = served(rng.gamma(4, 0.25, 50), EXPONENTIAL, 40.0, rng, clients=52)
    found = fit(trace, law=EXPONENTIAL)
    assert found.fleet.clients == 52
    assert found.fleet.rate[50] == found.fleet.rate[51] == pytest.approx(1.0, rel=0.25)
    low, high = stats.gamma.ppf([0.025, 0.975], 4, scale=0.25)
    assert found.rate_low[51] == pytest.approx(low, rel=0.4)
    assert found.rate_high[51] == pytest.approx(high, rel=0.25)
    assert "no finished service" in found.notes[1]
    assert "client-50, client-51" in found.notes[1]


def test_a_client_that_was_long_busy_without_a_finish_is_slower_than_one_never_seen():
    rng = np.random.default_rng(12)
    trace = served([*rng.gamma(4, 0.25, 50), 1e-9], EXPONENTIAL, 40.0, rng, clients=52)
    found = fit(trace, law=EXPONENTIAL)
    assert found.observations[50] == 0
    assert found.rate_high[50] < found.fleet.rate[51]


def test_a_group_that_was_never_seen_gets_what_the_others_show():
    rng = np.random.default_rng(13)
    trace = served(np.ones(8), EXPONENTIAL, 50.0, rng)
    fleet = Fleet(("a", "b", "c", "d", "new"), np.array([2, 2, 2, 2, 3]), np.ones(5))
    found = fit(trace, fleet, law=EXPONENTIAL)
    assert found.rate_low[4] < 0.9
    assert found.rate_high[4] > 1.1
    assert "new" in found.notes[0]


@pytest.mark.slow
def test_the_population_that_clients_tell_is_the_one_they_come_from():
    rng = np.random.default_rng(14)
    shape = np.full(2000, 30.0)
    rate = rng.gamma(4, 0.5, 2000)
    known = population(shape, rng.gamma(shape) / rate)
    assert known.variation == pytest.approx(0.5, rel=0.06)
    assert known.weight[: known.gammas].sum() > 0.99  # and it is a gamma one
    other = population(shape, rng.gamma(shape) / rng.lognormal(0, 0.5, 2000))
    assert other.weight[: other.gammas].sum() < 0.01


def test_clients_of_a_group_that_differ_are_noticed():
    trace = served([1.0, 1.0, 3.0], EXPONENTIAL, 200.0, np.random.default_rng(15))
    differ = [note for note in fit(trace, Fleet.of(all=(3, 1.0))).notes if "differ" in note]
    assert differ == ["clients of one group differ more than chance allows, fit them by client instead: all"]
    same = served([1.0, 1.0, 1.0], EXPONENTIAL, 200.0, np.random.default_rng(15))
    assert fit(same, Fleet.of(all=(3, 1.0))).notes == ()


# intervals cover as they say


def covered(found, truth):
    return (found.rate_low <= truth) & (truth <= found.rate_high)


def assert_covers(hits, level, least=None):
    """Hits, a row a seed: their mean is the level, within three standard errors over the seeds."""
    hits = np.array(hits, dtype=float)
    hits = hits.mean(axis=1) if hits.ndim > 1 else hits
    error = max(hits.std() / np.sqrt(hits.size), 0.5 / hits.size)
    assert hits.mean() > (level if least is None else least) - 3 * error, hits.mean()
    assert hits.mean() < level + 3 * error + (1 - level) / 2, hits.mean()


@pytest.mark.slow
def test_intervals_of_simulated_groups_cover():
    fleet = Fleet.of(fast=(3, 3.0), slow=(5, 1.0), lame=(2, 0.05))
    plan = Plan.uniform(fleet, 12)
    traces = [simulate(fleet, plan, 400, seed=seed) for seed in range(150)]
    assert_covers([covered(fit(trace, fleet, law=EXPONENTIAL), fleet.rate) for trace in traces], 0.95)
    half = [covered(fit(trace, fleet, law=EXPONENTIAL, confidence=0.5), fleet.rate) for trace in traces]
    assert np.mean(half) == pytest.approx(0.5, abs=3 * 0.5 / np.sqrt(450))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gamma", "lognormal"])
def test_intervals_of_simulated_clients_cover_with_pooling(kind):
    hits = []
    for seed in range(60):
        rng = np.random.default_rng([16, seed])
        rates = rng.gamma(4, 0.25, 50) if kind == "gamma" else rng.lognormal(0, 0.5, 50)
        fleet = Fleet.of_rates(rates)
        trace = simulate(fleet, Plan.uniform(fleet, 60), 300, seed=seed)
        hits.append(covered(fit(trace, law=EXPONENTIAL), rates))
    assert_covers(hits, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_intervals_of_groups_cover_whatever_the_law(law):
    """The law is chosen anew each time; hyperexponential service shows its tail only in a longer trace."""
    until = 120.0 if law.name == "hyperexponential" else 30.0
    fleet = Fleet.of(all=(8, 1.0))
    hits = [
        covered(fit(served(np.full(8, 2.0), law, until, np.random.default_rng([17, seed])), fleet), 2.0)
        for seed in range(100)
    ]
    assert_covers(hits, 0.95, least=0.94)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gamma", "lognormal"])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_intervals_of_clients_cover_whatever_the_law(law, kind):
    until = 30.0 if law.scv > 1 else 10.0
    hits = []
    for seed in range(60):
        rng = np.random.default_rng([18, seed])
        rates = rng.gamma(4, 0.25, 60) if kind == "gamma" else rng.lognormal(0, 0.5, 60)
        hits.append(covered(fit(served(rates, law, until, rng, busy=0.8)), rates))
    assert_covers(hits, 0.95, least=0.94)


# uplinks


def test_the_uplink_is_found_where_there_is_one():
    rng = np.random.default_rng(19)
    trace = served(np.ones(20), EXPONENTIAL, 200.0, rng)
    sent = trace.finished_at + np.where(trace.client < 10, rng.exponential(0.25, len(trace)), 0.0)
    columns = {key: getattr(trace, key) for key in COLUMNS}
    fleet = Fleet.of(far=(10, 1.0), near=(10, 1.0))
    found = fit(Trace(**{**columns, "applied_at": sent}), fleet)
    assert found.fleet.uplink_rate[0] == pytest.approx(4.0, rel=0.08)
    assert found.fleet.uplink_rate[1] == np.inf
    assert found.fleet.uplink_law == (EXPONENTIAL, EXPONENTIAL)
    clients = fit(Trace(**{**columns, "applied_at": sent}))
    assert clients.fleet.uplink_rate[:10] == pytest.approx(np.full(10, 4.0), rel=0.2)
    assert np.isinf(clients.fleet.uplink_rate[10:]).all()


def test_updates_on_their_way_at_the_end_lengthen_the_uplink():
    # uplinks of 1 and 3, one on its way since 4: 2 / 8
    trace = table([0, 0, 0], [0, 1, 2], [1, 2, 3], applied_at=[2, 5, NAN], fate=[APPLIED, APPLIED, IN_FLIGHT],
                  dispatched_at=[0, 0, 7])  # fmt: skip
    assert fit(trace, ONE).fleet.uplink_rate[0] == pytest.approx(2 / 8)


def test_what_a_trace_cannot_tell_stays_as_the_given_fleet_has_it():
    fleet = Fleet(("a",), np.array([1]), np.array([9.0]), downlink_rate=np.array([2.0]), power=np.array([5.0]))
    found = fit(table([0, 0], [0, 1], [1, 4]), fleet)
    assert found.fleet.downlink_rate.tolist() == [2.0]
    assert found.fleet.power.tolist() == [5.0]
    assert "downlink times cannot be separated from waiting" in found.notes[-1]


# how it is used


def test_the_fitted_fleet_can_be_analysed_and_simulated_at_once(tmp_path):
    fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    trace = simulate(fleet, Plan.uniform(fleet, 50), 20_000, seed=1)
    for found in (fit(trace, fleet), fit(trace, fleet, by="client"), fit(trace)):
        plan = Plan.uniform(found.fleet, 50)
        exact = analyze(found.fleet, plan)
        assert exact.exact
        assert exact.throughput == pytest.approx(analyze(fleet, Plan.uniform(fleet, 50)).throughput, rel=0.05)
        assert measure(found.fleet, plan, steps=1000).throughput.value > 0
        found.save(tmp_path / "fitted.csv")
        assert Fleet.load(tmp_path / "fitted.csv") == found.fleet
    assert fit(trace, fleet, by="client").fleet.name[:2] == ("fast-0", "fast-1")


def test_fitting_clients_or_groups_is_the_default_that_the_fleet_suggests():
    fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    trace = simulate(fleet, Plan.uniform(fleet, 4), 500, seed=2)
    assert (fit(trace).by, fit(trace).fleet.groups) == ("client", 4)
    assert (fit(trace, fleet).by, fit(trace, fleet).fleet.name) == ("group", ("fast", "slow"))
    other = Fleet.of(fast=(2, 77.0), slow=(2, 0.01))
    assert fit(trace, other).fleet == fit(trace, fleet).fleet  # the rates of the given fleet do not matter


@pytest.mark.parametrize("by", ["group", "client"])
def test_another_unit_of_time_scales_the_rates_and_nothing_else(by):
    fleet = Fleet.of(a=(6, 1.0), b=(6, 1.0))
    trace = served(np.repeat([1.0, 3.0], 6), Law("gamma", 3.0), 30.0, np.random.default_rng(20))
    columns = {key: getattr(trace, key) for key in COLUMNS}
    times = {key: 1000 * value for key, value in columns.items() if key.endswith("_at")}
    one, other = fit(trace, fleet, by=by), fit(Trace(**{**columns, **times}), fleet, by=by)
    assert 1000 * other.fleet.rate == pytest.approx(one.fleet.rate, rel=1e-4)
    assert 1000 * other.rate_low == pytest.approx(one.rate_low, rel=1e-4)
    assert [law.name for law in one.fleet.law] == [law.name for law in other.fleet.law]


def test_a_file_read_in_pieces_gives_what_the_trace_in_memory_gives(tmp_path, monkeypatch):
    fleet = Fleet.of(fast=(3, 4.0), slow=(3, 1.0))
    trace = simulate(fleet, Plan.uniform(fleet, 12), 5000, seed=3)
    trace.save(tmp_path / "trace.parquet")
    whole = fit(trace, fleet)
    monkeypatch.setattr(observed, "PIECE", 700)
    for pieces in (fit(tmp_path / "trace.parquet", fleet), fit(trace, fleet)):
        assert pieces.fleet.rate == pytest.approx(whole.fleet.rate, rel=1e-12)
        assert pieces.distance == pytest.approx(whole.distance, rel=1e-9)
        assert pieces.p_value.tolist() == whole.p_value.tolist()


def test_the_kept_durations_are_a_fair_sample(monkeypatch):
    monkeypatch.setattr(gathering, "KEPT", 50)
    monkeypatch.setattr(gathering, "WAITING", 400)
    monkeypatch.setattr(observed, "PIECE", 300)
    rows = 2000
    begin = np.arange(rows, dtype=float)
    trace = table(np.arange(rows) % 2, begin, begin + 1 + begin / rows)  # a duration tells its row
    kept = observed.observe(trace, None, False).service.kept
    assert np.bincount(kept.unit).tolist() == [50, 50]
    assert np.unique(kept.value).size == 100
    assert stats.kstest(kept.value - 1, "uniform").pvalue > 0.01
    seen = observed.observe(trace, None, False).service
    assert seen.total.sum() == pytest.approx((1 + begin / rows).sum())  # the sums use every row


def test_a_long_trace_is_fitted_in_seconds(tmp_path):
    fleet = Fleet.of(fast=(50, 1.2), slow=(50, 1.0))
    simulate_to_file(fleet, Plan.uniform(fleet, 200), 300_000, tmp_path / "trace.parquet", seed=4)
    found = fit(tmp_path / "trace.parquet", fleet)
    assert found.observations.sum() == 300_000
    assert covered(found, fleet.rate).all()


def test_services_without_duration_are_taken_as_too_short_for_the_clock():
    rng = np.random.default_rng(21)
    end = np.cumsum(np.floor(rng.exponential(5.0, 2000)))
    found = fit(table(np.zeros(2000), np.concatenate([[0], end[:-1]]), end), ONE)
    assert found.fleet.rate[0] == pytest.approx(2000 / end[-1])


# errors


def test_mistakes_are_named_with_the_way_out():
    good = table([0, 0], [0, 1], [1, 4])
    empty = table([], [], [])
    unfinished = table([0], [0], [NAN], dispatched_at=[3])
    cases = [
        (lambda: fit(empty), "got an empty trace"),
        (lambda: fit(unfinished), "a fit needs a row with started_at and finished_at, got 1 rows without"),
        (lambda: fit(table([0, 3], [0, 1], [1, 4]), ONE), "client numbers must be from 0 to 0.*got 3 in row 1"),
        (lambda: fit(table([0, -1], [0, 1], [1, 4])), "client numbers must be from 0 to 999999, got -1 in row 1"),
        (lambda: fit(table([0, 0], [0, 5], [1, 4])), "finished_at must not be before started_at, got 4.0 before 5.0"),
        (lambda: fit(table([0], [0], [1], applied_at=[0.5])), "applied_at must not be before finished_at"),
        (lambda: fit(table([0], [0], [np.inf])), "finished_at must be finite"),
        (lambda: fit(table([0], [1], [1])), "services that take time, got only zeros"),
        (lambda: fit(table([0, 1], [1, 0], [1, 2]), Fleet.of(a=(1, 1), b=(1, 1))), "only zeros for group 'a'"),
        (lambda: fit(good, confidence=1.0), "confidence must be between 0 and 1, got 1.0"),
        (lambda: fit(good, by="colour"), "by must be group or client, got 'colour'"),
        (lambda: fit(good, by="group"), "by group needs a fleet"),
        (lambda: fit(good, law="normal"), "law must be auto, one of exponential.*got 'normal'"),
    ]
    for call, message in cases:
        with pytest.raises(InvalidInput, match=message):
            call()
