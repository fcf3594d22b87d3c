"""A time may be said with units wherever a run asks for one, and a schedule ends where the run does."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

import sojourn
from sojourn import Fleet, InvalidInput, Plan
from sojourn.cli.cell_options import check_pace
from sojourn.cli.main import app
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.learning.run.config import TrainConfig, value_of
from sojourn.planning.policy import robust

FLEET = Fleet.of(fast=(6, 0.4), slow=(4, 0.1))
SMALL = {
    "data": "quadratic(dimension=3, clients=10, examples=5)",
    "partition": "natural",
    "model": "problem",
    "device": "cpu",
}


@pytest.fixture
def fleet(tmp_path):
    FLEET.save(tmp_path / "fleet.csv")
    return str(tmp_path / "fleet.csv")


def test_a_time_with_units_is_the_same_run_in_python_in_a_file_and_on_the_command_line(tmp_path, fleet):
    told = sojourn.train(FLEET, time="1min", progress=False, **SMALL)
    assert told.config["time"] == 60.0
    assert told.last["test_loss"] == sojourn.train(FLEET, time=60, progress=False, **SMALL).last["test_loss"]
    (tmp_path / "run.toml").write_text(f'fleet = "{fleet}"\ntime = "1 min"\n')
    assert TrainConfig.load(tmp_path / "run.toml").time == 60.0
    words = [word for key, value in SMALL.items() for word in (f"--{key}", value)]
    shown = CliRunner().invoke(app, ["train", fleet, "--time", "60s", "--out", str(tmp_path / "run"), *words])
    assert shown.exit_code == 0, shown.output
    assert sojourn.Run(tmp_path / "run").last["test_loss"] == told.last["test_loss"]


def test_a_setting_of_a_comparison_and_a_simulation_take_units_too(fleet):
    assert value_of("time", "1h 30min", "--set") == 5400.0
    content = {"run": {"fleet": fleet, "time": "2 min", **SMALL}, "algorithm": [{"name": "asyncsgd"}], "seeds": 1}
    compared = ComparisonSpec.of(content, "compare")
    assert compared.final(compared.algorithms[0], None, 0).config.time == 120.0
    plan = Plan.uniform(FLEET, 10)
    assert sojourn.simulate(FLEET, plan, time="1min", seed=1) == sojourn.simulate(FLEET, plan, time=60.0, seed=1)
    assert check_pace(None, "5min") == 300.0


@pytest.mark.parametrize("time", ["1 lightyear", "soon", "h"])
def test_a_time_that_is_none_is_refused_by_name(fleet, time):
    with pytest.raises(InvalidInput, match="time must be a number, or a duration such as 90s"):
        TrainConfig.of({"fleet": fleet, "time": time}, "run file")
    shown = CliRunner().invoke(app, ["train", fleet, "--time", time])
    assert isinstance(shown.exception, InvalidInput)


def test_a_plan_whose_schedule_no_run_could_keep_to_is_refused():
    plan = Plan.uniform(FLEET, 10)
    with pytest.raises(InvalidInput, match="schedule"):
        replace(plan, schedule="linear(ends=budget)")
    with pytest.raises(InvalidInput, match="schedule linear needs end"):
        replace(plan, schedule="linear")
    assert replace(plan, schedule="cosine(end=budget, least=0.1)").schedule == "cosine(end=budget, least=0.1)"


def test_the_robust_plans_step_falls_to_zero_where_the_run_ends_by_time_or_by_steps():
    plan = robust(FLEET)
    by_time = sojourn.train(FLEET, plan, time=100, progress=False, **SMALL)
    same = sojourn.train(FLEET, plan, time=100, schedule="linear(end=100, over=time)", progress=False, **SMALL)
    assert by_time.last["test_loss"] == same.last["test_loss"]
    by_steps = sojourn.train(FLEET, plan, steps=80, progress=False, **SMALL)
    same = sojourn.train(FLEET, plan, steps=80, schedule="linear(end=80)", progress=False, **SMALL)
    assert by_steps.last["test_loss"] == same.last["test_loss"]


def test_along_a_whole_trace_the_budget_is_the_traces(tmp_path):
    trace = sojourn.simulate(FLEET, Plan.uniform(FLEET, 10), 150, start="one-each", seed=0, engine="events")
    run = sojourn.train(FLEET, trace=trace, schedule="linear(end=budget)", progress=False, **SMALL)
    same = sojourn.train(FLEET, trace=trace, schedule="linear(end=150)", progress=False, **SMALL)
    assert run.config["schedule"] == "linear(end=150)"
    assert run.last["test_loss"] == same.last["test_loss"]
