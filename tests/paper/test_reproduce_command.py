"""`sojourn reproduce`."""

import json
import re

import pytest

from sojourn.cli.main import run
from sojourn.paper import experiments
from sojourn.paper.claim import claim
from sojourn.paper.experiment import Experiment

pytest.importorskip("matplotlib")


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run_with(*words):
        monkeypatch.setattr("sys.argv", ["sojourn", "reproduce", *map(str, words)])
        code = 0
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
        return (code, *capsys.readouterr())

    return run_with


def first(folder, fast, watch):
    watch("counting", 1, 2)
    return [claim("one is one", "1", "1", holds=[True], rule="equal")]


def second(folder, fast, watch):
    raise KeyboardInterrupt


@pytest.fixture
def two(monkeypatch):
    made = (Experiment("first", "First", "figure 1", first), Experiment("second", "Second", "figure 2", second))
    monkeypatch.setattr(experiments, "EXPERIMENTS", made)


def test_help_shows_examples(call):
    assert "sojourn reproduce all --fast --out reproduced/" in call("--help")[1]


def test_the_list_names_every_experiment_and_where_it_stands(call):
    shown = call("--list")[1]
    listed = json.loads(call("--list", "--json")[1])["experiments"]
    assert [one["name"] for one in listed] == [one.name for one in experiments.EXPERIMENTS]
    assert all(one["name"] in shown for one in listed)


def test_claims_are_shown_with_their_verdicts(call, tmp_path):
    code, shown, said = call("step-size", "--fast", "--out", tmp_path)
    assert code == 0
    assert "largest step at uniform p: caption (8) beside the theorem" in shown
    assert "disagrees" in shown
    assert re.search(r"step-size: done in [0-9.]+ s, in ", said)
    content = json.loads(call("step-size", "--fast", "--out", tmp_path, "--json")[1])
    assert (content["command"], content["fast"], content["complete"]) == ("reproduce", True, True)
    (one,) = content["experiments"]
    assert one["kept"]
    assert set(one["claims"][0]) == {"statement", "paper", "ours", "error", "verdict", "rule", "note"}


def test_ctrl_c_keeps_what_is_finished_and_all_is_written_only_when_all_is_done(call, two, tmp_path):
    code, shown, said = call("all", "--out", tmp_path)
    assert code == 130
    assert "one is one" in shown
    assert f"interrupted; finished experiments are kept in {tmp_path}; go on with: sojourn reproduce all" in said
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    assert json.loads(call("all", "--out", tmp_path, "--json")[1])["complete"] is False


def test_all_claims_go_to_one_table_and_onto_a_page(call, two, tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "EXPERIMENTS", experiments.EXPERIMENTS[:1])
    page = tmp_path / "page.md"
    page.write_text("<!-- reproduce first -->\n<!-- end of first -->\n")
    assert call("all", "--out", tmp_path / "out", "--page", page)[0] == 0
    assert (
        (tmp_path / "out" / "claims.csv").read_text().startswith("experiment,statement,paper,ours,error,verdict,rule")
    )
    assert "| one is one | 1 | 1 | exact | agrees | equal |" in (tmp_path / "out" / "claims.md").read_text()
    assert "| one is one | 1 | 1 | exact | agrees | equal |" in page.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "an experiment must be named, got none; the names are stationarity"),
        (["al"], "there is no experiment 'al'; the names are stationarity"),
        (["step-size", "--out", "file"], "cannot write to file: it is a file; name a folder"),
        (["step-size", "--page", "none.md"], "page none.md does not exist; name a page with markers"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_before_the_work(call, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    code, shown, said = call(*words)
    assert (code, shown) == (2, "")
    assert said.startswith(f"error: {message}")
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
