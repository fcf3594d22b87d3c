"""The part of a page about the tuning of a plan: which step sizes were tried, how far, and which one is best."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sojourn.csv_file import read_csv
from sojourn.errors import UnreadableFile
from sojourn.experiments.tuned_plan import Trial, TunedPlan, means_of, share
from sojourn.files import read_json
from sojourn.report.page.made_by import kept_in, say_command
from sojourn.report.page.parts import Cell, Part, Section, Shown, number, plural, table, were
from sojourn.report.page.svg import page_style
from sojourn.report.tuning_figures import tuning_figure
from sojourn.values import table as table_of

TABLE = "tuning.csv"
NEEDED = ("rung", "step_size", "correction", "buffer", "seed", "loss", "accuracy", "cell")
FACTS = ("fleet_hash", "plan_hash", "dataset_hash", "partition_hash")
WAY_OUT = "is it the table of a tuning? run sojourn tune again"
Row = Mapping[str, Any]


def tuning_in(folder: Path) -> Part:
    """Return the part about the tuning in a folder; the best trial is the one with the least loss at the end."""
    rows = read_trials(folder / TABLE)
    ended = {trial: mine[1.0] for trial, mine in means_of(rows).items() if math.isfinite(mine.get(1.0, math.inf))}
    best = min(ended, key=lambda trial: ended[trial]) if ended else None
    part = _part(str(folder), rows, best, _edge(rows, best))
    part.sections.append(_provenance(folder, rows))
    return part


def read_trials(path: Path) -> list[dict[str, Any]]:
    """Read the table of a tuning: one row per trial, length and seed."""
    return [_row(line, path) for line in read_csv(path, "table of trials", NEEDED, WAY_OUT)]


def part_of_tuned(found: TunedPlan) -> Part:
    """Return the part about a tuned plan."""
    part = _part(found._title(), found.rows, found.chosen, found.edge)
    facts: list[list[Any]] = [["plan_hash", found.plan.hash], ["guess", found.guess], ["trials open", found.open]]
    section = Section("Where it comes from", tables=[table("Facts of the tuning", ["what", "value"], facts)])
    if found.failures:
        errors = [[name, why] for name, why in found.failures.items()]
        section.tables.append(table("Why trials failed", ["trial", "error"], errors))
    part.sections.append(section)
    return part


def _part(name: str, rows: Sequence[Row], best: Trial | None, edge: str) -> Part:
    means, lengths = means_of(rows), sorted({float(row["rung"]) for row in rows})
    part = Part(name, "tuning of a plan", _answer(rows, means, best, edge))
    part.facts = [
        (f"{len(means):,}", "trials"),
        (f"{len(rows):,}", "runs"),
        (f"{sum(not math.isfinite(row['loss']) for row in rows):,}", "of them diverged"),
    ]
    if not rows:
        return part
    section = Section("What was tried", tables=[_tried(means, lengths, best)])
    section.said.append("Losses are means over the seeds, on held-out examples.")
    if len(lengths) > 1:
        section.said.append("A trial without a loss at a later length was dropped before, because others were better.")
    with page_style():
        figure = tuning_figure(rows, lengths, best)
    words = "none has been trained to the end yet" if best is None else f"{_name(best)} is best at the end"
    section.figures.append(
        Shown(
            "tuning",
            figure,
            f"Held-out loss over the step sizes of {plural(len(means), 'trial')}: {words}.",
            f"Held-out loss over the step sizes, one line per length and one small point per seed: {words}.",
            wide=True,
        )
    )
    heads = ["length", "step size", "correction", "buffer", "seed", "held-out loss", "accuracy"]
    keys = ("rung", "step_size", "correction", "buffer", "seed", "loss", "accuracy")
    lines = [[str(row[key]) if key == "seed" else row.get(key) for key in keys] for row in rows]
    runs = table("One row per run", heads, lines, 100)
    part.sections = [section, Section("All runs", tables=[runs])]
    return part


def _answer(
    rows: Sequence[Row], means: Mapping[Trial, Mapping[float, float]], best: Trial | None, edge: str
) -> list[str]:
    tried = f"{plural(len(means), 'trial')} {were(len(means))} trained in {plural(len(rows), 'run')}"
    if best is None:
        return [f"{tried}, and no trial has ended well at the full length.", "Tune again to continue."]
    seeds = len({row["seed"] for row in rows})
    loss = number(means[best][1.0], 4)
    first = f"{tried}: {_name(best)} is best, with a held-out loss of {loss} at the end over {plural(seeds, 'seed')}."
    if edge:
        return [first, f"It lies at the {edge} edge of what was tried: a better one may lie beyond."]
    others = sorted((mine[1.0], trial) for trial, mine in means.items() if trial != best and 1.0 in mine)
    if not others:
        return [first, "No other trial was trained to the end."]
    second, trial = others[0]
    return [first, f"The next best is {_name(trial)}, with {_loss(second)}."]


def _tried(means: Mapping[Trial, Mapping[float, float]], lengths: Sequence[float], best: Trial | None) -> Any:
    rows = [
        [
            *(trial.step_size, trial.correction, trial.buffer),
            *(Cell(_loss(mine[rung]), True) if rung in mine else "" for rung in lengths),
            "best" if trial == best else "",
        ]
        for trial, mine in means.items()
    ]
    heads = ["step size", "correction", "buffer", *(share(rung) for rung in lengths), "choice"]
    empty = [at for at in (1, 2) if all(row[at] is None for row in rows)]
    kept = [at for at in range(len(heads)) if at not in empty]
    return table("Held-out losses", [heads[at] for at in kept], [[row[at] for at in kept] for row in rows], 100)


def _loss(value: float) -> str:
    return number(value, 4) if math.isfinite(value) else "diverged"


def _name(trial: Trial) -> str:
    others = "" if trial.combination == "the plan" else f" with {trial.combination}"
    return f"step size {trial.step_size:g}{others}"


def _edge(rows: Sequence[Row], best: Trial | None) -> str:
    """Return at which edge of the step sizes tried the best one lies, if it does."""
    sizes = [row["step_size"] for row in rows]
    if best is None or min(sizes) < best.step_size < max(sizes):
        return ""
    return "lower" if best.step_size == min(sizes) else "upper"


def _row(line: Mapping[str, str], path: Path) -> dict[str, Any]:
    try:
        row: dict[str, Any] = {key: float(line[key]) for key in ("rung", "step_size", "loss", "accuracy")}
        row |= {"correction": float(line["correction"]) if line["correction"] else None}
        row |= {"buffer": int(line["buffer"]) if line["buffer"] else None, "seed": int(line["seed"])}
    except ValueError as error:
        raise UnreadableFile(f"table of trials {path} has a cell that is not a number ({error}): {WAY_OUT}") from None
    if not (0 < row["rung"] <= 1 and 0 < row["step_size"] < math.inf):
        raise UnreadableFile(f"table of trials {path} has a length or a step size that cannot be: {WAY_OUT}")
    return {**row, "loss": math.inf if math.isnan(row["loss"]) else row["loss"], "cell": line["cell"]}


def _provenance(folder: Path, rows: Sequence[Row]) -> Section:
    """Return the section with the hashes and versions of the first run that is there."""
    hashes = [row["cell"] for row in rows if str(row["cell"]).isalnum()]
    place = next((one for cell in hashes for one in folder.glob(f"cells/*-{cell}/config.json")), None)
    told = {} if place is None else table_of(read_json(place, "configuration"), "configuration")
    versions = told.get("versions")
    facts = [["folder", str(folder)], *([key, str(told[key])] for key in FACTS if key in told)]
    facts += [
        [f"version of {key}", str(value)] for key, value in (versions.items() if isinstance(versions, dict) else ())
    ]
    section = Section("Where it comes from", tables=[table("Folder, hashes and versions", ["what", "value"], facts)])
    say_command(section, kept_in(folder))
    return section
