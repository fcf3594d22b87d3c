"""Walker's alias table, for drawing from a discrete law in constant time."""

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import compiled


@compiled
def _build(scaled: NDArray[np.float64], keep: NDArray[np.float64], other: NDArray[np.int64]) -> None:
    size = scaled.size
    small = np.empty(size, dtype=np.int64)
    large = np.empty(size, dtype=np.int64)
    smalls = larges = 0
    for i in range(size):
        if scaled[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        low, high = small[smalls], large[larges - 1]
        keep[low], other[low] = scaled[low], high
        scaled[high] -= 1.0 - scaled[low]
        if scaled[high] < 1.0:
            larges -= 1
            small[smalls] = high
            smalls += 1


def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return (keep, other): for column i = floor(u m), take i if the fraction of u m is below keep[i], else other[i].

    >>> keep, other = alias_table(np.array([0.25, 0.75]))
    >>> keep.tolist(), other.tolist()
    ([0.5, 1.0], [1, 1])
    """
    scaled = weights * (weights.size / weights.sum())
    keep = np.ones(weights.size)
    other = np.arange(weights.size, dtype=np.int64)
    _build(scaled, keep, other)
    return keep, other
