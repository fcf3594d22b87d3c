"""The folder `plans` of a live run: every plan so far, so that what the run did can be checked.

plans/N/plan.json      the plan, as `sojourn plan` writes it
plans/N/fleet.csv      the fleet that it was made for
plans/N/change.json    when and why it took effect, what it promises, and what was known of every client
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.correction import Correction
from sojourn.files import write_json, writing
from sojourn.fleet import Fleet
from sojourn.learning.run.build import Built
from sojourn.live.planner import Found
from sojourn.plan import Plan
from sojourn.types import Floats

PLANS, CHANGE = "plans", "change.json"


class PlanFolder:
    """The plans of a run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / PLANS

    def first(self, built: Built, correction: Correction, promises: dict[str, Any]) -> dict[str, Any]:
        """Store the plan of the beginning; return what the trace says of it."""
        plan = built.setting.plan
        entry = {"time": 0.0, "step": 0, "reason": "start", "hash": plan.hash, "concurrency": plan.concurrency}
        entry |= {"correction": correction.exponent, "mean_factor": 1.0, "present": 0, **promises}
        if not (self.path / "0" / CHANGE).exists():
            self._write(0, plan, built.setting.fleet, entry)
        return entry

    def keep(self, number: int, found: Found, entry: dict[str, Any]) -> None:
        """Store a plan, the fleet that it was made for, and where the clients are in it."""
        low, high = found.means.interval()
        known = {"turnaround": found.means.turnaround, "low": low, "high": high, "tasks": found.means.tasks}
        clients = {"group": found.label.tolist(), **{key: _plain(one) for key, one in known.items()}}
        self._write(number, found.plan, found.fleet, {**entry, "clients": clients})

    def forget(self, plans: int) -> None:
        """Remove plans that a crash has undone: all but the first so many, and never the first of all."""
        for place in self.path.glob("[0-9]*"):
            if place.name.isdecimal() and int(place.name) >= max(1, plans):
                shutil.rmtree(place)

    def _write(self, number: int, plan: Plan, fleet: Fleet, facts: dict[str, Any]) -> None:
        place = self.path / str(number)
        with writing(place, "folder of a plan"):
            place.mkdir(parents=True, exist_ok=True)
        plan.save(place / "plan.json")
        fleet.save(place / "fleet.csv")
        write_json(place / CHANGE, facts, "change of the plan")


def _plain(numbers: Floats) -> list[float | None]:
    """Return numbers with six digits; None = unknown."""
    return [float(f"{one:.6g}") if np.isfinite(one) else None for one in numbers]
