"""The example that sets the bound beside training: its page is made from its tables, and it runs."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
EXAMPLE = HOME / "examples" / "does_it_pay"
KEPT = HOME / "docs" / "results" / "does-it-pay"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_tables_of_the_page_are_those_of_the_kept_results(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from tables import kept, page

    made = page(kept(KEPT / "cells.csv"), kept(KEPT / "verdicts.csv"))
    assert made in (HOME / "docs" / "does-it-pay.md").read_text("utf-8")


@pytest.mark.slow
def test_a_small_one_runs_and_is_not_run_twice(tmp_path):
    words = [sys.executable, EXAMPLE, "--out", tmp_path, "--data", "digits", "--fleets", "homogeneous", "--fast"]
    subprocess.run(words, check=True, timeout=500)
    cells, verdicts = read(tmp_path / "cells.csv"), read(tmp_path / "verdicts.csv")
    assert [row["tasks"] for row in cells[:4]] == ["10", "30", "100", "300"]
    assert len(cells) == 6
    assert {row["constants"] for row in verdicts} == {"default", "calibrated"}
    assert all(float(row["regret"]) >= 1 for row in verdicts)
    assert all((tmp_path / f"does-it-pay.{kind}").stat().st_size > 10_000 for kind in ("svg", "png"))
    runs = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/cells/*/summary.json")}
    subprocess.run(words, check=True, timeout=100)
    assert runs == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/cells/*/summary.json")}
    assert read(tmp_path / "cells.csv") == cells
