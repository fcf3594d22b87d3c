"""What the planner page starts with: example fleets, and what can be chosen."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.fleet import Fleet
from sojourn.plan_text import NAMES
from sojourn.report.planner.question import rows_of

CAPS = (1, 2, 3, 5, 10, None)
CORRECTIONS = (0.0, 0.5, 1.0)
SAMPLINGS = {"uniform": "uniform", "root-speed": "by the root of speed", "speed": "by speed"}

assert set(SAMPLINGS) == set(NAMES)


@dataclass(frozen=True, eq=False)
class Example:
    """A fleet with a sentence about it."""

    name: str
    about: str
    fleet: Fleet

    def content(self) -> dict[str, Any]:
        """Return it as plain values, for a page."""
        return {"name": self.name, "about": self.about, "groups": rows_of(self.fleet)}


def examples() -> tuple[Example, ...]:
    """Return the example fleets; the first one is what a page without a fleet begins with."""
    phones = Fleet.of(new=(40, 0.5), old=(50, 0.1), ancient=(10, 0.02))
    minutes = np.array([1.0, 1.5, 2.0, 4.0, 5.0, 20.0])
    names = tuple(f"site {letter}" for letter in "ABCDEF")
    sites = Fleet(
        names, np.ones(6, int), 1 / (60 * minutes), uplink_rate=np.full(6, 0.1), downlink_rate=np.full(6, 0.1)
    )
    return (
        Example("90 fast, 10 slow", "90 clients with 8 tasks per second each, 10 with 1.", TWO),
        Example("100 phones", "New, old and ancient phones: 2 s, 10 s and 50 s per task.", phones),
        Example("six sites", "Six sites with 1 to 20 minutes per task, and 10 s for each transfer.", sites),
    )


TWO = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
