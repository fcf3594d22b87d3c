"""`sojourn tune` and `sojourn train --tune`: on digits, small."""

import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import sojourn
from sojourn import Fleet, InvalidInput, Plan
from sojourn.cli.main import app
from sojourn.cli.tune import show
from sojourn.experiments.tuned_plan import TunedPlan
from sojourn.planning.policy import robust

FLEET = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
WORDS = ["--partition", "classes(k=2)", "--model", "logistic", "--batch-size", "8", "--device", "cpu", "--steps", "60"]
KEYS = {"partition": "classes(k=2)", "model": "logistic", "batch_size": 8, "device": "cpu", "steps": 60}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FLEET.save("fleet.csv")
    robust(FLEET).save("plan.json")
    return tmp_path


def called(*words, code=0):
    shown = CliRunner().invoke(app, [words[0], "fleet.csv", "--plan", "plan.json", *WORDS, *words[1:]])
    if code == 0:
        assert shown.exit_code == 0, (shown.output, shown.exception)
    return shown


@pytest.mark.slow
def test_a_plan_is_written_with_its_step_size_and_a_second_call_reads_what_is_done(home):
    shown = called("tune", "--guess", "0.4", "--seeds", "1", "--jobs", "1")
    plan = Plan.load("tuned.json")
    assert plan.step_size is not None
    assert (plan.concurrency, plan.cap.tolist(), plan.schedule) == (10, [1, 1], "linear(end=budget)")
    assert re.search(rf"step size {plan.step_size:g}: held-out loss", shown.output)
    assert "the guess" in shown.output
    assert plan.tuned_for == "generalized-asyncsgd"
    assert "every run is in tuning/tuning.csv" in " ".join(shown.output.split())
    before = {path: path.stat().st_mtime_ns for path in home.glob("tuning/cells/*/*")}
    called("tune", "--guess", "0.4", "--seeds", "1", "--jobs", "1", "--pictures", "drawn")
    again = json.loads(called("tune", "--guess", "0.4", "--seeds", "1", "--jobs", "1", "--json").stdout)
    assert {one.name for one in (home / "drawn").iterdir()} == {"tuning-loss.svg", "tuning-loss.png"}
    assert again["chosen"]["step_size"] == plan.step_size
    assert len(again["trials"]) >= 7
    assert before == {path: path.stat().st_mtime_ns for path in home.glob("tuning/cells/*/*")}


def test_training_has_the_algorithm_of_the_tuning_and_warns_of_another(home):
    replace(Plan.load("plan.json"), step_size=0.2, tuned_for="fedbuff(size=3)").save("plan.json")
    shown = called("train", "--out", "same")
    assert "algorithm fedbuff(size=3): the plan's step size was tuned for it" in " ".join(shown.output.split())
    assert json.loads((home / "same" / "config.json").read_text())["config"]["algorithm"] == "fedbuff(size=3)"
    shown = called("train", "--out", "other", "--algorithm", "asyncsgd")
    assert "! the plan's step size 0.2 was tuned for fedbuff(size=3), not for" in " ".join(shown.output.split())


@pytest.mark.slow
def test_the_trials_of_another_tuning_are_not_written_over(home):
    few = ("--guess", "0.4", "--seeds", "1", "--jobs", "1", "--rungs", "1", "--extensions", "0")
    called("tune", *few)
    table = (home / "tuning" / "tuning.csv").read_text()
    shown = called("tune", *few, "--batch-size", "16", code=2)
    assert "tuning.csv is the table of another tuning, of another plan, budget, model, data or code" in str(
        shown.exception
    )
    shown = called("tune", *few, "--batch-size", "16", "--folder", "other", code=2)
    assert "tuned.json exists already" in str(shown.exception)
    assert (home / "tuning" / "tuning.csv").read_text() == table
    called("tune", *few, "--seeds", "2")  # more seeds are no other tuning
    called("tune", *few, "--batch-size", "16", "--overwrite")
    assert (home / "tuning" / "tuning.csv").read_text() != table


def test_a_tuning_that_ends_before_its_first_trial_shows_no_table(home, capsys):
    show(TunedPlan(robust(FLEET), interrupted=True), None, home / "tuning", False)
    assert capsys.readouterr().out == ""


def test_another_file_is_not_written_over(home):
    (home / "tuned.json").write_text("mine")
    shown = called("tune", "--guess", "0.4", code=2)
    assert isinstance(shown.exception, InvalidInput)
    assert "exists already" in str(shown.exception)
    shown = called("tune", "--out", "plan.json", code=2)
    assert "plan.json exists already" in str(shown.exception)


def test_a_plan_without_a_step_size_is_trained_at_the_usual_one_and_the_way_out_is_reported(home):
    shown = called("train", "--out", "run")
    assert "the plan has no step size: 0.1 is used; --tune chooses one, or: sojourn tune fleet.csv" in shown.output
    assert "--plan plan.json" in shown.output
    assert sojourn.Run("run").config["step_size"] == 0.1
    shown = called("train", "--step-size", "0.2", "--out", "named")
    assert "no step size" not in shown.output


@pytest.mark.slow
def test_a_run_may_be_tuned_first_here_and_in_python_with_the_same_result(home):
    shown = called("train", "--tune", "--out", "run")
    run = sojourn.Run("run")
    chosen = re.search(r"step size (\S+): held-out loss", shown.output)
    assert chosen is not None
    assert run.config["step_size"] == float(chosen[1])
    assert (home / "run" / "tuning" / "tuning.csv").exists()
    assert run.config["holdout"] == 0.0
    again = sojourn.train(FLEET, robust(FLEET), tune=True, folder="python", progress=False, **KEYS)
    assert again.config["step_size"] == run.config["step_size"]
    assert again.last["test_loss"] == run.last["test_loss"]
    with pytest.raises(InvalidInput, match=r"step_size 0\.1 and tune exclude each other"):
        sojourn.train(FLEET, robust(FLEET), tune=True, step_size=0.1, **KEYS)


@pytest.mark.slow
def test_what_tune_returns_is_a_plan_to_train(home):
    found = sojourn.tune(FLEET, robust(FLEET), guess=0.4, seeds=1, jobs=1, **KEYS)
    assert (found.complete, found.plan.step_size) == (True, found.step_size)
    assert {"step_size", "loss at the end"} <= set(found.to_pandas().columns)
    run = sojourn.train(FLEET, found, progress=False, **KEYS)
    assert run.config["step_size"] == found.step_size
