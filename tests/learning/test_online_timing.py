"""Timing that depends on the model: a run computed as it goes on is the run along the trace that it leaves."""

from pathlib import Path

import numpy as np
import pytest
import torch

from small_runs import simulated
from sojourn import InvalidInput
from sojourn.algorithms import AsyncFedED, Local
from sojourn.experiments.training import open_run, train
from sojourn.learning.replay.online import Online
from sojourn.learning.replay.replay import Replay
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.metrics import read_metrics
from sojourn.random import START, keys
from sojourn.testing.algorithm import same
from sojourn.timing.simulate.drive import OnlineEngine
from sojourn.timing.simulate.start import place
from sojourn.trace import Trace

LOCAL = Local(steps=9, batch_size=4, step_size=0.1)
METHOD = AsyncFedED(first=2, target=1.0, kappa=2.0)


def case_and_timeline(until=np.inf):
    """The method on the small fleet, and its timing from the engine as it runs."""
    case = simulated(METHOD, LOCAL)
    fleet, plan, mine = case.setting.fleet, case.setting.plan, keys(case.seed)
    queues = place("even", fleet, plan, np.random.default_rng(int(mine[START])))
    clock = OnlineEngine(fleet, plan, case.scenario, queues, mine, np.full(6, 2))
    return case, Online(clock, queues, case.scenario.facts, 60, until)


def test_a_run_that_sets_its_steps_has_the_bits_of_the_run_along_its_trace():
    case, timeline = case_and_timeline()
    replay = case.replay(timeline=timeline)
    replay.advance(60)
    trace = timeline.trace()
    assert trace.applied.sum() == 60
    assert len(trace) == 66
    steps = trace.work[trace.applied]
    assert (steps[trace.dispatched_step[trace.applied] == 0] == 2).all()
    assert set(steps.tolist()) >= {1, 2, 3}
    along = Replay(METHOD, case.federation(), trace, case.setting)
    along.advance(60)
    assert torch.equal(along.params, replay.params)
    assert along.tally == replay.tally
    assert along.pending.keys() == replay.pending.keys()


def test_durations_are_those_of_the_steps_that_were_set():
    case, timeline = case_and_timeline()
    replay = case.replay(timeline=timeline)
    replay.advance(200)
    trace = timeline.trace()
    rows = trace.applied
    lasted = (trace.finished_at - trace.started_at)[rows]
    rate = case.setting.fleet.rate[case.setting.fleet.group_of_client[trace.client[rows]]]
    per_step = lasted * rate / trace.work[rows]
    assert np.average(per_step, weights=trace.work[rows]) == pytest.approx(1, abs=0.15)
    assert (trace.applied_at[rows] == trace.finished_at[rows]).all()


@pytest.mark.parametrize("stop", [1, 33])
def test_a_run_that_is_taken_up_again_ends_with_the_same_bits_and_the_same_trace(stop):
    case, timeline = case_and_timeline()
    whole = case.replay(timeline=timeline)
    whole.advance(60)
    begun = case.replay(timeline=case_and_timeline()[1])
    begun.advance(stop)
    second = case_and_timeline()[1]
    after = case.replay(timeline=second)
    after.restore(begun.snapshot())
    after.advance(60)
    assert same(after.snapshot(), whole.snapshot())
    assert second.trace() == timeline.trace()


def test_a_run_ends_with_its_time():
    case, timeline = case_and_timeline(until=8.0)
    replay = case.replay(timeline=timeline)
    replay.advance(10_000)
    assert replay.over
    assert replay.done
    trace = timeline.trace()
    assert replay.received == trace.applied.sum()
    assert trace.applied_at[trace.applied].max() <= 8.0
    _, endless = case_and_timeline()
    other = case.replay(timeline=endless)
    other.advance(replay.received + 1)
    assert other.time > 8.0


def test_a_clock_refuses_a_task_without_steps():
    case, _ = case_and_timeline()
    clock = OnlineEngine(case.setting.fleet, case.setting.plan, case.scenario, np.ones(6, np.int64), keys(1))
    clock.arrive()
    with pytest.raises(InvalidInput, match="a task must have from 1 to 100,000 local steps, got 0"):
        clock.send(work=lambda client: 0)


# in a folder


class Stop(Exception):
    pass


def config(tmp_path: Path, **options) -> TrainConfig:
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("name,count,rate\nfast,3,4\nslow,2,1\n")
    how = {"algorithm": "asyncfeded(first=2)", "local_steps": 6, "batch_size": 8, "steps": 60}
    return TrainConfig(str(fleet), **{**how, **options})


def abandon(how: TrainConfig, folder: Path, at: int) -> None:
    def look(done: int, total: int, facts: dict) -> None:
        if done >= at:
            raise Stop

    with pytest.raises(Stop):
        train(how, folder, resume=True, checkpoint_every=10, progress=look)


@pytest.mark.parametrize("end", [{"steps": 60}, {"steps": None, "time": 25.0}])
def test_a_killed_run_goes_on_to_the_same_files(end, tmp_path):
    how = config(tmp_path, **end)
    whole = train(how, tmp_path / "whole")
    abandon(how, tmp_path / "broken", at=20)
    assert not (tmp_path / "broken" / "trace.parquet").exists()  # it is not known before the end
    abandon(how, tmp_path / "broken", at=30)
    assert train(how, tmp_path / "broken", resume=True, checkpoint_every=10).complete
    for name in ("model.safetensors", "trace.parquet"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()
    assert read_metrics(tmp_path / "whole")[-1] == read_metrics(tmp_path / "broken")[-1]
    trace = Trace.load(tmp_path / "whole" / "trace.parquet")
    assert int(trace.applied.sum()) == whole.received == trace.metadata["steps"]
    if end["steps"] is None:
        assert 20.0 < trace.applied_at[trace.applied].max() <= 25.0
    again = open_run(how, tmp_path / "whole", resume=True)
    assert again.complete
    again.close()


def test_a_method_that_sets_steps_is_refused_where_that_cannot_be(tmp_path):
    with pytest.raises(
        InvalidInput, match="asyncfeded sets the number of local steps: epochs must not be given, got 1"
    ):
        train(config(tmp_path, local_epochs=1, local_steps=1), tmp_path / "epochs")
    with pytest.raises(
        InvalidInput, match="fedcompass sets the number of local steps: epochs must not be given, got 1"
    ):
        train(config(tmp_path, algorithm="fedcompass", local_epochs=1, local_steps=1), tmp_path / "groups")
