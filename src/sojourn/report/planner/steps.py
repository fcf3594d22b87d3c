"""Steps of the sliders of the planner page: numbers of tasks in flight, and budgets of time, that suit a fleet."""

from sojourn.fleet import Fleet
from sojourn.planning.choices import room_of

MOST_TASKS = 100_000
MOST_PER_CLIENT = 5  # tasks per client, at the end of the slider
UPDATES = 10
FACTORS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # of the time in which a busy client sends so many updates


def tasks_to_try(fleet: Fleet, cap: int | None) -> list[int]:
    """Return the steps of the slider for tasks in flight.

    >>> tasks_to_try(Fleet.of(all=(20, 1.0)), 1)
    [1, 2, 5, 10, 20]
    """
    n = fleet.clients
    most = min(room_of(fleet, cap), MOST_PER_CLIENT * n, MOST_TASKS)
    rounds = [digit * 10**power for power in range(6) for digit in (1, 2, 5)]
    parts = [n // 10, n // 4, n // 2, n, 2 * n, most]
    return sorted({many for many in (*rounds, *parts) if 1 <= many <= most})


def times_to_try(fleet: Fleet) -> list[float]:
    """Return the steps of the slider for the budget, in seconds, with two digits.

    >>> times_to_try(Fleet.of(all=(20, 1.0)))[:4]
    [1.0, 2.0, 5.0, 10.0]
    """
    base = UPDATES * fleet.clients / float((fleet.count * fleet.rate).sum())
    return [float(f"{factor * base:.2g}") for factor in FACTORS]


def first_time(fleet: Fleet, throughput: float) -> float:
    """Return the budget that a page begins with, long enough for two updates per client at this throughput.

    >>> fleet = Fleet.of(all=(20, 1.0))
    >>> first_time(fleet, 20.0), first_time(fleet, 0.5)
    (20.0, 80.0)
    """
    usual = times_to_try(fleet)[FACTORS.index(2)]
    return max(usual, float(f"{2 * fleet.clients / throughput:.2g}"))
