"""Simulate a known fleet, fit it, and find it again within the intervals."""

from dataclasses import replace

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Law, Plan, analyze, fit, simulate
from sojourn.trace import COLUMNS, Trace

TWO = Fleet.of(fast=(5, 4.0), slow=(5, 1.0))


def trace_of(fleet, steps, seed, tasks=10):
    return simulate(fleet, Plan.uniform(fleet, tasks), steps, start="even", seed=seed)


def within(found, fleet):
    return (found.rate_low <= fleet.rate) & (fleet.rate <= found.rate_high)


@pytest.mark.slow
def test_intervals_of_group_rates_cover_the_truth_as_often_as_they_say():
    hits = np.concatenate([within(fit(trace_of(TWO, 400, seed), TWO, law="exponential"), TWO) for seed in range(150)])
    # 300 intervals at 95%: four standard errors are 5%
    assert hits.mean() == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / hits.size))


@pytest.mark.slow
@pytest.mark.parametrize("text", ["lognormal(sigma=1)", "gamma(shape=4)"])
def test_intervals_hold_for_other_laws_too(text):
    fleet = replace(TWO, law=(Law.parse(text),) * 2)
    family = text.partition("(")[0]
    hits = np.concatenate([within(fit(trace_of(fleet, 500, seed), fleet, law=family), fleet) for seed in range(100)])
    assert hits.mean() == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / hits.size))


@pytest.mark.slow
def test_intervals_of_pooled_clients_cover_the_truth_as_often_as_they_say():
    hits, wild = [], []
    for seed in range(40):
        fleet = Fleet.of_rates(np.random.default_rng(seed).gamma(4, 0.5, size=40))
        found = fit(trace_of(fleet, 160, seed, tasks=40), fleet, by="client", law="exponential")
        hits.append(within(found, fleet))
        wild.append((found.fleet.rate / fleet.rate)[found.observations <= 2])
    # 1600 intervals, about four observations a client
    assert np.concatenate(hits).mean() == pytest.approx(0.95, abs=0.03)
    assert np.concatenate(wild).size > 100
    assert np.median(np.abs(np.log(np.concatenate(wild)))) < np.log(2)


def test_a_client_seen_twice_does_not_get_a_wild_rate():
    # ten clients with a hundred services of one, and one with two services of a thousandth
    client = np.concatenate([np.repeat(np.arange(10), 100), [10, 10]])
    length = np.concatenate([np.random.default_rng(1).exponential(1.0, 1000), [0.001, 0.001]])
    ends = np.concatenate([np.cumsum(length[client == c]) for c in range(11)])
    begins = ends - length
    size = client.size
    columns = {key: np.zeros(size) for key in COLUMNS}
    columns |= {"client": client, "started_at": begins, "finished_at": ends, "applied_at": ends, "work": np.ones(size)}
    columns["dispatched_at"] = begins
    order = np.argsort(ends)
    columns = {key: values[order] for key, values in columns.items()}
    columns["applied_step"] = np.arange(size)
    found = fit(Trace(**columns), by="client", law="exponential")
    assert found.observations[10] == 2
    assert found.fleet.rate[10] < 5  # the raw estimate is 1000
    assert found.rate_low[10] < 1.5


@pytest.mark.parametrize(
    "text", ["exponential", "deterministic", "lognormal(sigma=1)", "gamma(shape=3)", "weibull(shape=0.6)"]
)
def test_the_law_of_service_is_recognised(text):
    fleet = replace(TWO, law=(Law.parse(text),) * 2)
    found = fit(trace_of(fleet, 6000, seed=1), fleet)
    for law in found.fleet.law:
        assert law.name == text.partition("(")[0]
        if law.parameter is not None:
            assert law.parameter == pytest.approx(Law.parse(text).parameter, rel=0.1)
    assert (np.nan_to_num(found.p_value, nan=1.0) > 0.01).all()


def test_a_law_without_a_formula_becomes_the_empirical_one():
    fleet = replace(TWO, law=(Law.empirical([0.2, 0.2, 0.2, 1.0, 3.4]),) * 2)
    found = fit(trace_of(fleet, 6000, seed=2), fleet)
    assert [law.name for law in found.fleet.law] == ["empirical", "empirical"]
    assert found.fleet.law[0].scv == pytest.approx(fleet.law[0].scv, rel=0.05)
    assert any("no law with a formula fits" in note for note in found.notes)


def test_services_running_at_the_end_count(tmp_path):
    # one client, one task of length 1 done and one running for 99 more: a hundred units of work for one finish
    nan = np.nan
    columns = {key: np.zeros(3) for key in COLUMNS}
    columns |= {"client": [0, 0, 1], "started_at": [0, 1, 0], "finished_at": [1, nan, 100], "applied_at": [1, nan, 100]}
    columns |= {"work": [1, 0, 1], "applied_step": [0, -1, 1], "fate": [0, 1, 0], "dispatched_at": [0, 0, 0]}
    found = fit(Trace(**columns), Fleet.of(a=(1, 1.0), b=(1, 1.0)), law="exponential")
    assert found.censored.tolist() == [1, 0]
    assert found.fleet.rate[0] < 0.1


def test_a_fitted_fleet_is_used_at_once_and_from_its_file(tmp_path):
    trace = trace_of(TWO, 20_000, seed=3)
    found = fit(trace, TWO)
    found.save(tmp_path / "fitted.csv")
    again = Fleet.load(tmp_path / "fitted.csv")
    assert again == found.fleet
    truth, fitted = (analyze(fleet, Plan.uniform(fleet, 10)).throughput for fleet in (TWO, again))
    assert fitted == pytest.approx(truth, rel=0.05)


def test_a_trace_in_a_file_gives_the_same_fleet_as_in_memory(tmp_path):
    trace = trace_of(TWO, 3000, seed=4)
    trace.save(tmp_path / "t.parquet")
    left, right = fit(trace, TWO), fit(tmp_path / "t.parquet", TWO)
    np.testing.assert_allclose(left.fleet.rate, right.fleet.rate, rtol=1e-12)


def test_wrong_input_is_refused():
    trace = trace_of(TWO, 100, seed=1)
    with pytest.raises(InvalidInput, match="confidence"):
        fit(trace, TWO, confidence=1.5)
    with pytest.raises(InvalidInput, match="by must be"):
        fit(trace, TWO, by="speed")
    with pytest.raises(InvalidInput, match="client"):
        fit(trace, Fleet.of(a=(3, 1.0)))
    with pytest.raises(InvalidInput, match="at least one row"):
        fit(Trace(**{key: np.empty(0) for key in COLUMNS}))
