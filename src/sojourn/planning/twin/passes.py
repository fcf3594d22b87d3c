"""The backward pass: how the last model of a run depends on its start, offsets and noise, in every direction at once.

A server whose next model is linear in models and gradients ends, in a direction of curvature h, at

    w_V = a w_0 + sum_i b_i delta_i + sum_k c_k xi_k

delta_i the offset of client i, xi_k the noise of gradient k. lam[v] is the derivative of the last model by model v:

    lam[V] = 1;  for v = V-1 .. 0:  lam[v] += keep_v lam[v+1]
        for each gradient k applied at change v:  c_k = eta weight_k lam[v+1];  b_i -= c_k
                                                  lam[sent_k] += (1 - keep_v) lam[v+1] - c_k h
    a = lam[0]

If clients differ in steepness, h is steep_i h. A client that pulls back to the first model with pull_i h (w - w_0) adds
pull_i c_k to `lean`, and a = lam[0] + h lean. keep_v = 1 except where models are mixed (FedAsync). Gradients of block q
have offsets of size `root[q]` and noise of variance `noise[q]`. A direction is a column, so that the inner loops run
over contiguous numbers.
"""

import numpy as np

from sojourn.compiled import compiled_sum
from sojourn.types import Floats, Integers


@compiled_sum
def follow(
    ends: Integers,
    first: Integers,
    client: Integers,
    sent: Integers,
    weight: Floats,
    keep: Floats,
    variance: Floats,
    eta: float,
    h: Floats,
    root: Floats,
    noise: Floats,
    steep: Floats,
    pull: Floats,
    lam: Floats,
    b: Floats,
    square: Floats,
    lean: Floats,
) -> None:
    """Do one pass from the last of `ends`; fill lam, b and the sum of squares of c times the noise."""
    many = h.size
    last = ends[-1]
    lam[: last + 1, :] = 0.0
    lam[last, :] = 1.0
    b[:, :] = 0.0
    square[:] = 0.0
    lean[:] = 0.0
    x = np.empty(many)
    for q in range(ends.size - 2, -1, -1):
        for v in range(ends[q + 1] - 1, ends[q] - 1, -1):
            kept = keep[v]
            for d in range(many):
                x[d] = lam[v + 1, d]
                lam[v, d] += kept * x[d]
            for k in range(first[v], first[v + 1]):
                i, s = client[k], sent[k]
                e = eta * weight[k]
                mixed, spread, size = 1.0 - kept, noise[q] * variance[i] * e * e, root[q] * e
                own, back = e * steep[i], e * pull[i]
                for d in range(many):
                    square[d] += spread * x[d] * x[d]
                    b[i, d] -= size * x[d]
                    lam[s, d] += (mixed - own * h[d]) * x[d]
                    lean[d] += back * x[d]


@compiled_sum
def follow_table(
    ends: Integers,
    first: Integers,
    client: Integers,
    sent: Integers,
    weight: Floats,
    step: Floats,
    entry: Floats,
    inclusive: bool,
    warm: bool,
    variance: Floats,
    eta: float,
    h: Floats,
    root: Floats,
    noise: Floats,
    steep: Floats,
    pull: Floats,
    lam: Floats,
    b: Floats,
    square: Floats,
    lean: Floats,
) -> None:
    """Do the same for a server that moves along a table of what each client sent last.

    At change v the server moves by eta step_v times the sum over the table, the gradient of client i times entry_i,
    and by eta weight_k times the difference of gradient k from the one that it replaces. So k acts until its client
    sends the next. With `inclusive` the table holds k at the change in which it arrives, otherwise from the next on.
    With `warm` the table is full of gradients of the first model at the beginning.
    """
    many, clients = h.size, entry.size
    last = ends[-1]
    lam[: last + 1, :] = 0.0
    lam[last, :] = 1.0
    b[:, :] = 0.0
    square[:] = 0.0
    lean[:] = 0.0
    x, total = np.empty(many), np.zeros(many)
    memory = np.zeros((clients, many))
    seen = np.full(clients, -1)
    for q in range(ends.size - 2, -1, -1):
        for v in range(ends[q + 1] - 1, ends[q] - 1, -1):
            for d in range(many):
                x[d] = lam[v + 1, d]
                lam[v, d] += x[d]
                if inclusive:
                    total[d] += eta * step[v] * x[d]
            for k in range(first[v + 1] - 1, first[v] - 1, -1):
                i, s = client[k], sent[k]
                e, kappa = eta * weight[k], entry[i]
                newest = seen[i] != v
                seen[i] = v
                for d in range(many):
                    if newest:
                        u = e * x[d] + kappa * total[d]
                        c = u - memory[i, d]
                        memory[i, d] = u
                    else:
                        c = e * x[d]
                        memory[i, d] += c
                    square[d] += noise[q] * variance[i] * c * c
                    b[i, d] -= root[q] * c
                    lam[s, d] -= c * steep[i] * h[d]
                    lean[d] += c * pull[i]
            if not inclusive:
                for d in range(many):
                    total[d] += eta * step[v] * x[d]
    if warm:
        for i in range(clients):
            for d in range(many):
                c = entry[i] * total[d] - memory[i, d]
                square[d] += noise[0] * variance[i] * c * c
                b[i, d] -= root[0] * c
                lam[0, d] -= c * steep[i] * h[d]
                lean[d] += c * pull[i]
