"""Draw the cost of a simulator step and of an exact solution as the network grows.

Run directly, it writes docs/pictures/cost-curves.svg and .png; `run.py --curves` does the same.
"""

from collections.abc import Callable
from pathlib import Path
from time import thread_time

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from case import Case
from matplotlib.axes import Axes
from sojourn_side import Sojourn

from sojourn import Fleet
from sojourn.timing.exact.jackson import ClosedNetwork

CLIENTS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
TASKS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
COLOURS = {"two groups": "#0b6e4f", "all rates distinct": "#c8553d"}
Curve = dict[str, list[tuple[int, float]]]


def fleets(clients: int) -> dict[str, Fleet]:
    """The two fleets of one size: half fast and half slow, and all different over the same range."""
    half = clients // 2
    return {
        "two groups": Fleet.of(fast=(half, 4.0), slow=(clients - half, 1.0)),
        "all rates distinct": Fleet.of_rates(np.geomspace(1.0, 4.0, clients)),
    }


def step_time(fleet: Fleet, concurrency: int) -> float:
    """Return the seconds per step, best of a few pieces."""
    side = Sojourn(Case("curve", fleet, concurrency), seed=1, warmup=300_000)
    return best(lambda: side.advance(300_000), rounds=15) / 300_000


def solve_time(fleet: Fleet, population: int) -> float:
    """Return the seconds for all exact mean queues."""
    load = 1 / (fleet.rate * fleet.clients)
    return best(lambda: ClosedNetwork.solve(load, fleet.count, population), rounds=7)


def best(call: Callable[[], object], rounds: int) -> float:
    """Return the shortest time of a few calls."""
    times = []
    for _ in range(rounds):
        began = thread_time()
        call()
        times.append(thread_time() - began)
    return min(times)


def curve(cost: Callable[[Fleet, int], float], points: list[tuple[int, int, int]]) -> Curve:
    """Return the cost of both fleets over points (abscissa, clients, tasks)."""
    lines: Curve = {name: [] for name in COLOURS}
    for x, clients, tasks in points:
        for name, fleet in fleets(clients).items():
            lines[name].append((x, cost(fleet, tasks)))
    return lines


def draw(path: Path) -> None:
    """Measure and write the picture as SVG and PNG."""
    solvable = [n for n in CLIENTS if n <= 100_000]
    panels = (
        ("simulation, C = n", "clients n", "ns a step", 1e9, curve(step_time, [(n, n, n) for n in CLIENTS])),
        ("simulation, n = 100", "tasks C", "ns a step", 1e9, curve(step_time, [(c, 100, c) for c in TASKS])),
        ("exact solution, C = 1000", "clients n", "ms", 1e3, curve(solve_time, [(n, n, 1000) for n in solvable])),
        ("exact solution, n = 1000", "tasks C", "ms", 1e3, curve(solve_time, [(c, 1000, c) for c in TASKS[:-1]])),
    )
    figure, grid = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    for axis, (title, abscissa, unit, scale, lines) in zip(grid.flat, panels, strict=True):
        _panel(axis, lines, scale)
        axis.set(title=title, xlabel=abscissa, ylabel=unit)
    for axis in grid[0]:
        axis.set_ylim(10, 2000)
    grid[0, 0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=150)
    plt.close(figure)


def _panel(axis: Axes, lines: Curve, scale: float) -> None:
    for name, points in lines.items():
        x, seconds = zip(*points, strict=True)
        axis.loglog(x, np.array(seconds) * scale, "o-", color=COLOURS[name], label=name, markersize=4)
    axis.grid(True, which="major", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "docs" / "pictures" / "cost-curves")
