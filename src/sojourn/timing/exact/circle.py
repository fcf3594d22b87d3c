"""Solve a capped network by one integral on a circle: a few dozen points for any number of clients with small caps.

Independent clients with the tilted laws of `held` hold S tasks together; the law of the network is their law given S =
C. With e = exp(i phi) and F_i(e) = E e^(X_i), the probability of S = C is the mean of prod F_i(e) e^(-C) over the
circle, and every quantity is a mean with complex weights a_k ~ prod F_i(e_k) e_k^(-C) over points e_k, sum a_k = 1:

    held_i    = sum a_k m_i(e_k),            m_i = (e F_i') / F_i
    entries_i = sum a_k e_k u_i(e_k),        u_i = w_i R_i / F_i,   R_i the part of F_i with room for one more task
    pending_i = sum a_k e_k (m_i (U - u_i) + v_i),   U = sum_j u_j over all clients,   v_i = w_i (e R_i') / F_i

(w in the unit in which r = 1). `entries` are tasks sent to i per unit of time, `pending` the entries times the mean
staleness. The points are equally spaced, so the error is P(S = C +- N) / P(S = C) and the like, N points in all, which
Bernstein's inequality bounds; the arc ends where the integrand is negligible, which |F_i|^2 <= 1 - 2 c_i (1 -
cos phi) bounds, c_i the probability that two independent copies of X_i differ by exactly one, upwards.
"""

from dataclasses import dataclass

import numpy as np

from sojourn.compiled import compiled, compiled_sum, hot
from sojourn.errors import InvalidInput
from sojourn.timing.exact.held import NONE, Factors, Tilted
from sojourn.types import Complexes, Floats

_FALLEN = 41.5  # minus the log of the integrand where the arc ends, and of the error of the spacing
_MOST = 2**24  # points
_NEVER = 1e-100  # stands for a factor that is zero at a point, and is divided out again


@dataclass(frozen=True)
class Path:
    """The parameters of a path; the answer must not depend on them."""

    density: float
    """Number of points, as a multiple of what is needed."""
    shift: float
    """How far from the saddle point the circle is, in units of 1/sigma."""


FIRST = Path(density=1.0, shift=0.0)
SECOND = Path(density=1.13, shift=0.3)


@hot
def nonzero(F: complex) -> complex:
    """Return F, or a tiny number if F is zero, which is divided out again."""
    return F if abs(F.real) + abs(F.imag) > _NEVER else _NEVER + 0j


@hot
def inverse(F: complex) -> complex:
    """Return 1 / F without the overflow checks that make a compiled division slow."""
    scale = 1.0 / (F.real * F.real + F.imag * F.imag)
    return complex(F.real * scale, -F.imag * scale)


@hot
def client(t: Tilted, i: int, e: complex) -> tuple[complex, complex, complex, complex, complex]:
    """Return F, R, e F', e R', and the part of e F' that is in the queue."""
    if t.cap[i] == 1:
        room = t.prob[t.first[i]] + 0j
        full = t.prob[t.first[i] + 1] * e
        return room + full, room, full, 0j, t.queued[t.first[i] + 1] * full
    if t.cap[i] == NONE:
        geometric = inverse(1.0 - t.ratio[i] * e)
        F = (1.0 - t.ratio[i]) * geometric * np.exp(t.linked[i] * (e - 1.0))
        queue = t.ratio[i] * e * geometric * F
        moved = queue + t.linked[i] * e * F
        return F, F, moved, moved, queue
    F, moved, queue, room, moved_room = 0j, 0j, 0j, 0j, 0j
    turn = 1.0 + 0j
    for k in range(t.cap[i] + 1):
        term = t.prob[t.first[i] + k] * turn
        room, moved_room = F, moved
        F += term
        moved += k * term
        queue += t.queued[t.first[i] + k] * term
        turn *= e
    return F, room, moved, moved_room, queue


@compiled
def _product(t: Tilted, points: Complexes) -> tuple[Floats, Floats, Complexes]:
    """Return log modulus and phase of prod F_i, and U, at every point."""
    modulus, phase = np.zeros(points.size), np.zeros(points.size)
    room_for = np.zeros(points.size, dtype=np.complex128)
    for k in range(points.size):
        product, flow = 1.0 + 0j, 0j
        for i in range(t.cap.size):
            F, room, _, _, _ = client(t, i, points[k])
            F = nonzero(F)
            flow += t.clients[i] * t.weight[i] * (room * inverse(F))
            if t.clients[i] == 1.0:
                product *= F
                size = product.real * product.real + product.imag * product.imag
                if size < 1e-80:
                    modulus[k] += 0.5 * np.log(size)
                    phase[k] += np.arctan2(product.imag, product.real)
                    product = 1.0 + 0j
            else:
                modulus[k] += t.clients[i] * np.log(np.hypot(F.real, F.imag))
                phase[k] += np.remainder(t.clients[i] * np.arctan2(F.imag, F.real), 2 * np.pi)
        modulus[k] += np.log(np.hypot(product.real, product.imag))
        phase[k] += np.arctan2(product.imag, product.real)
        room_for[k] = flow
    return modulus, phase, room_for


