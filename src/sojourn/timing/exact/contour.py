"""Contour quadrature: solve a closed network with very many different loads in a few dozen passes, for any population.

H_C, the normalising constant, is the coefficient of z^C in F(z) = exp(Z z) prod_i (1 - theta_i z)^(-n_i), so with z = r
e^s it is an integral over a path around zero. On the points of the path every quantity is a mean with complex weights:

    w_k ~ F(z_k) z_k^(-C) ds_k,  sum w_k = 1,   Lambda(C) = sum w_k z_k,   E_C[X_i] = sum w_k f_i(z_k),
    f_i(z) = theta_i z / (1 - theta_i z);   with C - 1 tasks the weights are w_k z_k / Lambda(C)

Symbols: theta_i load, n_i queues of the group, Z delay, C population; r radius at the saddle point, rho_i = theta_i r,
q_i = rho_i / (1 - rho_i) queue of the law tilted by r, where sum_i n_i q_i + Z r = C; sigma standard deviation of that
sum; x_k = e^(s_k) - 1: then 1 - theta_i z_k = (1 - rho_i)(1 - q_i x_k), f_i - q_i = q_i (1 + q_i) x_k / (1 - q_i x_k).

The path is not the circle |z| = r but, in s, a hyperbola through the same saddle point,

    s = a (cosh u - 1) + i b sinh u,   b about 2 / sigma, a/b = cot(angle),   trapezoidal rule in u.

The poles lie to its right on the real axis and it bends towards them, so that every factor falls along it. On the
circle the factor of a saturated queue falls only as 1/|s|, and thousands of points would be needed; here 20 to 50 are
enough in every regime. Below `FEW` tasks the hyperbola would leave the strip |Im s| < pi, and the whole circle is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sojourn.compiled import compiled, compiled_sum, inlined
from sojourn.timing.exact import mva
from sojourn.types import Complexes, Floats

FEW = 32  # with fewer tasks the path is a circle
_CHUNK = 16  # points evaluated together
_FALLEN = -39.5  # log of what is left of the integrand where the path ends
_SLACK = 9.0  # how much of that may be lost when the same points are used for lower populations,
_AT_ONCE = 16_384  # and for how many populations at most


@dataclass(frozen=True)
class Path:
    """The parameters of a path; the answer must not depend on them."""

    angle: float
    """Angle in degrees between the arms and the real axis if no queue dominates."""
    narrowing: float
    """How many degrees smaller the angle is if one queue holds nearly all tasks."""
    width: float
    """b sigma."""
    step: float
    """Distance between two points in u."""
    shift: float
    """How far left of the saddle point the path crosses the real axis, in units of 1/sigma."""

    def points(self, population: int, spread: float, top: float) -> Iterator[tuple[Complexes, Complexes]]:
        """Yield s_k and ds_k / i in chunks, from the real axis upwards; `top` is the largest q."""
        if population < FEW:
            half = int((population + 50 / np.log1p(1 / top)) / (10 * self.step)) + 32
            turn = np.zeros(half + 1, dtype=np.complex128)
            turn.imag = np.linspace(0, np.pi, half + 1)
            ends = np.ones(half + 1, dtype=np.complex128)
            ends[[0, -1]] = 0.5
            yield turn, ends
            return
        b = self.width / spread
        a = b / np.tan(np.radians(self.angle - self.narrowing * top / spread))
        for start in range(0, 100 * _CHUNK, _CHUNK):
            u = self.step * np.arange(start, start + _CHUNK)
            slope = b * np.cosh(u) - 1j * a * np.sinh(u)
            slope[0] *= 0.5 if start == 0 else 1.0
            yield a * (np.cosh(u) - 1) + 1j * b * np.sinh(u), slope


FIRST = Path(angle=75, narrowing=20, width=2.0, step=0.1, shift=0.0)
SECOND = Path(angle=72, narrowing=14, width=1.6, step=0.09, shift=0.25)


@compiled_sum
def _held(load: Floats, count: Floats, largest: float, top: float) -> tuple[float, float]:
    """Return the sum of n_i q_i and its derivative by the largest q: q_i = theta_i top / (largest + (largest - theta_i)
    top).
    """
    held = 0.0
    slope = 0.0
    for i in range(load.size):
        inverse = 1.0 / (largest + (largest - load[i]) * top)
        held += count[i] * load[i] * inverse
        slope += count[i] * load[i] * inverse * inverse
    return held * top, slope * largest


def saddle(load: Floats, count: Floats, delay: float, population: int) -> tuple[float, float]:
    """Return the largest q, and sigma, by Newton's method from the left on a concave function."""
    largest = float(load.max())
    away = delay / largest
    top = spread = 0.0
    for _ in range(200):
        held, slope = _held(load, count, largest, top)
        held, slope = held + away * top / (1 + top), slope + away / (1 + top) ** 2
        spread = float(np.sqrt(slope * top * (1 + top)))
        if population - held < 1e-3 * spread:
            break
        top += (population - held) / slope
    return top, spread


