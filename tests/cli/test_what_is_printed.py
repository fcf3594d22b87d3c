"""Names and texts of strangers, as they are printed, drawn and written: they say what they are and do nothing."""

import csv
import json

import numpy as np
import pytest

from sojourn import Fleet
from sojourn.cli import show
from sojourn.cli.main import run
from sojourn.csv_file import read_csv, write_csv
from sojourn.errors import InvalidInput, SojournError, UnreadableFile, UnwritableFile
from sojourn.experiments.statistics import AXES
from sojourn.report.figures import MOST_NAME, MOST_WORDS, staleness_histograms, who_holds_what, words
from sojourn.report.training_figures import comparison_picture, curves
from sojourn.shown import quoted, short, visible
from sojourn.trace import APPLIED, Trace

MARKUP = ["[red]x[/red]", "[/]", "[bold", ":smile:", "[link]y[/link]"]
FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\tx", "\rx"]
MATHS = ["$x_1^2$", r"$\frac{$", "_hidden", "a_b", "^", "\\", "100%", "$", r"\$", "x" * 300, "温度", "a\nb"]


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def go(*words):
        monkeypatch.setattr("sys.argv", ["sojourn", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            run()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return go


def test_names_of_groups_are_shown_as_they_are_written(call, tmp_path):
    Fleet(tuple(MARKUP), np.ones(len(MARKUP)), np.ones(len(MARKUP))).save(tmp_path / "fleet.csv")
    code, out, err = call("analyze", tmp_path / "fleet.csv", "-C", 9)
    assert (code, err) == (0, "")
    assert all(name in out for name in MARKUP)


@pytest.mark.parametrize("text", [*MARKUP, "a\x1b[2Jb", "a\nb", "\u202eabc", "a\ud800b"])
def test_whatever_stands_in_a_table_is_shown_and_does_nothing(capsys, text):
    show.table(text, ["name", text], [[text, "1"], ["other", text]], [text])
    out, _ = capsys.readouterr()
    assert out.count(visible(text)) == 5
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_cell_of_a_table_has_an_end(capsys):
    show.table("t", ["name"], [["x" * 100_000]])
    assert len(capsys.readouterr().out) < 5000


def test_an_escape_in_a_file_does_not_reach_the_terminal(call, tmp_path):
    (tmp_path / "run.toml").write_text('fleet = "fleet.csv"\n"\\u001b[2J\\u0007evil" = 1\n')
    code, out, err = call("train", "--config", tmp_path / "run.toml", "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert r"unknown key '\x1b[2J\x07evil'" in err
    assert err.rstrip("\n").isprintable()


@pytest.mark.parametrize("kind", [SojournError, InvalidInput, UnreadableFile, UnwritableFile])
def test_an_error_is_one_line_with_an_end_whatever_it_quotes(kind):
    error = kind(f"name must be short, got '{'x' * 10_000}\n\x1b[31m'; shorten it")
    assert len(str(error)) <= 500
    assert str(error).isprintable()
    assert str(error).startswith("name must be short, got 'xxx")
    assert str(error).endswith(r"\n\x1b[31m'; shorten it")
    assert str(kind(str(error))) == str(error)


def test_what_is_quoted_has_an_end():
    assert quoted(10**5000) == "a whole number of 16610 bits"
    assert len(quoted(["x" * 1000] * 1000)) <= 60
    assert short("abc", 10) == "abc"


def test_a_formula_in_a_table_for_people_is_text_and_numbers_stay_numbers(tmp_path):
    rows = [{"name": text, "value": -1.5, "count": -3, "=head": "-0.5"} for text in [*FORMULAS, "plain", "a=b"]]
    write_csv(tmp_path / "table.csv", rows)
    with (tmp_path / "table.csv").open(newline="") as file:
        head, *lines = csv.reader(file)
    assert head == ["name", "value", "count", "'=head"]
    guarded = ["'=1+1", "'+1+1", "'-1+1", "'@SUM(A1)", r"\tx", r"\rx"]
    assert [line[0] for line in lines] == [*guarded, "plain", "a=b"]
    assert {tuple(line[1:]) for line in lines} == {("-1.5", "-3", "-0.5")}


def test_a_table_that_is_read_back_is_written_as_it_is(tmp_path):
    rows = [{"name": text, "value": "1"} for text in FORMULAS[:-1]]
    write_csv(tmp_path / "ledger.csv", rows, read_back=True)
    assert read_csv(tmp_path / "ledger.csv", "ledger") == rows


def test_a_fleet_keeps_the_names_of_its_groups_whatever_they_begin_with(tmp_path):
    fleet = Fleet.of(**{"@SUM(A1)": (1, 1.0), "-x": (2, 2.0), "+y": (3, 3.0)})
    fleet.save(tmp_path / "fleet.csv")
    assert Fleet.load(tmp_path / "fleet.csv") == fleet


def plain_picture(paths):
    svg = next(path for path in paths if path.suffix == ".svg").read_text()
    assert "Oblique" not in svg  # the letters of formulas are slanted
    return svg


def drawn(name, most=MOST_WORDS):
    """The comment that a picture has with a text."""
    return f"<!-- {words(name, most).replace(chr(92) + '$', '$')} -->"


@pytest.mark.slow
def test_names_in_pictures_are_drawn_as_they_are_written(tmp_path):
    row = {f"accuracy{end}": 0.5 for end in ("", "_low", "_high")}
    rows = [{**row, "algorithm": name, "axis": axis, "at": at} for name in MATHS for axis in AXES for at in (0.0, 1.0)]
    metrics = [{"received": at, "time": at, "accuracy": 0.1, "test_loss": 1} for at in (0, 1)]
    for title in MATHS[:2]:
        pictures = (
            comparison_picture(rows, "accuracy", tmp_path / "comparison", title, target=0.4),
            curves(dict.fromkeys(MATHS, metrics), tmp_path / "curves", title),
        )
        for svg in map(plain_picture, pictures):
            assert all(drawn(name, MOST_NAME) in svg for name in MATHS)
            assert svg.count(drawn(title)) == 2  # in the title and in the legend


@pytest.mark.parametrize("name", MATHS[:3])
def test_names_of_groups_and_titles_of_pictures_are_drawn_as_they_are_written(tmp_path, name):
    fleet = Fleet.of(**{name: (1, 1.0)})
    zero = ("dispatched_at", "started_at", "finished_at", "applied_at", "dispatched_step")
    facts = {"prob": np.ones(3), "applied_step": np.arange(3), "work": np.ones(3), "fate": [APPLIED] * 3}
    trace = Trace(client=np.zeros(3), **dict.fromkeys(zero, np.zeros(3)), **facts)
    assert drawn(name) in plain_picture(staleness_histograms(trace, fleet, tmp_path / "staleness", name))
    assert drawn(name) in plain_picture(who_holds_what(np.ones((2, 2), int), tmp_path / "held", name))


def test_json_in_pieces_is_the_same_text():
    content = {"a": 1.5, "none": float("nan"), "empty": {}, "list": [1, [2, {"b": None}]], "text": "é\x1b"}
    rows = [{"name": str(n), "inside": {"value": n / 3, "list": [n]}} for n in range(3)]
    whole = json.dumps({**content, "none": None, "rows": rows, "no rows": []}, indent=2)
    assert show.to_json({**content, "rows": show.Rows(iter(rows)), "no rows": show.Rows([])}) == whole
    assert show.to_json({}) == "{}"
