"""An estimate of what many cells will cost before they are trained: time and memory, from a few cells that are timed.

Cells that differ only in seed and step size are of one kind. The first cell of each kind (of some kinds, where there
are many) is trained for a few seconds, in a separate process and in a folder that is removed afterwards. The rest is
proportional to the updates of a run, the number of cells and the number of processes. A kind that was not timed is
assumed to cost as much per gradient as the kinds that were; its gradients are counted by simulating its timing.

Seconds are processor time, so that other work on the machine does not count; with a GPU they are wall-clock time. The
estimate also says how much of a core the timed process got.
"""

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf, nan
from os import environ
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from sojourn.errors import SojournError
from sojourn.experiments.cells import Cell, Cells, without_twins
from sojourn.experiments.processes import ONE_THREAD, check_joblib
from sojourn.experiments.run_cells import pace, uses_gpu
from sojourn.experiments.train_cells import Lot, lots_of
from sojourn.learning.run.config import TrainConfig
from sojourn.own_code import take_over

SECONDS = 12.0  # for all timed cells together
LEAST = 1.0  # for each timed cell
MOST = 8  # at most so many kinds are timed


class Timed(NamedTuple):
    """The timing of one lot."""

    name: str
    """The name of its first cell."""
    setup: float = nan
    """Seconds until it could train: loading, simulating, building."""
    seconds: float = nan
    """Seconds of the training that was timed."""
    updates: int = 0
    """Updates received in these seconds."""
    total: int = 0
    """Updates of the whole lot."""
    error: str = ""
    """What went wrong; empty = nothing."""

    @property
    def whole(self) -> float:
        """Seconds from its beginning to its end."""
        return self.setup + self.seconds / self.updates * self.total if self.updates else nan


class Measured(NamedTuple):
    """The report of the process that timed lots."""

    cold: float
    """Seconds until its first cell could train; every process needs them once."""
    lots: tuple[Timed, ...]
    """The lots that were timed."""
    memory: float
    """The largest amount of memory that it used, in bytes; NaN where the system does not report it."""
    share: float = 1.0
    """The share of a core that it got meanwhile."""


@dataclass(frozen=True)
class Phase:
    """Cells that are trained in the same phase: trials, or final runs."""

    name: str
    """What the cells are called."""
    cells: int
    """How many there are."""
    ended: int
    """How many of them had ended already."""
    updates: float = 0.0
    """Updates of the cells that are left."""
    seconds: float = 0.0
    """Seconds for the cells that are left, one after the other; with the start of the process in the first phase."""
    wall: float = 0.0
    """The same with `jobs` processes at a time."""


@dataclass(frozen=True)
class Estimate:
    """The work that is left, and what it will cost."""

    phases: tuple[Phase, ...]
    """The phases, in the order in which they run."""
    jobs: int
    """Processes at a time."""
    memory: float = nan
    """Largest memory of one process, in bytes."""
    share: float = 1.0
    """Share of a core that the timed process got; far below 1 = the machine is busy with other work."""
    timed: tuple[Timed, ...] = ()
    """The lots that it is based on."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Cells that could not be timed, and why."""

    @property
    def wall(self) -> float:
        """Seconds until everything is done."""
        return sum(phase.wall for phase in self.phases)

    @property
    def left(self) -> int:
        """Cells that have not ended."""
        return sum(phase.cells - phase.ended for phase in self.phases)

    def facts(self) -> dict[str, Any]:
        """The estimate as plain values."""
        phases = {one.name: {"updates": one.updates, "seconds": one.seconds, "wall": one.wall} for one in self.phases}
        timed = [one._asdict() for one in self.timed]
        whole = {"wall": self.wall, "jobs": self.jobs, "memory_each": self.memory, "memory": self.memory * self.jobs}
        return {**whole, "share_of_core": self.share, "phases": phases, "timed": timed, "failures": dict(self.failures)}


def estimated(
    phases: Mapping[str, Sequence[Cell]], folder: str | Path, jobs: int | None = None, together: int | None = None
) -> Estimate:
    """Estimate what the cells that have not ended in the folder will cost, per phase; nothing is written there."""
    where = Cells(Path(folder))
    distinct = {name: without_twins(cells) for name, cells in phases.items()}
    done = {name: {cell.hash for cell in where.finished(cells)} for name, cells in distinct.items()}
    left = {name: [cell for cell in cells if cell.hash not in done[name]] for name, cells in distinct.items()}
    every = [cell for cells in left.values() for cell in cells]
    share, many = pace(every, jobs, together) if every else (1, jobs or 1)
    with TemporaryDirectory(prefix="sojourn-") as place:
        lots = {name: lots_of(cells, Cells(Path(place)), share) for name, cells in left.items()}
        kinds: dict[Any, Lot] = {}
        for lot in (one for each in lots.values() for one in each):
            kinds.setdefault(kind_of(lot), lot)
        many = min(many, max([1, *(len(each) for each in lots.values())]))
        chosen = _spread(list(kinds), MOST)
        names = {cell.hash: cell.name for cell in every}
        measured = _in_a_process([kinds[one] for one in chosen], names, Path(place)) if chosen else Measured(0, (), nan)
    known = {kind: one for kind, one in zip(chosen, measured.lots, strict=True) if one.updates}
    costs = {kind: _cost(kind, known) for kind in kinds}
    found = [
        _phase(name, len(distinct[name]), len(done[name]), [costs[kind_of(lot)] for lot in lots[name]], many)
        for name in phases
    ]
    if every:
        first = found[0]  # every process starts once; several start at the same time
        found[0] = replace(first, seconds=first.seconds + measured.cold, wall=first.wall + measured.cold)
    failures = {one.name: one.error for one in measured.lots if one.error}
    return Estimate(tuple(found), many, measured.memory, measured.share, tuple(known.values()), failures)


