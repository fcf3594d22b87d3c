"""The whole measurement: a short training, gradients and curvatures at some of its points, and the
constants from them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sojourn.calibration import UNKNOWN, Calibration
from sojourn.errors import InvalidInput
from sojourn.learning.calibrate.estimates import Bounded, Estimate, Largest
from sojourn.learning.calibrate.gap import lowest_reached
from sojourn.learning.calibrate.gradients import ROUNDS, Design, gather, still
from sojourn.learning.calibrate.noise import (
    farther,
    largest_heterogeneity,
    largest_noise,
    mean_heterogeneity,
    mean_noise,
)
from sojourn.learning.calibrate.objective import Chosen, Objective, choose
from sojourn.learning.calibrate.smoothness import (
    PROBES,
    measure_curvature,
    measure_secant,
    measure_trace,
    most_products,
)
from sojourn.learning.calibrate.speed_groups import known_to_one_group, pace_of_clients, parts, speed_groups
from sojourn.learning.replay.replay import Replay
from sojourn.learning.run.along import updates_of
from sojourn.learning.run.build import Built
from sojourn.learning.run.evaluate import fitting
from sojourn.measured import LowestMeasured, Measured, PointMeasured
from sojourn.measured_landscape import settled
from sojourn.trace import Trace
from sojourn.types import Floats, Integers

MARKS = 20  # number of models of the second half of a training that are averaged
LOWEST = 2**40  # stands for the step of the gradients at the lowest loss
PART = 8  # if not all examples are used, a client's curvature is measured on this part of their number


class Place(NamedTuple):
    """A point of a training."""

    step: int
    """Number of updates received before."""
    time: float
    """Virtual time."""
    params: Tensor
    """The server's model."""
    stats: Tensor
    """Its statistics."""


def places(built: Built, trace: Trace, points: int, watch: Callable[[], None] | None = None) -> Iterator[Place]:
    """Yield the first model of the run, its last, and others at even distances; then the mean of its second half.

    The mean is used only for its loss, which is often lower than that of any model on the way. Its step is -1.
    """
    total = updates_of(built, trace)
    replay = Replay(built.algorithm, built.federation, trace, built.setting, built.executor, total=total)
    stops = set(np.linspace(0, total, points).round().astype(int).tolist())
    marks = set(np.linspace(total / 2, total, MARKS).round().astype(int).tolist())
    mean, many = torch.zeros_like(replay.params), 0
    for step in sorted(stops | marks):
        replay.advance(step)
        if step in stops:
            yield Place(step, replay.time, replay.params, replay.stats)
        if step in marks:
            many += 1
            mean = torch.lerp(mean, replay.params, 1 / many)
        if watch is not None:
            watch()
    yield Place(-1, replay.time, mean, replay.stats)


Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    gradients: int = 400
    """Number of stochastic gradients for noise and heterogeneity, over all points."""
    points: int = 3
    """Number of points of the training."""
    directions: int = 10
    """Number of leading directions of the curvature."""
    examples: int = 2048
    """Most examples that losses and curvatures are computed on."""
    confidence: float = 0.95
    """Least confidence of the intervals."""

    def __post_init__(self) -> None:
        for key in ("gradients", "points", "directions", "examples"):
            if getattr(self, key) < 1:
                raise InvalidInput(f"{key} must be at least 1, got {getattr(self, key)}")
        if not 0 < self.confidence < 1:
            raise InvalidInput(f"confidence must lie between 0 and 1, got {self.confidence}; 0.95 is usual")


class _Found(NamedTuple):
    """What a point adds to the constants."""

    point: PointMeasured
    smoothness: Bounded
    noise: Bounded
    heterogeneity: Bounded
    asked: tuple[float, float]
    """Largest noise and heterogeneity of the clients asked."""
    gradients: Floats
    """Products of the gradients of the clients asked."""
    products: int


def calibrate(
    built: Built, trace: Trace, effort: Effort | None = None, progress: Progress | None = None
) -> Calibration:
    """Measure the constants of a run that is built but not trained yet, along a trace of its timing."""
    with fitting(built.federation, built.federation.model.module):
        return _calibrated(built, trace, effort or Effort(), progress)


