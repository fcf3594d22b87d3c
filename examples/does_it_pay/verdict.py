"""Compare predictors with training: rank correlation, the cost of following them, and the targets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

import numpy as np
from policies import BOUND, ROBUST, ROOT, SAME, UNIFORM
from predictions import predicted
from results import Outcome, Outcomes, load
from scipy.stats import spearmanr
from world import Cell, cells

from sojourn.csv_file import read_csv, write_csv

PREDICTORS = {
    "calibrated": "twin, calibrated",
    "generic": "twin, generic",
    "bound": "the bound",
    "updates": "throughput",
}
RULES = {ROBUST: "always the default", ROOT: "always the root of speed", BOUND: "always the bound's plan"}
AGREE = 0.8  # agreement of two halves of the seeds above which a rank correlation is meaningful
GUESSES = ("cell", "policy", "step")


@dataclass(frozen=True)
class Verdict:
    """The verdict on a cell."""

    cell: Cell
    outcomes: Mapping[str, Outcome]
    """Results of the policies under decay."""
    halves: float
    """Mean rank correlation between two parts of the seeds, over all ways to split them."""
    ranks: Mapping[str, float]
    """Rank correlation of each predictor."""
    picks: Mapping[str, str]
    """The policy that each predictor, or fixed rule, would have chosen."""

    @property
    def best(self) -> Outcome:
        """The policy with the least loss."""
        return min(self.outcomes.values(), key=lambda one: one.loss)

    def over_best(self, policy: str) -> float:
        """Return the loss of a policy divided by that of the best."""
        return self[policy].loss / self.best.loss

    def regret(self, predictor: str) -> float:
        """Return the loss of its choice divided by that of the best; NaN if it has no prediction."""
        return self.over_best(self.picks[predictor]) if predictor in self.picks else math.nan

    def __contains__(self, policy: str) -> bool:
        """Whether the policy, or an equal one, was trained."""
        return policy in self.outcomes or SAME.get(policy) in self.outcomes

    def __getitem__(self, policy: str) -> Outcome:
        """Return the result of a policy, or of the equal one if all clients are equal."""
        return self.outcomes[policy if policy in self.outcomes else SAME[policy]]


def verdicts(results: Path) -> list[Verdict]:
    """Return the verdicts on all cells whose policies are trained."""
    outcomes, said = load(results), predicted(results)
    made = [cell for cell in cells() if len(outcomes.get(cell.name, {})) > 2]
    return [verdict(cell, outcomes[cell.name], said.get(cell.name, {})) for cell in made]


def verdict(cell: Cell, trained: Mapping[str, Outcome], said: Mapping[str, Mapping[str, float]]) -> Verdict:
    """Return the verdict on one cell; policies at a constant step size are left out."""
    mine = {name: one for name, one in trained.items() if not name.endswith("constant")}
    ranks, picks = dict[str, float](), {rule: rule for rule in RULES if rule in mine or rule in SAME}
    for key in PREDICTORS:
        values = {name: said[name][key] for name in mine if key in said.get(name, {})}
        if key == "updates":
            values = {name: -value for name, value in values.items()}
        if len(values) > 2:
            ranks[key] = correlation(list(values.values()), [mine[name].loss for name in values])
            picks[key] = min(values, key=lambda name: values[name])
    return Verdict(cell, mine, halves([one.losses for one in mine.values()]), ranks, picks)


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation."""
    return float(spearmanr(one, other).statistic)


