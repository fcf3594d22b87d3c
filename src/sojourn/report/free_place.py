"""A place for a name at the end of a curve where it covers no other curve and no other name, if there is one."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sojourn.types import Floats

LETTERS = 7  # points
WIDE, HIGH = 0.62 * LETTERS, 1.3 * LETTERS  # points of a letter and of a line, on the safe side
AROUND = 3  # points that stay free around a name
FARTHEST = 6  # lines between a name and the end of its curve
POINTS = 400  # points of every curve that a name should not cover


class Curve(Protocol):
    """What has places and values."""

    @property
    def at(self) -> Floats:
        """Where."""

    @property
    def value(self) -> Floats:
        """The values there."""


class Free:
    """The room that the curves of a panel and the names written so far leave."""

    def __init__(self, panel: Any, curves: Sequence[Curve]) -> None:
        panel.get_ylim()  # computes the limits, which decide where a point is drawn
        self._panel, self._points = panel, 72 / panel.figure.dpi
        drawn = [self._drawn(curve.at, curve.value) for curve in curves]
        self._covered = np.concatenate([_dense(one) for one in drawn if len(one)] or [np.empty((0, 2))])

    def _drawn(self, at: Floats, value: Floats) -> Floats:
        """Points in the picture, in points of 1/72 inch; those that a logarithmic axis cannot have are left out."""
        with np.errstate(all="ignore"):
            found = self._panel.transData.transform(np.column_stack([at, value])) * self._points
        return np.asarray(found[np.isfinite(found).all(axis=1)])

    def place(self, letters: int, at: float, value: float, side: int) -> dict[str, Any]:
        """Options of `annotate` for a name of so many letters; `side` (-1 below, 1 above) is tried first."""
        ((x, y),) = self._drawn(np.array([at]), np.array([value]))
        best: tuple[float, dict[str, Any], Floats] | None = None
        for row in range(FARTHEST):
            for up, right in ((side, 1), (side, -1), (-side, 1), (-side, -1)):
                dx, dy = 2 * right, up * (6 + HIGH * row)
                left = x + dx - (0 if right > 0 else WIDE * letters)
                low = y + dy - (0 if up > 0 else HIGH)
                box = np.array([left, low, left + WIDE * letters, low + HIGH])
                cost = self._cost(box)
                if best is None or cost < best[0]:
                    words = {"ha": "left" if right > 0 else "right", "va": "bottom" if up > 0 else "top"}
                    best = cost, {"xytext": (dx, dy), **words}, box
        assert best is not None
        left, low, end, high = best[2].tolist()
        written = np.array([(x, y) for x in np.linspace(left, end, 30) for y in np.linspace(low, high, 4)])
        self._covered = np.concatenate([self._covered, written])
        return best[1]

    def _cost(self, box: Floats) -> float:
        """How much of curves and names a box covers; a box that leaves the panel is worst."""
        inside = (self._covered >= box[:2] - AROUND).all(axis=1) & (self._covered <= box[2:] + AROUND).all(axis=1)
        edge = self._panel.bbox.extents * self._points
        outside = bool((box[:2] < edge[:2]).any() or (box[2:] > edge[2:]).any())
        return float(inside.sum()) + 1000 * outside


def _dense(drawn: Floats) -> Floats:
    """Many points along a curve, so that none of its parts is overlooked."""
    order = np.linspace(0, len(drawn) - 1, POINTS)
    return np.column_stack([np.interp(order, np.arange(len(drawn)), drawn[:, side]) for side in (0, 1)])
