"""The methods' public code, run on the same gradients and durations, ended at the same time with the same model.

Only its numbers are kept, with the version that computed them: docs/methods.md says how.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from small_runs import simulated, with_law
from sojourn import Fleet
from sojourn.algorithms import Local, ServerStep, algorithm

RUNS = json.loads((Path(__file__).parents[1] / "recorded" / "public_code.json").read_text())["runs"]
STEPS = (500, 500, 500, 500, 200, 100, 106, 119, 131)  # of the models, as docs/methods.md says
TIMES = (1.0, 1.37, 1.91, 2.83, 4.19, 7.77)  # of the six clients, per local step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "steps"), [*zip(RUNS, STEPS, strict=True)], ids=[f"{run['method']}, {run['law']}" for run in RUNS]
)
def test_the_public_code_ends_at_the_same_time_with_the_same_model(run, steps):
    fleet = with_law(Fleet.of(**{f"c{i}": (1, 1 / time) for i, time in enumerate(TIMES)}), run["law"])
    groups = run["method"].startswith("fedcompass")
    local = Local(steps=20, batch_size=10, step_size=0.1) if groups else Local(batch_size=10, step_size=0.15)
    chosen = algorithm(run["method"], ServerStep(step_size=0.15))
    case = simulated(chosen, local, fleet=fleet, weights=(1.0,) * 6, steps=run["updates"])
    replay = case.replay()
    replay.advance(case.steps)
    assert replay.state.version == steps
    assert replay.time == pytest.approx(run["time"], rel=1e-12)
    assert np.abs(replay.params.numpy() - run["model"]).max() <= 1e-12 * np.abs(run["model"]).max()
