"""The results as tables of a page: one fact per cell."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from policies import BOUND, ROBUST, ROOT, UNIFORM
from results import Outcome, Outcomes
from verdict import PREDICTORS, RULES, Target, Verdict
from world import Cell

PARTS = (("development", "short"), ("development", "long"), ("held out", "short"), ("held out", "long"))
BY_HAND = {  # docs/paper.md, each method at its best: over the last 15% of the run, and at the end
    "AsyncSGD to the finisher, by hand": (0.759, 0.755),
    "FedBuff to idle clients, by hand": (0.745, 0.762),
}
ASYNCSGD_ENDS = 0.497  # from docs/paper.md too


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rows = list(rows)
    if not rows:
        return "Not yet."
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def of_part(found: Sequence[Verdict], part: str, budget: str) -> list[Verdict]:
    """Return the verdicts on small networks, by whether they were held out and by budget."""
    return [one for one in found if one.cell.held_out == (part == "held out") and one.cell.budget == budget]


def targets_table(made: Sequence[Target]) -> str:
    """Return a table of the targets, and whether they were reached."""
    word = {True: "reached", False: "missed", None: "not yet"}
    return table(
        ("target, on cells held out", "aim", "found", ""),
        [(one.what, one.aim, one.found, word[one.reached]) for one in made],
    )


def against_table(found: Sequence[Verdict]) -> str:
    """Return a table that compares the default with others on held-out cells: loss ratios, and the worst client of
    each.
    """
    rows = []
    parts = [of_part(found, "held out", budget) for budget in ("short", "long")]
    for name in ("FedBuff 10", ROOT, UNIFORM, BOUND, ROBUST):
        mine = [[one for one in part if name in one and ROBUST in one] for part in parts]
        losses = [_mean([one[ROBUST].loss / one[name].loss for one in part], ".2f") for part in mine]
        worsts = [_mean([one[name].worst for one in part], ".0%") for part in mine]
        rows.append((name if name != ROBUST else "the default itself", *losses, *worsts))
    head = ("default's loss over that of", "short", "long", "worst client, short", "worst client, long")
    return table(head, rows)


def regret_table(found: Sequence[Verdict]) -> str:
    """Return a table of what it costs to follow each predictor or rule."""
    rows = []
    parts = [[one for one in found if one.cell.held_out == held] for held in (True, False)]
    for key, said in (PREDICTORS | RULES).items():
        regrets = [[one.regret(key) for one in part if key in one.picks] for part in parts]
        if any(regrets):
            rows.append((said, *(text for values in regrets for text in _spread(values, max))))
    return table(("who chooses", "held out, mean", "most", "development, mean", "most"), rows)


def policies_table(found: Sequence[Verdict]) -> str:
    """Return the loss of each policy divided by the best of its cell: a table of means over cells, and one of the
    largest.
    """
    parts, names = [of_part(found, *one) for one in PARTS], _by_mean(found)
    made = []
    for word, over in (("mean", fmean), ("most", max)):
        rows = [(name, *(_over_best(part, name, over) for part in parts)) for name in names]
        made.append(table((word, *(f"{part}, {budget}" for part, budget in PARTS)), rows))
    return "\n\n".join(made)


def people_table(found: Sequence[Verdict]) -> str:
    """Return accuracy, worst client and time to the accuracy of AsyncSGD, means over all short cells."""
    short = [one for one in found if one.cell.budget == "short"]
    rows = []
    for name in _by_mean(found):
        mine = [one[name] for one in short if name in one]
        if mine:
            worsts = [one.worst for one in mine]
            people = (fmean(one.accuracy for one in mine), fmean(worsts), min(worsts))
            rows.append((name, *map(_percent, people), *_time(mine)))
    return table(("short budgets", "accuracy", "worst client", "lowest cell", "time", "not reached"), rows)


def predictors_table(found: Sequence[Verdict]) -> str:
    """Return rank correlation and regret of predictors and fixed rules."""
    rows: list[tuple[str, ...]] = []
    for part, budget in PARTS:
        mine = of_part(found, part, budget)
        if not mine:
            continue
        where = f"{part}, {budget}"
        rows.append((where, "two halves of the seeds", *_spread([one.halves for one in mine], min), "", ""))
        for key, said in PREDICTORS.items():
            ranks = [one.ranks[key] for one in mine if key in one.ranks]
            regrets = [one.regret(key) for one in mine if key in one.picks]
            if ranks:
                rows.append((where, said, *_spread(ranks, min), *_spread(regrets, max)))
        for rule, said in RULES.items():
            rows.append((where, said, "", "", *_spread([one.over_best(rule) for one in mine], max)))
    return table(("cells", "predictor", "rank correlation", "least", "regret", "most"), rows)


def cells_table(found: Sequence[Verdict], key: str) -> str:
    """Return tables with one row per cell, one table per problem and budget."""
    head = ("fleet", "classes", "held out", "best", "loss", "default", "root", "halves", "twin", "regret")
    made: dict[str, list[tuple[str, ...]]] = {}
    for one in found:
        problem, fleet, classes, budget = _words(one.cell)
        over = (f"{one.best.loss:.3g}", f"{one.over_best(ROBUST):.2f}", f"{one.over_best(ROOT):.2f}")
        rank = f"{one.ranks[key]:.2f}" if key in one.ranks else ""
        regret = f"{one.regret(key):.2f}" if key in one.picks else ""
        held = "yes" if one.cell.held_out else ""
        row = (fleet, classes, held, one.best.policy, *over, f"{one.halves:.2f}", rank, regret)
        made.setdefault(f"{problem}, {budget}", []).append(row)
    parts = [f"### {name}\n\n{table(head, rows)}" for name, rows in made.items()]
    return "\n\n".join(parts) or "Not yet."


def decay_table(outcomes: Outcomes, known: Sequence[Cell]) -> str:
    """Return the benefit of the decay: loss at a constant step size divided by that under decay."""
    rows = []
    for name, constant in (("finisher, c = 0", "finisher, c = 0, constant"), (UNIFORM, "AsyncSGD, constant")):
        for budget in ("short", "long"):
            pairs = [
                (outcomes[cell.name][constant].loss, outcomes[cell.name][_there(outcomes, cell, name)].loss)
                for cell in known
                if cell.budget == budget and constant in outcomes.get(cell.name, {}) and _there(outcomes, cell, name)
            ]
            ratios = [one / other for one, other in pairs]
            if ratios:
                rows.append(
                    (name, budget, str(len(ratios)), f"{fmean(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}")
                )
    return table(("policy", "budget", "cells", "constant over decay, mean", "least", "most"), rows)


def _there(outcomes: Outcomes, cell: Cell, name: str) -> str:
    """Return the policy itself, or the equal one that was trained if all clients are equal."""
    mine = outcomes.get(cell.name, {})
    return name if name in mine else ROBUST if ROBUST in mine else ""


def steps_table(found: Sequence[Verdict], guessed: Outcomes) -> str:
    """Return the loss at a step size that was not tuned divided by that at the tuned one."""
    rows = []
    for one in found:
        for name, guess in guessed.get(one.cell.name, {}).items():
            steps = (f"{one[name].step:.3g}", f"{guess.step:.3g}")
            rows.append((*_words(one.cell), name, *steps, f"{guess.loss / one[name].loss:.2f}"))
    return table(("problem", "fleet", "classes", "budget", "policy", "tuned", "guessed", "loss"), rows)


def cifar_table(outcomes: Outcomes, known: Sequence[Cell]) -> str:
    """Return the results of every policy with ResNet20, one table per cell."""
    head = ("policy", "step", "updates", "loss", "accuracy", "worst client", "time", "not reached")
    parts = []
    for cell in known:
        if cell.work.name == "cifar" and cell.name in outcomes:
            rows = [_facts(one) for one in outcomes[cell.name].values()]
            parts.append(f"### {cell.fleet_name}, {cell.partition}\n\n{table(head, rows)}")
    return "\n\n".join(parts) or "Not yet."


def _facts(one: Outcome) -> tuple[str, ...]:
    numbers = (f"{one.step:.3g}", f"{one.updates:,.0f}", f"{one.loss:.3g}", _percent(one.accuracy), _percent(one.worst))
    return (one.policy, *numbers, *_time([one]))


def long_cifar_table(outcomes: Outcomes, known: Sequence[Cell]) -> str:
    """Compare the plan up to simulated time 1400 with the best two methods tuned by hand."""
    from results import reached

    rows: list[tuple[str, ...]] = []
    for cell in known:
        for name, one in outcomes.get(cell.name, {}).items() if cell.work.name == "cifar-1400" else ():
            late = fmean(one.curve[int(0.85 * len(one.curve)) :])
            share = reached(one.curve, ASYNCSGD_ENDS)
            when = f"{share:.2f}" if share <= 1.0 else "not reached"
            rows.append((name, f"{one.step:.3g}", _percent(late), _percent(one.accuracy), _percent(one.worst), when))
    rows += [(name, "", *map(_percent, both), "", "") for name, both in BY_HAND.items()]
    head = ("policy", "step", "last 15%", "in the end", "worst client", "time to 49.7%")
    return table(head, rows)


def every_cell(outcomes: Outcomes, known: Sequence[Cell]) -> str:
    """Return all policies of all cells, cell by cell."""
    head = ("policy", "step", "updates", "loss", "accuracy", "worst client", "time", "not reached", "sd of the loss")
    parts = []
    for cell in known:
        mine = sorted(outcomes.get(cell.name, {}).values(), key=lambda one: one.loss)
        if mine:
            rows = [(*_facts(one), _sd(one.losses)) for one in mine]
            parts += [f"## {', '.join(_words(cell))}", "", table(head, rows), ""]
    return "\n".join(parts)


def _by_mean(found: Sequence[Verdict]) -> list[str]:
    names = dict.fromkeys(name for one in found for name in one.outcomes)
    mean: Callable[[str], float] = lambda name: fmean(one.over_best(name) for one in found if name in one)  # noqa: E731
    return sorted(names, key=mean)


def _over_best(part: Sequence[Verdict], name: str, over: Callable[..., float]) -> str:
    values = [one.over_best(name) for one in part if name in one]
    return f"{over(values):.2f}" if values else ""


def _mean(values: Sequence[float], form: str) -> str:
    return f"{fmean(values):{form}}" if values else ""


def _spread(values: Sequence[float], end: Callable[..., float]) -> tuple[str, str]:
    return (f"{fmean(values):.2f}", f"{end(values):.2f}") if values else ("", "")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _sd(values: Sequence[float]) -> str:
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return ""
    mean = fmean(values)
    return f"{math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)):.2g}"


def _time(mine: Sequence[Outcome]) -> tuple[str, str]:
    """Return the mean share of the budget over the runs that reached the target, and how many did not."""
    times = [one for outcome in mine for one in outcome.times]
    there = [one for one in times if math.isfinite(one)]
    missing = len(times) - len(there)
    return f"{fmean(there):.2f}" if there else "", f"{missing} of {len(times)}" if missing else ""


def _words(cell: Cell) -> tuple[str, str, str, str]:
    return cell.work.name, cell.fleet_name, cell.partition, cell.budget
