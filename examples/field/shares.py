"""How often each client's updates come under an entry's own timing, counted in a simulation without any learning."""

from dataclasses import replace

import numpy as np
from cells import Cell
from entries import ENTRIES
from numpy.typing import NDArray

from sojourn import simulate
from sojourn.learning.algorithms.table import algorithm
from sojourn.learning.replay.local import Local

UPDATES, SEEDS = 400_000, 4


def shares(cell: Cell, entry: str) -> NDArray[np.float64]:
    """Return every client's share of the updates of an entry in a cell."""
    (one,) = (one for one in ENTRIES if one.name == entry)
    fleet = cell.fleet if cell.law is None else replace(cell.fleet, law=[cell.law] * cell.fleet.groups)
    method = algorithm(one.text(cell))
    steps = cell.work.local_steps if method.sends == "delta" else 1
    plan, scenario = method.timing(fleet, one.plan(fleet), Local(steps=steps))
    seen = np.zeros(fleet.clients)
    for seed in range(SEEDS):
        trace = simulate(fleet, plan, UPDATES, start="even", seed=seed, scenario=scenario)
        seen += np.bincount(trace.client[trace.applied], minlength=fleet.clients)
    return seen / seen.sum()
