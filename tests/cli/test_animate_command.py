"""`sojourn animate`: traces on the command line become one picture that moves."""

import json

import pytest
from typer.testing import CliRunner

from sojourn import Fleet, Plan, simulate
from sojourn.cli.main import app

FLEET = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FLEET.save("fleet.csv")
    (tmp_path / "run").mkdir()
    simulate(FLEET, Plan.uniform(FLEET, concurrency=4), time=60, seed=1).save("run/trace.parquet")
    simulate(FLEET, Plan.uniform(FLEET, concurrency=2), time=60, seed=2).save("few.parquet")
    return tmp_path


def sojourn(*words):
    done = CliRunner().invoke(app, ["animate", "fleet.csv", *words])
    return done.exit_code, done.stdout, str(done.exception)


def test_two_traces_become_one_picture_with_their_titles(files):
    words = ["run", "few.parquet", "--title", "four tasks", "--title", "two", "--time", "10s", "--out", "both.svg"]
    code, printed, _ = sojourn(*words, "--json")
    assert code == 0
    told = json.loads(printed)
    assert [panel["title"] for panel in told["panels"]] == ["four tasks", "two"]
    assert told["panels"][0]["updates"] == 28
    text = (files / "both.svg").read_text("utf-8")
    assert ">four tasks</text>" in text
    assert ">28 updates;" in text


def test_a_table_says_what_the_picture_shows(files):
    code, printed, _ = sojourn("few.parquet", "--time", "10", "--out", "one.svg")
    assert code == 0
    assert "the first 10 seconds" in printed
    assert "few" in printed  # without a title it has the name of the file


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("few.parquet --out one.png", "--out must be an .svg file, got one.png"),
        ("few.parquet few.parquet --out one.svg", "each trace needs a --title of its own"),
        ("few.parquet --title a --title b --out one.svg", "each trace needs a --title of its own"),
        ("few.parquet --out one.svg --time 1h", "within the trace, which ends at"),
        ("few.parquet --out fleet.svg", "fleet.svg exists already"),
    ],
)
def test_what_it_cannot_do_it_says_in_a_sentence(files, words, error):
    (files / "fleet.svg").write_text("mine")
    code, _, said = sojourn(*words.split())
    assert code != 0
    assert error in said
    assert (files / "fleet.svg").read_text() == "mine"
