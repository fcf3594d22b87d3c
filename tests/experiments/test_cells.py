"""Cells in a folder are data: what is run stands in the sweep file, and it writes into its own folder only."""

import json
import shutil
import sys

import pytest
from some_cells import fleet_file, seeds
from typer.testing import CliRunner

from sojourn.cli.main import app
from sojourn.errors import InvalidInput
from sojourn.experiments.cells import Cells, ended
from sojourn.experiments.run_cells import run_cells
from sojourn.learning.run.metrics import NEEDED


@pytest.fixture
def fleet(tmp_path):
    return fleet_file(tmp_path)


@pytest.mark.slow
def test_code_that_a_cell_names_is_not_run(fleet, tmp_path, monkeypatch):
    (tmp_path / "from_a_cell.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    cells, out = seeds(fleet, 1), tmp_path / "out"
    run_cells(cells, out, jobs=1)
    cell = Cells(out).of(cells[0])
    content = json.loads((cell / "config.json").read_text())
    content["config"]["data"] = "from_a_cell:make"
    (cell / "config.json").write_text(json.dumps(content))
    (cell / "summary.json").unlink()
    failures = run_cells(cells, out, jobs=1).failures
    assert "holds another run: its config is data = 'from_a_cell:make' (now 'digits')" in failures["seed 0"]
    assert "from_a_cell" not in sys.modules


@pytest.mark.parametrize("name", ["cells", "failures", "runs.csv", "summary.json", "comparison.png"])
def test_a_link_in_the_folder_of_many_cells_is_refused_and_what_it_leads_to_stays(fleet, tmp_path, name):
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.write_text("precious")
    out.mkdir()
    (out / name).symlink_to(victim)
    with pytest.raises(
        InvalidInput, match=f"{name} must not be a link, it points to .*victim; put a copy in its place"
    ):
        run_cells(seeds(fleet, 1), out, jobs=1)
    assert victim.read_text() == "precious"


@pytest.mark.slow
def test_a_cell_that_is_a_link_or_holds_one_is_refused(fleet, tmp_path):
    cells, out = seeds(fleet, 1), tmp_path / "out"
    run_cells(cells, out, jobs=1)
    cell = Cells(out).of(cells[0])
    moved = cell.rename(tmp_path / "moved")
    cell.symlink_to(moved)
    with pytest.raises(InvalidInput, match=r"seed-0-\w+ must not be a link"):
        Cells(out).of(cells[0])
    cell.unlink()
    shutil.copytree(moved, cell)
    (cell / "summary.json").unlink()
    (cell / "summary.json").symlink_to(moved / "summary.json")
    with pytest.raises(InvalidInput, match=r"summary\.json must not be a link"):
        Cells(out).finished(cells)


@pytest.mark.parametrize("verb", ["sweep", "compare"])
def test_the_commands_refuse_a_link_with_one_sentence(fleet, tmp_path, verb):
    (tmp_path / "sweep.toml").write_text(f'[run]\nfleet = "{fleet}"\nsteps = 20\n')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cells").symlink_to(tmp_path)
    words = {"sweep": [str(tmp_path / "sweep.toml")], "compare": [fleet, "--algorithm", "fedavg", "--no-picture"]}[verb]
    error = CliRunner().invoke(app, [verb, *words, "--jobs", "1", "--out", str(tmp_path / "out")]).exception
    assert isinstance(error, InvalidInput)
    assert "cells must not be a link" in str(error)


@pytest.mark.slow
def test_other_links_beside_the_cells_are_nobodys_business(fleet, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "data").symlink_to(tmp_path)
    assert run_cells(seeds(fleet, 1), tmp_path / "out", jobs=1).ended == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", "[" * 10**5),
        ("summary.json", "[3]"),
        ("metrics.csv", "received\n" + "1" * 200_000),
        ("metrics.csv", "other\n5\n"),
        ("metrics.csv", ""),
    ],
)
def test_a_cell_whose_files_say_nothing_has_not_ended(tmp_path, name, content):
    (tmp_path / "summary.json").write_text('{"received": 5}')
    cells = ["5"] * len(NEEDED)
    (tmp_path / "metrics.csv").write_text(f"{','.join(NEEDED)}\n{','.join(cells)}\n")
    assert ended(tmp_path) == "complete"
    (tmp_path / name).write_text(content)
    assert ended(tmp_path) is None
