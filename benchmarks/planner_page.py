"""The planner page: how long an answer takes over loopback, and how the ranks of its quick twin compare.

`python benchmarks/planner_page.py` asks a warm server about 1000 clients of 1000 speeds: random policies at several
budgets, each asked once, so that nothing is answered from memory but the fleet and the recommended plan. Then the
budget is new each time, then one speed of the fleet, then all of them. As for the page, the server proves before each
answer that it knows the token. With `--ranks` it compares the quick twin with the whole one on four fleets instead,
which takes minutes.
"""

import argparse
import json
import random
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from sojourn import Fleet, Plan
from sojourn.landscape import Landscape
from sojourn.planning.policy import SCHEDULE, Policy
from sojourn.planning.search import FLOOR
from sojourn.planning.twin import predict
from sojourn.planning.twin.quick import quick
from sojourn.report.planner.app import served
from sojourn.report.planner.question import rows_of
from sojourn.report.web.tokens import Token

TOKEN = Token("t" * 43, Path("nowhere"))
EACH = (2, 5, 20, 100, 1000)  # updates that a busy client sends within the budget
WITHIN = 0.1  # seconds


def lognormal(clients: int, seed: int = 0) -> Fleet:
    """Return clients of as many speeds."""
    return Fleet.of_rates(np.exp(np.random.default_rng(seed).normal(size=clients)))


def time_for(fleet: Fleet, each: float) -> float:
    return each * fleet.clients / float((fleet.count * fleet.rate).sum())


def answers(requests: int) -> None:
    """Print how long answers take, by budget, as seen by the page: wall time, and CPU time of client and server."""
    fleet, draw = lognormal(1000), random.Random(1)
    rows = rows_of(fleet)
    print("| updates each | p50 | p95 | CPU p50 | CPU p95 |\n|---|---|---|---|---|")
    with served(fleet, "fleet", TOKEN) as page:
        _asked(page.port, _question(rows, draw, 1.0))  # warm: compiled code is loaded
        every: list[tuple[float, float]] = []
        for each in EACH:
            budget = time_for(fleet, each)
            _asked(page.port, _question(rows, draw, budget))  # the recommended plan at this budget
            taken = [_asked(page.port, _question(rows, draw, budget)) for _ in range(requests)]
            print(_row(str(each), taken))
            every += taken
        print(_row("all", every))
        moved = [_asked(page.port, _question(rows, draw, time_for(fleet, 5 + one / 9))) for one in range(requests)]
        print(_row("a new budget each time", moved))
        budget = time_for(fleet, 20)
        typed = [_asked(page.port, _question(_with_cell(rows, draw), draw, budget)) for _ in range(requests)]
        print(_row("one cell typed each time", typed))
        others = [rows_of(lognormal(1000, 1 + one)) for one in range(requests)]
        print(_row("another fleet each time", [_asked(page.port, _question(one, draw, budget)) for one in others]))
    p95 = float(np.quantile([wall for wall, _ in every], 0.95))
    print(f"\n95% of the answers within {1e3 * p95:.0f} ms, target {1e3 * WITHIN:.0f} ms")


def _row(name: str, taken: list[tuple[float, float]]) -> str:
    cells = [f"{1e3 * np.quantile(one, part):.0f} ms" for one in zip(*taken, strict=True) for part in (0.5, 0.95)]
    return f"| {name} | {' | '.join(cells)} |"


def _question(rows: list[dict[str, object]], draw: random.Random, time: float) -> dict[str, object]:
    cap = draw.choice([None, 1, 2, 3])
    tasks = draw.randint(10, 1000 if cap == 1 else 2000)
    sampling = draw.choice(["uniform", "root-speed", "speed"])
    knobs = {"cap": cap, "concurrency": tasks, "sampling": sampling, "correction": draw.choice([0, 0.5, 1])}
    return {"groups": rows, **knobs, "time": time}


def _with_cell(rows: list[dict[str, object]], draw: random.Random) -> list[dict[str, object]]:
    """Return the fleet with another speed in one row, as if it had been typed."""
    place = draw.randrange(len(rows))
    return [{**row, "rate": draw.uniform(0.5, 5)} if at == place else row for at, row in enumerate(rows)]


def _asked(port: int, question: dict[str, object]) -> tuple[float, float]:
    headers = {"Authorization": f"Bearer {TOKEN.value}", "Origin": f"http://127.0.0.1:{port}"}
    connection = HTTPConnection("127.0.0.1", port)
    cpu, began = process_time(), perf_counter()
    connection.request("GET", f"/api/proof?{'0' * 64}")
    connection.getresponse().read()
    connection.request("POST", "/api/answer", json.dumps(question), headers)
    reply = connection.getresponse()
    found = json.loads(reply.read())
    taken = perf_counter() - began, process_time() - cpu
    connection.close()
    if reply.status != 200 or found["loss"]["word"] == "unknown":
        raise SystemExit(f"the page refused: {found}")
    return taken


def ranks() -> None:
    """Print how the quick twin ranks policies, beside the whole one and the whole one along other traces."""
    from scipy.stats import spearmanr

    fleets = {
        "1000 lognormal speeds": lognormal(1000),
        "900 at 8, 100 at 1/4": Fleet.of(fast=(900, 8.0), slow=(100, 0.25)),
        "90 at 8, 10 at 1": Fleet.of(fast=(90, 8.0), slow=(10, 1.0)),
        "50 at 8, 50 at 1": Fleet.of(fast=(50, 8.0), slow=(50, 1.0)),
    }
    floor = FLOOR * Landscape.generic().loss
    print("| fleet | updates each | quick | other traces | ratios off by |\n|---|---|---|---|---|")
    for name, fleet in fleets.items():
        policies = list(_policies(fleet))
        for each in (2, 5, 20, 50):
            time = time_for(fleet, each)
            told = (
                predict(fleet, policies, time),
                quick(fleet, policies, time),
                predict(fleet, policies, time, seed=100),
            )
            whole, fast, other = (np.maximum([one.loss for one in found], floor) for found in told)
            near, again = (float(spearmanr(whole, one)[0]) for one in (fast, other))
            off = float(np.exp(np.median(np.abs(np.log(fast / whole)))) - 1)
            print(f"| {name} | {each} | {near:.2f} | {again:.2f} | {off:.0%} |", flush=True)


def _policies(fleet: Fleet) -> list[Policy]:
    n, found = fleet.clients, []
    for cap in (1, 2, None):
        for tasks in (n // 10, n // 2, n):
            for power in (0.0,) if cap == 1 and tasks == n else (0.0, 0.5, 1.0):
                drawn = Plan.weighted(fleet, fleet.rate**power, tasks, cap=cap)
                plans = [replace(drawn, correction=one, schedule=SCHEDULE) for one in (0.0, 0.5, 1.0)]
                found += [Policy(f"{cap}, {tasks}, {power}", one) for one in plans]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=40, help="requests per budget")
    parser.add_argument("--ranks", action="store_true", help="compare ranks instead")
    arguments = parser.parse_args()
    if arguments.ranks:
        ranks()
    else:
        answers(arguments.requests)
