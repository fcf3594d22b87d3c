"""Check what every law must satisfy: its parts describe the same random duration, with mean one."""

import pickle
from collections.abc import Callable

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.laws.kind import LawKind
from sojourn.laws.law import Law
from sojourn.testing.failure import CheckFailed, claim
from sojourn.timing.simulate.draws import drawn
from sojourn.types import Floats

ERRORS = 5.0  # standard errors by which a mean of draws may differ
FAR = 2.7  # Kolmogorov-Smirnov distance times the root of the number; a true law exceeds it once in a million times
CLOSE = 2e-3  # error of integrals over a grid; ten times as much for laws with jumps


def check_law(law: Law | LawKind | str, size: int = 100_000, seed: int = 0) -> None:
    """Check a law of your own; raise `CheckFailed` with a sentence that says which property fails, and how.

    The moments, survival, density, both draws and the text form must agree. `size` is the number of draws.

    >>> check_law("gamma(shape=2)")
    """
    made = Law.parse(law) if isinstance(law, str) else law if isinstance(law, Law) else Law.of(law)
    _text(made)
    by_numpy = made.draw(np.random.default_rng(seed), size)
    by_key = _compiled(made, size, seed)
    for name, x in (("draw", by_numpy), ("compiled_draw", by_key)):
        _durations(made, name, x, size)
        _moments(made, name, x)
        _against_survival(made, name, x)
    _survival(made, by_numpy)
    far = _two_samples(by_numpy, by_key)
    claim(
        far < FAR,
        f"law {made}: draw and compiled_draw must have the same law, got samples of {size:,} that are "
        f"{far:.1f} times as far apart as expected by chance (at most {FAR}); correct one of them",
    )
    if made.smooth:
        _density(made, by_numpy)
        _blocks(made, by_numpy[:60])
    _pickled(made)


def _text(law: Law) -> None:
    text = str(law)
    try:
        again = Law.parse(text)
    except InvalidInput as error:
        raise CheckFailed(f"law {text}: its text form cannot be read back ({error})") from error
    claim(again == law, f"law {text}: its text form must read back as the same law, got {again}")


def _pickled(law: Law) -> None:
    """Check that the law can be pickled, since other processes receive it that way."""
    try:
        again = pickle.loads(pickle.dumps(law))
    except Exception as error:
        raise CheckFailed(f"law {law} cannot be pickled ({error}); define its class at the top of a module") from error
    claim(again == law, f"law {law} must be the same after pickle, got {again}")


def _compiled(law: Law, size: int, seed: int) -> Floats:
    x, again = drawn(law, size, key=seed + 1), drawn(law, size, key=seed + 1)
    claim((x == again).all(), f"law {law}: compiled_draw must give the same durations for the same key, but does not")
    claim(
        law.scv == 0 or np.unique(x[:100]).size > 1,
        f"law {law}: compiled_draw must return the next key of its stream, but gives {x[0]:g} every time",
    )
    return x


def _durations(law: Law, name: str, x: Floats, size: int) -> None:
    claim(np.shape(x) == (size,), f"law {law}: {name} must give {size} durations, got the shape {np.shape(x)}")
    wrong = x[~(np.isfinite(x) & (x >= 0))]
    claim(wrong.size == 0, f"law {law}: {name} must give finite, non-negative durations, got {wrong[:1]}")
    most = law.longest * (1 + 1e-9)
    claim(x.max() <= most, f"law {law}: longest is {law.longest:g}, but {name} gives {x.max():g}; raise longest")


def _moments(law: Law, name: str, x: Floats) -> None:
    mean, error = x.mean(), x.std() / np.sqrt(x.size)
    claim(
        abs(mean - 1) <= ERRORS * error + 1e-9,
        f"law {law}: the mean must be one, {name} gives {mean:.4g} with standard error {error:.2g}; divide by the mean",
    )
    if np.isfinite(law.scv):
        square = (x - 1) ** 2
        found, error = square.mean(), square.std() / np.sqrt(x.size)
        claim(
            abs(found - law.scv) <= ERRORS * error + 1e-9,
            f"law {law}: scv is {law.scv:.4g}, but {name} gives {found:.4g} with standard error {error:.2g}; "
            "correct one of them",
        )


def _against_survival(law: Law, name: str, x: Floats) -> None:
    """Check the Kolmogorov-Smirnov distance between draws and survival; for laws with jumps only after equal values."""
    points, count = np.unique(x, return_counts=True)
    after = np.cumsum(count) / x.size
    expected = -np.expm1(law.log_survival(points))
    far = np.abs(after - expected).max()
    if law.smooth:
        far = max(far, np.abs(after - count / x.size - expected).max())
    far *= np.sqrt(x.size)
    claim(
        far < FAR,
        f"law {law}: log_survival must be that of {name}, got {x.size:,} durations that are {far:.1f} times as far "
        f"from it as expected by chance (at most {FAR}); correct one of them",
    )