@compiled_sum
def _single(q: float, parts: Floats) -> tuple[float, float, float]:
    """Return Re sum a_k / F, Re sum b_k / F and Re sum c_k / F^2 with F = 1 + q x_k, for a client with a cap of 1."""
    real, imag, a_real, a_imag = parts[0], parts[1], parts[2], parts[3]
    b_real, b_imag, c_real, c_imag = parts[4], parts[5], parts[6], parts[7]
    first, second, third = 0.0, 0.0, 0.0
    for k in range(real.size):
        x, y = 1.0 + q * real[k], -q * imag[k]
        scale = 1.0 / (x * x + y * y)
        x, y = x * scale, y * scale
        first += a_real[k] * x - a_imag[k] * y
        second += b_real[k] * x - b_imag[k] * y
        third += c_real[k] * (x * x - y * y) - c_imag[k] * 2.0 * x * y
    return first, second, third


@compiled
def _means(
    t: Tilted, points: Complexes, weight: Complexes, room_for: Complexes, parts: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return held, queue, entries and pending of one client of each group; `parts` are those of `_single`."""
    groups = t.cap.size
    held, queue, entries, pending = np.zeros(groups), np.zeros(groups), np.zeros(groups), np.zeros(groups)
    for i in range(groups):
        if t.cap[i] == 1:
            idle, q = t.prob[t.first[i]], t.prob[t.first[i] + 1]
            first, second, third = _single(q, parts)
            held[i] = q * first
            queue[i] = t.queued[t.first[i] + 1] * held[i]
            entries[i] = t.weight[i] * idle * first
            pending[i] = q * (second - t.weight[i] * idle * third)
            continue
        for k in range(points.size):
            F, room, moved, moved_room, in_queue = client(t, i, points[k])
            part = inverse(nonzero(F))
            a = weight[k] * part
            sent = a * points[k] * t.weight[i]
            held[i] += (a * moved).real
            queue[i] += (a * in_queue).real
            entries[i] += (sent * room).real
            pending[i] += (a * points[k] * moved * room_for[k] + sent * (moved_room - moved * part * room)).real
    return held, queue, entries, pending


@dataclass(frozen=True, eq=False)
class Circle:
    """Points and weights above the real axis; their mirror images below are implied."""

    tilted: Tilted
    points: Complexes
    """e_k."""
    weight: Complexes
    """a_k, with real parts summing to 1."""
    room_for: Complexes
    """U at every point."""

    def means(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return held, queue, entries and pending of one client of each group."""
        e, turned = self.points, self.weight * self.points
        rows = (e - 1, turned, turned * e * self.room_for, turned * e)
        parts = np.array([part for row in rows for part in (row.real, row.imag)])
        return _means(self.tilted, e, self.weight, self.room_for, parts)


def circle(factors: Factors, population: int, at: tuple[float, float, float], path: Path) -> Circle:
    """Return points and weights on a circle near the saddle point."""
    log_r, spread, fall = at
    free = factors.cap == NONE
    gap = -float((factors.log_load[free] + log_r).max()) if free.any() else np.inf
    log_r += min(path.shift / max(spread, 1.0), 0.3 * gap)
    tilted = factors.tilted(log_r)
    points, turned = _points(_number(factors, population, spread, gap) * path.density, fall, population)
    modulus, phase, room_for = _product(tilted, points)
    weight = np.exp(modulus - modulus.max() + 1j * (phase - turned))
    return Circle(tilted, points, weight / weight.real.sum(), room_for)


def _number(factors: Factors, population: int, spread: float, gap: float) -> float:
    """Return a number N of points on the whole circle for which P(S = C +- N) is negligible: N^2 / (2 sigma^2 + 2 b N /
    3) = 41.5.

    b is the largest cap, or for a client without one the scale of its geometric tail. If there are as many points as S
    can differ from C, the result has no such error at all.
    """
    largest = max(float(factors.cap.max()), 1.5 / gap if gap < np.inf else 0.0)
    half = _FALLEN / 3 * largest
    number = half + np.sqrt(half * half + 2 * _FALLEN * spread * spread) + 8
    return float(min(number, max(population, factors.most - population) + 2))


def _points(number: float, fall: float, population: int) -> tuple[Complexes, Floats]:
    """Return the points from the real axis upwards, and C phi modulo 2 pi; no point is at phi = 0 or pi."""
    half = int(np.ceil(number / 2))
    end = np.arccos(1 - _FALLEN / fall) if fall > _FALLEN / 2 else np.pi
    kept = min(half, int(np.ceil(half * end / np.pi)) + 1)
    if kept > _MOST:
        raise InvalidInput(
            f"this network needs {kept:,} points on the circle, more than the limit of {_MOST:,}; give a cap to the "
            "client "
            "that holds nearly all tasks, or lower the concurrency"
        )
    odd = 2 * np.arange(kept, dtype=np.int64) + 1
    angle = odd * (np.pi / (2 * half))
    turned = (odd % (4 * half) * population) % (4 * half) * (np.pi / (2 * half))
    return np.asarray(np.exp(1j * angle)), np.asarray(turned)
