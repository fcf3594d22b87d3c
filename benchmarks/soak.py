"""Many tasks through a live run: does the memory of server and clients stay where it is? `make bench-soak`: a million.

A thousand clients in two processes, a small model, nothing to compute; keys, commits and the trace are on.
"""

import argparse
import json
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import live_ours
import numpy as np
from live_process import Process

from sojourn import Trace
from sojourn.live.keys import make_keys

CLIENTS, PROCESSES, HIDDEN = 1000, 2, 8
HEAD = (
    "| soak | tasks | time | tasks/s | CPU ms a task | server at half | at the end | growth | clients at half | "
    "at the end | growth | each applied once |\n|" + "---|" * 12
)
LOOK = 0.5  # seconds between two looks at the server
END = 120.0  # seconds that the server may take to write the trace


class Soak(NamedTuple):
    """What a soak has shown."""

    seconds: float
    """Seconds from the first task to the last."""
    cpu: float
    """CPU seconds of all processes."""
    half: float
    """Resident memory of the server in MB, when half of the updates were there."""
    end: float
    """The same at the end."""
    clients_half: float
    """Resident memory of the clients' processes together in MB, when half of the updates were there."""
    clients_end: float
    """The same at the end."""
    acknowledged: int
    """Updates that clients were told are safe."""
    trace: Trace
    """The recorded trace."""


def soak(folder: Path, steps: int, most: float, clients: int = CLIENTS) -> Soak:
    """Run so many updates through a server; give up after `most` seconds."""
    with ExitStack() as held:
        names = [f"p{number}" for number in range(PROCESSES)]
        keys = make_keys(folder / "keys", names)
        server = Process(live_ours.serve, str(folder), str(keys.server), clients, HIDDEN, steps)
        held.callback(server.end)
        address, joined = server.hear(), []
        for number, name in enumerate(names):
            mine = [f"{name}/{client}" for client in range(number, clients, PROCESSES)]
            joined.append(Process(live_ours.join, address, str(keys.clients[name]), mine))
            held.callback(joined[-1].end)
            joined[-1].hear()
        before = sum(one.figures()[0] for one in (server, *joined))
        for one in joined:
            one.tell("go")
        began, half, end, cpu, done = time.monotonic(), (0.0, 0.0), (0.0, 0.0), before, 0
        while done < steps:
            time.sleep(LOOK)
            try:
                mine = [one.figures() for one in (server, *joined)]
            except (EOFError, OSError):  # the run has ended
                break
            cpu, done = sum(one[0] for one in mine), mine[0][1]
            if done < steps:  # after that the server puts the trace together
                end = resident(server.pid), sum(resident(one.pid) for one in joined)
            half = half if all(half) or done < steps / 2 else end
            if time.monotonic() - began > most:
                raise SystemExit(f"only {done:,} of {steps:,} tasks in {most:.0f} s")
        seconds = time.monotonic() - began
        told = sum(one.last()["acknowledged"] for one in joined)
        server.wait(END)
    sizes = half[0], end[0], half[1], end[1]
    return Soak(seconds, cpu - before, *sizes, told, Trace.load(folder / "run" / "trace.parquet"))


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB; 0 = it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def once(trace: Trace, steps: int) -> bool:
    """Whether every update of a trace was applied once: each step has one row, and each row one task."""
    mine = trace.applied
    named = set(zip(trace.client[mine].tolist(), trace.dispatched_at[mine].tolist(), strict=True))
    return len(named) == steps and bool(np.array_equal(np.sort(trace.applied_step[mine]), np.arange(steps)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10**6, help="updates to run through the server")
    parser.add_argument("--most", type=float, default=4 * 3600.0, help="seconds after which to give up")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="sojourn-soak-") as folder:
        found = soak(Path(folder), arguments.tasks, arguments.most)
    facts = found._asdict() | {"rows": len(found.trace), "once": once(found.trace, arguments.tasks)}
    facts["applied"] = int(found.trace.applied.sum())
    del facts["trace"]
    if arguments.json:
        print(json.dumps(facts))
        return
    cells = (
        f"{CLIENTS} clients, {4 * (75 * HIDDEN + 10) / 1000:.1f} kB",
        f"{arguments.tasks:,}",
        f"{found.seconds:.0f} s",
        f"{arguments.tasks / found.seconds:.0f}",
        f"{1000 * found.cpu / arguments.tasks:.2f}",
        f"{found.half:.1f} MB",
        f"{found.end:.1f} MB",
        f"{100 * (found.end / found.half - 1):.1f}%",
        f"{found.clients_half:.1f} MB",
        f"{found.clients_end:.1f} MB",
        f"{100 * (found.clients_end / found.clients_half - 1):.1f}%",
        "yes" if facts["once"] else "NO",
    )
    print(HEAD + "\n| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
