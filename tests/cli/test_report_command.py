"""`sojourn report`: a page from what `sojourn simulate` and `sojourn plan` write."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "report"))
from reading_pages import read

from sojourn.cli.main import app


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    (place / "fleet.csv").write_text("name,count,rate,law\nfast,5,4,\nslow,5,1,gamma(shape=2)\n")
    made = call("simulate", place / "fleet.csv", "-C", 8, "--cap", 1, "--steps", 5000, "--out", place / "run")
    assert made.exit_code == 0
    return place


def number(text):
    return float(text.replace(",", ""))


def test_the_folder_of_a_simulation_needs_no_fleet_to_be_reported(folder):
    done = call("report", folder / "run")
    assert done.exit_code == 0, done.output
    page = read((folder / "run" / "report.html").read_text("utf-8"))
    summary = json.loads((folder / "run" / "summary.json").read_text())
    for group in summary["groups"]:
        row = page.row("Means of 1 replication", group["name"], "staleness")
        assert number(row[3].partition(" ±")[0]) == pytest.approx(group["staleness"]["value"], rel=1e-5)
        assert number(row[4]) == pytest.approx(group["staleness"]["exact"], rel=1e-5)
    assert summary["made_by"].startswith("sojourn simulate")
    assert summary["made_by"] in page.text
    assert page.row("Facts of the trace", "fleet_hash")[1] == summary["fleet_hash"]
    given = page.row("Promised and observed", "staleness", "slow")[2]  # the cap and the law were read back
    assert number(given) == pytest.approx(
        next(one for one in summary["groups"] if one["name"] == "slow")["staleness"]["exact"], rel=1e-5
    )
    assert "is not the one" not in page.text


def test_an_older_simulation_that_does_not_say_its_fleet_is_reported_by_its_groups(folder, tmp_path):
    content = json.loads((folder / "run" / "summary.json").read_text())
    for group in content["groups"]:
        for key in ("rate", "law", "sampling", "cap"):
            group.pop(key, None)
    del content["made_by"]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "summary.json").write_text(json.dumps(content))
    (tmp_path / "old" / "trace.parquet").write_bytes((folder / "run" / "trace.parquet").read_bytes())
    done = call("report", tmp_path / "old")
    assert done.exit_code == 0, done.output
    page = read((tmp_path / "old" / "report.html").read_text("utf-8"))
    assert page.row("Staleness by group", "slow")
    assert "promised, fleet given" not in page.text


def test_a_summary_alone_can_be_reported(folder, tmp_path):
    (tmp_path / "s.json").write_bytes((folder / "run" / "summary.json").read_bytes())
    assert call("report", tmp_path / "s.json").exit_code == 0
    page = read((tmp_path / "s-report.html").read_text("utf-8"))
    assert "5,000 updates of 10 clients with 8 tasks in flight were simulated" in page.answer


@pytest.mark.slow
def test_several_things_are_on_one_page_with_their_figures(folder, tmp_path):
    assert call("plan", folder / "fleet.csv", "--time", "1h", "--out", tmp_path / "plan.json").exit_code == 0
    words = ("report", folder / "run", folder / "run" / "trace.parquet", tmp_path / "plan.json")
    more = ("--fleet", folder / "fleet.csv", "--out", tmp_path / "all.html", "--figures", tmp_path / "figures")
    done = call(*words, *more)
    assert done.exit_code == 0, done.output
    assert f"wrote {tmp_path / 'all.html'}" in done.output
    page = read((tmp_path / "all.html").read_text("utf-8"))
    assert "Report of 3 parts" in page.text
    assert (tmp_path / "figures" / "3-policies-updates.pdf").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "does not exist; name the folder of a run"),
        (("empty",), "is empty; name"),
        (("fleet.csv",), "is nothing that can be reported"),
        (("run", "--out", "taken.txt"), "is no report of sojourn"),
        (("run", "--out", "no/where.html"), "cannot write report"),
        (("run", "--out", "empty"), "it is a folder"),
        (("run",) * 41, "a page can report 1 to 40 things, got 41"),
    ],
)
def test_what_goes_wrong_is_said_in_one_sentence(folder, words, said, monkeypatch):
    monkeypatch.chdir(folder)
    Path("empty").mkdir(exist_ok=True)
    Path("taken.txt").write_text("mine")
    done = call("report", *words)
    assert done.exit_code != 0
    assert said in str(done.exception)
    assert Path("taken.txt").read_text() == "mine"


def test_help_needs_no_library_of_pages():
    done = call("report", "--help")
    assert done.exit_code == 0
    assert "sojourn report trace.parquet --fleet fleet.csv" in " ".join(done.output.split())
