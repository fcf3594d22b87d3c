"""Rounds, time and energy until epsilon, by the communication-aware extension of the paper.

Alahyane, Comte, Jonckheere and Moulines, arXiv 2603.26231. Symbols as in the bound, and: sigma^2 variance, M^2
dissimilarity (`Constants.G2`), G^2 bound on a squared gradient (`Constants.R2`), Delta = A, E[D_i] = m_i the tasks of
client i, in its queue, on its links and at the server, that an arriving task finds.

    K = (24 L Delta / epsilon) [ (4 + N / epsilon) S1 + ( D (C-1) S2 / epsilon )^(1/2) ]
    N = 6 (sigma^2 + 2 M^2),   D = 6 (sigma^2 + G^2)
    time = K / Lambda,   energy = K (P_s / mu_s + sum_i p_i E_i),   E_i = P_i / mu_i + P_up / mu_up + P_down / mu_down
"""

from math import sqrt

import numpy as np

from sojourn.constants import Constants
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.types import Floats


def rounds(epsilon: float, concurrency: int, S1: float, S2: float, constants: Constants) -> float:
    """Return K, the number of server steps after which the mean squared gradient norm is at most epsilon."""
    by_spread, by_staleness = factors(epsilon, concurrency, constants)
    return by_spread * S1 + by_staleness * sqrt(S2)


def factors(epsilon: float, concurrency: int, constants: Constants) -> tuple[float, float]:
    """Return the factors of S1 and of the root of S2 in K."""
    if not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon}")
    sigma2, M2, G2 = constants.sigma2, constants.G2, constants.R2
    if sigma2 is None or M2 is None or G2 is None:
        raise InvalidInput("the communication-aware bound needs the constants sigma2, G2 and R2; add them")
    front = 24 * constants.L * constants.A / epsilon
    noise = 6 * (sigma2 + 2 * M2)
    drift = 6 * (sigma2 + G2)
    return front * (4 + noise / epsilon), front * sqrt(drift * (concurrency - 1) / epsilon)


def energy_of_task(fleet: Fleet) -> Floats:
    """Return E_i of one client of each group in joules; NaN if a power that is needed is not stated."""
    total = fleet.power / fleet.rate
    for power, rate in ((fleet.uplink_power, fleet.uplink_rate), (fleet.downlink_power, fleet.downlink_rate)):
        total = total + np.where(np.isinf(rate), 0.0, power / rate)
    return np.asarray(total)


def energy_per_step(fleet: Fleet, sampling: Floats, server_rate: float = np.inf, server_power: float = 0.0) -> float:
    """Return the mean energy of one server step in joules: sum_i p_i E_i, plus the server's."""
    return float((fleet.count * sampling * energy_of_task(fleet)).sum()) + server_power / server_rate
