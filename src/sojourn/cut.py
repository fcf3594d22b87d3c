"""Cut points on a line into clusters in the best way."""

import numpy as np

from sojourn.types import Floats, Integers

PIECES = 400  # neighbouring points are merged into at most this many before clusters are searched


def cut(value: Floats, weight: Floats, clusters: int) -> Integers:
    """Return the cluster of each point, 0 the lowest, with the least weighted sum of squares around the clusters'
    means.

    Equal points stay together; if there are more than a few hundred distinct points, neighbours are merged first.

    >>> cut(np.array([1.0, 9.0, 1.2, 8.5]), np.ones(4), 2)
    array([0, 1, 0, 1])
    """
    distinct, place = np.unique(value, return_inverse=True)
    mass = np.bincount(place.reshape(-1), weight)
    pieces = np.array_split(np.arange(distinct.size), min(distinct.size, PIECES))
    together = np.array([mass[piece].sum() for piece in pieces])
    centre = np.array([mass[piece] @ distinct[piece] for piece in pieces]) / together
    label = np.repeat(_least_squares(centre, together, clusters), [piece.size for piece in pieces])
    return np.asarray(label[place.reshape(-1)], dtype=np.int64)


def _least_squares(x: Floats, weight: Floats, clusters: int) -> Integers:
    """Return the cluster of each of the sorted points, with the least sum of squares around the clusters' means."""
    w, wx, wxx = (np.concatenate([[0.0], np.cumsum(weight * x**power)]) for power in (0, 1, 2))

    def inside(begin: Integers, end: int) -> Floats:
        total = np.maximum(w[end] - w[begin], 1e-300)
        return np.asarray(wxx[end] - wxx[begin] - (wx[end] - wx[begin]) ** 2 / total)

    size = x.size
    best = np.concatenate([[np.inf], [inside(np.array([0]), end)[0] for end in range(1, size + 1)]])
    cuts = np.zeros((clusters, size + 1), dtype=np.int64)
    for number in range(1, clusters):
        before, best = best, np.full(size + 1, np.inf)
        for end in range(number + 1, size + 1):
            begins = np.arange(number, end)
            costs = before[begins] + inside(begins, end)
            pick = int(np.argmin(costs))
            best[end], cuts[number, end] = costs[pick], begins[pick]
    label = np.zeros(size, dtype=np.int64)
    end = size
    for number in range(clusters - 1, 0, -1):
        begin = int(cuts[number, end])
        label[begin:end] = number
        end = begin
    return label
