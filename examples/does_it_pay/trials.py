"""A comparison for each dataset and fleet: the grid's plans and the two of the bound, each at its best step size."""

import dataclasses
from pathlib import Path

from world import WORK, plans, saved, time_of

from sojourn import Fleet, goal, make_plan
from sojourn.constants import WORKED_EXAMPLE, Constants
from sojourn.experiments.compare import Compared, compare
from sojourn.experiments.comparison import ComparisonSpec, Entry, Tuning
from sojourn.experiments.statistics import Target
from sojourn.experiments.training import calibrated
from sojourn.learning.run.build import build
from sojourn.learning.run.config import TrainConfig

STEP_SIZES = (0.03, 0.1, 0.3, 1.0)
CHOICES = {"default": "the bound's, default constants", "calibrated": "the bound's, calibrated constants"}


def constants(work: str, fleet: Fleet, folder: Path, fast: bool) -> dict[str, Constants]:
    """Those of the worked example, and those measured on this model and data (once: they do not depend on speeds)."""
    path = folder / f"constants-{work}.toml"
    if not path.exists():
        where = folder / "calibrated-fleet.csv"
        fleet.save(where)
        run = {**WORK[work].keys(), "step_size": WORK[work].step_size, "steps": 200 if fast else 1000}
        config = TrainConfig(str(where), **run)  # type: ignore[arg-type]
        calibrated(build(config)).save(path)
    return {"default": WORKED_EXAMPLE, "calibrated": Constants.load(path)}


def algorithms(fleet: Fleet, known: dict[str, Constants], folder: Path) -> list[Entry]:
    """Plans by name; those of the grid are called `way, tasks`."""
    made = {f"{way}, {tasks}": plan for (way, tasks), plan in plans(fleet).items()}
    for key, name in CHOICES.items():
        chosen = make_plan(fleet, goal(time=time_of(fleet), constants=known[key])).plan
        made[name] = dataclasses.replace(chosen, step_size=None)
    return [Entry(name, {"plan": saved(plan, folder, name)}) for name, plan in made.items()]


def trained(work: str, name: str, fleet: Fleet, known: dict[str, Constants], folder: Path, fast: bool) -> Compared:
    """Tune and train all of them; what is done already is not done again."""
    home = folder / f"{work}-{name}".replace(" ", "-").replace(",", "")
    home.mkdir(parents=True, exist_ok=True)
    fleet.save(home / "fleet.csv")
    run = {**WORK[work].keys(), "fleet": str(home / "fleet.csv"), "time": time_of(fleet) * (0.1 if fast else 1.0)}
    tuning = Tuning(STEP_SIZES, (10_000,) if fast else (10_000, 10_001), holdout=0.2, extensions=1 if fast else 3)
    seeds = tuple(range(2 if fast else 8))
    described = algorithms(fleet, known, home / "plans")
    comparison = ComparisonSpec(run, tuple(described), seeds, tuning, Target.parse(WORK[work].target))
    return compare(comparison, home)