@inlined
def _multiply(right: Floats, up: Floats, x: Floats, y: Floats) -> None:
    """Multiply right + i up by x + i y."""
    for k in range(right.size):
        turned = right[k] * y[k] + up[k] * x[k]
        right[k] = right[k] * x[k] - up[k] * y[k]
        up[k] = turned


@compiled_sum
def _log_products(tilted: Floats, count: Floats, real: Floats, imag: Floats, far: float) -> tuple[Floats, Floats]:
    """Return real and imaginary part (modulo 2 pi) of sum_i n_i log(1 - q_i x_k), |x_k| <= far.

    Small groups are multiplied together, and the logarithm is taken before the product could overflow.
    """
    modulus, phase = np.zeros(real.size), np.zeros(real.size)
    right, up = np.ones(real.size), np.zeros(real.size)
    x, y = np.empty(real.size), np.empty(real.size)
    held = 0.0  # bounds the logarithm of the product
    for i in range(tilted.size):
        bound = count[i] * tilted[i] * far
        if count[i] > 64.0 or count[i] != np.floor(count[i]) or bound > 200.0:
            for k in range(real.size):
                a, b = tilted[i] * real[k], tilted[i] * imag[k]
                modulus[k] += count[i] * 0.5 * np.log1p(a * (a - 2.0) + b * b)
                phase[k] += np.remainder(count[i] * np.arctan2(-b, 1.0 - a), 2 * np.pi)
            bound = 0.0
        else:
            for k in range(real.size):
                x[k] = 1.0 - tilted[i] * real[k]
                y[k] = -tilted[i] * imag[k]
            for _ in range(int(count[i])):
                _multiply(right, up, x, y)
        held += bound
        if held > 100.0 or i + 1 == tilted.size:
            for k in range(real.size):
                modulus[k] += 0.5 * np.log(right[k] * right[k] + up[k] * up[k])
                phase[k] += np.arctan2(up[k], right[k])
                right[k], up[k] = 1.0, 0.0
            held = 0.0
    return modulus, phase


@compiled_sum
def _means(
    tilted: Floats, real: Floats, imag: Floats, a_real: Floats, a_imag: Floats, b_real: Floats, b_imag: Floats
) -> tuple[Floats, Floats]:
    """Re sum_k a_k / (1 - q_i x_k) for each i, and the same with b."""
    first, second = np.empty(tilted.size), np.empty(tilted.size)
    for i in range(tilted.size):
        q = tilted[i]
        total_a = 0.0
        total_b = 0.0
        for k in range(real.size):
            x = 1.0 - q * real[k]
            y = q * imag[k]
            scale = 1.0 / (x * x + y * y)
            total_a += (a_real[k] * x - a_imag[k] * y) * scale
            total_b += (b_real[k] * x - b_imag[k] * y) * scale
        first[i] = total_a
        second[i] = total_b
    return first, second


@compiled_sum
def _sums(tilted: Floats, amount: Floats, real: Floats, imag: Floats) -> Complexes:
    """Sum_i a_i / (1 - q_i x_k) for each k."""
    right, up = np.zeros(real.size), np.zeros(real.size)
    for i in range(tilted.size):
        for k in range(real.size):
            x = 1.0 - tilted[i] * real[k]
            y = tilted[i] * imag[k]
            scale = amount[i] / (x * x + y * y)
            right[k] += x * scale
            up[k] += y * scale
    return right + 1j * up


