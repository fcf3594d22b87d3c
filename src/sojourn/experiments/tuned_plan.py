"""What the tuning of a plan returns: what was tried, the mean losses, and the choice; it is read without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import nan
from statistics import fmean
from typing import Any, NamedTuple

from sojourn.plan import Plan
from sojourn.tabular import Tabular


class Trial(NamedTuple):
    """One combination of values that is tried."""

    step_size: float
    """Step size of the run."""
    correction: float | None = None
    """Correction; None = as the run has it."""
    buffer: int | None = None
    """Buffer; None = as the run has it."""

    @property
    def combination(self) -> str:
        """Correction and buffer in words, without the step size."""
        words = (("correction", self.correction), ("buffer", self.buffer))
        return ", ".join(f"{word} {value:g}" for word, value in words if value is not None) or "the plan"


@dataclass(eq=False, repr=False)
class TunedPlan(Tabular):
    """The result of tuning; it can be used wherever a plan is expected."""

    plan: Plan
    """The plan; once all trials have ended, with the chosen values."""
    chosen: Trial | None = None
    """The chosen trial; None = not all trials have ended yet."""
    guess: float | None = None
    """The step size that was searched around; None = none was given."""
    edge: str = ""
    """`lower` or `upper` if the best step size is still the smallest or the largest tried; otherwise empty."""
    lengths: tuple[float, ...] = (1.0,)
    """Shares of the budget that trials were trained for."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One row per trial, length and seed."""
    failures: dict[str, str] = field(default_factory=dict)
    """The error of each trial that failed, by the trial's name."""
    open: int = 0
    """Trials that have not ended."""
    interrupted: bool = False
    """Whether Ctrl-C ended it early."""

    @property
    def complete(self) -> bool:
        """Whether a step size was chosen."""
        return self.chosen is not None

    @property
    def step_size(self) -> float | None:
        """The step size that was chosen."""
        return None if self.chosen is None else self.chosen.step_size

    @property
    def loss(self) -> float:
        """Its mean held-out loss at the end of the budget."""
        return nan if self.chosen is None else self.means()[self.chosen][1.0]

    def means(self) -> dict[Trial, dict[float, float]]:
        """Mean held-out loss of each trial over the seeds, by length; inf = one of its runs diverged."""
        return means_of(self.rows)

    def _title(self) -> str:
        if self.chosen is None:
            return f"Tuning of a plan, not complete: {len(self.rows)} runs so far"
        return f"Tuned plan: step size {self.chosen.step_size:g}, held-out loss {self.loss:.4g}, {len(self.rows)} runs"

    def _table(self) -> dict[str, list[Any]]:
        means = self.means()
        found: dict[str, list[Any]] = {key: [getattr(one, key) for one in means] for key in Trial._fields}
        found = {key: values for key, values in found.items() if any(one is not None for one in values)}
        return found | {share(rung): [mine.get(rung, nan) for mine in means.values()] for rung in self.lengths}


def means_of(rows: Sequence[Mapping[str, Any]]) -> dict[Trial, dict[float, float]]:
    """Mean held-out loss of each trial over the seeds, by length; inf = one of its runs diverged."""
    losses: dict[Trial, dict[float, list[float]]] = {}
    for row in rows:
        trial = Trial(row["step_size"], row["correction"], row["buffer"])
        losses.setdefault(trial, {}).setdefault(row["rung"], []).append(row["loss"])
    return {one: {rung: fmean(each) for rung, each in mine.items()} for one, mine in sorted(losses.items(), key=_by)}


def share(rung: float) -> str:
    """The column title of a rung.

    >>> share(1 / 9), share(0.3), share(1.0)
    ('loss at 1/9', 'loss at 3/10', 'loss at the end')
    """
    return "loss at the end" if rung == 1 else f"loss at {Fraction(rung).limit_denominator(100)}"


def _by(pair: tuple[Trial, Any]) -> tuple[float, ...]:
    trial = pair[0]
    return (-1.0 if trial.correction is None else trial.correction, trial.buffer or 0, trial.step_size)
