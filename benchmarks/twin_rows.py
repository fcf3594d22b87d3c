"""The twin: an update of a trace in one direction, compiled and in NumPy, and a whole prediction."""

from dataclasses import replace
from time import perf_counter, thread_time

import numpy as np
from figure import Figure

from sojourn import Fleet, Plan
from sojourn.landscape import Landscape
from sojourn.planning.policy import Policy
from sojourn.planning.twin import predict
from sojourn.planning.twin.moments import Part, one_pass
from sojourn.planning.twin.runs import Runs

FLEET = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
UPDATES = 8000
TIME = UPDATES / 730
ETA = 0.002
PASSES = 10  # passes per round
FALLING = "linear(end=budget)"


def rows(rounds: int) -> list[Figure]:
    """Time an update in one direction: gradients as they arrive, a table of the latest, and NumPy."""
    plain, table = _part("generalized-asyncsgd"), _part("ia2sgd")
    ones, directions = np.ones(1), plain.steep.size
    figures = (
        Figure("sojourn, backward pass", [], within=1e-8),
        Figure("sojourn, along a table", [], within=1e-8),
        Figure("NumPy, row by row", []),
    )
    found = one_pass(plain, np.array([0, plain.rows.changes]), ETA, ones, ones)
    if not np.allclose(found[0], _in_numpy(plain), rtol=1e-9):
        raise SystemExit("the compiled pass and NumPy disagree")
    for _ in range(rounds):
        for figure, part in zip(figures, (plain, table), strict=False):
            ends, began = np.array([0, part.rows.changes]), thread_time()
            for _ in range(PASSES):
                one_pass(part, ends, ETA, ones, ones)
            figure.seconds.append((thread_time() - began) / (PASSES * part.rows.changes * directions))
    for _ in range(max(1, rounds // 10)):
        began = thread_time()
        _in_numpy(plain)
        figures[2].seconds.append((thread_time() - began) / (plain.rows.changes * directions))
    return list(figures)


def _part(algorithm: str) -> Part:
    policy = Policy("free", Plan.uniform(FLEET, 100, cap=1), algorithm)
    run = Runs(FLEET, TIME, traces=1).of(policy)[0]
    n = FLEET.clients
    return Part(run.server.rows(run.updates), Landscape.generic().h, np.ones(n), np.full(n, 1 / n), 1.0, -1)


def _in_numpy(part: Part) -> np.ndarray:
    """Do the same pass row by row over all directions; return a."""
    given, h = part.rows, part.steep
    lam, b, square = np.zeros((given.changes + 1, h.size)), np.zeros((part.share.size, h.size)), np.zeros(h.size)
    lam[-1] = 1.0
    for k in range(given.changes - 1, -1, -1):
        lam[k] += lam[k + 1]
        c = ETA * given.weight[k] * lam[k + 1]
        square += c * c
        b[given.client[k]] -= c
        lam[given.sent[k]] -= c * h
    return lam[0]


def whole(clients: int) -> list[Figure]:
    """Time predictions of 24 policies, with step sizes searched and two traces each; wall time on all cores."""
    fleet = Fleet.of(fast=(clients * 9 // 10, 8.0), slow=(clients // 10, 1.0))
    policies = [
        Policy("free", replace(Plan.uniform(fleet, tasks, cap=cap), correction=correction, schedule=schedule))
        for tasks in (clients // 4, clients // 2, clients)
        for cap in (None, 1)
        for correction in (0.0, 0.5)
        for schedule in (None, FALLING)
    ]
    figure = Figure("sojourn, 24 policies", [], within=10.0)
    predict(fleet, policies[:1], 0.1)  # compiles
    for _ in range(2):
        began = perf_counter()
        predict(fleet, policies, 80 * clients / float((fleet.count * fleet.rate).sum()))
        figure.seconds.append(perf_counter() - began)
    return [figure]
