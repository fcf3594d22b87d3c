"""Exact second moments of a run: the loss at the ends of blocks of the time, from backward passes.

    loss of a direction = h/2 (a^2 w_0^2 + G^2 h/H sum_i (b_i - q_i sum_j b_j)^2 + sigma^2 h/H sum_k c_k^2)

H the sum of all h, w_0^2 = 2 loss/H alike in every direction, q_i = 1/n the weights of clients. G^2 and sigma^2 depend
on the loss: within a block they have the values of its beginning. So losses at the ends of blocks are computed one
after the other, each by a pass to its end; offsets of blocks add up coherently, noise in squares.

A part of the problem may be known to only one speed group g: there curvature and variances are (n/n_g)^sharper times
as large inside the group and 0 outside, offsets are centred over the group, and it counts n_g/n. Its rows are only
those of the group.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sojourn.landscape import Landscape
from sojourn.planning.twin.passes import follow, follow_table
from sojourn.planning.twin.runs import BLOCKS, Run
from sojourn.planning.twin.thinning import Thinned
from sojourn.planning.twin.updates import Rows
from sojourn.types import Floats, Integers

FAR = 1e6  # a run whose loss exceeds this many times the first loss diverges


@dataclass(frozen=True, eq=False)
class Part:
    """Directions about which the same clients have information."""

    rows: Rows
    """Changes of the model that these clients make."""
    steep: Floats
    """Curvature of their gradients."""
    variance: Floats
    """Relative variance of each client's noise and offset."""
    share: Floats
    """Weight of each client among them."""
    weight: float
    """Weight of the part in the loss."""
    group: int
    """Speed group; -1 = all."""
    pull: Floats | None = None
    """How strongly each client pulls back to the first model, in units of the curvature; None = no client does."""

    @property
    def clients(self) -> tuple[Floats, Floats]:
        """Return the steepness of each client in units of the curvature, and how strongly it pulls back."""
        ones = np.ones(self.variance.size)
        if self.pull is None:
            return ones, np.zeros(ones.size)
        return np.where(self.variance > 0, 1.0, self.pull), self.pull


class Outcome(NamedTuple):
    """The outcome of a run."""

    curve: Floats
    """Loss at the beginning and at the end of every block."""
    worst: float
    """Final loss of the worst speed group."""


def parts_of(rows: Rows, small: Thinned, landscape: Landscape) -> list[Part]:
    """Return the part that all clients know, and one part per speed group."""
    h, share, spread = landscape.h, small.share, 1 / small.counts
    found = []
    if landscape.between < 1:
        found.append(Part(rows, h, spread, share, 1 - landscape.between, -1))
    if landscape.between == 0:
        return found
    for group in np.unique(small.speed).tolist():
        mine = small.speed == group
        size = float(share[mine].sum())
        times = size**-landscape.sharper
        own = share * mine / size
        weight, variance = landscape.between * size, spread * mine * times
        if landscape.forgetting == 0:
            found.append(Part(rows.only(mine), h * times, variance, own, weight, group))
        else:
            pull = np.where(mine, 0.0, landscape.forgetting / times)
            found.append(Part(rows, h * times, variance, own, weight, group, pull))
    return found