def _calibrated(built: Built, trace: Trace, effort: Effort, progress: Progress | None) -> Calibration:
    federation, weights = built.federation, np.asarray(built.setting.weights, dtype=np.float64)
    pace = pace_of_clients(built.setting.fleet)
    design = Design.of(federation.clients, effort.gradients // effort.points, built.config.seed, pace)
    chosen = choose(federation, weights, effort.examples, 0)
    groups = speed_groups(built.setting.fleet, design.asked)
    watch = _Watch(progress, effort, design)
    found: list[_Found] = []
    objectives: list[Objective] = []
    for place in places(built, trace, effort.points, watch):
        objectives.append(Objective(federation, place.params, place.stats, chosen))
        if place.step >= 0:
            found.append(_at(built, place, objectives[-1], design, groups, effort, watch))
            watch.reach(len(found))
    gap, lowest = lowest_reached(objectives)
    ended = (
        _at_lowest(built, lowest, design, effort) if chosen.exact else None
    )  # a model fitted to some examples is not fitted to all
    return _constants(built, effort, design, groups, chosen.exact, found, gap, ended)


def _at(
    built: Built,
    place: Place,
    objective: Objective,
    design: Design,
    groups: Integers,
    effort: Effort,
    watch: Callable[[], None],
) -> _Found:
    """Measure everything at one point."""
    federation, everyone = built.federation, np.asarray(built.setting.weights, dtype=np.float64)
    most = _of_a_client(effort, objective.chosen)
    curvature = measure_curvature(objective, federation, design.asked, most, effort.directions, watch)
    spectrum = curvature.spectrum
    weights = everyone[design.asked] / everyone[design.asked].sum()
    sums = gather(federation, place.params, place.stats, design, weights, spectrum.vectors, place.step, watch)
    noise, apart = mean_noise(sums, weights, design.clients), mean_heterogeneity(sums, weights, everyone)
    asked = (largest_noise(sums, noise[0]).value, max(0.0, largest_heterogeneity(sums, apart[0]).value))
    noisy = int((~still(federation)).sum() - (~sums.still).sum())
    others = design.clients - design.asked.size
    most_noise = largest_noise(sums, noise[0], noisy)
    most_apart = largest_heterogeneity(sums, apart[0], others, farther(weights, everyone) if others else 1.0)
    miss = (1 - effort.confidence) / 2
    trace = measure_trace(objective, spectrum, federation.seed, watch)
    apiece = parts(sums.products, weights, groups)
    slope = objective.gradient()
    secant = measure_secant(objective, slope, float(built.config.step_size or 1.0))
    bound = [Estimate(secant)] if objective.chosen.exact else []
    smoothness = Largest([curvature.smoothness, *bound])
    point = PointMeasured(
        step=place.step,
        time=place.time,
        loss=_measured(objective.loss(), miss),
        gradient2=float(slope.square().sum()),
        L=_measured(smoothness, miss),
        secant=secant,
        curvature=curvature.mean,
        lowest=spectrum.lowest,
        sigma2=_measured(most_noise, miss),
        sigma2_mean=_measured(noise[0], miss),
        G2=_not_negative(_measured(most_apart, miss)),
        G2_mean=_not_negative(_measured(apart[0], miss)),
        eigenvalues=tuple(spectrum.values.tolist()),
        residuals=tuple(spectrum.residuals.tolist()),
        noise=tuple(_measured(one, miss) for one in noise[1:]),
        heterogeneity=tuple(_not_negative(_measured(one, miss)) for one in apart[1:]),
        trace=_measured(trace, miss),
        G2_between=_not_negative(_measured(apiece.between, miss)),
        G2_within=_not_negative(_measured(apiece.within, miss)),
    )
    products = curvature.products + PROBES
    return _Found(point, smoothness, most_noise, most_apart, asked, sums.products, products)


def _at_lowest(built: Built, objective: Objective, design: Design, effort: Effort) -> LowestMeasured:
    """Measure noise and heterogeneity where the loss was lowest, from four gradients of every client asked."""
    everyone = np.asarray(built.setting.weights, dtype=np.float64)
    weights = everyone[design.asked] / everyone[design.asked].sum()
    few = Design(design.asked, design.clients, ROUNDS // 2, 2)
    none = objective.params.new_empty(0, objective.params.numel())
    sums = gather(built.federation, objective.params, objective.stats, few, weights, none, LOWEST)
    miss = (1 - effort.confidence) / 2
    apart = _not_negative(_measured(mean_heterogeneity(sums, weights, everyone)[0], miss))
    noise = mean_noise(sums, weights, design.clients)[0]
    return LowestMeasured(_measured(objective.loss(), miss), _measured(noise, miss), apart)


def _constants(
    built: Built,
    effort: Effort,
    design: Design,
    groups: Integers,
    exact: bool,
    found: list[_Found],
    gap: Bounded,
    lowest: LowestMeasured | None,
) -> Calibration:
    miss = (1 - effort.confidence) / 2
    config = built.config
    words = ("data", "partition", "model", "batch_size", "order", "weights", "algorithm", "seed", "dtype", "step_size")
    run: dict[str, Any] = {key: getattr(config, key) for key in words}
    return Calibration(
        A=_measured(gap, miss),
        L=_measured(Largest([one.smoothness for one in found]), miss),
        sigma2=_measured(Largest([one.noise for one in found]), miss),
        G2=_not_negative(_measured(Largest([one.heterogeneity for one in found]), miss)),
        confidence=effort.confidence,
        clients=design.clients,
        asked=int(design.asked.size),
        gradients=design.gradients * len(found) + (ROUNDS * int(design.asked.size) if lowest else 0),
        products=sum(one.products for one in found),
        exact=exact,
        still=int(still(built.federation).sum()),
        largest_asked=dict(zip(("sigma2", "G2"), np.max([one.asked for one in found], axis=0).tolist(), strict=True)),
        lowest=lowest,
        between=_between(built, design, groups, found, miss),
        points=tuple(one.point for one in found),
        run={**run, "steps": found[-1].point.step, "parameters": built.federation.model.size},
    )


def _between(built: Built, design: Design, groups: Integers, found: list[_Found], miss: float) -> Measured:
    """Return the part of the problem that only one speed group knows; from 0 to 1 if too few clients were asked."""
    if groups.max(initial=0) == 0:
        return Measured(0.0, 0.0, 0.0) if np.unique(pace_of_clients(built.setting.fleet)).size == 1 else UNKNOWN
    weights = np.asarray(built.setting.weights, dtype=np.float64)[design.asked]
    kept = settled(found)
    return _measured(known_to_one_group([one.gradients for one in kept], weights, groups), miss)


def _of_a_client(effort: Effort, chosen: Chosen) -> int:
    """Return the most examples for a client's curvature."""
    return effort.examples if chosen.exact else max(1, effort.examples // PART)


def _measured(one: Bounded, miss: float) -> Measured:
    low, high = one.low(miss), one.high(miss)
    return Measured(min(max(one.value, low), high), low, high)


def _not_negative(one: Measured) -> Measured:
    return Measured(*(max(0.0, end) for end in one))


class _Watch:
    """Counts pieces of work for a progress bar; skips ahead if a point needed fewer products than planned."""

    def __init__(self, progress: Progress | None, effort: Effort, design: Design) -> None:
        self._progress, self._done = progress, 0
        self._each = design.groups * design.size + most_products(effort.directions) + PROBES
        self.total = MARKS + effort.points * (self._each + 1)

    def __call__(self) -> None:
        self._say(self._done + 1)

    def reach(self, points: int) -> None:
        """Note that this many points are done."""
        self._say(max(self._done, points * self._each))

    def _say(self, done: int) -> None:
        self._done = min(done, self.total)
        if self._progress is not None:
            self._progress(self._done, self.total)