def _survival(law: Law, x: Floats) -> None:
    """Check that survival falls from one to zero, that its area is the mean, and that it agrees with `mean_beyond`."""
    grid = _grid(x)
    survival = np.exp(law.log_survival(grid))
    claim(not np.isnan(survival).any(), f"law {law}: log_survival must be a number for every x > 0, got NaN")
    rises = np.flatnonzero(np.diff(survival) > 1e-9)
    claim(
        rises.size == 0,
        f"law {law}: log_survival must not rise, but does after {grid[rises[0]] if rises.size else 0:g}",
    )
    if law.smooth:
        first = float(law.log_survival(np.array([0.0]))[0])
        claim(abs(first) < 1e-9, f"law {law}: log_survival must be 0 at 0, got {first:g}")
    if np.isfinite(law.longest):
        last = float(law.log_survival(np.array([law.longest]))[0])
        claim(last < -30, f"law {law}: longest is {law.longest:g}, but log_survival is {last:g} there; raise longest")
    area = np.append(0.0, np.cumsum(np.diff(grid) * (survival[1:] + survival[:-1]) / 2))
    area += grid[0]
    close = CLOSE if law.smooth else 10 * CLOSE
    claim(abs(area[-1] - 1) < close, f"law {law}: the area under survival must be one, got {area[-1]:.5g}")
    ages = np.quantile(x, [0.1, 0.5, 0.9])
    place = np.minimum(np.searchsorted(grid, ages), grid.size - 1)
    alive = survival[place] > 1e-3
    expected = grid[place] + (area[-1] - area[place]) / np.maximum(survival[place], 1e-3)
    found = law.mean_beyond(grid[place])
    wrong = np.flatnonzero(alive & (np.abs(found - expected) > 5 * close * np.maximum(expected, 1)))
    claim(
        wrong.size == 0,
        f"law {law}: mean_beyond must follow from survival, got {found[wrong[:1]]} instead of {expected[wrong[:1]]} "
        f"beyond the age {grid[place][wrong[:1]]}",
    )


def _density(law: Law, x: Floats) -> None:
    grid = _grid(x)
    with np.errstate(divide="ignore", over="ignore"):
        density = np.exp(law.kind.log_density(grid))
    density = np.where(np.isfinite(density), density, 0.0)
    logs = np.log(grid)
    passed = np.append(0.0, np.cumsum(np.diff(logs) * (density[1:] * grid[1:] + density[:-1] * grid[:-1]) / 2))
    survival = np.exp(law.log_survival(grid))
    whole = passed[-1] + 1 - survival[0] + survival[-1]
    claim(abs(whole - 1) < CLOSE, f"law {law}: the density must integrate to one, got {whole:.5g}")
    off = np.abs(passed - (survival[0] - survival))
    claim(
        off.max() < CLOSE,
        f"law {law}: log_density and log_survival must describe one law, got probabilities that differ by "
        f"{off.max():.2g} at {grid[int(np.argmax(off))]:.3g}",
    )


def _blocks(law: Law, x: Floats) -> None:
    """Check that the likelihood of durations in blocks follows from the density, up to a constant in the rates."""
    x = np.maximum(x, 1e-12)
    block = np.arange(x.size) % 2
    count = np.bincount(block).astype(np.float64)
    kind = law.kind
    own, _ = kind.likelihood_by_block(np.log(x), block, count)
    plain, _ = LawKind.likelihood_by_block(kind, np.log(x), block, count)
    differ = [_difference(by_block) for by_block in (own, plain)]
    claim(
        np.allclose(differ[0], differ[1], rtol=1e-5, atol=1e-6),
        f"law {law}: likelihood_by_block must follow from log_density, got {differ[0]} instead of {differ[1]}",
    )


def _difference(by_block: Callable[[Floats], Floats]) -> Floats:
    return by_block(np.array([0.1, -0.1])) - by_block(np.array([-0.05, 0.05]))


def _grid(x: Floats) -> Floats:
    """Return the ages for integrals: a logarithmic grid over all relevant ages, and dense where durations are."""
    some = np.quantile(x[x > 0], np.linspace(0, 1, 4001))
    return np.unique(np.concatenate([np.geomspace(min(1e-9, some[0]), max(1e9, some[-1]), 30001), some, [x.max()]]))


def _two_samples(x: Floats, y: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples, times the square root of their size."""
    points = np.concatenate([x, y])
    below = [np.searchsorted(np.sort(one), points, side="right") / one.size for one in (x, y)]
    return float(np.abs(below[0] - below[1]).max() * np.sqrt(x.size * y.size / (x.size + y.size)))
