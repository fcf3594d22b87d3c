"""Draw durations by key: a client's nth task takes the same time, whatever the dispatcher and whatever else happens.

The key of a duration is (run, purpose, client, nth task of that client). It is hashed into a stream of its own, from
which the law takes as many numbers as it needs. So two dispatchers or algorithms that give a client its nth task see
the same duration (common random numbers). The jump chain cannot do this: it draws who finishes next, and never a
duration.

The package's laws are branches of `draw`; every other law is called by the address of its compiled draw.
"""

from collections.abc import Sequence

import numpy as np

from sojourn.compiled import bare, call_draw, draw_address, inlined
from sojourn.laws.empirical import draw_empirical
from sojourn.laws.gamma import draw_gamma
from sojourn.laws.hyperexponential import draw_hyperexponential
from sojourn.laws.law import Law
from sojourn.laws.lognormal import draw_lognormal
from sojourn.laws.weibull import draw_weibull
from sojourn.random import EDGE, HEIGHT, MOVE, exponential, mix
from sojourn.types import Floats

EXPONENTIAL, DETERMINISTIC, LOGNORMAL, GAMMA, WEIBULL, HYPEREXPONENTIAL, EMPIRICAL = range(7)
CODES = {
    "exponential": EXPONENTIAL,
    "deterministic": DETERMINISTIC,
    "lognormal": LOGNORMAL,
    "gamma": GAMMA,
    "weibull": WEIBULL,
    "hyperexponential": HYPEREXPONENTIAL,
    "empirical": EMPIRICAL,
}

LAW = [("code", "i8"), ("shape", "f8"), ("scale", "f8"), ("first", "i8"), ("size", "i8")]
"""Fields of a law in a record: its branch or the address of its draw, two numbers, and the place of
its other numbers.
"""


def law_fields(
    laws: Sequence[Law], values: list[float], branches: bool = True
) -> list[tuple[int, float, float, int, int]]:
    """Return the fields of each law; further numbers are appended to `values`.

    Without `branches`, the package's laws are also called by address, like a user's own laws.
    """
    where: dict[tuple[float, ...], int] = {}
    rows = []
    for law in laws:
        numbers = law.kind.numbers()
        code = CODES.get(law.name) if branches else None
        if code is None or code == EMPIRICAL:
            if numbers not in where:
                where[numbers] = len(values)
                values.extend(numbers)
            address = draw_address(law.name, type(law.kind).compiled_draw) if code is None else code
            rows.append((address, 0.0, 1.0, where[numbers], len(numbers)))
        else:
            shape, scale = (*numbers, *(0.0, 1.0)[len(numbers) :])
            rows.append((code, shape, scale, 0, 0))
    return rows


PIECE = np.uint64((int(MOVE) << 20) % 2**64)  # distance between two pieces: a million numbers of a stream


@inlined
def stream(key: np.uint64, client: int) -> np.uint64:
    """Return the stream of (purpose, client): each task has one piece of it, and pieces are PIECE apart."""
    return mix(key + MOVE * np.uint64(client + 1))


@inlined
def named(key: np.uint64, client: int, nth: int) -> np.uint64:
    """Return the piece of a stream that belongs to (purpose, client, nth)."""
    return stream(key, client) + PIECE * np.uint64(nth)


@bare
def draw(
    code: int, shape: float, scale: float, first: int, size: int, values: Floats, key: np.uint64
) -> tuple[float, np.uint64]:
    """Return a duration with mean one from the law with these fields, and the stream's next key."""
    if code == EXPONENTIAL:
        return exponential(key, EDGE, HEIGHT)
    if code == DETERMINISTIC:
        return 1.0, key
    if code == LOGNORMAL:
        return draw_lognormal(shape, key)
    if code == GAMMA:
        return draw_gamma(shape, key)
    if code == WEIBULL:
        return draw_weibull(shape, scale, key)
    if code == EMPIRICAL:
        return draw_empirical(values, first, size, key)
    if code == HYPEREXPONENTIAL:
        return draw_hyperexponential(shape, key)
    found: tuple[float, np.uint64] = call_draw(code, values, first, size, key)
    return found


@bare
def fill(
    code: int, shape: float, scale: float, first: int, size: int, values: Floats, key: np.uint64, out: Floats
) -> None:
    """Fill `out` with durations, one after the other from one stream."""
    for index in range(out.size):
        out[index], key = draw(code, shape, scale, first, size, values, key)


def drawn(law: Law, size: int, key: int, branches: bool = True) -> Floats:
    """Return durations as the simulator draws them.

    >>> drawn(Law("deterministic"), 3, key=1)
    array([1., 1., 1.])
    """
    values = [0.0]
    row = law_fields([law], values, branches)[0]
    out = np.empty(size)
    fill(*row, np.array(values), np.uint64(key), out)
    return out
