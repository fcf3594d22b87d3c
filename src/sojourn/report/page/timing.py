"""What a trace shows, computed once for all sections: its digest, theory, a simulation of the fitted fleet."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.dispatching import QUEUED
from sojourn.errors import InvalidInput, SojournError
from sojourn.fleet import Fleet
from sojourn.report.page.digest import Digest, digest
from sojourn.report.page.grouping import Grouped, grouped
from sojourn.scenario import Scenario
from sojourn.timing.fit.ends import Scene
from sojourn.timing.fit.observed import pieces_of
from sojourn.timing.observe.observation import Observation, Watch, scenario_of
from sojourn.timing.simulate.summary import DETAILED_GROUPS, measure
from sojourn.trace import Trace
from sojourn.types import Floats

CACHED = 50_000  # rows that are digested at a time: small enough to stay in the processor's cache
SIMULATED = (20_000, 200_000)  # fewest and most steps of the simulation behind the histograms


@dataclass
class Timing:
    """What a trace shows, computed once for all sections."""

    grouped: Grouped
    digest: Digest
    observed: Observation | None = None
    simulated: Any = None
    """Counts of the staleness by group of a simulation of the fitted fleet; None = it was not simulated."""
    notes: list[str] = field(default_factory=list)

    @property
    def fleet(self) -> Fleet:
        """The groups."""
        return self.grouped.fleet

    @property
    def updates(self) -> int:
        """Updates applied."""
        return int(self.digest.updates.sum())

    @property
    def staleness(self) -> Floats:
        """Mean staleness by group; NaN = no updates."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(
                self.digest.by_group(self.digest.stale) / self.digest.by_group(self.digest.updates), dtype=np.float64
            )

    @property
    def mean_staleness(self) -> float:
        """Mean staleness of all updates."""
        return float(self.digest.stale.sum() / self.updates) if self.updates else float("nan")

    @property
    def throughput(self) -> float:
        """Updates per second over the whole trace."""
        return self.updates / self.digest.lasted if self.digest.lasted > 0 else float("nan")


def timing_of(
    trace: Any,
    fleet: Any = None,
    plan: Any = None,
    groups: Fleet | None = None,
    folder: Path | None = None,
    compare: bool = True,
) -> Timing:
    """Read a trace once, and `compare` it with theory.

    `groups` has only names and sizes of the groups; `folder` is that of the run, if the trace is not in it.
    """
    found = grouped(trace, fleet, plan, groups, folder)
    watching = _Watching(found)

    def passing() -> Iterator[Trace]:
        for piece in found.pieces():
            if compare:
                watching.add(piece)
            yield from pieces_of(piece, CACHED)

    read = digest(passing(), found.fleet.group_of_client, found.fleet.groups, found.lanes())
    timing = Timing(found, read, notes=list(found.notes))
    if not compare:
        return timing
    if not read.updates.any():
        timing.notes.append("no update was applied, so there is nothing to compare with theory")
        return timing
    try:
        seen = watching.observation()
        timing.observed = replace(seen, notes=(*found.notes, *seen.notes))
        timing.notes = list(timing.observed.notes)
        timing.simulated = _simulated(timing)
    except SojournError as error:
        timing.notes.append(f"the comparison with theory is left out: {error}")
    return timing


class _Watching:
    """Collects what the comparison with theory needs; rows that it refuses end the comparison, and not the page."""

    def __init__(self, found: Grouped) -> None:
        self._found = found
        self._watch: Watch | None = None
        self._refused: SojournError | None = None

    def add(self, piece: Trace) -> None:
        """Add the next rows of the trace."""
        if self._refused is None:
            try:
                self._watch = self._watch or Watch(piece.metadata, self._found.fleet)
                self._watch.add(piece)
            except SojournError as error:
                self._refused = error

    def observation(self) -> Observation:
        """Return what was promised and what was observed."""
        if self._refused is not None or self._watch is None:
            raise self._refused or InvalidInput("the trace has no rows")
        return self._watch.observation(self._found.plan, self._found.scenario, self._found.given)


def _simulated(timing: Timing) -> Any:
    """Return the staleness of a simulation of the fitted fleet, by group and bin."""
    seen = timing.observed
    assert seen is not None
    scenario = timing.grouped.scenario or scenario_of(Scene.of(timing.digest.metadata))
    if seen.dispatcher not in QUEUED or seen.fleet.groups > DETAILED_GROUPS or seen.periods:
        timing.notes.append("no simulation is drawn behind the histograms: it would be of another system")
        return None
    if timing.digest.metadata.get("leave") and not scenario.availability:
        timing.notes.append("no simulation is drawn behind the histograms: when clients were away is not known")
        return None
    plain = scenario == Scenario() and seen.fleet.exponential and (not seen.plan.capped or seen.plan.one_each)
    steps = int(np.clip(timing.updates, *SIMULATED))
    start = "stationary" if plain else "even"
    warmup = None if plain else steps // 4
    try:
        return measure(
            seen.fleet,
            replace(seen.plan, fleet_hash=None),
            steps,
            start=start,
            scenario=scenario,
            warmup=warmup,
            workers=1,
        ).staleness_bins
    except SojournError as error:
        timing.notes.append(f"no simulation is drawn behind the histograms: {error}")
        return None
