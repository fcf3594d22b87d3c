"""Halving finds what the full grid finds, for half of the work: on digits, as docs/tune.md says."""

import pytest

from sojourn import Fleet
from sojourn.experiments.plan_tuning import PlanTuning
from sojourn.experiments.tune_plan import tune_plan
from sojourn.learning.run.config import TrainConfig
from sojourn.planning.policy import robust

FLEET = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))


@pytest.mark.slow
def test_halving_picks_a_step_size_as_good_as_the_full_grids(tmp_path):
    FLEET.save(tmp_path / "fleet.csv")
    robust(FLEET).save(tmp_path / "plan.json")
    keys = {"fleet": str(tmp_path / "fleet.csv"), "plan": str(tmp_path / "plan.json"), "time": 2000 / 730}
    keys |= {"partition": "classes(k=2)", "model": "mlp(hidden=32)", "batch_size": 8, "device": "cpu"}
    run = TrainConfig.of(keys, "tune")
    halved = tune_plan(PlanTuning(run, guess=0.1), tmp_path / "trials", jobs=1)
    full = tune_plan(PlanTuning(run, guess=0.1, rungs=(1.0,)), tmp_path / "trials", jobs=1)
    assert halved.step_size is not None
    assert full.step_size is not None
    assert 0.5 <= halved.step_size / full.step_size <= 2
    assert halved.loss <= 1.1 * full.loss
    work = {one: sum(row["rung"] for row in one.rows) for one in (halved, full)}
    assert work[halved] < 0.6 * work[full]