@compiled_sum
def _own(tilted: Floats, real: Floats, imag: Floats, a_real: Floats, a_imag: Floats) -> Floats:
    """Re sum_k a_k / (1 - q_i x_k)^2 for each i."""
    result = np.empty(tilted.size)
    for i in range(tilted.size):
        total = 0.0
        for k in range(real.size):
            x = 1.0 - tilted[i] * real[k]
            y = tilted[i] * imag[k]
            scale = 1.0 / (x * x + y * y)
            total += (a_real[k] * (x * x - y * y) - a_imag[k] * 2.0 * x * y) * scale * scale
        result[i] = total
    return result


def _parts(values: Complexes) -> tuple[Floats, Floats]:
    return np.ascontiguousarray(values.real), np.ascontiguousarray(values.imag)


@dataclass(frozen=True, eq=False)
class Contour:
    """Points and weights for a network with `population` tasks; mirror images below the real axis are implied."""

    population: int
    """C."""
    radius: float
    """r, where the path crosses the real axis."""
    spread: float
    """sigma."""
    tilted: Floats
    """q_i of one queue of each group."""
    on_delay: float
    """Z r."""
    excess: Complexes
    """x_k."""
    weight: Complexes
    """w_k, with real parts summing to 1."""

    @property
    def weight_before(self) -> Complexes:
        """The weights for C - 1 tasks on the same points."""
        turned = self.weight * (1 + self.excess)
        return np.asarray(turned / turned.real.sum())

    def throughput(self, before: bool = False) -> float:
        """Lambda(C), or Lambda(C-1)."""
        if before and self.population == 1:
            return 0.0
        weight = self.weight_before if before else self.weight
        return self.radius * float((weight * (1 + self.excess)).real.sum())

    def queues(self) -> tuple[Floats, Floats]:
        """E_C[X_i] and E_{C-1}[X_i]."""
        queue, before = self._means(self.weight * (1 + self.excess), self.weight_before * (1 + self.excess))
        queue *= self.tilted
        before *= self.tilted if self.population > 1 else 0.0
        return queue, before

    def change(self) -> Floats:
        """E_{C-1}[X_i] - E_C[X_i], not as a difference of two nearly equal numbers."""
        step = (self.weight_before - self.weight) * self.excess
        return np.asarray(self.tilted * (1 + self.tilted) * self._means(step, step)[0])

    def covariance_with(self, count: Floats, weights: Floats, before: bool) -> tuple[Floats, float]:
        """Cov(W, X_j) and Cov(W, tasks on the delay), W the sum of w_i X_i over all queues; with C or C - 1 tasks.

        The number of all tasks is constant, so w is taken relative to that of the longest queue (or of the delay, 0);
        otherwise large numbers would cancel.
        """
        weight = self.weight_before if before else self.weight
        slope = self.tilted * (1 + self.tilted)
        longest = int(self.tilted.argmax())
        centre = weights[longest] if slope[longest] > self.on_delay else 0.0
        apart = weights - centre
        sums = _sums(self.tilted, count * apart * slope, *_parts(self.excess))
        total = self.excess * (sums - centre * self.on_delay)
        moved = weight * (total - (weight * total).real.sum()) * self.excess
        by_load = slope * self._means(moved, moved)[0] + apart * self._own_variance(weight)
        return by_load, self.on_delay * float(moved.real.sum() - centre * (weight * (1 + self.excess)).real.sum())

    def covariances(self) -> tuple[Floats, Floats]:
        """Variance of a queue of each group, and covariance of two different queues by groups."""
        q, x = self.tilted[:, None], self.excess[None, :]
        moved = q * (1 + q) * x / (1 - q * x)
        moved -= (moved @ self.weight).real[:, None]
        pair = ((moved * self.weight) @ moved.T).real
        return np.diag(pair) + self._own_variance(self.weight), pair

    def throughputs(self) -> Floats:
        """Return Lambda(C), Lambda(C-1), ... as far down as these points are accurate."""
        reach = max(float(np.log(abs(1 + self.excess[-1]))), 1e-300)
        lower = int(min(0.7 * self.spread, _SLACK / reach, _AT_ONCE, self.population - 1))
        powers = np.exp(np.arange(lower + 2)[:, None] * np.log1p(self.excess)[None, :])
        sums = (powers @ self.weight).real
        return np.asarray(self.radius * sums[1:] / sums[:-1])

    def _own_variance(self, weight: Complexes) -> Floats:
        """Re sum_k w_k f_i (1 + f_i) for each i: by how much E[X_i^2] exceeds the mean of f_i^2."""
        own = _own(self.tilted, *_parts(self.excess), *_parts(weight * (1 + self.excess)))
        return self.tilted * (1 + self.tilted) * own

    def _means(self, a: Complexes, b: Complexes) -> tuple[Floats, Floats]:
        return _means(self.tilted, *_parts(self.excess), *_parts(a), *_parts(b))


