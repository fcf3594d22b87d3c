"""Long runs: a window of the trace stands for all that are like it.

In a stretch of the run where the step size hardly changes, W updates take the model of a direction from w to
a w + sum_i b_i delta_i + noise; N such windows one after the other take it to

    a^N w + (1 - a^N)/(1 - a) sum_i m_i delta_i + noise of variance (1 - a^2N)/(1 - a^2) (c^2 + sum_i (b_i - m_i)^2)

What clients count for on average over the whole trace, m_i, comes again in every window and adds up coherently; by how
much a window departs from it is new in each. What was sent before a window began counts as sent at its beginning.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sojourn.landscape import Landscape
from sojourn.planning.twin.moments import FAR, Outcome, Part, loss_of, one_window, parts_of, sizes, worst_of
from sojourn.planning.twin.runs import BLOCKS, TURNS, Run
from sojourn.planning.twin.updates import Rows
from sojourn.types import Floats

LEAST = 500  # updates of a window at least
STRETCHES = 8  # of a block at most, where the step size falls
LOOKS = 16  # at the schedule in each stretch
NEAR = 1e-9  # to 1: a direction that a window does not move


class Stretch(NamedTuple):
    """A part of the run with one step size."""

    block: int
    """Block that it lies in."""
    repeats: int
    """Windows that it consists of."""
    parts: list[Part]
    """The window's parts of the problem."""


@dataclass(frozen=True, eq=False)
class Long:
    """A run of more updates than are followed one by one, ready to be evaluated at any step size."""

    run: Run
    landscape: Landscape
    stretches: list[Stretch]
    usual: Floats
    """How much each client counts on average, in proportion (m)."""

    def at(self, eta: float) -> Outcome:
        """What it comes to at this step size."""
        landscape, small = self.landscape, self.run.small
        first = self.stretches[0].parts
        many, clients = landscape.h.size, small.share.size
        states = [(np.ones(many), np.zeros((clients, many)), np.zeros(many)) for _ in first]
        losses = np.full(BLOCKS + 1, np.inf)
        losses[0] = landscape.loss
        for block in range(BLOCKS):
            root, noise = (float(one[0]) for one in sizes(landscape, losses[block : block + 1]))
            for stretch in (one for one in self.stretches if one.block == block):
                states = [
                    self._through(part, stretch.repeats, eta, root, noise, state)
                    for part, state in zip(stretch.parts, states, strict=True)
                ]
            with np.errstate(over="ignore", invalid="ignore"):
                by_part = [loss_of(part, landscape, *state) for part, state in zip(first, states, strict=True)]
            losses[block + 1] = sum(part.weight * value for part, value in zip(first, by_part, strict=True))
            if not losses[block + 1] < FAR * landscape.loss:
                losses[block + 1 :] = np.inf
                return Outcome(losses, np.inf)
        common = states[0][1] if first[0].group < 0 else None
        return Outcome(losses, worst_of(first, by_part, common, small, landscape, losses[-1]))

    def _through(
        self, part: Part, repeats: int, eta: float, root: float, noise: float, state: tuple[Floats, Floats, Floats]
    ) -> tuple[Floats, Floats, Floats]:
        """a, b and the variance of the noise after so many windows more."""
        before = state
        ends = np.array([0, part.rows.changes])
        with np.errstate(over="ignore", invalid="ignore"):
            a, lean, b, square = one_window(part, ends, eta)
            usual = self.usual * (part.variance > 0)
            mean = (usual / (usual.sum() or 1.0))[:, None] * b[part.variance > 0].sum(axis=0)  # none may have come
            apart = (part.variance[:, None] * (b - mean) ** 2).sum(axis=0)
            after, twice = a**repeats, a ** (2 * repeats)
            once = _summed(a, after, repeats)
            spread = _summed(a * a, twice, repeats) * (noise * square + root**2 * apart)
            return after * before[0] + once * lean, after * before[1] + root * once * mean, twice * before[2] + spread


def _summed(ratio: Floats, power: Floats, number: int) -> Floats:
    """1 + ratio + ratio^2 + ... of so many terms, where `power` is the next one."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.where(np.abs(1 - ratio) < NEAR, float(number), (1 - power) / (1 - ratio))


def long(run: Run, landscape: Landscape) -> Long:
    """A run whose updates are only the first of many.

    Held against passes over all updates (90 clients at 8 and 10 at 1, 64,000 updates, four traces) losses differ by up
    to 3% for gradients as they come, weighted, adaptive or in buffers, 9% with drops, 20% for tables and mixed models.
    A table is taken to be full from the beginning.
    """
    updates = run.updates
    multiple = run.server.at_once(updates)
    least = max(LEAST, TURNS * updates.concurrency)
    constant = run.schedule.name == "constant"
    pieces = 1 if constant else int(np.clip(run.number / BLOCKS // least, 1, STRETCHES))
    length = run.number / (BLOCKS * pieces)
    repeats = max(1, int(length // least))
    size = max(1, round(length / repeats / multiple)) * multiple
    room = max(0, (len(updates) - size) // multiple)
    stretches = []
    for piece in range(BLOCKS * pieces):
        begin = (piece * size // multiple) % (room + 1) * multiple
        rows = run.server.rows(updates.window(begin, begin + size, _level(run, piece, BLOCKS * pieces)))
        stretches.append(Stretch(piece // pieces, repeats, parts_of(rows, run.small, landscape)))
    whole = run.server.rows(updates.window(0, len(updates), 1.0))
    return Long(run, landscape, stretches, _usual(run, whole))


def _level(run: Run, piece: int, pieces: int) -> float:
    """Mean factor of the step size in a stretch."""
    times = run.time * (piece + (np.arange(LOOKS) + 0.5) / LOOKS) / pieces
    steps = run.number * run.updates.many * times / run.time
    return float(run.schedule.factors(steps, times).mean())


def _usual(run: Run, rows: Rows) -> Floats:
    """How much each client counts on average: alike in a table; else its share of the updates times what one counts.

    Equal clients are pooled.
    """
    if rows.step is not None:
        return run.small.share
    group = run.small.fleet.group_of_client
    came = np.bincount(group[run.updates.client], minlength=run.small.fleet.groups)
    each = np.bincount(group[rows.client], rows.weight, came.size) / np.maximum(came, 1)
    share = (came / np.bincount(group))[group] / came.sum() if run.shares is None else run.shares
    return np.asarray(share * each[group])
