"""Choose the best step size for a plan, around a guess, by halving, in a folder.

cells/       every trial, as an ordinary run folder
tuning.csv   one row per trial, length and seed

A second call with the same folder trains only what is missing. As in a comparison, the grid grows when the best value
lies at its edge: first by the shortest trials, where growing costs least, then by the long ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from sojourn.csv_file import write_csv
from sojourn.errors import InvalidInput, SojournError
from sojourn.experiments.cells import Cell, find
from sojourn.experiments.earlier import check_tuning
from sojourn.experiments.grid_search import Grids, Scores, search
from sojourn.experiments.halving import halve
from sojourn.experiments.plan_tuning import AROUND, CLOSER, WIDE, PlanTuning, grid
from sojourn.experiments.run_cells import Swept, run_cells
from sojourn.experiments.train_cells import check_cells
from sojourn.experiments.tuned_plan import Trial, TunedPlan
from sojourn.folders import check_folder
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.trainer import TUNING

WAY_OUT = "replace it with --overwrite (overwrite=True), or name another folder"

Train = Callable[[Sequence[Cell]], Swept]
Phase = Callable[[str], None]


def tune_plan(tuning: PlanTuning, folder: str | Path, phase: Phase | None = None, **options: Any) -> TunedPlan:
    """Choose a step size and write all trials; options are those of `run_cells`."""
    check_folder(folder)
    first = tuning.cell(tuning.combinations(tuning.first or WIDE[0])[0], tuning.lengths[0], tuning.seeds[0])
    check_cells([first], options.get("on", "here"))
    found = choose(tuning, folder, lambda cells: run_cells(cells, folder, **options), phase)
    if found.rows:
        write_csv(Path(folder) / "tuning.csv", found.rows)
    return found


def tuned_step(
    config: TrainConfig,
    folder: str | Path,
    phase: Phase | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> TunedPlan:
    """The best step size for a run, by trials in its folder; None if Ctrl-C ended the search early.

    A folder with the trials of another run is refused before anything is trained, unless `overwrite`; a folder with a
    run also unless `resume`.
    """
    if config.step_size is not None:
        raise InvalidInput(f"step_size {config.step_size:g} and tune exclude each other, got both; give one of them")
    place, tuning = Path(folder) / TUNING, PlanTuning(config)
    if not (resume or overwrite):
        _check_free(Path(folder))
    if not overwrite:
        check_tuning(tuning, place, WAY_OUT)
    found = tune_plan(tuning, place, phase, **options)
    if not (found.complete or found.interrupted):
        name, why = next(iter(found.failures.items()), ("a trial", "another process is training it"))
        raise SojournError(f"the step size could not be tuned in {place}: {name}: {why}")
    return found


def _check_free(folder: Path) -> None:
    if any((one / "config.json").exists() for one in (folder, *folder.glob("seed-*"))):
        raise InvalidInput(f"the folder {folder} already holds a run; {WAY_OUT}")


def choose(tuning: PlanTuning, folder: str | Path, train: Train, phase: Phase | None = None) -> TunedPlan:
    """Choose a step size; `train` is the function that trains cells."""
    found = TunedPlan(tuning.plan, guess=tuning.first, lengths=tuning.lengths)
    look = _Look(tuning, Path(folder), train, found, phase or (lambda text: None))
    begin = WIDE if found.guess is None else AROUND
    sizes = grid(found.guess or 1.0, begin)
    if len(tuning.lengths) > 1 or found.guess is None:
        wide = search(look.grids(sizes), tuning.extensions, look.shortly)
        if not wide.whole:
            return found
        best = next(iter(wide.chosen.values()))
        sizes = grid(best, CLOSER) if found.guess is None else next(iter(wide.grids.values()))
    searched = search(look.grids(sizes), tuning.extensions, look.by_halving)
    if not searched.whole or look.best is None:
        return found
    if not isfinite(look.best[1]):
        tried = sorted({row["step_size"] for row in found.rows})
        raise SojournError(
            f"it diverged at every step size from {tried[0]:g} to {tried[-1]:g}; give a smaller guess, or check the "
            "data and the model"
        )
    found.chosen, found.edge = look.best[0], next(iter(searched.edge.values()), "")
    found.plan = replace(tuning.tuned(found.chosen), tuned_for=tuning.run.algorithm)
    return found


class _Look:
    """Tries grids of step sizes, and keeps what was found."""

    def __init__(self, tuning: PlanTuning, folder: Path, train: Train, found: TunedPlan, phase: Phase) -> None:
        self._tuning, self._folder, self._train, self._found, self._phase = tuning, folder, train, found, phase
        self._seen: set[tuple[Trial, float]] = set()
        self.best: tuple[Trial, float] | None = None

    def grids(self, sizes: tuple[float, ...]) -> Grids:
        """The same step sizes for every combination."""
        return {one.combination: sizes for one in self._tuning.combinations(1.0)}

    def shortly(self, grids: Grids) -> Scores | None:
        """Every trial at the shortest rung."""
        return self._of_the_best(grids, self._judged(self._trials(grids), self._tuning.lengths[0]))

    def by_halving(self, grids: Grids) -> Scores | None:
        """The best of each rung at the next one; trials that did not reach the last rung cannot be chosen."""
        return self._of_the_best(grids, halve(self._trials(grids), self._tuning.lengths, self._judged))

    def _trials(self, grids: Grids) -> list[Trial]:
        return self._tuning.combinations(*next(iter(grids.values())))

    def _of_the_best(self, grids: Grids, scores: dict[Trial, float] | None) -> Scores | None:
        """Scores of the best combination only: the grid grows only when this one has its best value at an edge."""
        if scores is None:
            return None
        best = min(scores, key=scores.__getitem__)
        self.best = best, scores[best]
        name = best.combination
        return {name: {size: scores.get(best._replace(step_size=size), inf) for size in grids[name]}}

    def _judged(self, trials: Sequence[Trial], rung: float) -> dict[Trial, float] | None:
        """Mean held-out loss of trials at a rung; inf if one of the runs diverged."""
        found, cells = self._found, self._tuning.cells(trials, rung)
        self._phase(f"{len(trials)} trials to {rung:.3g} of the budget")
        swept = self._train([cell for _, _, cell in cells])
        found.failures |= swept.failures
        found.interrupted = swept.interrupted
        ended = find([cell for _, _, cell in cells], self._folder)
        losses: dict[Trial, list[float]] = {trial: [] for trial in trials}
        for trial, seed, cell in cells:
            if cell.hash not in ended:
                continue
            one = ended[cell.hash]
            loss = inf if one.diverged else one.last["test_loss"]
            losses[trial].append(loss if isfinite(loss) else inf)
            if (trial, rung) not in self._seen:
                facts = {"rung": rung, **trial._asdict(), "seed": seed, "loss": losses[trial][-1]}
                found.rows.append({**facts, "accuracy": one.last["accuracy"], "cell": cell.hash})
        self._seen |= {(trial, rung) for trial in trials}
        found.open = sum(cell.hash not in ended for _, _, cell in cells)
        if found.open or found.interrupted:
            return None
        return {trial: fmean(values) for trial, values in losses.items()}
