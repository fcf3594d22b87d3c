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


def below(one: tuple[str, int], other: tuple[str, int]) -> list[bool]:
    """Whether the interval of a sampling with so many tasks is below that of another, case by case."""
    rows = {(row["data"], row["fleet"], row["sampling"], row["tasks"]): row for row in read(KEPT / "cells.csv")}
    cases = [key[:2] for key in rows if key[2:] == ("root of speed", "100")]
    high, low = ([rows[(*case, way, str(tasks))] for case in cases] for way, tasks in (one, other))
    return [
        float(mine["test_loss_high"]) < float(theirs["test_loss_low"]) for mine, theirs in zip(high, low, strict=True)
    ]


def test_what_the_page_says_to_be_clear_is_clear_by_the_intervals():
    best = ("root of speed", 100)
    clear = {other: sum(below(best, other)) for other in (("uniform", 100), ("slow favoured", 100))}
    clear |= {(best[0], tasks): sum(below(best, (best[0], tasks))) for tasks in (10, 30, 300)}
    assert list(clear.values()) == [1, 5, 5, 1, 1]
    assert len(below(best, best)) == 6
    assert not any(below(("uniform", 100), best))
    answer = " ".join((HOME / "docs" / "does-it-pay.md").read_text("utf-8").split("## What was done")[0].split())
    assert "Root of speed is clear of uniform, by their 95% intervals, in one case of six" in answer
    assert "its interval is above that of the root of speed in five cases of six" in answer
    assert "below that of 10 tasks in five of six cases, below those of 30 and of 300 in one each" in answer


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
