"""Times of clients' tasks, learnt online: intervals cover the truth, and a jump is noticed and the past forgotten."""

import numpy as np
import pytest

from sojourn.live.speeds import MEMORY, Means, Speeds, left

SETTLED = 25  # tasks of each client after which its mean is that after the jump, within three standard errors


def times(law, size, seed=1):
    rng = np.random.default_rng(seed)
    if law == "deterministic":
        return np.ones(size)
    if law == "exponential":
        return rng.exponential(1, size)
    sigma = float(law)
    return rng.lognormal(-(sigma**2) / 2, sigma, size)


def learnt(rows, label=None):
    """Speeds after these rows, one task of each client in a row; it looks for changes if there are labels."""
    speeds = Speeds(rows.shape[1])
    for row in rows:
        for client, value in enumerate(row):
            speeds.note(client, float(value), 0.0)
        if label is not None:
            speeds.forget(label)
    return speeds


@pytest.mark.parametrize(
    ("law", "tasks", "least", "most"),
    [
        # at 200 clients the standard error of a coverage of 95% is 1.5 points; three of them are allowed
        ("exponential", 15, 0.89, 0.995),
        ("exponential", 120, 0.90, 0.995),
        ("0.3", 15, 0.90, 1.0),
        ("0.3", 120, 0.91, 1.0),  # 2% are added to every error, so that it covers more
        ("1.0", 15, 0.85, 0.98),  # a heavy tail that so few tasks do not show yet
        ("1.0", 120, 0.89, 0.995),
        ("deterministic", 5, 1.0, 1.0),
    ],
)
def test_intervals_of_95_percent_cover_the_true_mean(law, tasks, least, most):
    low, high = learnt(times(law, (tasks, 200))).known.interval(0.95)
    assert least <= float(((low <= 1) & (high >= 1)).mean()) <= most


def test_memory_is_bounded_so_that_slow_drift_is_followed():
    known = learnt(np.vstack([np.ones((300, 1)), np.full((300, 1), 1.04)])).known  # too small to be a jump
    assert 0.95 * MEMORY < float(known.tasks[0]) <= MEMORY
    assert float(known.turnaround[0]) == pytest.approx(1.04, abs=0.002)


@pytest.mark.parametrize(
    ("law", "clients", "usually", "within"),
    [
        ("deterministic", 1, 6, 6),
        ("0.3", 1, 12, 30),
        ("exponential", 5, 20, 60),
        pytest.param("1.0", 5, 35, 80, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_after_a_jump_the_mean_leaves_its_old_interval_and_the_past_is_forgotten(law, clients, usually, within, factor):
    late = []
    for seed in range(3):
        label = np.zeros(clients, np.int64)
        rows = times(law, (100 + within + SETTLED, clients), seed)
        speeds = learnt(rows[:100], label)
        plan = speeds.known
        assert not left(plan, plan, label).any
        gone = []
        for row in factor * rows[100:]:
            for client, value in enumerate(row):
                speeds.note(client, float(value), 0.0)
            speeds.forget(label)
            gone.append(left(speeds.known, plan, label).any)
        assert any(gone[:within])
        late.append(1 + gone.index(True))
        weight = speeds.known.shape
        mean = float((weight * speeds.known.turnaround).sum() / weight.sum())
        noise = 3 / np.sqrt(weight.sum())  # three standard errors
        assert abs(np.log(mean / factor)) < noise + 0.1  # and what is left of the past
    assert np.median(late) <= usually


def test_while_nothing_changes_alarms_are_rare():
    label = np.repeat([0, 1], 5)
    speeds, alarms = Speeds(10), 0
    for row in times("exponential", (800, 10)):
        for client, value in enumerate(row):
            speeds.note(client, float(value), 0.0)
        alarms += speeds.forget(label).any
    assert alarms <= 2


def test_a_client_of_a_changed_group_that_does_not_show_it_is_believed_to_have_changed_too():
    label = np.zeros(6, np.int64)
    speeds = learnt(np.ones((100, 6)), label)
    for _ in range(3):
        for client in range(5):  # the sixth is still busy with its first slow task
            speeds.note(client, 2.0, 0.0)
        speeds.forget(label)
    known = speeds.known
    assert known.turnaround[:5] == pytest.approx(2.0)
    assert known.turnaround[5] > 1.3
    assert known.tasks[5] == 1.0
    speeds.note(5, 1.0, 0.0)  # it has not
    assert known.turnaround[5] > speeds.known.turnaround[5]


def test_travel_is_told_from_service_and_an_unknown_one_is_taken_as_usual():
    speeds = Speeds(1)
    for travel in (0.5, 0.5, np.nan):
        speeds.note(0, 1.0, travel)
    assert (speeds.known.service[0], speeds.known.travel[0]) == pytest.approx((1.0, 0.5))


def test_a_snapshot_restores_everything():
    speeds = learnt(times("exponential", (40, 3)))
    again = Speeds(3)
    again.restore(speeds.snapshot())
    for one in (speeds, again):
        one.note(1, 7.0, 0.1)
    for mine, other in zip(speeds.known, again.known, strict=True):
        assert np.array_equal(mine, other)
    assert np.array_equal(speeds.recent.turnaround, again.recent.turnaround)


def test_clients_that_nothing_is_known_of_never_leave_anything():
    nothing = Means(*(np.array([np.nan, np.nan]), np.array([np.nan, np.nan])), np.zeros(2), np.zeros(2))
    some = Means(np.ones(2), np.ones(2), np.full(2, 50.0), np.full(2, 50.0))
    assert not left(some, nothing, [0, 0]).any
    assert not left(nothing, some, [0, 1]).any
