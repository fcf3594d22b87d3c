"""Bounds of what is measured, and intervals that keep to them.

An interval for a mean is cut at the bounds of what it is a mean of: an accuracy lies between 0 and 1, a staleness, a
time or a loss is not negative. The true mean lies within the bounds, so that what is cut off never held it: the
interval that is left covers it exactly as often as the whole one.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

Bounds = tuple[float, float]
"""The least and the largest that a quantity can be."""

ANY: Bounds = (-inf, inf)
SHARE: Bounds = (0.0, 1.0)
AMOUNT: Bounds = (0.0, inf)
BOUNDS: Mapping[str, Bounds] = {
    **dict.fromkeys(("accuracy", "client_worst", "client_10", "client_50", "client_90", "utilisation"), SHARE),
    **dict.fromkeys(("staleness", "queue", "sojourn", "waiting", "throughput", "time", "gradients"), AMOUNT),
    **dict.fromkeys(("received", "version"), AMOUNT),
}
"""Of quantities by their names in tables; those that are not named may be anything."""
NONNEGATIVE_LOSSES = ("cross-entropy", "mse", "binary-cross-entropy")


def bounds_of(quantity: str, loss: str | None = None) -> Bounds:
    """The bounds of a quantity; of a loss, where the loss function is one that is never negative.

    >>> bounds_of("accuracy"), bounds_of("test_loss", "mse"), bounds_of("test_loss", "mine:loss")
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    if quantity in ("test_loss", "train_loss"):
        return AMOUNT if loss in NONNEGATIVE_LOSSES else ANY
    return BOUNDS.get(quantity, ANY)


def of_differences(bounds: Bounds) -> Bounds:
    """The bounds of a difference of two such quantities.

    >>> of_differences(SHARE), of_differences(AMOUNT)
    ((-1.0, 1.0), (-inf, inf))
    """
    low, high = bounds
    return (low - high, high - low) if high - low < inf else ANY


def cut(low: Any, high: Any, bounds: Bounds) -> tuple[Any, Any]:
    """The ends of an interval, or of many, cut at the bounds.

    >>> low, high = cut(0.9, 1.1, SHARE)
    >>> float(low), float(high)
    (0.9, 1.0)
    """
    return np.clip(low, *bounds), np.clip(high, *bounds)
