"""`sojourn.calibrate`: the constants of a model on its data and clients, measured."""

from pathlib import Path
from typing import Any

from sojourn.calibration import Calibration
from sojourn.facade.surroundings import one_thread
from sojourn.facade.texts import run_keys
from sojourn.fleet import Fleet
from sojourn.learning.run.config import TrainConfig


def calibrate(
    fleet: Fleet | str | Path,
    plan: Any = None,
    *,
    gradients: int = 400,
    points: int = 3,
    directions: int = 10,
    examples: int = 2048,
    confidence: float = 0.95,
    **keys: Any,
) -> Calibration:
    """Measure the constants A, L, sigma^2 and G^2 of a model on its data and clients.

    The measurement trains a little and measures at some points on the way:

    - `gradients`: stochastic gradients for noise and heterogeneity, over all points
    - `points`: how many points of the training to measure at
    - `directions`: leading directions of the curvature
    - `examples`: how many examples losses and curvatures are computed on; all, where there are fewer
    - `confidence`: level of the intervals, from 0 to 1
    - `keys`: the keys of a run, as for `train`

    Returns a Calibration. Pass `calibrate(...).constants` to `goal`, or `calibrate(...).landscape(fleet)` to
    `make_plan`.
    """
    from sojourn.experiments.training import calibrated
    from sojourn.learning.calibrate.calibrate import Effort
    from sojourn.learning.run.build import build

    config = TrainConfig.of({"execution": "one-by-one", **run_keys(fleet, plan, keys)}, "calibrate")
    with one_thread():
        return calibrated(build(config), Effort(gradients, points, directions, examples, confidence))
