"""Bins of updates that double their width: updates and staleness by group over a whole trace, in a fixed memory.

A bin is a run of successive updates. It holds one update as long as all updates of the trace fit into the bins; then
pairs of bins are merged. So sums between any two updates are exact for a short trace, and for a long one between any
two multiples of the width. The result does not depend on the pieces in which the trace is read.
"""

import numpy as np

from sojourn.types import Floats, Integers

CELLS = 1 << 22  # bins times groups
MOST, LEAST = 1 << 16, 1 << 6  # bins


class StepBins:
    """Updates, their total staleness and their last time, by bin; updates before `begin` are left out."""

    def __init__(self, begin: int = 0) -> None:
        self.begin, self.width = begin, 1
        self.left_out_until = -np.inf
        """When the last update that is left out was applied."""
        self._seen, self._stale, self._last = np.zeros((MOST, 0)), np.zeros((MOST, 0)), np.full(MOST, -np.inf)

    def add(self, step: Integers, group: Integers, stale: Integers, at: Floats, groups: int) -> None:
        """Add updates: their numbers in the trace, groups, staleness and times; `groups` is at least as before."""
        late = step >= self.begin
        if not late.all():
            self.left_out_until = max(self.left_out_until, float(at[~late].max()))
            step, group, stale, at = step[late], group[late], stale[late], at[late]
        self._widen(groups)
        if not step.size:
            return
        self.cover(int(step.max()) + 1)
        slot = (step - self.begin) // self.width
        low, high = int(slot.min()), int(slot.max()) + 1
        place, shape = (slot - low) * groups + group, (high - low, groups)
        self._seen[low:high] += np.bincount(place, minlength=shape[0] * groups).reshape(shape)
        self._stale[low:high] += np.bincount(place, stale, shape[0] * groups).reshape(shape)
        np.maximum.at(self._last, slot, at)

    def cover(self, steps: int) -> None:
        """Make room for so many updates, counted from the beginning of the trace."""
        while steps - self.begin > self.width * self._last.size:
            self._double()

    def batches(self, edges: Integers, groups: int) -> tuple[Floats, Floats, Floats]:
        """Return updates and total staleness by batch and group, and when the batches end, after the end of what is
        before them; `edges` has the first update of each batch, a multiple of the width after `begin`.
        """
        self._widen(groups)
        first = (edges - self.begin) // self.width
        before = max(self.left_out_until, float(self._last[: first[0]].max(initial=-np.inf)))
        ends = np.concatenate([[before], np.maximum.reduceat(self._last, first)])
        return np.add.reduceat(self._seen, first), np.add.reduceat(self._stale, first), ends

    def _widen(self, groups: int) -> None:
        more = groups - self._seen.shape[1]
        if more:
            bins = int(np.clip(1 << (CELLS // groups).bit_length() >> 1, LEAST, MOST))
            while self._last.size > bins:
                half = self._last.size // 2
                if self._seen[half:].any():
                    self._double()
                self._seen, self._stale, self._last = (one[:half] for one in (self._seen, self._stale, self._last))
            self._seen, self._stale = (np.pad(one, ((0, 0), (0, more))) for one in (self._seen, self._stale))

    def _double(self) -> None:
        """Merge pairs of bins; the second half of them is empty then."""
        half = self._last.size // 2
        for one in (self._seen, self._stale):
            one[:half] = one[::2] + one[1::2]
            one[half:] = 0.0
        self._last[:half] = np.maximum(self._last[::2], self._last[1::2])
        self._last[half:] = -np.inf
        self.width *= 2
