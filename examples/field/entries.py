"""The entries of the field: every method at its own dispatcher, and under the planner's policy where it takes one.

All entries of a cell have the same fleet, time, data and first model, and the same number of trials but for the wider
ones; the step size falls linearly to zero. Clients of methods that work with gradients send one gradient per task,
those of methods that work with models do some local steps. A task of K steps takes K service times.

CA2FL and FADAS have no entry under the plan: they use no correction, and nobody waits in them as they are, so that it
would be their own row once more.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cells import ALIKE, Cell

from sojourn import Fleet, Plan
from sojourn.learning.algorithms.table import algorithm

PLANNED = ", planned"
CONSTANT = ", constant step"


@dataclass(frozen=True)
class Entry:
    """A method as it is trained."""

    name: str
    """Its name in tables."""
    algorithm: str
    """Its text; {mean} stands for the time in which the fleet computes one gradient per client, {task} for that of a
    task of some local steps, {few} for a fifth of the clients.
    """
    planned: bool = False
    """Whether it runs under the planner's policy: one task per client, to whoever is free, correction 1/2."""
    telling: bool = False
    """Whether it is among the twelve that are trained on CIFAR-10."""
    constant: bool = False
    """Whether its step size stays the same to the end; such entries are trained on the quadratic problem only."""
    wider: bool = False
    """Whether it has two larger step sizes more on the small image problems: its best one lay at the upper
    edge of the grid in every cell of them.
    """

    def spec(self, cell: Cell) -> dict[str, Any]:
        """Return the keys in which it differs from others."""
        text = self.text(cell)
        local = {"local_steps": cell.work.local_steps} if algorithm(text).sends == "delta" else {}
        steady = {"schedule": "constant"} if self.constant else {}
        return {"algorithm": text, "plan": self.plan(cell.fleet), **local, **steady}

    def folder(self, home: Path, cell: Cell) -> Path:
        """Return where it is trained in a cell; no two names have the same folder."""
        return home / cell.folder / quote(self.name, safe="()=, ")

    def step_sizes(self, cell: Cell) -> tuple[float, ...]:
        """Return the step sizes that it tries in a cell; where data is alike all try the larger ones too."""
        return (*cell.work.step_sizes, *(cell.work.larger if self.wider or cell.dealt == ALIKE else ()))

    def text(self, cell: Cell) -> str:
        """Return its text in a cell."""
        mean = cell.fleet.clients / float((cell.fleet.count * cell.fleet.rate).sum())
        facts = {"mean": f"{mean:.4g}", "task": f"{mean * cell.work.local_steps:.4g}", "few": cell.fleet.clients // 5}
        return self.algorithm.format(**facts)

    def plan(self, fleet: Fleet) -> Plan:
        """Return its plan: as many tasks in flight as there are clients; its dispatcher does the rest."""
        if self.planned:
            return replace(Plan.uniform(fleet, fleet.clients, cap=1), correction=0.5)
        return Plan.uniform(fleet, fleet.clients)


def entries(cell: Cell) -> list[Entry]:
    """Return the entries that are trained in a cell."""
    if cell.problem == "cifar":
        return [one for one in ENTRIES if one.telling]
    if cell.dealt == ALIKE:
        return [one for one in ENTRIES if one.name in ON_ALIKE]
    return [*ENTRIES, *STEADY] if cell.problem == "quadratic" else list(ENTRIES)


ENTRIES = (
    Entry("generalized-asyncsgd" + PLANNED, "generalized-asyncsgd", planned=True, telling=True),
    Entry("generalized-asyncsgd", "generalized-asyncsgd"),
    Entry("asyncsgd, random", "asyncsgd", telling=True),
    Entry("asyncsgd, finisher", "asyncsgd(assignment=pure)", telling=True),
    Entry("delay-adaptive", "delay-adaptive", telling=True),
    Entry("asgrad, shuffled", "asgrad"),
    Entry("asgrad, waiting for 5", "asgrad(assignment=pure, wait=5)"),
    Entry("ringmaster", "ringmaster"),
    Entry("rennala", "rennala"),
    Entry("malenia", "malenia", telling=True, wider=True),
    Entry("ringleader", "ringleader", telling=True),
    Entry("ia2sgd", "ia2sgd", telling=True),
    Entry("ace", "ace"),
    Entry("fedavg", "fedavg"),
    Entry("fedprox", "fedprox"),
    Entry("fedbuff", "fedbuff(size=5)", telling=True),
    Entry("fedbuff" + PLANNED, "fedbuff(size=5, dispatch=routed)", planned=True, telling=True),
    Entry("fedasync", "fedasync", telling=True),
    Entry("fedasync" + PLANNED, "fedasync(dispatch=routed)", planned=True),
    Entry("favano", "favano(contacts={few}, waiting={mean}, interaction=0)"),
    Entry("quafl", "quafl(contacts={few}, waiting={mean}, interaction=0)"),
    Entry("aso-fed", "aso-fed"),
    Entry("asyncfeded", "asyncfeded"),
    Entry("aafl", "aafl"),
    Entry("fedfix", "fedfix(dt={task})"),
    Entry("ca2fl", "ca2fl(size=5)", telling=True),
    Entry("fadas", "fadas(size=5, server_step_size=0)", telling=True),
    Entry("fedasmu", "fedasmu"),
    Entry("fedcompass", "fedcompass"),
)
"""The field."""

ON_ALIKE = (
    *("generalized-asyncsgd" + PLANNED, "asyncsgd, random", "asyncsgd, finisher", "delay-adaptive"),
    *("asgrad, waiting for 5", "ringmaster", "rennala"),
)
"""Entries that are trained where data is alike at all clients too: those with a claim about it, and who they beat."""

STEADY = tuple(
    replace(one, name=one.name + CONSTANT, constant=True)
    for one in ENTRIES
    if one.name in ("fedbuff", "fedbuff" + PLANNED, "ca2fl")
)
"""Entries with local steps, once more with a constant step size: where do they end without a schedule?"""