def halves(losses: Sequence[Sequence[float]]) -> float:
    """Return how well two parts of the seeds agree in ranking the policies."""
    table = np.array(losses)
    seeds = range(table.shape[1])
    parts = [list(part) for part in combinations(seeds, table.shape[1] // 2)]
    rest = [[seed for seed in seeds if seed not in part] for part in parts]
    pairs = zip(parts, rest, strict=True)
    return fmean(correlation(table[:, a].mean(axis=1), table[:, b].mean(axis=1)) for a, b in pairs)


def transfer(results: Path) -> dict[str, float]:
    """Return the tuned step size divided by the twin's: the median over policies and development
    cells, by constants.
    """
    outcomes, said = load(results), predicted(results)
    found: dict[str, list[float]] = {}
    for cell in cells():
        if cell.held_out or cell.work.data == "cifar10":
            continue
        for name, one in outcomes.get(cell.name, {}).items():
            facts = said.get(cell.name, {}).get(name, {})
            for key in ("generic", "calibrated"):
                if facts.get(f"{key}_step", 0) > 0 and not name.endswith("constant"):
                    found.setdefault(key, []).append(one.step / facts[f"{key}_step"])
    return {key: median(values) for key, values in found.items()}


def guesses(results: Path, wanted: Sequence[Cell], keep: bool = True) -> dict[str, dict[str, float]]:
    """Return step sizes without tuning, of the default and of the twin's choice; earlier guesses are kept."""
    path = results / "guesses.csv"
    rows = [dict(row) for row in read_csv(path, "guesses", GUESSES)] if path.exists() else []
    known, said, factor = {row["cell"] for row in rows}, predicted(results), transfer(results)
    for cell in wanted:
        facts = said.get(cell.name, {})
        key = "calibrated" if any("calibrated" in one for one in facts.values()) else "generic"
        if cell.name in known or not facts or key not in factor:
            continue
        decayed = {name: one for name, one in facts.items() if not name.endswith("constant") and key in one}
        pick = min(decayed, key=lambda name: decayed[name]["generic"])
        for name in dict.fromkeys((ROBUST, pick)):
            step = facts[name][f"{key}_step"] * factor[key]
            rows.append({"cell": cell.name, "policy": name, "step": f"{step:.3g}"})
    if keep:
        write_csv(path, rows, read_back=True)
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row["cell"], {})[row["policy"]] = float(row["step"])
    return found


@dataclass(frozen=True)
class Target:
    """A target that was set before the held-out cells were trained."""

    what: str
    aim: str
    found: str
    reached: bool | None
    """None = not known yet."""


def targets(found: Sequence[Verdict], guessed: Outcomes, key: str) -> list[Target]:
    """Return the targets on the held-out cells; `key` names the constants of the twin."""
    held = [one for one in found if one.cell.held_out]
    clear = [one for one in held if one.halves >= AGREE]
    short = [one for one in held if one.cell.budget == "short" and ROOT in one.outcomes]
    ranks = [one.ranks[key] for one in clear if key in one.ranks]
    regrets = [one.regret(key) for one in held if key in one.picks]
    default = [one.over_best(ROBUST) for one in held]
    less = [one[ROBUST].loss / one[ROOT].loss for one in short]
    lower = [one.cell.name for one in short if one[ROBUST].worst < one[ROOT].worst]
    near = [_near(one, guessed) for one in held]
    steps = [value for values in near for value in values]
    return [
        _target("cells whose two halves of the seeds agree", "at least 6", len(clear), len(clear) >= 6, held, "d"),
        _target("rank correlation of the twin, mean", ">= 0.85", _mean(ranks), _mean(ranks) >= 0.85, ranks),
        _target(
            "rank correlation of the twin, least",
            ">= 0.70",
            min(ranks, default=math.nan),
            min(ranks, default=0) >= 0.7,
            ranks,
        ),
        _target("regret of the twin's pick, mean", "<= 1.10", _mean(regrets), _mean(regrets) <= 1.10, regrets),
        _target(
            "regret of the twin's pick, most",
            "<= 1.30",
            max(regrets, default=math.nan),
            max(regrets, default=9) <= 1.3,
            regrets,
        ),
        _target("the default over the best, mean", "<= 1.15", _mean(default), _mean(default) <= 1.15, default),
        _target("the default over the root of speed, short, mean", "<= 0.75", _mean(less), _mean(less) <= 0.75, less),
        _target("short cells where the default's worst client is lower", "none", len(lower), not lower, short, "d"),
        _target(
            "steps without tuning within 10% of tuned",
            ">= 75%",
            100 * _mean(steps),
            _mean(steps) >= 0.75,
            steps,
            ".0f",
            "%",
        ),
    ]


def _near(one: Verdict, guessed: Outcomes) -> list[bool]:
    """Return whether the loss at each step size that was not tuned is at most a tenth above that at the tuned one."""
    mine = guessed.get(one.cell.name, {})
    return [guess.loss <= 1.1 * one[name].loss for name, guess in mine.items()]


def _target(
    what: str, aim: str, value: float, good: bool, known: Sequence[object], form: str = ".2f", unit: str = ""
) -> Target:
    return Target(what, aim, f"{value:{form}}{unit}" if known else "not yet", good if known else None)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan


__all__ = ["AGREE", "PREDICTORS", "RULES", "UNIFORM", "Target", "Verdict", "guesses", "targets", "transfer", "verdicts"]
