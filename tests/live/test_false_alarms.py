"""While nothing changes a live run is rarely planned again for a change, not at its start either, whatever its size.

No clients and no messages: a follower is told of simulated tasks, on a clock of its own.
"""

from heapq import heapify, heapreplace

import numpy as np
import pytest

from live.changing_fleet import AtOnce
from sojourn.live.believed import Told
from sojourn.live.follower import Follower, Moment
from sojourn.live.speeds import Means, left

FAST, SLOW = 20.0, 4.0


class Alarms:
    """A planner that works nothing out."""

    def __init__(self, rates, group):
        self.told = Told(1 / rates, np.zeros(rates.size), group)

    def find(self, *_):
        raise StopIteration


def alarms(each, seconds, seed, law="exponential", change=1.0):
    """The times and reasons of the alarms in a run of so many fast and slow clients, told wrong by a factor."""
    rates, group = np.repeat([FAST, SLOW], each), np.repeat([0, 1], each)
    rng, clients = np.random.default_rng(seed), 2 * each
    follower = Follower(Alarms(rates, group), 1e9, AtOnce())
    found, began, step = [], np.zeros(clients), 0
    now = 0.0
    follower.kept = lambda _, reason: found.append((now, reason.partition(";")[0]))

    def drawn(client):
        mean = change / rates[client]
        if law == "deterministic":
            return mean
        return rng.exponential(mean) if law == "exponential" else mean * rng.lognormal(-0.045, 0.3)

    tasks = [(drawn(client), client) for client in range(clients)]
    heapify(tasks)
    while tasks[0][0] < seconds:
        now, client = tasks[0]
        follower.note(client, now - began[client], 0.0)
        began[client], step = now, step + 1
        heapreplace(tasks, (now + drawn(client), client))
        present = np.ones(clients, bool)
        follower.look(Moment(now, step, present, lambda: now - began, seconds - now))  # noqa: B023
    return [one for one in found if one[1].startswith("drift")]


@pytest.mark.parametrize("law", ["exponential", "lognormal", "deterministic"])
@pytest.mark.parametrize("each", [50, 250])
def test_the_short_tasks_that_come_back_first_are_not_taken_for_a_change(each, law):
    assert [alarms(each, 1.0, seed, law) for seed in range(2)] == [[], []]  # four tasks of each slow client


@pytest.mark.slow
def test_while_nothing_changes_a_run_of_ten_has_a_false_alarm_about_once_in_1150_updates_of_each_client():
    found = [alarms(5, 60.0, seed) for seed in range(4)]
    print(*found, sep="\n")
    assert sum(map(len, found)) <= 9  # 2.5 are expected of 2,880 updates of each client, and they come in pairs


@pytest.mark.parametrize("law", ["exponential", "lognormal", "deterministic"])
def test_clients_that_are_faster_than_their_fleet_file_says_are_still_noticed_at_once(law):
    for seed in range(3):
        assert alarms(
            5, 2.0, seed, law, change=0.5
        )  # eight tasks of a slow client as they were told, forty of a fast one


def test_a_client_that_has_sent_nothing_yet_counts_for_its_group_by_the_task_in_its_hands():
    told = Means(*(np.full(40, one) for one in (1.0, 1.0, np.inf, 2500.0)))
    back = np.arange(40) < 20  # half of them, after tasks of a fifth of the time
    nothing = np.where(back, 0.2, np.nan)
    seen = Means(nothing, nothing, 1.0 * back, 1.0 * back)
    label = np.zeros(40, np.int64)
    assert left(seen, told, label).group[0]
    others = np.where(back, 0.3, 0.5)
    found = left(seen, told, label, ages=others)
    assert not found.any
    assert found.group_ratio[0] == pytest.approx((20 * 0.2 + others.sum()) / 20)  # time spent by tasks done
    assert left(seen, told, label, ages=np.where(back, 0.0, 0.05)).group[0]
