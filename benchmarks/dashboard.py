"""Measure what a live page with one reader costs a live run: `python benchmarks/dashboard.py`.

Two live runs work in turns, as in `live.py`: one without a page, one with a page and a reader who is attached all the
time. Clients compute nothing, so all CPU time of a server is the federation's. What the page takes is measured in two
ways: the CPU time of its own threads, by their clocks, which is exact; and the CPU time of the whole server process per
step, with and without a page, which also has what the threads cost each other, and the noise of the machine.
"""

import argparse
import http.client
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import live_ours
from live_process import Control

from live import PROCESSES, SECONDS, WARMUP, Case, Side
from sojourn.dashboards import beside
from sojourn.live.keys import make_keys
from sojourn.live.run import LiveRun
from sojourn.live.serve import open_server
from sojourn.live.settings import ServerFile
from sojourn.report.web.serving import THREAD

CASES = (Case(10, 3600, 0.02), Case(1000, 32, 0.02))
HEAD = (
    "| live, no computing | CPU ms a step, without | with a page | ratio, median | the page's threads, ms a second | "
    "of the rest of the server's | target |\n|---|---|---|---|---|---|---|"
)


def serve(control: Control, folder: str, keys: str, clients: int, hidden: int) -> None:
    """Serve a live run with a page, until told to end; say then how much CPU time the page has taken."""
    config = live_ours.configured(Path(folder), clients, hidden)
    file = ServerFile("127.0.0.1:0", keys, out=str(Path(folder) / "run"), patience=live_ours.LONG)
    with open_server(config, file) as run, beside(run, control.stop, 0) as page:
        assert page is not None
        control.ready((run.engine.address, page.port, page.token.value))
        begin, since = _clock(), time.monotonic()

        def watch(run: LiveRun) -> None:
            control.steps = run.server.received

        run.run(control.stop, watch)
        control.ready((_clock() - begin, time.monotonic() - since))


def _clock() -> float:
    """Return the CPU seconds of the page's threads."""
    mine = [one.ident for one in threading.enumerate() if one.name.startswith(THREAD)]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(one)) for one in mine if one is not None)


class Reader:
    """One reader of a page, in a thread of this process; it counts what it hears."""

    def __init__(self, port: int, token: str) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._line.request("GET", "/api/events", headers={"Authorization": f"Bearer {token}"})
        self._answer = self._line.getresponse()
        self.messages, self.bytes = 0, 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                self.messages += line.startswith(b"event: now")
                self.bytes += len(line)
        except (OSError, ValueError, AttributeError):
            return


def row(case: Case, rounds: int) -> str:
    """Measure a case, and return its row."""
    with ExitStack() as held:
        folders = [Path(held.enter_context(TemporaryDirectory(prefix="sojourn-bench-"))) for _ in range(2)]
        groups: dict[str, list[str]] = {f"p{number}": [] for number in range(PROCESSES)}
        for client in range(case.clients):
            groups[f"p{client % PROCESSES}"].append(f"p{client % PROCESSES}/{client}")
        keys = make_keys(folders[0] / "keys", list(groups))
        given: Any = (str(keys.server), case.clients, case.hidden)
        plain = Side(held, live_ours.serve, (str(folders[0]), *given))
        shown = Side(held, serve, (str(folders[1]), *given))
        address, port, token = shown.said
        for owner, names in groups.items():
            mine = str(keys.clients[owner])
            plain.add(live_ours.join, plain.address, mine, names).hear()
            shown.add(live_ours.join, address, mine, names).hear()
        reader = Reader(port, token)
        time.sleep(WARMUP)
        for side in (plain, shown):
            side.work(WARMUP)
        for _ in range(rounds):
            for side in (plain, shown):
                side.turns.append(side.work(SECONDS))
        server = shown.server
        server.tell("end")
        taken, seconds = server.last()
    assert reader.messages > rounds, "the reader heard nothing"
    rate = taken / seconds  # of the page, whether the run works or waits for its turn
    share = rate / (median(one.server * one.speed for one in shown.turns) - rate)
    before, after = (median(one.server * 1e3 for one in side.turns) for side in (plain, shown))
    ratio = median(b.server / a.server for a, b in zip(plain.turns, shown.turns, strict=True))
    most = case.most or 1.0
    verdict = f"at most {most:.0%}: " + ("met" if share <= most else "missed")
    figures = f"{before:.3g} | {after:.3g} | {ratio:.2f} | {1e3 * rate:.2g} | {share:.2%}"
    return f"| {case.name} | {figures} | {verdict} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--case", type=int, choices=range(len(CASES)), help="only this case")
    arguments = parser.parse_args()
    print(HEAD)
    for case in CASES if arguments.case is None else (CASES[arguments.case],):
        print(row(case, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
