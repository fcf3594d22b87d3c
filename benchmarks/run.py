"""Speed beside peers, as ratios measured in one run: `make bench`.

Every side of a case goes on by short pieces, turn by turn, for many rounds. Time is processor time of the one thread
that works, and a side's figure is its best round, so that neighbours on a shared machine slow no side for good; median
and worst show how much they disturbed. Before a ratio is printed, each simulator's mean staleness is held against the
exact value, and the two exact solutions against each other.
"""

import argparse
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import thread_time

import c_peer
import ciw_peer
import cost_curves
import line_peer
import numpy as np
import simpy_peer
from case import CASES, Case, Side
from sojourn_side import Sojourn

from sojourn import measure
from sojourn.theory.jackson import ClosedNetwork

SEED = 1
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "cost-curves"

# how a side is built, the steps of one piece, and the ratio that we aim at (none: for information)
SIDES: tuple[tuple[Callable[[Case, int], Side], int, float | None], ...] = (
    (Sojourn, 500_000, None),
    (c_peer.CLoop, 500_000, 0.6),
    (simpy_peer.Resources, 10_000, 700.0),
    (simpy_peer.Stores, 10_000, 700.0),
    (simpy_peer.BareEvents, 20_000, None),
    (ciw_peer.Ciw, 2_000, 2000.0),
)


@dataclass
class Figure:
    """Seconds of one side in every round, a step or a solution."""

    name: str
    seconds: list[float]
    target: float | None = None

    @property
    def best(self) -> float:
        """The round that was disturbed least."""
        return min(self.seconds)

    def row(self, case: str, ours: "Figure") -> str:
        """A row of the table: what this side needs, how far its rounds spread, and how we compare."""
        ratio = self.best / ours.best
        verdict = "" if self.target is None else f"{self.target:g}: " + ("met" if ratio >= self.target else "missed")
        median = float(np.median(self.seconds))
        cells = (
            case,
            self.name,
            _time(self.best),
            _time(median),
            _time(max(self.seconds)),
            f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}",
            verdict,
        )
        return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="rounds of every comparison")
    parser.add_argument("--curves", action="store_true", help="measure and draw the cost curves too")
    arguments = parser.parse_args()
    print("\n".join(machine()), end="\n\n")
    print("| case | side | best | median | worst | speed of sojourn over it | target |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        _print(f"a step, {case.name}", simulators(case, arguments.rounds))
    _print("exact, n=1000, C=1e4", exact(arguments.rounds))
    if arguments.curves:
        cost_curves.draw(PICTURE)


def machine() -> list[str]:
    """The machine and the versions of all sides."""
    model = [line.split(":")[1].strip() for line in _cpu_info() if line.startswith("model name")]
    packages = ("sojourn", "numpy", "numba", "simpy", "ciw", "line-solver")
    return [
        f"{model[0] if model else platform.machine()}, {len(model)} cores; {platform.system()}",
        f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages),
        str(c_peer.compiler()),
    ]


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def simulators(case: Case, rounds: int) -> list[Figure]:
    """Time a step of every simulator; ours comes first."""
    sides = [(build(case, SEED), piece, target) for build, piece, target in SIDES if _can_be_built(build)]
    figures = [Figure(side.name, [], target) for side, _, target in sides]
    for _ in range(rounds):
        for (side, piece, _), figure in zip(sides, figures, strict=True):
            began = thread_time()
            done = side.advance(piece)
            figure.seconds.append((thread_time() - began) / done)
    check(case, [side for side, _, _ in sides])
    return figures


def _can_be_built(build: Callable[[Case, int], Side]) -> bool:
    return build is not c_peer.CLoop or c_peer.compiler() is not None


def check(case: Case, sides: Sequence[Side]) -> None:
    """Refuse a side whose mean staleness is not the exact one, or a C loop that did not make the very same jumps."""
    reference = measure(case.fleet, case.plan, steps=20_000_000, seed=SEED)
    tallies = {side.name: side.tally() for side in sides}
    for name, (arrivals, staleness) in tallies.items():
        error = reference.staleness.error * np.sqrt(reference.steps / arrivals.sum())
        off = (staleness / arrivals - case.exact) / error
        if np.abs(off).max() > 5:
            raise SystemExit(f"{name}, {case.name}: mean staleness is {off} standard errors off the exact value")
    if c_peer.CLoop.name in tallies and not np.array_equal(tallies[Sojourn.name], tallies[c_peer.CLoop.name]):
        raise SystemExit(f"{case.name}: the C loop made other jumps than sojourn")


def exact(rounds: int) -> list[Figure]:
    """Time the exact mean queues of 1000 different clients with 10 000 tasks; ours comes first."""
    load, population = np.linspace(0.5, 1.5, 1000) / 1000, 10_000
    ones = np.ones(load.size)

    def ours() -> np.ndarray:
        return ClosedNetwork.solve(load, ones, population).queue

    def line() -> np.ndarray:
        return line_peer.queues(load, population)

    if np.abs(ours() / line() - 1).max() > 1e-9:
        raise SystemExit("sojourn and LINE disagree about the mean queues")
    figures = [Figure("sojourn, ClosedNetwork.solve", []), Figure(line_peer.NAME, [], 30.0)]
    for _ in range(rounds):
        for solve, figure in zip((ours, line), figures, strict=True):
            began = thread_time()
            solve()
            figure.seconds.append(thread_time() - began)
    return figures


def _print(case: str, figures: list[Figure]) -> None:
    for figure in figures:
        print(figure.row(case, figures[0]), flush=True)


def _time(seconds: float) -> str:
    for scale, name in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


if __name__ == "__main__":
    main()
