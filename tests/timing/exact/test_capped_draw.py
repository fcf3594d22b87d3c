"""States drawn from the stationary law of a capped network, against its exact marginal laws."""

import numpy as np
import pytest

from sojourn import Fleet
from sojourn.timing.exact import capped_draw
from sojourn.timing.exact.capped import capped_network
from sojourn.timing.exact.capped_draw import draw_state

LINKED = Fleet(tuple("abc"), [3, 2, 2], [2.0, 1.0, 0.5], uplink_rate=[1.0, np.inf, 2.0], downlink_rate=[3.0, 4.0, 9.0])
CASES = {
    "nobody waits": (Fleet.of(fast=(6, 4.0), slow=(4, 1.0)), [1.0, 2.0], 5, 1),
    "mixed caps and links": (LINKED, [1.0, 2.0, 1.0], 8, [1, 2, 3]),
    "some without a cap": (LINKED, [1.0, 2.0, 1.0], 9, [1, None, None]),
    "full": (LINKED, [1.0, 2.0, 1.0], 13, [1, 2, 3]),
}


def check(network, draws, rng):
    """Every marginal within four and a half standard errors; there are a few dozen of them."""
    states = np.array([draw_state(network, rng) for _ in range(draws)])
    fleet = network.fleet
    assert (states.sum(axis=1) == network.concurrency).all()
    for index, name in enumerate(fleet.name):
        exact = network.held_distribution(name)
        for client in np.flatnonzero(fleet.group_of_client == index):
            assert states[:, client].max() <= network.cap[index]
            seen = np.bincount(states[:, client], minlength=exact.size) / draws
            error = np.sqrt(np.maximum(exact * (1 - exact), 0) / draws) + 1e-9
            assert (np.abs(seen - exact) < 4.5 * error + 1 / draws).all()


@pytest.mark.slow
@pytest.mark.parametrize("table", [capped_draw._TABLE, 1], ids=["all by the table", "all but one by rejection"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_clients_hold_what_the_exact_law_says(case, table, monkeypatch):
    monkeypatch.setattr(capped_draw, "_TABLE", table)
    check(capped_network(*case), 3000, np.random.default_rng(2))


def test_two_clients_are_as_dependent_as_the_exact_law_says():
    network = capped_network(*CASES["mixed caps and links"])
    rng = np.random.default_rng(5)
    states = np.array([draw_state(network, rng) for _ in range(4000)], dtype=float)
    variance, pair = network.covariances()
    first, last = states[:, 0], states[:, -1]
    product = (first - network.held[0]) * (last - network.held[2])
    assert abs(product.mean() - pair[0, 2]) < 4 * product.std() / np.sqrt(product.size)
    assert first.var() == pytest.approx(variance[0], abs=0.05)


def test_a_hundred_thousand_different_clients_are_drawn_with_rejection():
    fleet = Fleet.of_rates(np.random.default_rng(1).lognormal(size=100_000))
    network = capped_network(fleet, np.ones(100_000), 40_000, 1)
    held = draw_state(network, np.random.default_rng(3))
    assert held.sum() == 40_000
    assert set(np.unique(held)) == {0, 1}
    # those that are busy more often than not are busy: the count of them is within five standard deviations
    often = network.held > 0.5
    mean = network.held[often].sum()
    assert abs(held[often].sum() - mean) < 5 * np.sqrt((network.held * (1 - network.held))[often].sum())