def contour(load: Floats, count: Floats, delay: float, population: int, at: tuple[float, float], path: Path) -> Contour:
    """Follow the path through the saddle point until the integrand is negligible."""
    top, spread = at
    top /= np.exp(path.shift / spread) * (1 + top) - top
    largest = float(load.max())
    tilted = load * top / (largest + (largest - load) * top)
    radius = top / (1 + top) / largest
    excess, weight = [], []
    for s, slope in path.points(population, spread, top):
        x = np.expm1(s)
        modulus, phase = _log_products(tilted, count, *_parts(x), float(np.abs(x).max()))
        value = delay * radius * x - population * s - modulus - 1j * phase
        fallen = ~(value.real > _FALLEN)
        kept = int(fallen.argmax()) if fallen.any() else s.size
        excess.append(x[:kept])
        weight.append(np.exp(value[:kept]) * slope[:kept])
        if kept < s.size:
            break
    weights = np.concatenate(weight)
    weights /= weights.real.sum()
    return Contour(population, radius, spread, tilted, delay * radius, np.concatenate(excess), weights)


def certified(load: Floats, count: Floats, delay: float, population: int) -> tuple[Contour, Floats, Floats, float]:
    """Return the first contour, its queues with C and C - 1 tasks, and a certified relative error.

    The error is the largest relative difference of a throughput or a mean queue from a second path with other points,
    or the relative defect of sum_i n_i E[X_i] + Z Lambda = C if that is larger.
    """
    at = saddle(load, count, delay, population)
    first = contour(load, count, delay, population, at, FIRST)
    second = contour(load, count, delay, population, at, SECOND)
    queue, before = first.queues()
    flows = np.array([first.throughput(), first.throughput(before=True)])
    other = np.array([second.throughput(), second.throughput(before=True)])
    defect = abs(float((count * queue).sum()) + delay * float(flows[0]) - population) / population
    apart = [_apart(*pair) for pair in zip((queue, before, flows), (*second.queues(), other), strict=True)]
    return first, queue, before, max(defect, *apart)


@compiled
def _apart(ours: Floats, theirs: Floats) -> float:
    """Return the largest relative difference; NaN and infinity count as infinite."""
    largest = 0.0
    for i in range(ours.size):
        apart = abs(ours[i] - theirs[i])
        if not apart <= largest * ours[i]:
            largest = apart / ours[i] if ours[i] > 0.0 and apart < np.inf else np.inf
    return largest


def throughputs(load: Floats, count: Floats, delay: float, population: int) -> Iterator[Floats]:
    """Yield Lambda(C), Lambda(C-1), ..., Lambda(1) in pieces, each piece from its own contour."""
    while population >= FEW:
        at = saddle(load, count, delay, population)
        piece = contour(load, count, delay, population, at, FIRST).throughputs()
        yield piece
        population -= piece.size
    small = np.zeros(population + 1)
    mva.advance(np.zeros(load.size), load, count, delay, small, 0, population)
    yield small[:0:-1]
