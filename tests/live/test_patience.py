"""How long the server waits for an update: as long as the client's own times make plausible, whatever was guessed."""

import numpy as np
import pytest

from sojourn.live.patience import Patience

CLIENTS, TASKS = 1000, 40


def after(guess, times):
    """Return the patience with a client after tasks of these times, if its fleet file said `guess`."""
    patience = Patience([guess], least=0.0)
    for one in times:
        patience.note(0, one)
    return patience.of(0)


@pytest.mark.parametrize("wrong", [1 / 50, 50.0, 360.0])
def test_a_wrong_guess_counts_no_more_once_there_are_two_updates(wrong):
    for times in ([12.0, 12.0], [3.0, 40.0, 12.0], [0.5] * 20):
        right = float(np.mean(times))
        assert after(wrong * right, times) == after(right, times)


@pytest.mark.parametrize("wrong", [1 / 50, 50.0, 360.0])
def test_a_client_whose_tasks_always_take_as_long_is_given_up_in_proportion_to_that(wrong):
    waits = [after(wrong, [1.0] * many) for many in range(2, 30)]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] < 25.0
    assert waits[3] < 7.0
    assert 2.0 < waits[-1] < 2.5


@pytest.mark.parametrize("wrong", [50.0, 360.0])
def test_one_update_never_makes_the_server_more_patient_than_a_guess_that_was_too_long(wrong):
    assert after(wrong, [1.0]) <= after(wrong, [])


def test_one_short_task_does_not_take_away_what_the_fleet_says():
    assert after(1.0, [0.001]) == after(1.0, [])


def test_a_client_of_unknown_speed_is_waited_for_an_hour_at_first_and_then_for_seconds():
    assert after(180.0, []) == pytest.approx(3600, rel=0.01)
    assert after(180.0, [0.5, 0.5]) < 11.0


def test_what_a_task_usually_takes_is_the_clients_own_mean_as_soon_as_it_has_one():
    patience = Patience([180.0])
    assert patience.usual(0) == pytest.approx(180.0)
    patience.note(0, 0.5)
    assert patience.usual(0) == pytest.approx(0.5)


def exponential(rng, shape):
    return rng.exponential(1.0, shape)


def hyperexponential(rng, shape):
    """A squared coefficient of variation of 4, with balanced means."""
    often = 0.5 * (1 + np.sqrt(3 / 5))
    mean = np.where(rng.random(shape) < often, 1 / (2 * often), 1 / (2 * (1 - often)))
    return rng.exponential(1.0, shape) * mean


def lognormal(rng, shape):
    return rng.lognormal(-(1.5**2) / 2, 1.5, shape)


@pytest.mark.parametrize(
    ("law", "first", "later"),
    [(exponential, 0.003, 0.001), (hyperexponential, 0.01, 0.005), (lognormal, 0.015, 0.008)],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_clients_of_irregular_times_are_seldom_given_up_by_mistake(law, first, later):
    """The rates that the module states, of clients whose mean time the fleet knows."""
    patience = Patience([1.0] * CLIENTS, least=0.0)
    times = law(np.random.default_rng(7), (TASKS, CLIENTS))
    late = np.zeros(times.shape, bool)
    for nth, row in enumerate(times.tolist()):
        for client, one in enumerate(row):
            late[nth, client] = one > patience.of(client)
            patience.note(client, one)
    assert late[:5].mean() < first
    assert late[5:10].mean() < later
    assert late[10:].mean() < later / 5
