"""Landscape: a training problem in a few numbers, without data: its curvature, its noise, and how clients differ.

For ranking policies a training problem is close enough to a quadratic: in direction j the gradient of client i at w is
h_j w + offset_i + noise. The covariances of noise and offsets are proportional to the curvature; their sizes fall with
the loss f, down to a floor: sigma^2 = noise f + noise_floor, G^2 = heterogeneity f + heterogeneity_floor. A part of
what there is to learn may be known to only one speed group (`between`).
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.files import read_toml
from sojourn.frozen import Frozen, frozen
from sojourn.shown import quoted
from sojourn.types import Floats
from sojourn.values import number, numbers, table

DIRECTIONS = 40
SKEWED, FORGETTING = 0.5, 0.07
NUMBERS = (
    *(
        "loss",
        "noise",
        "heterogeneity",
        "noise_floor",
        "heterogeneity_floor",
        "between",
        "sharper",
        "forgetting",
        "lowest",
    ),
)  # none of them below 0


@dataclass(frozen=True, eq=False)
class Landscape(Frozen):
    """A training problem as the twin sees it: curvatures, loss, noise and heterogeneity.

    >>> Landscape.generic().scaled(curvature=3.0).curvature[0] / Landscape.generic().curvature[0]
    3.0
    """

    curvature: tuple[float, ...]
    """Curvatures h of the mean loss, positive and in falling order."""
    loss: float
    """Loss of the first model above the lowest."""
    noise: float
    """Variance of a stochastic gradient per unit of loss (sigma^2 / f)."""
    heterogeneity: float
    """Mean squared distance of a client's gradient from the mean gradient, per unit of loss (G^2 / f)."""
    noise_floor: float = 0.0
    """Variance of a stochastic gradient that remains when the loss is at its lowest."""
    heterogeneity_floor: float = 0.0
    """Part of G^2 that remains when the loss is at its lowest."""
    between: float = 0.0
    """Part of the problem that is known to only one speed group, from 0 (all groups see the same) to 1."""
    sharper: float = 0.0
    """Exponent of n/n_g, where n_g is the size of a speed group. For its own clients, what only this group knows is
    steeper and noisier than what all know by (n/n_g) to this power: 0 = as steep for a client as everything else, 1 =
    as steep in the mean loss as everything else.
    """
    forgetting: float = 0.0
    """How strongly clients of other speed groups undo what only one group knows: they pull it back to the first model
    with this part of its curvature.
    """
    lowest: float = 0.0
    """The lowest loss; predictions are relative to it."""
    source: str = "generic"
    """Where the numbers come from: `generic`, `measured`, or `own`."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Low and high end of each measured number, by key; `curvature` is for the largest curvature, `trace` for their
    sum.
    """

    def __post_init__(self) -> None:
        h = tuple(float(one) for one in self.curvature)
        if not h or not all(math.isfinite(one) and one > 0 for one in h):
            raise InvalidInput(f"curvature must hold positive numbers, got {quoted(list(h))}")
        for key in NUMBERS:
            value = getattr(self, key)
            if not (math.isfinite(value) and value >= 0) or (key == "loss" and value == 0):
                raise InvalidInput(
                    f"{key} must be {'positive' if key == 'loss' else 'at least 0'}, got {quoted(value)}"
                )
        if self.between > 1:
            raise InvalidInput(f"between must be a part from 0 to 1, got {self.between}")
        object.__setattr__(self, "curvature", tuple(sorted(h, reverse=True)))
        object.__setattr__(self, "intervals", frozen(dict(self.intervals)))

    @classmethod
    def generic(cls) -> "Landscape":
        """Return the landscape to use when nothing was measured: the middle of small networks on digits and
        Fashion-MNIST.

        Which policy is best depends only on noise and heterogeneity relative to the curvature, and on how fast
        curvatures fall; the step size depends on the curvature itself. docs/calibrate.md has the numbers of each
        problem.
        """
        curvature = tuple(5.0 * j**-1.2 for j in range(1, DIRECTIONS + 1))
        return cls(curvature, loss=2.3, noise=7.0, heterogeneity=7.0)

    @classmethod
    def load(cls, path: str | Path) -> "Landscape":
        """Read what `sojourn calibrate` measured, or a TOML file of your own with the same keys at its top."""
        content = read_toml(path, "constants file")
        told: Any = content
        if isinstance(content.get("calibration"), dict):
            told = content["calibration"].get("landscape")
            if not isinstance(told, dict):
                raise InvalidInput(f"{path} has no table calibration.landscape; measure again with sojourn calibrate")
        elif "A" in content:
            raise InvalidInput(
                f"{path} holds only constants of the bound; measure with sojourn calibrate, or plan by bound"
            )
        try:
            return cls._of(told)
        except InvalidInput as error:
            raise InvalidInput(f"constants file {path}: {error}") from None

    @classmethod
    def _of(cls, told: Mapping[str, Any]) -> "Landscape":
        known = {one.name: one for one in fields(cls)}
        for key in told:
            if key not in known:
                raise InvalidInput(f"unknown key '{key}'; the keys are {', '.join(known)}")
        for key, one in known.items():
            if key not in told and one.default is MISSING and one.default_factory is MISSING:
                raise InvalidInput(f"key {key} is required and missing; add it")
        found: dict[str, Any] = {key: number(told[key], key) for key in told if known[key].type is float}
        found["curvature"] = tuple(numbers(told["curvature"], "curvature"))
        found["source"] = str(told.get("source", "own"))
        found["intervals"] = {
            key: _ends(value, key) for key, value in table(told.get("intervals", {}), "intervals").items()
        }
        return cls(**found)

    def content(self) -> dict[str, Any]:
        """Return the numbers as plain values, by key."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        ends = {key: list(value) for key, value in self.intervals.items()}
        return {**plain, "curvature": list(self.curvature), "intervals": ends}

    def skewed(self) -> "Landscape":
        """Return this landscape for a problem in which slow clients hold data that fast clients lack, or the reverse.

        Half of the problem is known to only one group, and the other groups undo it with 0.07 of its curvature. These
        are the middle of the values that ranked policies as training does, on six fleets and partitions (docs/twin.md).
        """
        return replace(self, between=SKEWED, forgetting=FORGETTING)

    def scaled(self, **by: float) -> "Landscape":
        """Return this landscape with some numbers multiplied, to see what depends on them."""
        known = {one.name for one in fields(self)}
        changes: dict[str, Any] = {}
        for key, factor in by.items():
            if key not in known:
                raise InvalidInput(f"a landscape has no '{key}'; it has {', '.join(sorted(known))}")
            old = getattr(self, key)
            changes[key] = tuple(one * factor for one in old) if key == "curvature" else old * factor
        return replace(self, **changes)

    @property
    def h(self) -> Floats:
        """Return the curvatures as an array."""
        return np.array(self.curvature)


def _ends(value: Any, key: str) -> tuple[float, float]:
    both = numbers(value, key)
    if len(both) != 2:
        raise InvalidInput(f"interval of {key} must have two ends, got {quoted(list(both))}")
    return both[0], both[1]
