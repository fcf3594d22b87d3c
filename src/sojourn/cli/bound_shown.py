"""What `sojourn plan --by bound` prints: the plan, other plans, the effect of errors in its inputs, and advice."""

import numpy as np

from sojourn.cli.cells import Cell
from sojourn.cli.show import number, percent, say, table
from sojourn.planning.bound.comparison import FEW as STUDIED
from sojourn.planning.bound.comparison import Sensitivity
from sojourn.planning.explain import Explanation

FEW = 4  # up to this many groups get a column for their staleness


def print_plan(shown: Explanation) -> None:
    """Print the tables, then the sentences."""
    plan, fleet, analysis = shown.planned.plan, shown.planned.fleet, shown.planned.prediction.analysis
    columns = (fleet.rate, plan.sampling, plan.sampling * fleet.clients, analysis.queue, analysis.staleness())
    table(
        f"{fleet.clients} clients; minimised: {shown.planned.objective.name}",
        ["group", "clients", "rate", "sampling", "n times", "queue", "staleness"],
        [
            [fleet.name[g], str(fleet.count[g]), *(number(float(column[g])) for column in columns)]
            for g in range(fleet.groups)
        ],
    )
    _print_comparison(shown)
    if shown.sensitivity:
        _print_sensitivity(shown.sensitivity, shown.planned.fleet.groups > STUDIED)
    constants = [] if np.isnan(shown.planned.prediction.scored.bound) else [_constants(shown), *_notes(shown)]
    for sentence in (*shown.advice, *constants, *_laws(shown)):
        say(sentence)


def _print_comparison(shown: Explanation) -> None:
    fleet, scored = shown.planned.fleet, shown.planned.prediction.scored
    budget = scored.value == scored.bound
    few = fleet.groups <= FEW
    stale = [f"staleness, {name}" for name in fleet.name] if few else ["least staleness", "most"]
    rows = []
    for name, row in shown.comparison.items():
        values = row.analysis.staleness()
        stalest = values if few else (values.min(), values.max())
        rows.append(
            [
                name if shown.planned.limits.kept(row) else f"{name}, outside the limits",
                *([] if budget else [number(row.value)]),
                number(row.scored.bound),
                _optional(row.scored.step_size),
                number(row.analysis.throughput),
                *(number(float(value), 4) for value in stalest),
                *(number(value, 5) for value in (row.scored.steps, row.scored.time, row.scored.energy)),
            ]
        )
    heads = ["plan", *([] if budget else ["value"]), "bound", "step size", "throughput", *stale]
    table(
        "compared with other plans, each with its best step size",
        [*heads, "steps", "time", "energy"],
        rows,
        least=("energy", "steps"),
    )


def _constants(shown: Explanation) -> str:
    facts = ", ".join(f"{key} = {value:g}" for key, value in shown.constants.facts().items())
    origin = "given" if shown.given else "the paper's worked example; measure your own: sojourn calibrate"
    return f"constants ({origin}): {facts}"


def _notes(shown: Explanation) -> list[str]:
    return [f"about the constants: {note}" for note in shown.notes]


def _laws(shown: Explanation) -> list[str]:
    return [
        f"the service law matters: the figures assume exponential service; simulated with {check}"
        for check in shown.law_checks
        if check.matters
    ]


def _optional(value: float | None) -> str:
    return "-" if value is None else number(value, 4)


def _print_sensitivity(rows: list[Sensitivity], through_bins: bool) -> None:
    bins = f" (studied through {STUDIED} bins of clients)" if through_bins else ""
    table(
        f"if an input differs from what was assumed{bins}",
        [
            "true input",
            "this plan",
            "best plan",
            "loss",
            "its tasks",
            "its step size",
            "largest change of a probability",
        ],
        [
            [
                row.case,
                Cell(number(row.kept, 5) + _beyond(row), row.kept),
                number(row.best, 5) if row.concurrency else "none within the limits",
                "-" if _beyond(row) or not row.concurrency else percent(row.regret, ".1f"),
                str(row.concurrency or "-"),
                _optional(row.step_size),
                percent(row.sampling_change, ".0f") if row.concurrency else "-",
            ]
            for row in rows
        ],
        least=("its step size", "its tasks"),
    )


def _beyond(row: Sensitivity) -> str:
    """Return why the kept plan cannot be compared with the best one."""
    if not row.proven:
        return " (step size above the theorem's)"
    return "" if row.feasible else " (outside the limits)"
