"""Files keep the command that made them, for their report; what Python made has none."""

import json
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "report"))
from reading_pages import read

from sojourn import Fleet, Plan
from sojourn.cli import command, live_run
from sojourn.cli.main import app
from sojourn.report.page.of_run import part_of_run
from sojourn.report.page.write import page, parts_of

RUN = ("--data", "digits", "--model", "logistic", "--jobs", "1", "--seeds", "1")


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fleet.csv").write_text("name,count,rate\nfast,3,4\nslow,2,1\n")
    return Fleet.load("fleet.csv")


def called(*words):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return shlex.join(["sojourn", *words])


def reported(place):
    return read(page(parts_of(Path(place))).html).text


@pytest.mark.slow
def test_a_plan_keeps_the_command_that_made_it_and_decides_the_same(fleet):
    typed = called("plan", "fleet.csv", "--time", "100", "-C", "4", "--out", "plan.json")
    assert f"The command that made it:\n{typed}\n" in reported("plan.json")
    assert Plan.load("plan.json") == Plan.load(_without("plan.json"))
    assert "The command" not in reported("old.json")
    Plan.uniform(fleet, 4).save("python.json")
    assert "made_by" not in json.loads(Path("python.json").read_text())
    assert "The command" not in reported("python.json")


def _without(path):
    content = json.loads(Path(path).read_text())
    del content["made_by"]
    Path("old.json").write_text(json.dumps(content))
    return "old.json"


@pytest.mark.slow
def test_a_plan_by_the_bound_keeps_its_command_too(fleet):
    typed = called(
        *("plan", "fleet.csv", "--time", "100", "--by", "bound", "-C", "4", "--no-sensitivity", "--no-law-check"),
        *("--search", "clusters", "--out", "plan.json"),
    )
    assert f"The command that made it:\n{typed}\n" in reported("plan.json")


@pytest.mark.slow
def test_the_folders_of_comparisons_sweeps_and_tunings_keep_it(fleet):
    pytest.importorskip("torch")
    both = ("--algorithm", "asyncsgd", "--algorithm", "fedasync")
    typed = called("compare", "fleet.csv", *both, "--steps", "10", "--out", "cmp", "--no-picture", *RUN)
    assert f"The command that made it:\n{typed}\n" in reported("cmp")
    content = '[run]\nfleet = "fleet.csv"\nsteps = 10\nmodel = "logistic"\n[grid]\nstep_size = [0.1, 0.2]\n'
    Path("sweep.toml").write_text(f"seeds = 1\n{content}")
    typed = called("sweep", "sweep.toml", "--out", "swept", "--jobs", "1")
    assert f"The command that made it:\n{typed}\n" in reported("swept")
    Plan.uniform(fleet, 4).save("plan.json")
    words = ("--guess", "0.4", "--rungs", "1", "--extensions", "0", "--folder", "trials", "--out", "tuned.json")
    typed = called("tune", "fleet.csv", "--plan", "plan.json", "--steps", "10", *words, *RUN)
    assert f"The command that made it:\n{typed}\n" in reported("trials")
    assert f"The command that made it:\n{typed}\n" in reported("tuned.json")


def test_a_live_run_keeps_the_command_that_began_it(fleet, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("grpc")
    monkeypatch.setattr("sojourn.live.local.helped", lambda *_: nullcontext(lambda: None))
    monkeypatch.setattr(live_run, "_serve", lambda verb, run, *_: run.close())
    typed = called("live", "local", "fleet.csv", "--steps", "5", "--model", "logistic", "--out", "live")
    facts = json.loads(Path("live/config.json").read_text())
    assert facts["made_by"] == typed
    called("live", "local", "--out", "live", "--resume")
    assert json.loads(Path("live/config.json").read_text()) == facts
    assert f"The command that made it:\n{typed}\n" in reported("live")
    del facts["made_by"]
    Path("live/config.json").write_text(json.dumps(facts))
    assert "The command" not in reported("live")


def test_a_password_in_an_address_is_not_kept(monkeypatch):
    monkeypatch.setattr(command, "again", lambda: "sojourn sweep s.toml --ray-address ray://me:p@ss@10.0.0.1:99/x@y")
    assert command.made_by() == "sojourn sweep s.toml --ray-address ray://10.0.0.1:99/x@y"


@pytest.mark.parametrize("kept", ["[1]", '{"made_by": [1]}', "{", ""])
def test_a_damaged_command_costs_no_report(tmp_path, kept):
    (tmp_path / "cells").mkdir()
    (tmp_path / "runs.csv").write_text("step_size,seed,state\n0.1,0,open\n")
    (tmp_path / command.MADE_BY).write_text(kept)
    assert "The command" not in reported(tmp_path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "The command that trains it again:"),
        ({"fleet": "object:fleet-1"}, "It was trained in Python, by a call of sojourn.train with objects"),
        ({"steps": None}, "It was trained along a trace that was handed over, as by sojourn replay."),
    ],
)
def test_a_command_is_said_only_where_it_trains_the_run_again(tmp_path, changed, said):
    config = {"fleet": "fleet.csv", "steps": 20, "time": None, "data": "digits", "algorithm": "asyncsgd", **changed}
    (tmp_path / "config.json").write_text(json.dumps({"config": config}))
    section = part_of_run(tmp_path).sections[-1]
    assert section.said[0].startswith(said)
    assert section.code == (["sojourn train fleet.csv --steps 20 --algorithm asyncsgd"] if not changed else [])
