"""A plan explained: others beside it, errors in its inputs, other service laws, advice."""

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
    """A plan and everything that is said of it; each part is computed when it is first asked for."""

    planned: Planned
    """The plan."""
    constants: Constants = WORKED_EXAMPLE
    """The constants that it rests on."""
    given: bool = False
    """Whether the user gave them."""
    notes: tuple[str, ...] = ()
    """What their file says of how they were measured."""
    sensitive: bool = True
    """Whether errors in the inputs are studied."""
    laws: bool = True
    """Whether other service laws are simulated."""

    @cached_property
    def comparison(self) -> dict[str, Prediction]:
        """Other plans, and this one."""
        return compare(self.planned)

    @cached_property
    def sensitivity(self) -> list[Sensitivity]:
        """Inputs off by 20%."""
        return sensitivity(self.planned) if self.sensitive else []

    @cached_property
    def law_checks(self) -> list[LawCheck]:
        """Other service laws."""
        return check_laws(self.planned.fleet, self.planned.prediction.analysis) if self.laws else []

    @cached_property
    def advice(self) -> list[str]:
        """What was computed, and what it does not say."""
        return advice(self.planned, self.comparison)

    def facts(self) -> dict[str, Any]:
        """All of it as plain values and arrays; the keys are documented in docs/cli.md."""
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
