"""Mean value analysis of a closed network, grouped and compiled.

Symbols: theta_i load of one client of group i, n_i clients in group i, Z delay (mean time away from all queues),
L_i(c) mean queue of one client with c tasks in the network, Lambda(c) throughput.

    t_i(c) = theta_i (1 + L_i(c-1)),   Lambda(c) = c / (Z + sum_i n_i t_i(c)),   L_i(c) = Lambda(c) t_i(c)

It uses only sums and products of positive numbers, so it is stable at any size. It takes one pass over the groups per
task.
"""

import numpy as np

from sojourn.compiled import compiled, compiled_sum
from sojourn.types import Floats

_BLOCK = 64  # clients whose tails are computed together


@compiled_sum
def advance(
    stretch: Floats, load: Floats, count: Floats, delay: float, throughput: Floats, done: int, stop: int
) -> None:
    """Go from population `done` to `stop`; `stretch` holds t(done), `throughput[c]` is filled for the new c."""
    flow = throughput[done]
    single = np.all(count == 1.0)  # then reading and multiplying counts, a quarter of the work, can be left out
    for population in range(done + 1, stop + 1):
        total = delay
        if single:
            for i in range(load.size):
                stretch[i] = load[i] * (1.0 + flow * stretch[i])
                total += stretch[i]
        else:
            for i in range(load.size):
                stretch[i] = load[i] * (1.0 + flow * stretch[i])
                total += count[i] * stretch[i]
        flow = population / total
        throughput[population] = flow


@compiled_sum
def weighted_queues(load: Floats, count: Floats, weights: Floats, throughput: Floats) -> Floats:
    """sum_i n_i w_i L_i(c) for c = 0 .. throughput.size - 1, with the throughputs Lambda(c) known."""
    result = np.zeros(throughput.size)
    stretch = np.zeros(load.size)
    mass = count * weights
    for c in range(1, throughput.size):
        flow = throughput[c - 1]
        weighted = 0.0
        for i in range(load.size):
            stretch[i] = load[i] * (1.0 + flow * stretch[i])
            weighted += mass[i] * stretch[i]
        result[c] = throughput[c] * weighted
    return result


@compiled
def covariance_with_queues(
    load: Floats, throughput: Floats, weights: Floats, expected: Floats, population: int
) -> Floats:
    """Cov(W, X_j) for one client j of each group, W = sum_i w_i X_i, from E_c[W] in `expected`.

    E[W; X_j >= k] = P(X_j >= k) (E_{C-k}[W] + k w_j) and E[X_j] = sum_k P(X_j >= k); the means are taken relative to
    E_C[W], so that large numbers cancel before they are summed. Clients are handled in blocks until the tails of all
    are negligible.
    """
    result = np.zeros(load.size)
    tail = np.empty(_BLOCK)
    for begin in range(0, load.size, _BLOCK):
        own, weight, total = load[begin : begin + _BLOCK], weights[begin : begin + _BLOCK], result[begin:]
        tail[:] = 1.0
        for k in range(1, population + 1):
            flow = throughput[population - k + 1]
            change = expected[population - k] - expected[population]
            for j in range(own.size):
                tail[j] *= own[j] * flow
                total[j] += tail[j] * (change + k * weight[j])
            if k % 16 == 0 and tail[: own.size].max() < 1e-30:
                break
    return result


@compiled
def covariances(
    load: Floats, count: Floats, delay: float, throughput: Floats, population: int
) -> tuple[Floats, Floats]:
    """Variance of each queue, and covariance of the queues of two different clients, by groups.

    Differentiating the recursion: Cov_c(i, j) = L_i(c) (1{i=j} - (L_j(c) - L_j(c-1)) + Cov_{c-1}(i, j)/(1 + L_i(c-1))).
    """
    groups = load.size
    before = np.zeros(groups)
    queue = np.zeros(groups)
    variance = np.zeros(groups)
    pair = np.zeros((groups, groups))
    for c in range(1, population + 1):
        for i in range(groups):
            before[i] = queue[i]
            queue[i] = throughput[c] * load[i] * (1.0 + before[i])
        for i in range(groups):
            shrink = queue[i] / (1.0 + before[i])
            variance[i] = queue[i] * (1.0 - (queue[i] - before[i])) + shrink * variance[i]
            for j in range(groups):
                pair[i, j] = -queue[i] * (queue[j] - before[j]) + shrink * pair[i, j]
    return variance, pair
