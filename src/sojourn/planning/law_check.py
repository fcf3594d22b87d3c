"""Check whether the service law matters for a plan: simulate it under other laws and compare with
exponential theory.
"""

from dataclasses import dataclass, replace

import numpy as np

from sojourn.fleet import Fleet
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.scenario import Scenario
from sojourn.timing.exact.analysis import Analysis
from sojourn.timing.simulate.summary import measure

MATTERS = 0.05
ENOUGH = 1000  # with fewer updates than this the standard error of a group is not reliable
OTHERS = ("deterministic", "lognormal(sigma=1)")


@dataclass(frozen=True)
class LawCheck:
    """What another service law does to throughput and staleness."""

    law: str
    """The law, or `the fleet's own`."""
    throughput: float
    """Relative change of the simulated throughput from the exponential theory."""
    staleness: tuple[float, ...]
    """Relative change of each group's mean staleness."""
    worst: str
    """Group whose staleness changes most."""

    @property
    def matters(self) -> bool:
        """Whether anything changes by more than 5%."""
        return max(abs(self.throughput), *(abs(change) for change in self.staleness)) > MATTERS

    def __str__(self) -> str:
        most = max(self.staleness, key=abs)
        return f"{self.law}: throughput {100 * self.throughput:+.0f}%, staleness of '{self.worst}' {100 * most:+.0f}%"


def check_laws(fleet: Fleet, analysis: Analysis) -> list[LawCheck]:
    """Simulate the plan under the fleet's own laws; if all are exponential, under two other laws."""
    if any(law != EXPONENTIAL for law in fleet.law):
        return [_check("the fleet's own laws", fleet, analysis)]
    return [_check(text, replace(fleet, law=(Law.parse(text),) * fleet.groups), analysis) for text in OTHERS]


def _check(name: str, fleet: Fleet, analysis: Analysis) -> LawCheck:
    plan = replace(analysis.plan, fleet_hash=None, promises={})
    tasks = plan.concurrency
    summary = measure(
        fleet,
        plan,
        min(2_000_000, 100_000 + 200 * tasks),
        start="routed",
        warmup=min(500_000, 10_000 + 50 * tasks),
        scenario=Scenario(server_rate=analysis.server_rate),
        engine="events",
        seed=0,
    )
    exact = analysis.staleness()
    seen = (summary.arrivals >= ENOUGH) & (exact > 0)
    change = np.where(seen, summary.staleness.value / np.where(seen, exact, 1.0) - 1, 0.0)
    certain = np.where(np.abs(change) > 4 * summary.staleness.error / np.maximum(exact, 1e-300), change, 0.0)
    worst = fleet.name[int(np.argmax(np.abs(certain)))]
    flow = float(summary.throughput.value) / analysis.throughput - 1
    return LawCheck(name, flow, tuple(certain.tolist()), worst)
