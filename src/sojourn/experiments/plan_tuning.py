"""What is tuned in a plan, and the trials for it: paired short runs, judged on held-out examples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput, SojournError
from sojourn.experiments.cells import Cell
from sojourn.experiments.comparison import FIRST_TUNING_SEED, MOST_EXTENSIONS, NEVER
from sojourn.experiments.grid_search import rounded
from sojourn.experiments.halving import RUNGS
from sojourn.experiments.tuned_plan import Trial
from sojourn.fleet import Fleet
from sojourn.learning.run.build import STEPS, check, fleet_and_plan
from sojourn.learning.run.config import LARGEST_STEP_SIZE, TrainConfig
from sojourn.own_code import handed_over, object_or
from sojourn.plan import Plan
from sojourn.plan_text import plan_of
from sojourn.scenario import Scenario
from sojourn.schedule import Schedule, by_budget
from sojourn.shown import quoted
from sojourn.timing.expected import expected
from sojourn.trace import Trace
from sojourn.values import LARGEST

AROUND = tuple(2.0**power for power in range(-3, 4))
"""Step sizes that are tried, as multiples of the guess."""
CLOSER = tuple(2.0**power for power in range(-2, 3))
"""The same, around the best step size of a wide search."""
WIDE = tuple(0.1 * 4.0**power for power in range(-3, 4))
"""Step sizes of the wide search, which is made when there is no guess."""
FEW = 50  # updates: a shorter rung is not informative
TURNS = 2  # and it needs so many updates per task in flight, so that staleness has an effect


@dataclass(frozen=True)
class PlanTuning:
    """What is tuned, and how."""

    run: TrainConfig
    """The run; its time or number of steps is the budget, its step size (if it has one) the guess."""
    guess: float | None = None
    """The step size to search around; None = the one that the plan promises or has; without any, a wide search."""
    corrections: tuple[float, ...] = ()
    """Corrections to be tried; none = as the run has it."""
    buffers: tuple[int, ...] = ()
    """Buffers to be tried; none = as the run has it."""
    seeds: tuple[int, ...] = (FIRST_TUNING_SEED, FIRST_TUNING_SEED + 1)
    """Every trial is trained with each."""
    holdout: float = 0.2
    """Share of the training examples that is held out: trials are judged on them and do not learn from them."""
    rungs: tuple[float, ...] = RUNGS
    """Shares of the budget that trials are trained for; the last is 1."""
    extensions: int = 6
    """How often the grid may grow when the best step size lies at its edge."""

    def __post_init__(self) -> None:
        for key in ("holdout", "judged_on"):
            if getattr(self.run, key) != TrainConfig.__dataclass_fields__[key].default:
                raise InvalidInput(f"{key} is set by the tuning, got {getattr(self.run, key)}; leave it to --holdout")
        guess = self.guess
        if guess is not None and not (isfinite(guess) and 0 < guess <= LARGEST_STEP_SIZE):
            raise InvalidInput(f"guess must be positive and at most {LARGEST_STEP_SIZE:g}, got {guess}")
        if not 0 < self.holdout < 1:
            raise InvalidInput(f"holdout must be a share between 0 and 1, got {self.holdout}")
        if not 0 <= self.extensions <= MOST_EXTENSIONS:
            rule = f"a whole number from 0 to {MOST_EXTENSIONS}"
            raise InvalidInput(f"extensions must be {rule}, got {quoted(self.extensions)}")
        rising = list(self.rungs) == sorted({*self.rungs})
        if not self.rungs or self.rungs[-1] != 1 or not rising or self.rungs[0] <= 0:
            raise InvalidInput(f"rungs must rise from above 0 to 1, got {list(self.rungs)}; write for example 0.3,1")
        for key, tried in (("correction", self.corrections), ("buffer", self.buffers)):
            if len(set(tried)) != len(tried):
                raise InvalidInput(f"values of {key} to be tried must be different, got {list(tried)}")
        for trial in self.combinations(1.0):
            unused = set(check(self.cell(trial, 1.0, self.seeds[0]).config)) & {"correction", "buffer"}
            for key in sorted(unused) if trial.correction is not None or trial.buffer is not None else ():
                raise InvalidInput(
                    f"{key} has no effect on {self.run.algorithm}; leave it out, or choose an algorithm that uses it"
                )

    @cached_property
    def plan(self) -> Plan:
        """The plan of the run, with the schedule that it is trained with."""
        run, fleet = self.run, object_or(self.run.fleet, Fleet.load)
        plan = plan_of(fleet, run.sampling, run.plan, run.concurrency, run.cap, run.correction)
        return replace(plan, schedule=run.schedule or plan.schedule)

    @property
    def first(self) -> float | None:
        """The step size to search around; None = no step size was given."""
        promised = self.plan.promises.get("step_size")
        usable = isinstance(promised, int | float) and not isinstance(promised, bool) and 0 < promised < np.inf
        return self.guess or (promised if usable else None) or self.run.step_size or self.plan.step_size

    def combinations(self, *step_sizes: float) -> list[Trial]:
        """Every step size with every correction and buffer."""
        return [Trial(*one) for one in product(step_sizes, self.corrections or (None,), self.buffers or (None,))]

    @cached_property
    def lengths(self) -> tuple[float, ...]:
        """The rungs that are long enough to be informative: enough updates, also per task in flight."""
        least = max(FEW, TURNS * self.plan.concurrency)
        return tuple(one for one in self.rungs if one == 1 or one * self._updates >= least)

    @cached_property
    def _updates(self) -> float:
        """The approximate number of updates in the budget."""
        run = self.run
        if run.trace is not None:
            times = _times(run.trace)
            within = times.size if run.time is None else int((times <= run.time).sum())
            return float(within if run.steps is None else min(run.steps, within))
        if run.time is None:
            return float(run.steps or STEPS)
        fleet, plan = fleet_and_plan(run)
        return expected(fleet, plan, Scenario()).throughput * run.time

    def cell(self, trial: Trial, rung: float, seed: int) -> Cell:
        """The run of a trial on a rung; a shorter rung shortens the schedule in the same proportion."""
        changes: dict[str, Any] = {"step_size": trial.step_size, "seed": seed, "evaluate_every": NEVER}
        changes |= {"holdout": self.holdout, "judged_on": "holdout"}
        if rung < 1:
            changes |= self._length(rung)
            if self.plan.schedule is not None and not by_budget(self.plan.schedule):
                changes["schedule"] = Schedule.parse(self.plan.schedule).scaled(rung).text
        if trial.correction is not None:
            changes["correction"] = trial.correction
        if trial.buffer is not None:
            plan = replace(self.tuned(trial), step_size=self.plan.step_size)
            changes |= {"plan": handed_over(plan, f"plan-{plan.hash}"), "sampling": None, "concurrency": None}
            changes["cap"] = None
        words = f"trial {trial.combination} step size {trial.step_size:g} to {rung:.3g} seed {seed}"
        return Cell(words, self.run.resolved(**changes))

    def cells(self, trials: Sequence[Trial], rung: float) -> list[tuple[Trial, int, Cell]]:
        """Every trial with every seed."""
        return [(trial, seed, self.cell(trial, rung, seed)) for trial in trials for seed in self.seeds]

    def _length(self, rung: float) -> dict[str, Any]:
        if self.run.time is not None:
            return {"time": self.run.time * rung}
        return {"steps": max(1, min(LARGEST, round(self._updates * rung)))}

    def made(self, path: Path) -> bool:
        """Whether a file was written by an earlier call for this plan: it holds the plan with a step size."""
        if not path.is_file():
            return False
        try:
            found = Plan.load(path)
        except SojournError:
            return False
        changed = dict.fromkeys(("step_size", "tuned_for", "correction", "buffer"))
        plain = (replace(one, **changed).hash for one in (found, self.plan))  # type: ignore[arg-type]
        return found.step_size is not None and len(set(plain)) == 1

    def tuned(self, trial: Trial) -> Plan:
        """The plan with the values of a trial."""
        found: dict[str, Any] = {"step_size": trial.step_size}
        found |= {} if trial.correction is None else {"correction": trial.correction}
        found |= {} if trial.buffer is None else {"buffer": trial.buffer}
        return replace(self.plan, **found)


def grid(around: float, factors: Sequence[float]) -> tuple[float, ...]:
    """Step sizes around one.

    >>> grid(0.3, (0.5, 1.0, 2.0))
    (0.15, 0.3, 0.6)
    """
    return tuple(rounded(around * factor) for factor in factors if around * factor < LARGEST_STEP_SIZE)


def _times(path: str) -> Any:
    trace = Trace.load(path)
    return trace.applied_at[trace.applied]
