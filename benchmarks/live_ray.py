"""Compare a live run on Ray with a bare Ray loop that makes the same calls: `python benchmarks/live_ray.py`.

All sides share one Ray instance and one driver, have two actors each, and work in turns of some seconds. Clients
compute nothing. CPU time is that of the driver and of all processes of Ray, while a side works.
"""

import argparse
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import live_ray_sides as sides

SECONDS = 3.0  # of a turn
WARMUP = 1.5
MOST = 1.3
SPEED = 150.0
BARE, QUICK, DURABLE = "bare Ray loop", "sojourn, not durable", "sojourn, durable"
TICKS = os.sysconf("SC_CLK_TCK")
HEAD = (
    "| live on Ray, no computing | side | CPU ms a step, best | median | steps/s, best | median | CPU ratio, best | "
    "median | speed ratio, median | target |\n|---|---|---|---|---|---|---|---|---|---|"
)


class Case(NamedTuple):
    """A number of clients and actors, and a size of model."""

    clients: int
    hidden: int
    actors: int = 2
    target: bool = False

    @property
    def parameters(self) -> int:
        """Numbers of the model: digits have 64 pixels and 10 classes."""
        return 75 * self.hidden + 10

    @property
    def name(self) -> str:
        """Name in the table."""
        return f"{self.clients} clients, {self.actors} actors, {self.parameters * 4 / 1e6:.3g} MB"


CASES = (Case(10, 3600, target=True), Case(10, 64), Case(10, 33_333))


class Turn(NamedTuple):
    """What one turn of a side took."""

    cpu: float
    """CPU seconds per step, of all processes."""
    speed: float
    """Steps per second."""


def used() -> dict[int, float]:
    """Return the CPU seconds of this process and of all that it has started, by process."""
    children: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                facts = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            children.setdefault(int(facts[1]), []).append(int(path.name))
            seconds[int(path.name)] = (int(facts[11]) + int(facts[12])) / TICKS
    found, waiting = {}, [os.getpid()]
    while waiting:
        one = waiting.pop()
        found[one] = seconds.get(one, 0.0)
        waiting += children.get(one, [])
    return found


def turn(work: Callable[[float], int], seconds: float) -> Turn:
    """Let a side work for some seconds."""
    before, begun = used(), time.monotonic()
    steps = work(seconds)
    took, after = time.monotonic() - begun, used()
    if steps <= 0:
        raise SystemExit("a side of the live benchmark on Ray took no step")
    return Turn(sum(now - before.get(one, 0.0) for one, now in after.items()) / steps, steps / took)


def rows(case: Case, rounds: int = 5) -> list[str]:
    """Measure a case; return a row for each side."""
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory(prefix="sojourn-bench-")))
        given = case.clients, case.hidden, case.actors
        all_of_them: dict[str, Callable[[float], int]] = {
            BARE: sides.bare(case.parameters, case.clients, case.actors),
            QUICK: sides.ours(held, folder / "quick", *given, durable=False),
            DURABLE: sides.ours(held, folder / "durable", *given, durable=True),
        }
        turns: dict[str, list[Turn]] = {name: [] for name in all_of_them}
        for number in range(rounds + 1):
            for name, work in all_of_them.items():
                done = turn(work, SECONDS if number else WARMUP)
                turns[name] += [done] if number else []
        sides.end(all_of_them[BARE])
    return [_row(case, name, found, turns[BARE]) for name, found in turns.items()]


def _row(case: Case, name: str, mine: list[Turn], bare: list[Turn]) -> str:
    cpu, speed = [one.cpu * 1e3 for one in mine], [one.speed for one in mine]
    best = min(cpu) / min(one.cpu * 1e3 for one in bare)
    pairs = list(zip(mine, bare, strict=True))
    usual, rate = median(my.cpu / its.cpu for my, its in pairs), median(its.speed / my.speed for my, its in pairs)
    verdict = _verdict(best, max(speed)) if case.target and name == QUICK else ""
    figures = (min(cpu), median(cpu), max(speed), median(speed))
    ratios = (f"{one:.2f}" for one in (best, usual, rate))
    return "| " + " | ".join((case.name, name, *(f"{one:.3g}" for one in figures), *ratios, verdict)) + " |"


def _verdict(ratio: float, speed: float) -> str:
    told = [f"at most {MOST:g}: {'met' if ratio <= MOST else 'missed'}"]
    return "; ".join([*told, f"at least {SPEED:g} steps/s: {'met' if speed >= SPEED else 'missed'}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--case", type=int, choices=range(len(CASES)), help="only this case")
    parser.add_argument("--actors", type=int, help="this many actors instead")
    arguments = parser.parse_args()
    print(HEAD)
    with sides.ray_started():
        for case in CASES if arguments.case is None else (CASES[arguments.case],):
            case = case._replace(actors=arguments.actors or case.actors)
            print("\n".join(rows(case, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
