"""What of the clients' differences goes with their speed: nothing by chance, all where groups share nothing."""

import numpy as np
import pytest
from scipy.stats import binomtest

from sojourn import Fleet
from sojourn.learning.calibrate.gradients import Design
from sojourn.learning.calibrate.speed_groups import known_to_one_group, parts, speed_groups

MISS = 0.025
SIZES = (12, 8)


def test_clients_of_one_speed_are_a_group_and_links_count():
    fleet = Fleet(name=("a", "b", "c"), count=[2, 2, 2], rate=[2.0, 1.0, 2.0], uplink_rate=[np.inf, np.inf, 2.0])
    assert speed_groups(fleet, np.arange(6)).tolist() == [1, 1, 0, 0, 0, 0]  # 1 / (1/2 + 1/2) = 1


def test_many_speeds_are_merged_to_five_groups_of_neighbours():
    rates = np.concatenate([base * np.linspace(1, 1.1, 4) for base in (1, 4, 16, 64, 256)])
    label = speed_groups(Fleet.of_rates(rates), np.arange(20))
    assert label.tolist() == np.repeat(np.arange(5), 4).tolist()


def test_a_client_alone_joins_the_nearest_group():
    label = speed_groups(Fleet.of_rates([1, 1, 10, 10, 8]), np.arange(5))
    assert label.tolist() == [0, 0, 1, 1, 1]
    assert speed_groups(Fleet.of_rates([1.0, 2.0]), np.arange(2)).tolist() == [0, 0]


def test_differences_are_split_by_hand():
    """Means (1, 0) and (0, 1) of groups of two: B = 1 - 1/2; each client is off by 1/2 along a third axis."""
    rows = np.array([[1, 0, 0.5], [1, 0, -0.5], [0, 1, 0.5], [0, 1, -0.5]])
    found = parts(rows @ rows.T, np.full(4, 0.25), np.array([0, 0, 1, 1]))
    within = 0.25 * 4 / 2  # mean square 1/4 with two of four degrees of freedom
    assert found.within.value == pytest.approx(within * 3 / 4)
    assert found.between.value == pytest.approx(0.5 - within / 4)


def world(part, chance, rounds=4, noise=1.0, own=1.0):
    """Products of noisy gradients; `part` of |m|^2 = 4 is known to one group alone, a share of it to each by size."""
    n = sum(SIZES)
    label = np.repeat(np.arange(2), SIZES)
    rows = np.zeros((n, 30))
    rows[:, 0] = 2 * np.sqrt(1 - part)
    for group, size in enumerate(SIZES):
        rows[label == group, 1 + group] = n / size * 2 * np.sqrt(part * size / n)
    rows += own * chance.normal(size=rows.shape) / np.sqrt(30)
    seen = rows + noise * chance.normal(size=(rounds, *rows.shape)) / np.sqrt(30)
    total = seen.sum(axis=0)
    products = total @ total.T - sum(one @ one.T for one in seen)
    return products / (rounds * (rounds - 1)), np.full(n, 1 / n), label


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_what_one_speed_group_alone_knows_is_found_and_held_by_its_interval(part):
    found = []
    for seed in range(200):
        products, weights, label = world(part, np.random.default_rng([1, seed]))
        found.append(known_to_one_group([products], weights, label))
    values = np.array([one.value for one in found])
    assert values.mean() == pytest.approx(part, abs=0.05)  # it is cut at 0 and 1
    held = sum(one.low(MISS) <= part <= one.high(MISS) for one in found)
    assert binomtest(held, 200, 0.95, "less").pvalue > 0.001


def test_where_the_mean_gradient_is_lost_in_noise_nothing_is_known():
    """At the bottom of a valley there is nothing left of what the groups would share."""
    products, weights, label = world(0.5, np.random.default_rng(3), noise=300.0)
    found = known_to_one_group([products], weights, label)
    assert (found.low(MISS), found.high(MISS)) == (0, 1)


def test_between_and_within_are_unbiased_and_held():
    held, between = np.zeros(2), []
    true = 4 * 0.5, 1.0 * 19 / 20  # B = part (K - 1) |m|^2; own variance 1 over 20 clients
    for seed in range(200):
        found = parts(*world(0.5, np.random.default_rng([1, seed])))
        between.append(found.between.value)
        held += [one.low(MISS) <= t <= one.high(MISS) for one, t in zip(found, true, strict=True)]
    assert np.mean(between) == pytest.approx(2.0, abs=0.15)
    for hits in held.astype(int).tolist():
        assert binomtest(hits, 200, 0.95, "less").pvalue > 0.001


def test_equally_fast_clients_have_nothing_between_them():
    products, weights, label = world(0.5, np.random.default_rng(0))
    found = known_to_one_group([products], weights, np.zeros_like(label))
    assert (found.value, found.low(MISS), found.high(MISS)) == (0, 0, 0)


def test_fast_and_slow_clients_are_asked_in_proportion_and_all_as_often():
    pace = np.repeat([8.0, 1.0], [90, 10])
    times = np.zeros(100)
    for seed in range(200):
        asked = Design.of(100, 133, seed, pace).asked
        assert asked.size == np.unique(asked).size == 33
        assert 3 <= (asked >= 90).sum() <= 4
        times[asked] += 1
    assert times.mean() == 66
    assert times.std() < 2 * np.sqrt(66 * 0.67)
