"""The part of a page about the seeds of a run together: mean curves with their 95% bands, over each axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import UnreadableFile
from sojourn.experiments.results import Run
from sojourn.experiments.statistics import AXES, curves, judged_by
from sojourn.own_code import OBJECT
from sojourn.report.page.parts import Part, Section, Shown, called, listed, number, plural, table
from sojourn.report.page.svg import page_style
from sojourn.report.training_figures import LABELS, comparison_panel
from sojourn.types import Floats

ORDER = ("received", "time", "gradients")
FEWEST = 2  # seeds that have an interval


@dataclass(frozen=True)
class Seed:
    """A seed that was trained to its end, for the statistics of runs."""

    run: Run
    diverged: bool = False
    budget: float | None = None  # its curve ends with its last evaluation

    @property
    def rows(self) -> list[dict[str, float]]:
        """Its metrics, one row per evaluation."""
        return self.run.metrics

    @property
    def facts(self) -> dict[str, Any]:
        """The contents of its config.json."""
        return self.run.facts

    def column(self, key: str) -> Floats:
        """A column of its metrics."""
        if key not in self.rows[0]:
            raise UnreadableFile(f"the metrics of {self.run.folder} have no column {key}; train this seed again")
        return np.array([row[key] for row in self.rows])


def part_of_seeds(folder: Path, places: Sequence[Path]) -> list[Part]:
    """Return the part about the seeds in these folders together; none if fewer than two were trained to their ends."""
    runs = [Run(one) for one in places]
    ready = [Seed(run) for run in runs if _ended(run)]
    if len(ready) < FEWEST:
        return []
    name = called(ready[0].run._name)
    by_name = {name: dict(enumerate(ready))}
    rows, key = list(curves(by_name)), judged_by(by_name)
    part = Part(str(folder), "seeds of a run", _answer(name, ready, rows, key))
    part.facts = [(str(len(ready)), "seeds trained to their ends"), (str(len(runs)), "seeds that have begun")]
    drawn = [(key, axis) for axis in ORDER] + ([("test_loss", "received")] if key != "test_loss" else [])
    section = Section("What they learnt on average", figures=[_curve(rows, *one) for one in drawn])
    section.tables.append(_ends(rows, key))
    left = [run.folder.name for run in runs if run not in [seed.run for seed in ready]]
    if left:
        section.notes.append(f"Not part of the mean, because not trained to the end: {listed(left, 12)}.")
    part.sections = [section]
    return [part]


def _ended(run: Run) -> bool:
    if not run.complete or not (run.folder / "metrics.csv").is_file() or not run.metrics:
        return False
    return all(np.isfinite(run.last[axis]) for axis in AXES)


def _answer(name: str, ready: Sequence[Seed], rows: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    last, data = _last(rows, "received"), str(ready[0].run.config.get("data")).removeprefix(OBJECT)
    return [
        f"{plural(len(ready), 'seed')} of {name} on {called(data)} reached a mean {LABELS[key]} of "
        f"{_interval(last, key)} after {plural(last['at'], 'update')}.",
        "The brackets, and the bands of the curves, are 95% intervals over the seeds.",
    ]


def _curve(rows: Sequence[Mapping[str, Any]], key: str, axis: str) -> Shown:
    with page_style() as plt:
        figure, panel = plt.subplots(figsize=(4.6, 3.1), layout="constrained")
        comparison_panel(rows, key, axis, None)(panel)
    last = _last(rows, axis)
    words = f"{LABELS[key].capitalize()} over {AXES[axis]}, at {number(last['at'], 5)}: {_interval(last, key)}"
    caption = f"{words}. The line is the mean, the band its 95% interval over the seeds."
    return Shown(f"mean-{key.replace('_', '-')}-{axis}", figure, f"{words}.", caption)


def _ends(rows: Sequence[Mapping[str, Any]], key: str) -> Any:
    lines = [[AXES[axis], _last(rows, axis)["at"], _interval(_last(rows, axis), key)] for axis in ORDER]
    return table("Where every seed has come to, and the mean there", ["axis", "at", LABELS[key]], lines)


def _last(rows: Sequence[Mapping[str, Any]], axis: str) -> Mapping[str, Any]:
    return [row for row in rows if row["axis"] == axis][-1]


def _interval(row: Mapping[str, Any], key: str) -> str:
    return f"{number(row[key], 4)} ({number(row[f'{key}_low'], 4)} to {number(row[f'{key}_high'], 4)})"
