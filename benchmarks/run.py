"""Compare speeds with peers, as ratios measured in one run: `make bench`.

The sides of a case run in turns, in short pieces, for many rounds. Time is the CPU time of the one working thread, and
a side's figure is its best round, so that other load on a shared machine does not distort it; median and worst show how
much it disturbed. Before a ratio is printed, each simulator's mean staleness is compared with the exact value (or with
a longer run if there is none), and the exact solutions are compared with each other.
"""

import argparse
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from time import thread_time

import c_event_peer
import c_peer
import ciw_peer
import cost_curves
import exact
import figure
import live_ray
import long_run
import numpy as np
import one_each_sides
import simpy_peer
import train_peers
import training
import twin_rows
import wave_rows
from c_compiler import compiler
from case import CASES, EVENT_CASES, ONE_EACH_CASES, Case, Side
from events_side import Events
from figure import Figure
from sojourn_side import Sojourn

import live
import planning
from sojourn import measure

SEED = 1
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "cost-curves"

# how a side is built, the steps per piece, and the target ratio (None: for information)
Sides = tuple[tuple[Callable[[Case, int], Side], int, float | None], ...]
SIDES: Sides = (
    (Sojourn, 500_000, None),
    (c_peer.CLoop, 500_000, 0.6),
    (simpy_peer.Resources, 10_000, 700.0),
    (simpy_peer.Stores, 10_000, 700.0),
    (simpy_peer.BareEvents, 20_000, None),
    (ciw_peer.Ciw, 2_000, 2000.0),
)
EVENT_SIDES: Sides = (
    (Events, 300_000, None),
    (c_event_peer.CTree, 300_000, 0.5),
    (simpy_peer.Resources, 10_000, 100.0),
    (simpy_peer.BareEvents, 20_000, None),
)
ONE_EACH_SIDES: Sides = ((one_each_sides.OneEach, 500_000, None), (one_each_sides.COneEach, 500_000, 0.5))
IN_C = (c_peer.CLoop, c_event_peer.CTree, one_each_sides.COneEach)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="rounds of every comparison")
    parser.add_argument("--curves", action="store_true", help="measure and draw the cost curves too")
    parser.add_argument(
        "--long",
        action="store_true",
        help="summaries of 1e8 steps with their memory, and finite differences for 1000 clients, too",
    )
    parser.add_argument(
        "--peers", action="store_true", help="only frameworks that train, each in an environment under .bench-peers/"
    )
    arguments = parser.parse_args()
    print("\n".join(machine()), end="\n\n")
    if arguments.peers:
        train_peers.run()
        return
    print(figure.HEAD)
    for case in CASES:
        _print(f"a step, {case.name}", simulators(case, SIDES, arguments.rounds))
    for case in ONE_EACH_CASES:
        _print(f"a step, {case.name}", simulators(case, ONE_EACH_SIDES, arguments.rounds))
    for case in EVENT_CASES:
        _print(f"an event step, {case.name}", simulators(case, EVENT_SIDES, arguments.rounds))
    _print("exact, n=1000, C=1e4", exact.against_line(arguments.rounds))
    _print("exact, n=1e5, C=1e4", exact.contour_against_mva(max(1, arguments.rounds // 6)))
    _print("capped, n=1000, C=500", exact.capped_beside_routed(1000, 500, arguments.rounds, within=5e-3))
    _print(
        "capped, n=1e6, C=5e5", exact.capped_beside_routed(10**6, 500_000, max(1, arguments.rounds // 15), within=10.0)
    )
    for clients, tasks, links in ((1000, 30, False), (1000, 1000, False), (1000, 300, True), (100_000, 300, False)):
        label = f"objective, n={clients:g}, C={tasks}" + (", links and server" if links else "")
        _print(label, planning.gradient_cost(clients, tasks, max(2, arguments.rounds // 3), links))
    clients = 1000 if arguments.long else 200  # finite differences take eight minutes for 1000
    _print(f"a whole plan, n={clients}, joint C", planning.against_differences(clients))
    _print("an update in a direction, n=100, 40 directions", twin_rows.rows(arguments.rounds))
    for clients in (100, 1000):
        _print(f"a prediction, n={clients}, 80 updates each", twin_rows.whole(clients))
    for model in training.MODELS:
        _print(f"a gradient, {model}, n=100, C=100", training.rows(model, arguments.rounds))
    for model, clients, batch in wave_rows.CASES:
        _print(f"an update, {model}, n=C={clients}, batch {batch}", wave_rows.rows(model, clients, batch))
    print("\n" + planning.HEAD)
    print("\n".join(planning.at_scale()))
    print("\n" + live.HEAD)
    for case in live.CASES:
        print("\n".join(live.rows(case)), flush=True)
    print("\n" + live_ray.HEAD)
    with live_ray.sides.ray_started():
        for case in live_ray.CASES:
            print("\n".join(live_ray.rows(case)), flush=True)
    if arguments.long:
        print("\n" + long_run.HEAD)
        print("\n".join(long_run.rows()))
    if arguments.curves:
        cost_curves.draw(PICTURE)


def machine() -> list[str]:
    """Return the machine and the versions of all sides."""
    model = [line.split(":")[1].strip() for line in _cpu_info() if line.startswith("model name")]
    packages = ("sojourn", "numpy", "numba", "torch", "simpy", "ciw", "line-solver")
    return [
        f"{model[0] if model else platform.machine()}, {len(model)} cores; {platform.system()}",
        f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages),
        str(compiler()),
    ]


def _cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def simulators(case: Case, sides: Sides, rounds: int) -> list[Figure]:
    """Time a step of every simulator; ours comes first."""
    built = [(build(case, SEED), piece, target) for build, piece, target in sides if _can_be_built(build)]
    figures = [Figure(side.name, [], target) for side, _, target in built]
    for _ in range(rounds):
        for (side, piece, _), taken in zip(built, figures, strict=True):
            began = thread_time()
            done = side.advance(piece)
            taken.seconds.append((thread_time() - began) / done)
    check(case, [side for side, _, _ in built])
    return figures


def _can_be_built(build: Callable[[Case, int], Side]) -> bool:
    return build not in IN_C or compiler() is not None


def check(case: Case, sides: Sequence[Side]) -> None:
    """Stop if a side's mean staleness is wrong, or if a C loop did not make exactly the same jumps as ours.

    The mean is compared with the exact one if service is exponential, otherwise with a longer run of ours.
    """
    exponential = case.fleet.exponential
    engine = "auto" if exponential else "events"
    reference = measure(
        case.fleet, case.plan, steps=20_000_000, start=case.start, warmup=case.warmup, seed=SEED + 1, engine=engine
    )
    mean = case.exact if exponential else reference.staleness.value
    for side in sides:
        arrivals, staleness = side.tally()
        of_mean = 0 if exponential else 1
        error = reference.staleness.error * np.sqrt(reference.steps / arrivals.sum() + of_mean)
        off = (staleness / arrivals - mean) / error
        if not np.abs(off).max() <= 5:
            raise SystemExit(f"{side.name}, {case.name}: mean staleness is {off} standard errors off")
        if isinstance(side, IN_C) and not np.array_equal(side.tally(), sides[0].tally()):
            raise SystemExit(f"{case.name}: {side.name} made other jumps than sojourn")


def _print(case: str, figures: list[Figure]) -> None:
    for taken in figures:
        print(taken.row(case, figures[0]), flush=True)


if __name__ == "__main__":
    main()
