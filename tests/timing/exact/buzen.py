"""Buzen's convolution in scaled form: the normalising constants H_c, an independent road to the same network.

With every load tilted to rho_i = theta_i z < 1 the queues become independent geometric variables, and
H_c z^c prod_i (1 - rho_i) is the probability that they sum to c: nothing overflows. z is chosen so that the mean of
the sum is the population, where the distribution is largest.
"""

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import compiled
from sojourn.timing.simulate.start import tilt
from sojourn.types import Floats


@compiled
def _convolve(table: Floats, ratio: Floats, count: NDArray[np.int64]) -> None:
    for group in range(ratio.size):
        rho = ratio[group]
        for _ in range(count[group]):
            carried = 0.0
            for c in range(table.size):
                carried = (1.0 - rho) * table[c] + rho * carried
                if carried < 1e-290:  # subnormal numbers would run sixty times slower
                    carried = 0.0
                table[c] = carried


def log_constants(load: Floats, count: NDArray[np.int64], population: int) -> Floats:
    """Log H_c for c = 0..population (-inf where a term is below 1e-290 of the largest)."""
    z = tilt(load, count, population)
    ratio = load * z
    table = np.zeros(population + 1)
    table[0] = 1.0
    _convolve(table, ratio, count)
    with np.errstate(divide="ignore"):
        logs = np.log(table)
    return np.asarray(logs - np.arange(population + 1) * np.log(z) - (count * np.log1p(-ratio)).sum())


def mean_queues(load: Floats, count: NDArray[np.int64], population: int) -> Floats:
    """E_C[X_i] = sum_k theta_i^k H_{C-k} / H_C for one client of each group."""
    logs = log_constants(load, count, population)
    k = np.arange(1, population + 1)
    return np.array([np.exp(k * np.log(theta) + logs[population - k] - logs[population]).sum() for theta in load])
