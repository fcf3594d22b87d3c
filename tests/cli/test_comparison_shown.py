"""The table of a comparison: what people see on a narrow terminal, and what programs read."""

import csv
import io

import click
import pytest

from sojourn.cli import formats, show
from sojourn.cli.comparison_shown import show_table
from sojourn.experiments.compare import Compared
from sojourn.experiments.comparison import ComparisonSpec, Entry
from sojourn.experiments.statistics import AXES
from sojourn.experiments.tune import Tuned


def interval(key, value):
    return {key: value, f"{key}_low": value - 0.025, f"{key}_high": value + 0.025}


def row(name, axis, at):
    shared = {"step_size": 0.3, "edge": "", "dispatcher": "routed", "updates": 70.5, "runs": 2, "diverged": 0}
    measured = {}
    for key in ("mean", "difference", "client_worst", "client_10", "client_50"):
        measured |= interval(key, 0.5)
    return {"algorithm": name, **shared, "axis": axis, "at": at, "judged_by": "accuracy", **measured}


@pytest.fixture
def shown(tmp_path, monkeypatch, capsys):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,6,4\n")
    names = ("asyncsgd", "fedbuff")
    entries = tuple(Entry(name, {"algorithm": name}) for name in names)
    comparison = ComparisonSpec({"fleet": str(tmp_path / "fleet.csv"), "steps": 9}, entries, (0, 1))
    ends = {"time": 9.0, "received": 40.0, "version": 20.0, "gradients": 40.0}
    compared = Compared(
        tmp_path / "cmp", Tuned(()), table=[row(one, axis, ends[axis]) for one in names for axis in AXES]
    )
    monkeypatch.setattr(show, "width_of", lambda stream: 80)

    def make():
        show_table(comparison, compared)
        return capsys.readouterr().out

    return make


def test_eighty_columns_have_the_step_size_and_the_difference(shown):
    out = shown()
    assert "step size" in out
    assert "difference" in out.partition("left out")[0]
    assert "updates (mean)" in out
    assert " 70 " in out  # a whole number


def test_axes_with_equal_values_share_a_row(shown):
    out = " ".join(shown().split())
    assert out.count("updates received, gradients") == 2  # once per algorithm


def test_the_legend_has_the_columns_that_are_shown_and_no_others(shown, monkeypatch):
    gone = " ".join(shown().split()).partition("left out, as the terminal is too narrow: ")[2]
    assert "50%" in gone.partition(";")[0]
    assert "50%: half of them are" not in gone
    monkeypatch.setattr(show, "width_of", lambda stream: 160)
    assert "worst client: its accuracy; 10%: 10% of the clients are below it; 50%: half of them are" in shown()


def test_files_are_named_by_paths_that_can_be_opened(shown, tmp_path):
    assert str(tmp_path / "cmp" / "table.csv") in "".join(shown().split("\n"))


def test_programs_read_one_table_with_every_axis(shown, capsys):
    context = click.Context(click.Command("compare"))
    context.meta[formats._FLAGS] = ["--csv"]
    with context, formats.one_format(context):
        shown()
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [one["on"] for one in rows] == 2 * list(AXES.values())
    assert {one["step size"] for one in rows} == {"0.3"}
