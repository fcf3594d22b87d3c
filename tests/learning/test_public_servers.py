"""The public code of servers and tables, given the same gradients, ended with the same model.

Only its numbers are kept, with the version that computed them: docs/methods.md says how.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from small_runs import FLEET, simulated, with_law
from sojourn import Fleet
from sojourn.algorithms import Local, ServerStep, algorithm

RUNS = json.loads((Path(__file__).parents[1] / "recorded" / "public_servers.json").read_text())["runs"]
TIMES = (1.0, 1.37, 2.11, 3.23, 5.71, 9.13)  # of the six clients, where durations are fixed
FIXED = with_law(Fleet.of(**{f"c{i}": (1, 1 / time) for i, time in enumerate(TIMES)}), "deterministic")


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=[f"{run['method']}, {run['server']}, {run['code'][:6]}" for run in RUNS])
def test_the_public_code_ends_with_the_same_model(run):
    chosen = algorithm(run["method"], ServerStep(run["server"], step_size=0.1))
    if run["durations"] == "fixed":
        work = Local(step_size=0.1, batch_size=10)
        case = simulated(chosen, work, fleet=FIXED, weights=(1.0,) * 6, steps=run["updates"])
    else:
        work = Local(steps=3, step_size=0.1, batch_size=4)
        case = simulated(chosen, work, fleet=FLEET, tasks=5, steps=run["updates"])
    replay = case.replay()
    for received in range(1, case.steps + 1):
        replay.advance(received)
        if replay.state.version == run.get("versions"):  # the end of a round
            break
    assert replay.state.version >= 30
    assert np.abs(replay.params.numpy() - run["model"]).max() <= 1e-12 * np.abs(run["model"]).max()
