"""Second moments, laws and derivatives of a capped network, from the points that gave its means.

Symbols as in `circle`: a_k weights, e_k points, F_i, R_i, u_i, m_i, v_i, U. With D = e d/de and Q_i the part of D F_i
that is in the queue, a change of log w_i turns F_i into D F_i, and a change of log mu_i turns it into -Q_i. Of

    J = sum a_k T(e_k),   T = e (A + M U + B) + H,
    A = sum a_i u_i,  M = sum b_i m_i,  B = sum b_i (v_i - m_i u_i),  H = sum h_i m_i   over all clients

the derivative is sum a_k ((T - J) F_j'/F_j + T'), where ' is the change of client j alone.
"""

import numpy as np
from scipy.special import gammaln

from sojourn.compiled import compiled, hot
from sojourn.timing.exact.circle import Circle, client, inverse, nonzero
from sojourn.timing.exact.held import NONE, Tilted
from sojourn.types import Complexes, Floats


@hot
def _second(t: Tilted, i: int, e: complex, by_rate: bool) -> tuple[complex, complex, complex, complex]:
    """The changes of F, R, D F and D R; those of R and D R are 0 for a client that holds at most one task."""
    if t.cap[i] == 1:
        full = t.prob[t.first[i] + 1] * e * (-t.queued[t.first[i] + 1] if by_rate else 1.0)
        return full, 0j, full, 0j
    if t.cap[i] == NONE:
        F, _, moved, _, queue = client(t, i, e)
        geometric = inverse(1.0 - t.ratio[i] * e)
        grown = t.ratio[i] * e * geometric * geometric
        m, q = moved * inverse(F), queue * inverse(F)
        if by_rate:
            return -queue, -queue, -F * (grown + q * m), -F * (grown + q * m)
        twice = F * (grown + t.linked[i] * e + m * m)
        return moved, moved, twice, twice
    change, moved, room, moved_room = 0j, 0j, 0j, 0j
    turn = 1.0 + 0j
    for k in range(t.cap[i] + 1):
        term = t.prob[t.first[i] + k] * turn * (-t.queued[t.first[i] + k] if by_rate else k)
        room, moved_room = change, moved
        change += term
        moved += k * term
        turn *= e
    return change, room, moved, moved_room


@compiled
def _totals(
    t: Tilted, points: Complexes, room_for: Complexes, a: Floats, b: Floats, h: Floats
) -> tuple[Complexes, Complexes]:
    """Return T and M at every point."""
    total, sums = np.empty(points.size, dtype=np.complex128), np.empty(points.size, dtype=np.complex128)
    for k in range(points.size):
        flow, mean, own = 0j, 0j, 0j
        for i in range(t.cap.size):
            F, room, moved, moved_room, _ = client(t, i, points[k])
            part = inverse(nonzero(F))
            m, u, v = moved * part, t.weight[i] * room * part, t.weight[i] * moved_room * part
            flow += t.clients[i] * (a[i] * u + b[i] * (v - m * u))
            mean += t.clients[i] * b[i] * m
            own += t.clients[i] * h[i] * m
        total[k] = points[k] * (flow + mean * room_for[k]) + own
        sums[k] = mean
    return total, sums


@compiled
def _slopes(
    t: Tilted,
    points: Complexes,
    weight: Complexes,
    room_for: Complexes,
    total: Complexes,
    sums: Complexes,
    coefficients: tuple[Floats, Floats, Floats],
    held: Floats,
    by_rate: bool,
) -> Floats:
    a, b, h = coefficients
    result = np.zeros(t.cap.size)
    for i in range(t.cap.size):
        for k in range(points.size):
            F, room, moved, moved_room, _ = client(t, i, points[k])
            change, new_room, new_moved, new_moved_room = _second(t, i, points[k], by_rate)
            part = inverse(nonzero(F))
            m, u, v = moved * part, t.weight[i] * room * part, t.weight[i] * moved_room * part
            by = change * part
            m_change = new_moved * part - m * by
            u_change = t.weight[i] * new_room * part - u * by + (0.0 if by_rate else u)
            v_change = t.weight[i] * new_moved_room * part - v * by + (0.0 if by_rate else v)
            sent = (a[i] + sums[k]) * u_change
            sent += b[i] * (m_change * (room_for[k] - u) + v_change - m * u_change)
            centred = by if by_rate else by - held[i]
            result[i] += (weight[k] * (total[k] * centred + points[k] * sent + h[i] * m_change)).real
    return result