def one_pass(part: Part, ends: Integers, eta: float, root: Floats, noise: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a, b (one row per client) and the sum of the variances of the noise, by direction."""
    a, lean, b, square = _passed(part, ends, eta, root, noise)
    return a + lean, b, square


def one_window(part: Part, ends: Integers, eta: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the same with offsets and noise of size 1, and separately how much is pulled back to the first model."""
    return _passed(part, ends, eta, np.ones(1), np.ones(1))


def _passed(
    part: Part, ends: Integers, eta: float, root: Floats, noise: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    rows, many = part.rows, part.steep.size
    lam, square, lean = np.empty((int(ends[-1]) + 1, many)), np.empty(many), np.empty(many)
    b = np.empty((part.share.size, many))
    facts: tuple[Any, ...] = (part.variance, float(eta), part.steep, root, noise, *part.clients)
    facts += (lam, b, square, lean)
    if rows.step is None:
        follow(ends, rows.first, rows.client, rows.sent, rows.weight, rows.keep, *facts)
    else:
        table: tuple[Any, ...] = (rows.step, rows.entry, rows.inclusive, rows.warm)
        follow_table(ends, rows.first, rows.client, rows.sent, rows.weight, *table, *facts)
    return lam[0].copy(), part.steep * lean, b, square


def loss_of(part: Part, landscape: Landscape, a: Floats, b: Floats, square: Floats) -> float:
    """Return the loss of a part whose offsets count `b` and whose noise adds up to `square`."""
    h = landscape.h
    total = h.sum()
    knows = part.variance > 0
    known = b if knows.all() else b * knows[:, None]
    centred = part.share[:, None] * known.sum(axis=0)
    np.subtract(known, centred, out=centred)  # in place: with a thousand clients, copies take longer than the sums
    centred *= centred
    centred *= part.variance[:, None]
    offset = centred.sum(axis=0)
    return float((h / 2 * (a**2 * 2 * landscape.loss / total + h / total * (offset + square))).sum())


def gaps(part: Part, small: Thinned, landscape: Landscape, b: Floats, size: float) -> dict[int, float]:
    """Return how far the loss of each speed group is from the mean: its part of E[delta_i w]; `size`^2 is the final
    G^2.
    """
    weight = landscape.h / landscape.h.sum()
    centred = part.variance[:, None] * (b - part.share[:, None] * b.sum(axis=0))
    each = size * (centred @ weight)
    each = each - (part.share * each).sum()
    return {
        group: float((small.share * each)[small.speed == group].sum() / small.share[small.speed == group].sum())
        for group in np.unique(small.speed).tolist()
    }


def sizes(landscape: Landscape, losses: Floats) -> tuple[Floats, Floats]:
    """Return the root of G^2, and sigma^2, at these losses."""
    root = np.sqrt(landscape.heterogeneity * losses + landscape.heterogeneity_floor)
    return root, np.asarray(landscape.noise * losses + landscape.noise_floor)


def worst_of(
    parts: list[Part], by_part: list[float], b: Floats | None, small: Thinned, landscape: Landscape, last: float
) -> float:
    """Return the largest loss of a speed group."""
    groups = np.unique(small.speed).tolist()
    total = dict.fromkeys(groups, 0.0)
    for part, value in zip(parts, by_part, strict=True):
        if part.group >= 0:
            total[part.group] += landscape.between * value
        else:
            assert b is not None
            size = float(sizes(landscape, np.array([last]))[0][0])
            apart = gaps(part, small, landscape, b, size)
            for group in groups:
                total[group] += part.weight * (value + apart[group])
    return max(total.values())


def exact(run: Run, landscape: Landscape, rows: Rows | None = None) -> "Exact":
    """Prepare a run in which every update is followed, to be evaluated at any step size."""
    made = run.server.rows(run.updates) if rows is None else rows
    parts = parts_of(made, run.small, landscape)
    times = run.time * np.arange(BLOCKS + 1) / BLOCKS
    ends = []
    for part in parts:
        place = np.searchsorted(part.rows.time, times, side="right")
        place[0] = 0
        ends.append(place.astype(np.int64))
    return Exact(run, landscape, parts, ends)


@dataclass(frozen=True, eq=False)
class Exact:
    """A run in which every update is followed."""

    run: Run
    landscape: Landscape
    parts: list[Part]
    ends: list[Integers]
    """Number of changes of each part's model at the ends of the blocks."""

    def at(self, eta: float) -> Outcome:
        """Return the outcome at this step size."""
        losses = np.full(BLOCKS + 1, np.inf)
        losses[0] = self.landscape.loss
        by_part: list[float] = []
        common = None
        for q in range(1, BLOCKS + 1):
            root, noise = sizes(self.landscape, losses[:q])
            by_part = []
            with np.errstate(over="ignore", invalid="ignore"):
                for part, ends in zip(self.parts, self.ends, strict=True):
                    a, b, square = one_pass(part, ends[: q + 1], eta, root, noise)
                    by_part.append(loss_of(part, self.landscape, a, b, square))
                    common = b if part.group < 0 else common
            losses[q] = sum(part.weight * value for part, value in zip(self.parts, by_part, strict=True))
            if not losses[q] < FAR * self.landscape.loss:
                losses[q:] = np.inf
                return Outcome(losses, np.inf)
        return Outcome(losses, worst_of(self.parts, by_part, common, self.run.small, self.landscape, losses[-1]))
