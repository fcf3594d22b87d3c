"""Compare a live run with a bare gRPC loop that makes the same calls: `python benchmarks/live.py`.

Both sides have a server process and two processes of clients, each with one connection: TLS with certificates on both
ends, and a token in every call. Clients compute nothing. The sides work in turns of some seconds. CPU time is that of
all three processes of a side, while it works; starting them is not counted.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import live_bare
import live_ours
from live_process import Process

from sojourn.live.keys import make_keys

PROCESSES = 2
SECONDS = 3.0  # of a turn
CALM = 0.5  # seconds after a turn, so that what is under way comes to its end
WARMUP = 1.5
MOST = 1.3
BARE, OURS = "bare gRPC loop", "sojourn, live run"
HEAD = (
    "| live, no computing | side | CPU ms a step, best | median | steps/s, best | median | ratio, best | median | "
    "target |\n|---|---|---|---|---|---|---|---|---|"
)


class Case(NamedTuple):
    """A number of clients and a size of model."""

    clients: int
    hidden: int
    most: float | None = None

    @property
    def parameters(self) -> int:
        """Numbers of the model: digits have 64 pixels and 10 classes."""
        return 75 * self.hidden + 10

    @property
    def name(self) -> str:
        """Name in the table."""
        return f"{self.clients} clients, {self.parameters * 4 / 1e6:.3g} MB"


CASES = (Case(10, 3600, MOST), Case(100, 3600), Case(10, 33_333))


class Turn(NamedTuple):
    """What one turn of a side took."""

    cpu: float
    """CPU seconds per step, of all processes."""
    speed: float
    """Steps per second."""
    server: float
    """CPU seconds per step, of the server alone."""


class Side:
    """The processes of one side: the server first."""

    def __init__(self, held: ExitStack, server: Callable[..., None], given: tuple[Any, ...]) -> None:
        self._held = held
        self._all: list[Process] = []
        self.server = self.add(server, *given)
        self.said = self.server.hear()
        self.address = str(self.said)
        self.turns: list[Turn] = []

    def add(self, work: Callable[..., None], *given: Any) -> Process:
        """Start a further process."""
        process = Process(work, *given)
        self._held.callback(process.end)
        self._all.append(process)
        return process

    def work(self, seconds: float) -> Turn:
        """Let the side work for some seconds."""
        before = [one.figures() for one in self._all]
        for one in self._all[1:]:
            one.tell("go")
        time.sleep(seconds)
        for one in self._all[1:]:
            one.tell("wait")
        time.sleep(CALM)
        after = [one.figures() for one in self._all]
        steps = after[0][1] - before[0][1]
        if steps <= 0:
            raise SystemExit("a side of the live benchmark took no step")
        used = [new[0] - old[0] for new, old in zip(after, before, strict=True)]
        return Turn(sum(used) / steps, steps / seconds, used[0] / steps)


def rows(case: Case, rounds: int = 5) -> list[str]:
    """Measure a case; return a row for each side."""
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory(prefix="sojourn-bench-")))
        groups = {f"p{number}": [] for number in range(PROCESSES)}
        for client in range(case.clients):
            groups[f"p{client % PROCESSES}"].append(f"p{client % PROCESSES}/{client}")
        keys = make_keys(folder / "keys", list(groups))
        server = str(keys.server)
        bare = Side(held, live_bare.serve, (server, case.parameters))
        ours = Side(held, live_ours.serve, (str(folder), server, case.clients, case.hidden))
        for owner, names in groups.items():
            mine = str(keys.clients[owner])
            bare.add(live_bare.join, bare.address, mine, names, case.parameters).hear()
            ours.add(live_ours.join, ours.address, mine, names).hear()
        time.sleep(WARMUP)
        for side in (bare, ours):
            side.work(WARMUP)
        for _ in range(rounds):
            for side in (bare, ours):
                side.turns.append(side.work(SECONDS))
    return [_row(case.name, BARE, bare, bare, None), _row(case.name, OURS, ours, bare, case.most)]


def _row(case: str, name: str, side: Side, bare: Side, most: float | None) -> str:
    cpu, speed = [one.cpu * 1e3 for one in side.turns], [one.speed for one in side.turns]
    ratio = min(cpu) / min(one.cpu * 1e3 for one in bare.turns)
    usual = median(mine.cpu / theirs.cpu for mine, theirs in zip(side.turns, bare.turns, strict=True))
    verdict = "" if most is None else f"at most {most:g}: " + ("met" if ratio <= most else "missed")
    figures = (min(cpu), median(cpu), max(speed), median(speed))
    words = f"{name} ({min(one.server * 1e3 for one in side.turns):.3g} ms of it the server)"
    return (
        "| "
        + " | ".join((case, words, *(f"{one:.3g}" for one in figures), f"{ratio:.2f}", f"{usual:.2f}", verdict))
        + " |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--case", type=int, choices=range(len(CASES)), help="only this case")
    arguments = parser.parse_args()
    print(HEAD)
    for case in CASES if arguments.case is None else (CASES[arguments.case],):
        print("\n".join(rows(case, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
