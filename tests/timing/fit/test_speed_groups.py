"""Groups of devices by speed: how many there are, and who is in which."""

import numpy as np
import pytest

from sojourn import InvalidInput
from sojourn.timing.fit.speed_groups import CLEAR, MOST_GROUPS, speed_groups


def seen(means, tasks, seed=1, draw=None):
    """Tasks of devices with these mean durations."""
    rng = np.random.default_rng(seed)
    client = np.repeat(np.arange(len(means)), tasks)
    draw = draw or rng.exponential
    return client, draw(1.0, client.size) * np.asarray(means, dtype=float)[client]


@pytest.mark.parametrize("seed", range(8))
def test_equal_devices_are_one_group(seed):
    assert speed_groups(*seen(np.ones(60), 30, seed)).groups == 1


@pytest.mark.parametrize("seed", range(8))
def test_classes_of_devices_are_distinguished_though_a_class_varies(seed):
    rng = np.random.default_rng(seed)
    means = np.concatenate([centre * np.exp(rng.normal(0, 0.1, 12)) for centre in (1, 4, 15)])
    found = speed_groups(*seen(means, 60, seed))
    assert found.label.tolist() == np.repeat([0, 1, 2], 12).tolist()
    least = min(found.criterion.values())
    assert found.criterion[3] <= least + CLEAR < found.criterion[2]


def test_the_fastest_group_is_the_first_whatever_the_order_of_devices():
    assert speed_groups(*seen([9, 1, 9, 1, 9, 1, 9], 100)).label.tolist() == [1, 0, 1, 0, 1, 0, 1]


def test_a_fleet_of_every_speed_is_cut_into_pieces():
    found = speed_groups(*seen(np.geomspace(1, 20, 80), 200))
    assert 3 <= found.groups <= MOST_GROUPS
    assert (np.diff(found.label) >= 0).mean() > 0.95


def test_devices_with_few_tasks_join_the_group_that_explains_them_best():
    client, duration = seen([1] * 10 + [20] * 10, 50)
    client, duration = np.append(client, [20, 21]), np.append(duration, [0.8, 25.0])
    assert speed_groups(client, duration).label[-2:].tolist() == [0, 1]


@pytest.mark.slow
def test_as_many_devices_are_in_a_wrong_group_as_is_expected():
    truth = np.tile([0, 1], 1500)
    found = speed_groups(*seen(np.where(truth, 6.0, 1.0), 5))
    wrong = (found.label != truth).mean()
    assert found.groups == 2
    assert 0.005 < wrong < 0.1
    assert found.doubt == pytest.approx(wrong, abs=3 * np.sqrt(wrong / truth.size))
    assert speed_groups(*seen(np.where(truth, 6.0, 1.0), 60)).doubt < 1e-3


def test_a_number_of_groups_that_is_asked_for_is_made():
    client, duration = seen(np.geomspace(1, 20, 30), 50)
    for wanted in (1, 2, 5, 30):
        found = speed_groups(client, duration, wanted)
        assert (found.groups, found.criterion) == (wanted, {})
    with pytest.raises(
        InvalidInput, match="groups must lie between 1 and 30, the number of devices that differ, got 31"
    ):
        speed_groups(client, duration, 31)


@pytest.mark.parametrize("tasks", [1, 2, 400])
def test_devices_that_never_vary_are_distinguished_by_their_means(tasks):
    found = speed_groups(*seen([1.0, 1.0, 1.0, 2.0, 2.0, 2.0], tasks, draw=lambda _, size: np.ones(size)))
    assert found.groups == (1 if tasks == 1 else 2)


def test_zeros_of_a_coarse_clock_do_no_harm():
    client, duration = seen([1] * 5 + [30] * 5, 40)
    assert speed_groups(client, np.floor(duration)).label.tolist() == [0] * 5 + [1] * 5
    assert speed_groups(client, np.zeros(client.size)).groups == 1


def test_more_devices_than_are_looked_at_all_have_a_group():
    found = speed_groups(*seen(np.tile([1.0, 6.0], 4000), 20))
    assert found.groups == 2
    assert (found.label == np.tile([0, 1], 4000)).mean() > 0.999