def kind_of(lot: Lot) -> tuple[int, TrainConfig]:
    """A text that is equal for lots which cost the same."""
    return len(lot.members), replace(lot.members[0].config, seed=0, step_size=None)


def _spread(kinds: list[Any], most: int) -> list[Any]:
    """At most so many of the items, spread evenly from the first to the last.

    >>> _spread(list("abcdefg"), 3), _spread(["a"], 3)
    (['a', 'd', 'g'], ['a'])
    """
    if len(kinds) <= most:
        return kinds
    return [kinds[round(number * (len(kinds) - 1) / (most - 1))] for number in range(most)]


def _cost(kind: Any, known: Mapping[Any, Timed]) -> tuple[float, float]:
    """Updates and seconds of a lot: measured, or computed from its gradients and the lots that were timed."""
    if kind in known:
        return known[kind].total, known[kind].whole
    if not known:
        return nan, nan
    updates, gradients = _work_of(kind)
    rates = [one.seconds / one.updates * one.total / _work_of(other)[1] for other, one in known.items()]
    return updates, fmean(one.setup for one in known.values()) + fmean(rates) * gradients


@lru_cache(maxsize=1024)
def _work_of(kind: tuple[int, TrainConfig]) -> tuple[float, float]:
    """Updates and gradients of a kind of lot, by a simulation of its timing."""
    from sojourn.learning.run.build import STEPS, timing_of
    from sojourn.timing.simulate.record import simulate

    many, config = kind
    if config.trace is not None:
        steps = float(config.steps or STEPS)
        return many * steps, many * steps * config.local_steps
    fleet, plan, scenario = timing_of(config)
    steps_asked = STEPS if config.steps is None and config.time is None else config.steps
    trace = simulate(fleet, plan, steps_asked, time=config.time, seed=config.seed, scenario=scenario, engine="events")
    return many * float(trace.applied.sum()), many * max(1.0, float(trace.work[trace.applied].sum()))


def _phase(name: str, cells: int, ended: int, costs: Sequence[tuple[float, float]], jobs: int) -> Phase:
    """Seconds of a phase; it takes at least as long as its longest lot."""
    seconds = [cost for _, cost in costs]
    wall = max([sum(seconds) / jobs, *seconds]) if seconds else 0.0
    return Phase(name, cells, ended, sum(updates for updates, _ in costs), sum(seconds), wall)


def _in_a_process(lots: Sequence[Lot], names: Mapping[str, str], place: Path) -> Measured:
    """Time the lots in a process of the kind that will train them, so that it needs the same memory."""
    check_joblib()
    from joblib.externals.loky import ProcessPoolExecutor

    patience = max(LEAST, SECONDS / len(lots))
    process = ProcessPoolExecutor(max_workers=1, env=dict(environ) | ONE_THREAD)
    try:
        found: Measured = process.submit(_time_all, lots, dict(names), place, Path.cwd(), patience).result()
    except SojournError:
        raise
    except Exception as error:  # mostly a process that was killed because it used too much memory
        raise SojournError(f"the process that timed a first cell died ({error}); is there memory for one?") from None
    finally:
        process.shutdown(wait=False, kill_workers=True)
    return found


def _time_all(lots: Sequence[Lot], names: Mapping[str, str], place: Path, home: Path, patience: float) -> Measured:
    import torch

    torch.set_num_threads(1)
    with chdir(home):
        time_lot(lots[0], names, place / "cold", 0.0)  # the time for compiling and importing is spent once
        cold, began = time.process_time(), time.monotonic()
        found = tuple(time_lot(lot, names, place / str(number), patience) for number, lot in enumerate(lots))
    on_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    worked = (time.process_time() - cold) / max(time.monotonic() - began, 1e-9)
    return Measured(cold, found, _most_memory(), 1.0 if on_gpu else min(1.0, worked))


def time_lot(lot: Lot, names: Mapping[str, str], place: Path, patience: float) -> Timed:
    """Train a lot in a folder for so many seconds, or to its end."""
    from sojourn.experiments.training import open_run
    from sojourn.learning.run.trainer import Trainer, together

    name = names.get(lot.key, lot.key)
    take_over(lot.objects)
    clock = time.monotonic if uses_gpu([Cell(name, one.config) for one in lot.members]) else time.process_time
    began, runs = clock(), list[Trainer]()
    try:
        for member in lot.members:
            like = runs[0].built if runs else None
            runs.append(open_run(member.config, place / member.hash, like=like))
        marks, stop, until = [(clock(), 0)], threading.Event(), time.monotonic() + patience
        setup = marks[0][0] - began

        def look(done: int, total: int, facts: dict[str, Any]) -> None:
            marks.append((clock(), done))
            if time.monotonic() >= until:
                stop.set()

        together(runs, inf, progress=look, stop=stop, diverged=lambda run, error: None)
    except (Exception, SystemExit) as error:  # an error in the user's own code, or in a setting that no check covers
        said = str(error) if isinstance(error, SojournError) else f"{type(error).__name__}: {error}"
        return Timed(name, error=said.replace("\n", " "))
    (begun, _), (ended, updates) = marks[0], marks[-1]
    return Timed(name, setup, ended - begun, updates, sum(run.total for run in runs))


def _most_memory() -> float:
    """The largest number of bytes that this process has used; GPU memory is not included."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # this system does not report it
        return nan
    return getrusage(RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)
