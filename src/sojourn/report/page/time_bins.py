"""Bins of time that double their width: levels and sums over a whole trace in a fixed amount of memory.

The width is a power of two, and bins begin at its multiples. It is the least for which all times seen so far lie in
`SIZE` bins. So the result does not depend on the pieces in which the times come.

A level, such as the number of tasks in flight, is the sum of steps: +1 where a task begins, -1 where it ends. A bin has
the number of its steps, and their sum times the time that was left in the bin. That is enough for the exact mean of the
level over each bin.
"""

import math

import numpy as np

from sojourn.types import Floats, Integers

SIZE = 512  # bins
FINEST = -30  # exponent of the least width; 2^-30 seconds are a nanosecond
DIGITS = 50  # of the largest time, in bits: a bin is never narrower than a float can tell apart


class TimeBins:
    """Levels and sums by kind and group over bins of time."""

    def __init__(self, kinds: int, groups: int) -> None:
        self.first, self.last = math.inf, -math.inf
        self.exponent, self.base = FINEST, 0
        self._steps, self._left = (np.zeros((kinds, groups, SIZE)) for _ in range(2))

    @property
    def width(self) -> float:
        """Width of a bin in seconds."""
        return math.ldexp(1.0, self.exponent)

    def cover(self, first: float, last: float) -> None:
        """Make room for times from `first` to `last`."""
        if not first <= last:
            return
        low, high = min(self.first, first), max(self.last, last)
        largest = max(abs(low), abs(high))
        exponent = max(self.exponent, math.frexp(largest)[1] - DIGITS if largest > 0 else FINEST)
        while math.floor(math.ldexp(high, -exponent)) - math.floor(math.ldexp(low, -exponent)) >= SIZE:
            exponent += 1
        if not self.first <= self.last:  # nothing is in the bins yet
            self.exponent, self.base = exponent, math.floor(math.ldexp(low, -exponent))
        while self.exponent < exponent:
            self._double()
        self._move(math.floor(math.ldexp(low, -exponent)))
        self.first, self.last = low, high

    def add(self, kind: int, group: Integers, at: Floats, by: float | Floats = 1.0) -> None:
        """Add a step of a level, or a term of a sum, at each of these times; they must be covered."""
        place = np.floor(at / self.width)
        slot = group * SIZE + (place - self.base).astype(np.int64)
        size = self._steps[kind].size
        each = np.broadcast_to(np.asarray(by, dtype=np.float64), at.shape)
        self._steps[kind] += np.bincount(slot, each, size).reshape(-1, SIZE)
        self._left[kind] += np.bincount(slot, each * ((place + 1) * self.width - at), size).reshape(-1, SIZE)

    def edges(self) -> Floats:
        """Return the times at which the bins begin, and the end of the last; the outer ones are the first and the last
        time.
        """
        many = self._bins()
        edges = np.asarray((self.base + np.arange(many + 1)) * self.width, dtype=np.float64)
        if many:
            edges[0], edges[-1] = self.first, self.last
        return edges

    def sums(self, kind: int) -> Floats:
        """Return the sum in each bin, by group."""
        return np.asarray(self._steps[kind, :, : self._bins()])

    def levels(self, kind: int) -> Floats:
        """Return the mean of a level over each bin, by group; NaN where a bin has no length."""
        many, edges = self._bins(), self.edges()
        steps, left = self._steps[kind, :, :many], self._left[kind, :, :many]
        after = np.cumsum(steps, axis=1)
        before = after - steps
        ends = (self.base + np.arange(1, many + 1)) * self.width
        area = before * np.diff(edges) + left - steps * (ends - edges[1:])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(area / np.diff(edges))

    def _bins(self) -> int:
        return math.floor(math.ldexp(self.last, -self.exponent)) - self.base + 1 if self.first <= self.last else 0

    def _double(self) -> None:
        """Merge pairs of bins; what was left in the first of a pair grows by the width of the second."""
        odd = self.base % 2
        room = ((0, 0), (0, 0), (odd, 2 - odd))
        steps, left = (np.pad(one, room) for one in (self._steps, self._left))
        pairs = left[..., ::2] + self.width * steps[..., ::2] + left[..., 1::2]
        whole = steps[..., ::2] + steps[..., 1::2]
        self._steps, self._left = np.zeros_like(self._steps), np.zeros_like(self._left)
        self._steps[..., : whole.shape[-1]], self._left[..., : whole.shape[-1]] = whole, pairs
        self.exponent, self.base = self.exponent + 1, self.base // 2

    def _move(self, base: int) -> None:
        """Let the bins begin at another place; what is in them moves along."""
        by = self.base - base
        if by:
            self._steps, self._left = (np.roll(one, by, axis=-1) for one in (self._steps, self._left))
            self.base = base
