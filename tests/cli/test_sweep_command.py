"""`sojourn sweep`: a grid of settings with every seed."""

import csv
import json

import pytest
from typer.testing import CliRunner

from sojourn.cli.main import app
from sojourn.errors import SojournError


def call(*words, code=0):
    result = CliRunner().invoke(app, ["sweep", *(str(word) for word in words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def file(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,6,4\nslow,4,1\n")

    def write(grid: str, top: str = "seeds = 2"):
        path = tmp_path / "sweep.toml"
        run = f'[run]\nfleet = "{tmp_path / "fleet.csv"}"\nsteps = 30\nmodel = "logistic"\n'
        path.write_text(f"{top}\n{run}[grid]\n{grid}\n")
        return path

    return write


def test_help_shows_examples():
    assert "sojourn sweep sweep.toml --out sweep/ --on ray" in call("--help").stdout


@pytest.mark.slow
def test_every_combination_is_trained_with_every_seed_and_once(file, tmp_path):
    path = file('algorithm = ["asyncsgd", "fedavg"]\nconcurrency = [3, 5]')
    said = call(path, "--dry-run", "--out", tmp_path / "out").stdout
    assert said.startswith("8 cells, 0 of them done\nWhat is left to do, about\n")
    assert "timed: algorithm asyncsgd, concurrency 3, seed 0, " in said
    assert not (tmp_path / "out").exists()
    call(path, "--jobs", 2, "--out", tmp_path / "out")
    with (tmp_path / "out" / "runs.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 8
    assert {(row["algorithm"], row["concurrency"], row["seed"]) for row in rows} >= {("fedavg", "5", "1")}
    assert all(row["state"] == "complete" and float(row["accuracy"]) > 0 for row in rows)
    assert call(path, "--dry-run", "--out", tmp_path / "out").stdout == "8 cells, 8 of them done\n"
    told = json.loads(call(path, "--json", "--out", tmp_path / "out").stdout)
    assert len(told["runs"]) == 8
    call(path, "--out", tmp_path / "out", "--pictures", tmp_path / "drawn")
    assert {one.name for one in (tmp_path / "drawn").iterdir()} == {"sweep-response.svg", "sweep-response.png"}


@pytest.mark.slow
def test_the_table_of_another_sweep_is_not_written_over(file, tmp_path):
    out = ("--out", tmp_path / "out", "--jobs", 1)
    call(file("concurrency = [3]", "seeds = 1"), *out)
    table = (tmp_path / "out" / "runs.csv").read_text()
    said = (
        r"runs\.csv is the table of another sweep, .*; name another folder with --out, or give --overwrite to replace"
    )
    for other in ("concurrency = [4]", "batch_size = [8]"):
        with pytest.raises(SojournError, match=said):
            call(file(other, "seeds = 1"), *out)
    assert (tmp_path / "out" / "runs.csv").read_text() == table
    call(file("concurrency = [3, 4]"), *out)  # it grows
    call(file("batch_size = [8]", "seeds = 1"), *out, "--overwrite")
    assert "batch_size" in (tmp_path / "out" / "runs.csv").read_text().partition("\n")[0]


@pytest.mark.slow
def test_two_machines_do_a_part_each(file, tmp_path):
    path = file("concurrency = [3, 4, 5]")
    for part in ("1/2", "2/2"):
        said = call(path, "--jobs", 2, "--part", part, "--out", tmp_path / "out").stdout
        assert f"every run is in {tmp_path / 'out' / 'runs.csv'}" in " ".join(said.split())
    assert call(path, "--dry-run", "--out", tmp_path / "out").stdout == "6 cells, 6 of them done\n"


@pytest.mark.slow
def test_a_cell_that_always_fails_is_reported_and_the_rest_is_done(file, tmp_path):
    path = file("start = ['even', 'nowhere']\nalgorithm = 'asyncsgd'", "seeds = [4]")
    result = call(path, "--jobs", 2, "--out", tmp_path / "out", code=1)
    assert "start must be one of" in result.output
    assert "1 cell failed twice; the rest is done" in result.output
    states = [line.split(",")[4] for line in (tmp_path / "out" / "runs.csv").read_text().splitlines()]
    assert sorted(states) == ["complete", "failed", "state"]


@pytest.mark.parametrize(
    ("grid", "top", "message"),
    [
        ("step_sizes = [0.1]", "seeds = 2", "unknown key 'step_sizes'; did you mean step_size"),
        ("step_size = ['fast']", "seeds = 2", "grid: step_size must be a number, got 'fast'"),
        ("step_size = []", "seeds = 2", "grid: step_size must have at least one value, got none"),
        ("steps = [10, 20]", "seeds = 2", "grid: steps is in [run] too"),
        ("seed = [1]", "seeds = 2", "grid: seed is set by seeds"),
        ("step_size = [0.1]", "seeds = 0", "seeds must be a whole number of at least 1, or a list, got 0"),
        ("step_size = [0.1]", "seeds = [1, 1]", "seeds must be different, got [1, 1]"),
        (
            "concurrency = [5, 11]\nalgorithm = 'fedavg'",
            "seeds = 1",
            "fedavg needs concurrency <= clients, got 11 > 10",
        ),
        ("step_size = [0.1]", "sedes = 2", "keys are seeds, [run] and [grid], got 'sedes'"),
    ],
)
def test_a_sweep_file_with_a_mistake_is_refused(file, tmp_path, grid, top, message):
    with pytest.raises(SojournError) as raised:
        call(file(grid, top), "--out", tmp_path / "out")
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists()
