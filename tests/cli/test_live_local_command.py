"""`sojourn live local`: the engine that it is told to use, and what it refuses before anything starts."""

from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from sojourn.cli import live_run
from sojourn.cli.live_run import _again, _local_file, _say_policy, _tell
from sojourn.cli.main import app
from sojourn.errors import SojournError
from sojourn.learning.run.config import TrainConfig


@pytest.fixture
def refused(tmp_path):
    """The error of a call, which leaves nothing behind."""
    (tmp_path / "fleet.csv").write_text("name,count,rate\nall,2,5\n")

    def call(*words):
        given = ["live", "local", str(tmp_path / "fleet.csv"), "--steps", "5", "--out", str(tmp_path / "out"), *words]
        with pytest.raises(SojournError) as error:
            CliRunner().invoke(app, given, catch_exceptions=False, standalone_mode=False)
        assert not (tmp_path / "out").exists()
        return str(error.value)

    return call


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--engine", "rey"], "engine must be one of grpc, ray, got 'rey'; did you mean ray"),
        (["--cluster", "10.0.0.1:6379"], "cluster belongs to the engine ray, the engine is grpc; leave cluster out"),
        (["--engine", "ray", "--processes", "0"], "--processes must be at least 1, got 0"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(refused, words, why):
    assert why in refused(*words)


@pytest.mark.parametrize(
    ("engine", "missing", "extra"),
    [("ray", "ray", "sojourn[ray,train]"), ("grpc", "grpc", "sojourn[live,train]")],
)
def test_a_missing_package_is_named_with_the_extra_that_has_it(refused, monkeypatch, engine, missing, extra):
    monkeypatch.setattr(live_run, "find_spec", lambda name: None if name == missing else find_spec(name))
    said = refused("--engine", engine)
    assert "which is not installed" in said
    assert said.endswith(f"pip install '{extra}'")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((2, True, "grpc", None, True), "--out a --resume"),
        ((3, False, "grpc", None, True), "--out a --resume --processes 3 --no-pace"),
        ((2, True, "ray", "h:1", False), "--out a --resume --engine ray --cluster h:1 --no-durable"),
    ],
)
def test_the_command_that_goes_on_says_how_the_run_was_run(flags, words):
    shown = _again(_local_file("a", *flags, None, [], None), flags[0], flags[1], 7734)
    assert shown == f"sojourn live local {words} --dashboard 7734"
    assert _again(_local_file("a", *flags, None, [], None), flags[0], flags[1]) == f"sojourn live local {words}"


def test_a_plan_without_a_step_size_is_said_to_have_none(tmp_path, capsys):
    fleet, plan = tmp_path / "fleet.csv", tmp_path / "plan.json"
    fleet.write_text("name,count,rate\nall,2,5\n")
    CliRunner().invoke(app, ["plan", str(fleet), "--time", "5s", "--out", str(plan)], catch_exceptions=False)
    run = TrainConfig(str(fleet), plan=str(plan), time=4.0)
    _say_policy(run, False, "step_size in [run] sets one, found by")
    said = " ".join(capsys.readouterr().err.split())
    assert "the plan has no step size: 0.1 is used; step_size in [run] sets one, found by: sojourn tune" in said
    _say_policy(run.resolved(step_size=0.2), False, "")
    _say_policy(run, True, "")  # it can no longer be changed
    assert capsys.readouterr().err == ""


def test_an_error_comes_without_words_on_what_would_have_been_used(tmp_path, capsys):
    given = ["live", "local", str(tmp_path / "none.csv"), "--steps", "5", "--out", str(tmp_path / "out")]
    with pytest.raises(SojournError, match="does not exist"):
        app(given, standalone_mode=False)
    assert capsys.readouterr().err == ""


def test_a_server_that_waits_names_a_second_ctrl_c_whatever_stopped_it(capsys):
    _tell("stopping", {"awaited": 1, "seconds": 5.0})
    assert capsys.readouterr().err == "waiting 5 s at most for 1 task; a second Ctrl-C ends at once\n"
