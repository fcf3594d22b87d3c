"""A tuned plan remembers the algorithm that its step size was tuned for."""

import json
from dataclasses import replace

import pytest
from some_cells import fleet_file

import sojourn
from sojourn import Fleet, InvalidInput, Plan
from sojourn.experiments.compare import known_before
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.learning.run.config import TrainConfig


@pytest.fixture
def fleet(tmp_path):
    return fleet_file(tmp_path)


@pytest.fixture
def tuned(tmp_path, fleet):
    path = tmp_path / "tf.json"
    replace(Plan.uniform(Fleet.load(fleet), 8, 1.6), tuned_for="fedbuff(size=3)").save(path)
    return str(path)


def test_the_file_keeps_the_algorithm_and_files_without_it_are_as_before(tmp_path, fleet, tuned):
    assert Plan.load(tuned).tuned_for == "fedbuff(size=3)"
    plain = Plan.uniform(Fleet.load(fleet), 8, 1.6)
    plain.save(tmp_path / "plain.json")
    assert "tuned_for" not in json.loads((tmp_path / "plain.json").read_text())
    assert Plan.load(tmp_path / "plain.json") == plain != Plan.load(tuned)
    assert Plan.load(tuned).timing_hash == plain.timing_hash


def test_a_run_that_names_no_algorithm_has_the_one_of_the_tuning(fleet, tuned):
    run = {"fleet": fleet, "plan": tuned, "steps": 10}
    assert TrainConfig.of(run, "train").algorithm == "fedbuff(size=3)"
    assert TrainConfig.of({**run, "algorithm": "asyncsgd"}, "train").algorithm == "asyncsgd"


def test_a_plan_file_does_not_decide_which_code_is_run(tmp_path, fleet, tuned):
    replace(Plan.load(tuned), tuned_for="mine:Algorithm").save(tmp_path / "own.json")
    with pytest.raises(InvalidInput, match="tuned for algorithm mine:Algorithm, code of your own"):
        TrainConfig.of({"fleet": fleet, "plan": str(tmp_path / "own.json")}, "train")


def test_python_uses_it_too_and_warns_of_another_algorithm(fleet, tuned):
    options = {"steps": 5, "partition": "iid", "progress": False}
    plan = Plan.load(tuned)
    assert sojourn.train(Fleet.load(fleet), plan, **options).config["algorithm"] == "fedbuff(size=3)"
    with pytest.warns(UserWarning, match=r"step size 1.6 was tuned for fedbuff\(size=3\), not for asyncsgd"):
        sojourn.train(Fleet.load(fleet), plan, algorithm="asyncsgd", **options)
    sojourn.train(Fleet.load(fleet), plan, algorithm="asyncsgd", step_size=0.1, **options)  # no warning


def test_a_comparison_uses_it_and_notes_another_algorithm(fleet, tuned):
    content = {"run": {"fleet": fleet, "steps": 10}, "plan": [{"name": "tf", "plan": tuned}]}
    alone = ComparisonSpec.of(content, "compare")
    assert [one.name for one in alone.algorithms] == ["fedbuff(size=3), tf"]
    assert known_before(alone) == []
    both = {**content, "algorithm": [{"algorithm": "fedbuff(size=3)"}, {"algorithm": "generalized-asyncsgd"}]}
    (note,) = [one for one in known_before(ComparisonSpec.of(both, "compare")) if "tuned" in one]
    assert note.startswith("generalized-asyncsgd, tf: the plan's step size 1.6 was tuned for fedbuff(size=3)")
    tried = {**both, "tuning": {"step_sizes": [0.1, 0.3]}}
    assert not [one for one in known_before(ComparisonSpec.of(tried, "compare")) if "tuned" in one]
