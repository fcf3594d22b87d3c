"""What `sojourn plan` shows: the plan, others beside it, errors in its inputs, advice."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import typer

from sojourn.cli.law_check import LawCheck, check_laws
from sojourn.cli.show import number, say, table
from sojourn.constants import Constants
from sojourn.planning.bound.advice import advice
from sojourn.planning.bound.comparison import FEW as STUDIED
from sojourn.planning.bound.comparison import Sensitivity, compare, sensitivity
from sojourn.planning.bound.objective import Prediction
from sojourn.planning.bound.search import Planned
from sojourn.scenario import Scenario
from sojourn.timing.simulate.runners import first_use
from sojourn.version import __version__

FEW = 4  # groups whose staleness gets a column each


@dataclass(frozen=True)
class Shown:
    """A plan and everything that is said of it."""

    planned: Planned
    """The plan."""
    constants: Constants
    """The constants that it rests on."""
    given: bool
    """Whether the user gave them."""
    notes: list[str]
    """What their file says of how they were measured."""
    sensitive: bool
    """Whether errors in the inputs are studied."""
    laws: bool
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
        if not self.laws:
            return []
        if first_use(self.planned.fleet, Scenario(), "events"):
            typer.echo("compiling the simulator, once on this machine; this takes some seconds", err=True)
        return check_laws(self.planned.fleet, self.planned.prediction.analysis)

    def content(self) -> dict[str, Any]:
        """What `--json` prints; the keys are documented in docs/cli.md."""
        plan, fleet, binning = self.planned.plan, self.planned.fleet, self.planned.binning
        return {
            "command": "plan",
            "sojourn": __version__,
            "fleet_hash": fleet.hash,
            "plan_hash": plan.hash,
            "clients": fleet.clients,
            "objective": self.planned.objective.name,
            "constants": self.constants.facts(),
            "constants_given": self.given,
            "constants_notes": self.notes,
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
            "advice": advice(self.planned, self.comparison),
        }

    def print(self) -> None:
        """Tables, then sentences."""
        plan, fleet, analysis = self.planned.plan, self.planned.fleet, self.planned.prediction.analysis
        columns = (fleet.rate, plan.sampling, plan.sampling * fleet.clients, analysis.queue, analysis.staleness())
        table(
            f"{fleet.clients} clients; minimised: {self.planned.objective.name}",
            ["group", "clients", "rate", "sampling", "n times", "queue", "staleness"],
            [
                [fleet.name[g], str(fleet.count[g]), *(number(float(column[g])) for column in columns)]
                for g in range(fleet.groups)
            ],
        )
        self._print_comparison()
        if self.sensitivity:
            _print_sensitivity(self.sensitivity, self.planned.fleet.groups > STUDIED)
        constants = [] if np.isnan(self.planned.prediction.scored.bound) else [self._constants(), *self._notes()]
        for sentence in (*advice(self.planned, self.comparison), *constants, *self._laws()):
            say(sentence)

    def _print_comparison(self) -> None:
        fleet, scored = self.planned.fleet, self.planned.prediction.scored
        budget = scored.value == scored.bound
        few = fleet.groups <= FEW
        stale = [f"staleness, {name}" for name in fleet.name] if few else ["least staleness", "most"]
        rows = []
        for name, row in self.comparison.items():
            values = row.analysis.staleness()
            shown = values if few else (values.min(), values.max())
            rows.append(
                [
                    name if self.planned.limits.kept(row) else f"{name}, beyond the limits",
                    *([] if budget else [number(row.value)]),
                    number(row.scored.bound),
                    _optional(row.scored.step_size),
                    number(row.analysis.throughput),
                    *(number(float(value), 4) for value in shown),
                    *(number(value, 5) for value in (row.scored.steps, row.scored.time, row.scored.energy)),
                ]
            )
        heads = ["plan", *([] if budget else ["value"]), "bound", "step size", "throughput", *stale]
        table("beside others, each with its best step", [*heads, "steps", "time", "energy"], rows)

    def _constants(self) -> str:
        facts = ", ".join(f"{key} = {value:g}" for key, value in self.constants.facts().items())
        origin = "given" if self.given else "the paper's worked example; measure yours: sojourn calibrate"
        return f"constants ({origin}): {facts}"

    def _notes(self) -> list[str]:
        return [f"of the constants: {note}" for note in self.notes]

    def _laws(self) -> list[str]:
        return [
            f"the assumed service law matters: the figures are those of exponential service; simulated with {check}"
            for check in self.law_checks
            if check.matters
        ]


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


def _optional(value: float | None) -> str:
    return "-" if value is None else number(value, 4)


def _print_sensitivity(rows: list[Sensitivity], through_bins: bool) -> None:
    bins = f" (studied through {STUDIED} bins of clients)" if through_bins else ""
    table(
        f"if an input is not what it was thought to be{bins}",
        ["in truth", "this plan", "best plan", "loss", "its tasks", "its step size", "largest change of a probability"],
        [
            [
                row.case,
                number(row.kept, 5) + _beyond(row),
                number(row.best, 5) if row.concurrency else "none within the limits",
                "-" if _beyond(row) or not row.concurrency else f"{100 * row.regret:.1f}%",
                str(row.concurrency or "-"),
                _optional(row.step_size),
                f"{100 * row.sampling_change:.0f}%" if row.concurrency else "-",
            ]
            for row in rows
        ],
    )


def _beyond(row: Sensitivity) -> str:
    """Why the kept plan may not be held against the best one."""
    if not row.proven:
        return " (step beyond the theorem's)"
    return "" if row.feasible else " (beyond the limits)"