def gradient(circle: Circle, by_rate: bool, a: Floats, b: Floats, h: Floats, held: Floats) -> Floats:
    """Return the derivative of J by log w_j, or by log mu_j, of one client of each group."""
    t, points = circle.tilted, circle.points
    coefficients = (np.ascontiguousarray(a), np.ascontiguousarray(b), np.ascontiguousarray(h))
    total, sums = _totals(t, points, circle.room_for, *coefficients)
    total -= (circle.weight * total).real.sum()
    return _slopes(t, points, circle.weight, circle.room_for, total, sums, coefficients, held, by_rate)


@compiled
def _spreads(t: Tilted, points: Complexes, held: Floats) -> tuple[Complexes, Complexes]:
    """m_i - E[x_i], and D m_i, by groups and points."""
    moved = np.empty((t.cap.size, points.size), dtype=np.complex128)
    own = np.empty((t.cap.size, points.size), dtype=np.complex128)
    for i in range(t.cap.size):
        for k in range(points.size):
            part = inverse(nonzero(client(t, i, points[k])[0]))
            change, _, twice, _ = _second(t, i, points[k], False)
            moved[i, k] = change * part - held[i]
            own[i, k] = (twice - change * change * part) * part
    return moved, own


def covariances(circle: Circle, held: Floats) -> tuple[Floats, Floats]:
    """Return the variance of what one client of each group holds, and the covariance of two different clients by
    groups.
    """
    moved, own = _spreads(circle.tilted, circle.points, np.ascontiguousarray(held))
    pair = ((moved * circle.weight) @ moved.T).real
    return np.asarray(np.diag(pair) + (own @ circle.weight).real), np.asarray(pair)


@compiled
def _law(t: Tilted, i: int, points: Complexes, weight: Complexes, prob: Floats) -> Floats:
    law = np.zeros(prob.size)
    for k in range(points.size):
        turned = weight[k] * inverse(nonzero(client(t, i, points[k])[0]))
        for number in range(prob.size):
            law[number] += prob[number] * turned.real
            turned *= points[k]
    return law


def held_law(circle: Circle, group: int, most: int) -> Floats:
    """P(x_i = k), k = 0..most."""
    t = circle.tilted
    first, cap = int(t.first[group]), int(t.cap[group])
    prob = t.prob[first : first + cap + 1] if cap != NONE else _free_law(t, group, most)
    return np.maximum(_law(t, group, circle.points, circle.weight, np.ascontiguousarray(prob)), 0.0)


def _free_law(t: Tilted, group: int, most: int) -> Floats:
    """Return the law of a geometric queue plus a Poisson number on the links."""
    ratio, linked = float(t.ratio[group]), float(t.linked[group])
    number = np.arange(most + 1)
    if linked == 0:
        return np.asarray((1 - ratio) * ratio**number)
    poisson = np.exp(number * np.log(linked) - linked - gammaln(number + 1))
    return _follow((1 - ratio) * poisson, ratio)


@compiled
def _follow(source: Floats, ratio: float) -> Floats:
    result = source.copy()
    for k in range(1, result.size):
        result[k] += ratio * result[k - 1]
    return result


def queue_law(held: Floats, on_links: float) -> Floats:
    """Return the law of the queue from that of all tasks: given k, j are on the links with weight (mu d)^j / j!, j <=
    k.
    """
    if on_links == 0:
        return held
    number = np.arange(held.size)
    weight = np.exp(number * np.log(on_links) - gammaln(number + 1) - on_links)
    law = np.zeros(held.size)
    for k in np.flatnonzero(held):
        law[: k + 1] += held[k] * weight[k::-1] / weight[: k + 1].sum()
    return law
