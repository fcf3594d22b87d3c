"""Rounds, time and energy to epsilon of the communication-aware extension."""

import numpy as np
import pytest

from sojourn import Constants, Fleet, InvalidInput, Plan, analyze
from sojourn.planning.bound.communication import energy_of_task, energy_per_step, rounds
from sojourn.planning.bound.theorem import sums

CONSTANTS = Constants(A=1, L=1, sigma2=1, G2=25, R2=196)
TWO = Fleet(
    name=("slow", "fast"), count=[1, 1], rate=[1.0, 3.0], uplink_rate=[1.0, 3.0], downlink_rate=[1.0, 3.0],
    power=[2.0, 6.0], uplink_power=[1.0, 3.0], downlink_power=[0.5, 0.3],
)  # fmt: skip


def seen(server_rate=None):
    analysis = analyze(TWO, Plan.of(TWO, {"slow": 0.32, "fast": 0.68}, 6), server_rate=server_rate)
    D = analysis.staleness("indicator")
    return analysis, D, sums(analysis.plan.sampling, D, [0.5, 0.5])


def test_rounds_of_two_clients_with_links():
    analysis, D, (S1, S2) = seen()
    assert pytest.approx([3.06611834, 1.93388166], abs=5e-9) == D
    assert analysis.throughput == pytest.approx(2.55834388, abs=5e-9)
    assert rounds(1.0, 6, S1, S2, CONSTANTS) == pytest.approx(13936.8197, abs=5e-5)


def test_rounds_by_the_printed_formula():
    # K = (24 L Delta / (n eps)) [ (4 + B/eps) sum 1/(n p_i) + ( Cc (C-1)/eps sum D_i/p_i^2 )^(1/2) ]
    _, D, (S1, S2) = seen()
    p, eps, n = np.array([0.32, 0.68]), 0.7, 2
    B, Cc = 6 * (1 + 2 * 25), 6 * (1 + 196)
    K = 24 / (n * eps) * ((4 + B / eps) * (1 / (n * p)).sum() + np.sqrt(Cc * 5 / eps * (D / p**2).sum()))
    assert rounds(eps, 6, S1, S2, CONSTANTS) == pytest.approx(K, rel=1e-13)


def test_a_busy_server_keeps_the_sum_of_the_staleness_and_makes_time_longer():
    analysis, D, (S1, S2) = seen(server_rate=4.0)
    without, _, _ = seen()
    assert D.sum() == pytest.approx(5, rel=1e-12)
    assert analysis.throughput < without.throughput
    time = rounds(1.0, 6, S1, S2, CONSTANTS) / analysis.throughput
    assert time > 13936.8197 / without.throughput


def test_energy_by_hand():
    # slow: 2/1 + 1/1 + .5/1 = 3.5; fast: 6/3 + 3/3 + .3/3 = 3.1
    assert energy_of_task(TWO) == pytest.approx([3.5, 3.1], rel=1e-14)
    p = np.array([0.32, 0.68])
    assert energy_per_step(TWO, p) == pytest.approx(0.32 * 3.5 + 0.68 * 3.1, rel=1e-14)
    assert energy_per_step(TWO, p, server_rate=4.0, server_power=10.0) == pytest.approx(0.32 * 3.5 + 0.68 * 3.1 + 2.5)


def test_links_that_take_no_time_need_no_power_and_others_do():
    plain = Fleet(("a",), [2], [2.0], power=[3.0])
    assert energy_of_task(plain).tolist() == [1.5]
    assert np.isnan(energy_of_task(Fleet(("a",), [2], [2.0], uplink_rate=[1.0], power=[3.0]))).all()
    assert np.isnan(energy_of_task(Fleet.of(a=(2, 1.0)))).all()


def test_the_constants_that_it_needs_are_named():
    with pytest.raises(InvalidInput, match="needs the constants sigma2, G2 and R2"):
        rounds(1.0, 2, 1.0, 1.0, Constants(A=1, L=1, B=1))
    with pytest.raises(InvalidInput, match="epsilon must be positive, got 0"):
        rounds(0.0, 2, 1.0, 1.0, CONSTANTS)
