"""Intervals of few durations hold the true rate as often as they say, also where long durations are rare."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import gamma

from sojourn import Fleet, Law, Plan, fit, simulate
from sojourn.timing.fit import choice
from sojourn.timing.fit.likelihood import Sample, of_family
from sojourn.timing.fit.rivals import lower_end

FLEET = Fleet.of(fast=(4, 4.0), middle=(4, 1.0), slow=(4, 0.25))
BIMODAL = Law.empirical(
    [*np.linspace(0.45, 0.55, 80), *np.linspace(2.7, 3.3, 20)]
)  # every fifth takes six times as long
WORST = {"hyperexponential": Law("hyperexponential", 4.0), "bimodal": BIMODAL, "lognormal": Law("lognormal", 1.0)}


@pytest.fixture
def untested(monkeypatch):
    """No goodness of fit: below a hundred durations no law is refused, and the intervals do not look at it."""
    monkeypatch.setattr(choice, "SAMPLES", 1)


def fitted(true, seeds, steps=80, **options):
    """Both ends of the intervals, relative to the true rates, a row a trace."""
    fleet = replace(FLEET, law=(true,) * 3)
    plan = Plan.uniform(fleet, 12)
    found = [fit(simulate(fleet, plan, steps, start="even", seed=seed), fleet, **options) for seed in range(seeds)]
    return np.array([one.rate_low / fleet.rate for one in found]), np.array(
        [one.rate_high / fleet.rate for one in found]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize("name", WORST)
def test_intervals_of_some_thirty_durations_hold_the_true_rate(name):
    low, high = fitted(WORST[name], 250)
    held = (low <= 1) & (high >= 1)
    assert held.mean() >= 0.93  # of 750 intervals; by the chosen law alone 0.85, 0.84 and 0.92


@pytest.mark.usefixtures("untested")
@pytest.mark.slow
def test_the_price_of_not_knowing_the_law_is_bounded():
    known, chosen = fitted(Law(), 30, law="exponential"), fitted(Law(), 30)
    width, wider = (np.median(np.log(high / low)) for low, high in (known, chosen))
    assert 1.0 < wider / width < 1.5
    many, more = fitted(Law(), 3, steps=3000, law="exponential"), fitted(Law(), 3, steps=3000)
    width, wider = (np.median(np.log(high / low)) for low, high in (many, more))
    assert wider / width < 1.1


def test_a_law_that_is_given_leaves_nothing_open():
    low, high = fitted(Law(), 2, law="exponential")
    found = fit(simulate(FLEET, Plan.uniform(FLEET, 12), 80, start="even", seed=0), FLEET, law="gamma(shape=1)")
    assert found.rate_low / FLEET.rate == pytest.approx(low[0], rel=1e-3)
    assert found.rate_high / FLEET.rate == pytest.approx(high[0], rel=1e-3)


def sample_of(values):
    size = len(values)
    return Sample.of(np.array(values), np.full(size, np.inf), np.ones(size, dtype=bool), np.zeros(size, dtype=int))


def test_one_more_duration_like_the_longest_counts_for_the_lower_end():
    # mean 2: squares 1 + 1 + 1 + 9 = 12 over 3 and 2^2; one more of 5 adds 9
    assert sample_of([1.0, 1.0, 1.0, 5.0]).variation() == pytest.approx((1.0, 21 / 12))


def test_the_lower_end_by_all_laws_is_that_of_one_law_where_there_is_one():
    # gamma evidence: N durations of total T under an exponential law
    values = np.random.default_rng(1).exponential(size=20)
    sample = sample_of(values)
    alone = lower_end(sample, [of_family("exponential", sample)], 0.025)

    assert alone == pytest.approx(gamma.ppf(0.025, 20) / values.sum(), rel=0.01)
    fits = [of_family(name, sample) for name in choice.CANDIDATES]
    assert lower_end(sample, fits, 0.025) < alone
    assert np.isnan(lower_end(sample, (), 0.025))
