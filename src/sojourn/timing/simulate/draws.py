"""Durations drawn by key: the same client is slow at the same task, whoever dispatches it and whatever else happens.

A duration is named by (run, purpose, client, nth task of that client); the name is hashed into a stream of its own,
from which the law takes as many numbers as it needs. Two dispatchers or algorithms that give a client its nth task
therefore see the same duration (common random numbers). The jump chain cannot offer this: it draws who finishes next,
and never a duration.
"""

from collections.abc import Sequence
from math import gamma, sqrt

import numpy as np

from sojourn.compiled import bare, inlined
from sojourn.errors import InvalidInput
from sojourn.laws.law import Law
from sojourn.random import EDGE, HEIGHT, MOVE, exponential, mix, unit
from sojourn.types import Floats

EXPONENTIAL, DETERMINISTIC, LOGNORMAL, GAMMA, WEIBULL, HYPEREXPONENTIAL, EMPIRICAL = range(7)
_CODES = {
    "exponential": EXPONENTIAL,
    "deterministic": DETERMINISTIC,
    "lognormal": LOGNORMAL,
    "gamma": GAMMA,
    "weibull": WEIBULL,
    "hyperexponential": HYPEREXPONENTIAL,
    "empirical": EMPIRICAL,
}


LEAST_WEIBULL = 0.006  # below, the mean of the standard form is no number
MOST_SCV = 1e12  # beyond, the probability of the long phase loses its digits, and the mean is wrong

LAW = [("code", "i8"), ("shape", "f8"), ("scale", "f8"), ("first", "i8"), ("size", "i8")]
"""Fields of a law in a record: its code, its parameter, a factor, and where its measured values are."""


def law_fields(laws: Sequence[Law], values: list[float]) -> list[tuple[int, float, float, int, int]]:
    """The fields of each law; measured durations are appended to `values`."""
    where: dict[tuple[float, ...], int] = {}
    rows = []
    for law in laws:
        code, shape, scale, first = _CODES[law.name], law.parameter or 0.0, 1.0, 0
        if law.name == "empirical":
            if law.durations not in where:
                where[law.durations] = len(values)
                values.extend(law.durations)
            first = where[law.durations]
        if law.name == "weibull" and shape < LEAST_WEIBULL:
            raise InvalidInput(f"law weibull: shape must be at least {LEAST_WEIBULL:g} to be simulated, got {shape:g}")
        if law.name == "hyperexponential" and shape > MOST_SCV:
            raise InvalidInput(f"law hyperexponential: scv must be at most {MOST_SCV:g} to be simulated, got {shape:g}")
        if law.name == "weibull":
            scale = 1 / gamma(1 + 1 / shape)
        if law.name == "hyperexponential":  # two phases with balanced means; the shape is the first one's probability
            shape = (1 + sqrt((shape - 1) / (shape + 1))) / 2
        rows.append((code, shape, scale, first, len(law.durations)))
    return rows


PIECE = np.uint64((int(MOVE) << 20) % 2**64)  # a million numbers of a stream


@inlined
def stream(key: np.uint64, client: int) -> np.uint64:
    """The stream that belongs to (purpose, client): one piece of it for each task, PIECE further on every time."""
    return mix(key + MOVE * np.uint64(client + 1))


@inlined
def named(key: np.uint64, client: int, nth: int) -> np.uint64:
    """The piece of a stream that belongs to (purpose, client, nth)."""
    return stream(key, client) + PIECE * np.uint64(nth)


@bare
def draw(
    code: int, shape: float, scale: float, first: int, size: int, values: Floats, key: np.uint64
) -> tuple[float, np.uint64]:
    """A duration with mean one from the law with these fields, and the stream's next key."""
    if code == EXPONENTIAL:
        return exponential(key, EDGE, HEIGHT)
    if code == DETERMINISTIC:
        return 1.0, key
    if code == LOGNORMAL:
        z, key = _normal(key)
        return np.exp(shape * z - 0.5 * shape * shape), key
    if code == GAMMA:
        return _gamma(shape, key)
    if code == WEIBULL:
        x, key = exponential(key, EDGE, HEIGHT)
        return scale * x ** (1.0 / shape), key
    key += MOVE
    u = unit(mix(key))
    if code == EMPIRICAL:
        return values[first + np.int64(u * size)], key
    x, key = exponential(key, EDGE, HEIGHT)
    return (x / (2.0 * shape) if u < shape else x / (2.0 * (1.0 - shape))), key


def _normal_layers() -> tuple[Floats, Floats]:
    """Right edges and heights of 256 layers of equal area under exp(-x^2/2), x > 0 (Marsaglia and Tsang)."""
    right, area = 3.6541528853610088, 4.92867323399e-3
    edge = np.empty(257)
    edge[0], edge[1] = area / np.exp(-(right**2) / 2), right
    for i in range(2, 256):
        edge[i] = np.sqrt(-2 * np.log(area / edge[i - 1] + np.exp(-(edge[i - 1] ** 2) / 2)))
    edge[256] = 0.0
    return edge, np.exp(-(edge**2) / 2)


NORMAL_EDGE, NORMAL_HEIGHT = _normal_layers()
_LAYER, _SIGN = np.uint64(255), np.uint64(256)


@bare
def _normal(key: np.uint64) -> tuple[float, np.uint64]:
    """A standard normal and the stream's next key; 99% of the draws cost one product and one comparison."""
    while True:
        key += MOVE
        bits = mix(key)
        layer = np.int64(bits & _LAYER)
        x = unit(bits) * NORMAL_EDGE[layer]
        accepted = x < NORMAL_EDGE[layer + 1]
        if not accepted and layer == 0:  # beyond the last layer: exponential, thinned
            while True:
                x = -np.log(1.0 - unit(mix(key + MOVE))) / NORMAL_EDGE[1]
                key += MOVE + MOVE
                if -2.0 * np.log(1.0 - unit(mix(key))) > x * x:
                    break
            x += NORMAL_EDGE[1]
            accepted = True
        elif not accepted:
            key += MOVE
            low, high = NORMAL_HEIGHT[layer], NORMAL_HEIGHT[layer + 1]
            accepted = low + (high - low) * unit(mix(key)) < np.exp(-0.5 * x * x)
        if accepted:
            return (x if bits & _SIGN else -x), key


@bare
def _gamma(shape: float, key: np.uint64) -> tuple[float, np.uint64]:
    """A gamma variable over its shape (mean one), by Marsaglia and Tsang; below shape 1 with a power of a uniform."""
    lifted = shape if shape >= 1.0 else shape + 1.0
    d = lifted - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        z, key = _normal(key)
        v = (1.0 + c * z) ** 3
        key += MOVE
        if v > 0.0 and np.log(1.0 - unit(mix(key))) < 0.5 * z * z + d - d * v + d * np.log(v):
            break
    value = d * v
    if shape < 1.0:
        key += MOVE
        value *= (1.0 - unit(mix(key))) ** (1.0 / shape)
    return value / shape, key
