"""Explain a plan: compare it with others, and study errors in its inputs and other service laws."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sojourn.constants import WORKED_EXAMPLE, Constants
from sojourn.planning.bound.advice import advice
from sojourn.planning.bound.comparison import Sensitivity, compare, sensitivity
from sojourn.planning.bound.objective import Prediction
from sojourn.planning.bound.search import Planned
from sojourn.planning.law_check import LawCheck, check_laws
from sojourn.version import __version__


@dataclass(frozen=True)
class Explanation:
    """A plan and its explanation; each part is computed on demand."""

    planned: Planned
    """The plan."""
    constants: Constants = WORKED_EXAMPLE
    """The constants that the plan uses."""
    given: bool = False
    """Whether the user gave the constants."""
    notes: tuple[str, ...] = ()
    """Notes in their file on how they were measured."""
    sensitive: bool = True
    """Whether to study errors in the inputs."""
    laws: bool = True
    """Whether to simulate other service laws."""

    @cached_property
    def comparison(self) -> dict[str, Prediction]:
        """Predictions for other plans, and for this one."""
        return compare(self.planned)

    @cached_property
    def sensitivity(self) -> list[Sensitivity]:
        """The effect of inputs that are wrong by 20%."""
        return sensitivity(self.planned) if self.sensitive else []

    @cached_property
    def law_checks(self) -> list[LawCheck]:
        """The effect of other service laws."""
        return check_laws(self.planned.fleet, self.planned.prediction.analysis) if self.laws else []

    @cached_property
    def advice(self) -> list[str]:
        """Sentences on what was computed, and on its limits."""
        return advice(self.planned, self.comparison)

    def facts(self) -> dict[str, Any]:
        """Return everything as plain values and arrays; docs/cli.md documents the keys."""
        plan, fleet, binning = self.planned.plan, self.planned.fleet, self.planned.binning
        return {
            "sojourn": __version__,
            "fleet_hash": fleet.hash,
            "plan_hash": plan.hash,
            "clients": fleet.clients,
            "objective": self.planned.objective.name,
            "constants": self.constants.facts(),
            "constants_given": self.given,
            "constants_notes": list(self.notes),
            "concurrency": plan.concurrency,
            "step_size": plan.step_size,
            "promises": plan.promises,
            "groups": [
                {"name": name, "count": int(fleet.count[g]), "rate": fleet.rate[g], "sampling": plan.sampling[g]}
                for g, name in enumerate(fleet.name)
            ],
            "comparison": [
                {**_row(name, row), "feasible": self.planned.limits.kept(row)} for name, row in self.comparison.items()
            ],
            "searched": [{"concurrency": tasks, "value": value} for tasks, value in self.planned.searched.items()],
            "sensitivity": [
                {key: getattr(row, key) for key in (*row.__dataclass_fields__, "regret")} for row in self.sensitivity
            ],
            "laws": [
                {key: getattr(check, key) for key in ("law", "throughput", "staleness", "matters")}
                for check in self.law_checks
            ],
            "parking": self.planned.parked,
            "binning": binning and {key: getattr(binning, key) for key in ("bins", "width", "error")},
            "advice": self.advice,
        }


def _row(name: str, row: Prediction) -> dict[str, Any]:
    scored = ("value", "bound", "step_size", "free_step_size", "largest_step_size", "steps", "time", "energy")
    return {
        "name": name,
        "concurrency": row.plan.concurrency,
        "sampling": row.plan.sampling,
        **{key: getattr(row.scored, key) for key in scored},
        "throughput": row.analysis.throughput,
        "staleness": row.analysis.staleness(),
    }
