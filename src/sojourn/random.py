"""Random numbers by counter: the n-th number of a stream is a hash of its key and n.

A stream is a 64-bit key that advances by a constant with each draw; SplitMix64's finaliser turns it into a number. The
key alone identifies the whole stream, so streams can be split by purpose (routing, service, clock, start) and by
replication, and any of them can continue from where it stopped.
"""

import numpy as np
from numpy.typing import NDArray

from sojourn.compiled import bare, compiled, inlined

MOVE = np.uint64(0x9E3779B97F4A7C15)
_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / 9007199254740992.0  # 2^-53
_LAYER = np.uint64(255)
_S1 = np.uint64(1)
_TASKS = 0x7461736B  # keeps the keys of tasks apart from all other streams of the same seed

ROUTING, SERVICE, CLOCK, START = range(4)


def keys(seed: int, replication: int = 0) -> NDArray[np.uint64]:
    """Return the keys of the streams of one replication, indexed by purpose."""
    state = np.random.SeedSequence(seed, spawn_key=(replication,)).generate_state(9, np.uint64)
    return state.astype(np.uint64)


@inlined
def mix(key: np.uint64) -> np.uint64:
    """Return the number that belongs to `key`: 64 well-mixed bits."""
    z = (key ^ (key >> _S30)) * _A
    z = (z ^ (z >> _S27)) * _B
    return z ^ (z >> _S31)


@inlined
def unit(bits: np.uint64) -> float:
    """Return a number in [0, 1) from 64 bits."""
    return np.float64(np.int64(bits >> _S11)) * _UNIT


@inlined
def stream_of(key: np.uint64, client: int, number: int) -> np.uint64:
    """Return the key of the stream that belongs to (client, number) under `key`; a stream never runs out."""
    return mix(mix(key + MOVE * np.uint64(client + 1)) ^ mix(MOVE * np.uint64(number + 1)))


@compiled
def _task(key: np.uint64, client: int, nth: int) -> np.int64:
    return np.int64(stream_of(key, client, nth) >> _S1)


class TaskKeys:
    """A number from 0 to 2^63 - 1 for every task of a run; it depends only on (seed, client, nth task of that client).

    >>> TaskKeys(0)(client=3, nth=5) == TaskKeys(0)(3, 5) != TaskKeys(1)(3, 5)
    True
    """

    def __init__(self, seed: int) -> None:
        self._key = np.random.SeedSequence((seed, _TASKS)).generate_state(1, np.uint64)[0]

    def __call__(self, client: int, nth: int) -> int:
        """Return the key of the client's nth task."""
        return int(_task(self._key, client, nth))


def _layers() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return right edges and heights of 256 layers of equal area under e^-x (Marsaglia and Tsang's ziggurat)."""
    right, area = 7.697117470131487, 3.949659822581572e-3
    edge = np.empty(257)
    edge[0], edge[1] = area / np.exp(-right), right
    for i in range(2, 256):
        edge[i] = -np.log(area / edge[i - 1] + np.exp(-edge[i - 1]))
    edge[256] = 0.0
    return edge, np.exp(-edge)


EDGE, HEIGHT = _layers()


@inlined
def exponential(key: np.uint64, edge: NDArray[np.float64], height: NDArray[np.float64]) -> tuple[float, np.uint64]:
    """Return a unit exponential and the stream's next key; 99% of the draws cost one product and one comparison."""
    key += MOVE
    bits = mix(key)
    layer = np.int64(bits & _LAYER)
    x = unit(bits) * edge[layer]
    if x < edge[layer + 1]:
        return x, key
    return _edge_case(layer, x, key, edge, height)


@compiled
def _edge_case(
    layer: np.int64, x: float, key: np.uint64, edge: NDArray[np.float64], height: NDArray[np.float64]
) -> tuple[float, np.uint64]:
    shift = 0.0
    while True:
        if layer == 0:
            shift += edge[1]  # beyond the last layer the law is the same again, shifted
        else:
            key += MOVE
            if height[layer] + (height[layer + 1] - height[layer]) * unit(mix(key)) < np.exp(-x):
                return shift + x, key
        key += MOVE
        bits = mix(key)
        layer = np.int64(bits & _LAYER)
        x = unit(bits) * edge[layer]
        if x < edge[layer + 1]:
            return shift + x, key


def _normal_layers() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return right edges and heights of 256 layers of equal area under exp(-x^2/2), x > 0 (Marsaglia and Tsang)."""
    right, area = 3.6541528853610088, 4.92867323399e-3
    edge = np.empty(257)
    edge[0], edge[1] = area / np.exp(-(right**2) / 2), right
    for i in range(2, 256):
        edge[i] = np.sqrt(-2 * np.log(area / edge[i - 1] + np.exp(-(edge[i - 1] ** 2) / 2)))
    edge[256] = 0.0
    return edge, np.exp(-(edge**2) / 2)


NORMAL_EDGE, NORMAL_HEIGHT = _normal_layers()
_SIGN = np.uint64(256)


@bare
def normal(key: np.uint64) -> tuple[float, np.uint64]:
    """Return a standard normal and the stream's next key; 99% of the draws cost one product and one comparison."""
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
