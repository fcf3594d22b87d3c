"""Train one run, or several in common waves, in memory and without folders, because there are thousands."""

import copy
import math
import time as clock
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from world import POINTS, WORKS, Cell

from sojourn.experiments.training import simulated
from sojourn.learning.execute.examples import Examples
from sojourn.learning.execute.executor import run_courses
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.replay import Diverged, Replay
from sojourn.learning.run.along import updates_of
from sojourn.learning.run.build import Built, build
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.evaluate import judge
from sojourn.own_code import handed_over
from sojourn.planning.policy import Policy
from sojourn.timing.shares import exact_shares
from sojourn.trace import APPLIED, Trace

LOOKS = 5  # checks of a trial on the way, to see whether it diverges
_FIRST: dict[tuple[str, bool], Built] = {}  # what runs of the same data share, in this process
Row = dict[str, Any]


class Request(NamedTuple):
    """A run, by name."""

    cell: Cell
    policy: str
    kind: str
    """`trial` (evaluated on held-out examples), `final`, or `guess` (a final run at a step size that was not tuned)."""
    step: float
    seed: int
    made: Policy
    """The policy of that name, made once by the search."""

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Its key among the runs of its cell."""
        return self.policy, self.kind, f"{self.step:.6g}", self.seed


@dataclass
class Course:
    """A run in progress."""

    request: Request
    built: Built
    trace: Trace
    curve: list[float]

    def go(self) -> Generator[Any, Any, Row]:
        """Train it; yield the gradients that must be computed."""
        total = updates_of(self.built, self.trace)
        times = self.trace.applied_at[self.trace.fate == APPLIED][:total]
        replay = Replay(
            self.built.algorithm, self.built.federation, self.trace, self.built.setting, self.built.executor, total
        )
        final = self.request.kind != "trial"
        points = POINTS if final else LOOKS
        seen = peeked(self.request.cell, self.built.federation) if final else None
        try:
            for point in range(1, points + 1):
                yield from replay.course(int(np.searchsorted(times, self.request.cell.time * point / points, "right")))
                replay.settle()
                if not bool(torch.isfinite(replay.params).all()):
                    raise Diverged("the model is not finite")
                if seen is not None and point < points:
                    self.curve.append(judge(seen, replay.params, replay.stats).accuracy)
            yield from replay.course(total)
            replay.settle()
            found = judge(self.built.federation, replay.params, replay.stats)
        except Diverged:
            return self.row(total, math.inf, math.nan, math.nan)
        if seen is not None:
            self.curve.append(found.accuracy)
        return self.row(total, found.loss, found.accuracy, found.percentiles()[0])

    def row(self, updates: int, loss: float, accuracy: float, worst: float) -> Row:
        """Return the row that is stored."""
        request = self.request
        policy, kind, step, seed = request.key
        curve = " ".join(f"{value:.4f}" for value in self.curve)
        facts = {"policy": policy, "kind": kind, "step": step, "seed": seed, "updates": updates}
        loss = loss if math.isfinite(loss) else math.inf
        return facts | {"loss": f"{loss:.6g}", "accuracy": f"{accuracy:.5f}", "worst": f"{worst:.5f}", "curve": curve}


def train(requests: Sequence[Request]) -> list[Row]:
    """Train runs of one problem together, either all trials or none; return their rows with the seconds per run."""
    torch.set_num_threads(1)  # the same sums in the same order on any number of cores
    began = clock.monotonic()
    courses = [opened(one) for one in requests]
    rows: list[Row] = run_courses([(one.go(), one.built.executor) for one in courses])
    took = (clock.monotonic() - began) / len(requests)
    return [row | {"seconds": f"{took:.3f}"} for row in rows]


def opened(request: Request) -> Course:
    """Open a run with data, model and timing."""
    cell = request.cell
    where = (cell.work.name, request.kind == "trial")
    built = build(config_of(request), None, _FIRST.get(where), exact_shares)
    _FIRST.setdefault(where, built)
    return Course(request, built, simulated(built), [])


def config_of(request: Request) -> TrainConfig:
    """Return the configuration of the run."""
    cell = request.cell
    policy = request.made
    held = {"holdout": cell.work.holdout, "judged_on": "holdout"} if request.kind == "trial" else {}
    keys = {
        "fleet": handed_over(cell.fleet, f"fleet-{cell.fleet.hash}"),
        "plan": handed_over(policy.plan, f"plan-{policy.plan.hash}"),
        "algorithm": policy.algorithm,
        "partition": cell.dealt(),
        "time": cell.time,
        "step_size": request.step,
        "seed": request.seed,
        **cell.work.keys(),
        **held,
    }
    return TrainConfig.of(keys, request.policy)


def peeked(cell: Cell, federation: Federation) -> Federation:
    """Return the same federation, evaluated on some of the test images in a random order, which is
    enough for a curve.
    """
    if cell.work.peek is None:
        return federation
    few, examples = _few(cell.work.name, federation.examples)
    seen = copy.copy(federation)
    seen.dataset, seen.examples = few, examples
    return seen


@lru_cache(maxsize=2)
def _few(work: str, examples: Examples) -> tuple[Any, Examples]:
    dataset = examples.dataset
    rows = np.random.default_rng(0).permutation(len(dataset.test_y))[: WORKS[work].peek]
    few = replace(dataset, test_x=dataset.test_x[rows], test_y=dataset.test_y[rows])
    light = replace(few, train_x=few.train_x[:1], train_y=few.train_y[:1], owner=None)
    return few, Examples(light, torch.float32, examples.x.device)
