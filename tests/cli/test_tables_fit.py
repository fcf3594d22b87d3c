"""Tables and sentences within the width of the terminal: a number is whole or absent."""

import re

import pytest
from typer.testing import CliRunner

from sojourn.cli import show
from sojourn.cli.layout import laid_out
from sojourn.cli.main import app

HEADS = ["group", "clients", "staleness, theory", "staleness, simulated", "interval", "meaning", "queue"]
ROWS = [
    [f"group {n}", f"{n}1", f"{n}8.79221", f"{n}9.1234 ± 0.4{n}", f"{n}.5 to {n}.75", "mean over clients", f"1.{n}234"]
    for n in range(1, 8)
]
COMMAND = "sojourn train --resume --out a-folder-with-a-long-name/and-one-more --data digits --seeds 20"


@pytest.fixture
def at(monkeypatch, capsys):
    """Print in a terminal of so many columns: the lines."""

    def go(width, call, *arguments, **options):
        monkeypatch.setenv("COLUMNS", str(width))
        call(*arguments, **options)
        return capsys.readouterr().out.splitlines()

    return go


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,90,8\nslow,10,1\n")
    return path


@pytest.mark.parametrize("width", range(24, 150, 6))
@pytest.mark.parametrize("rows", [ROWS[:2], ROWS])
def test_a_number_is_whole_or_its_column_is_said_to_be_left_out(at, width, rows):
    lines = at(width, show.table, "title", HEADS, rows, least=["queue", "interval"])
    text = " ".join(lines)
    said = re.search(r"left out, as the terminal is too narrow: (.*); --csv and --json", text)
    absent = [head for head in HEADS if said and head in said[1]]
    assert max(map(len, lines)) <= width
    assert "…" not in text
    for head, *cells in zip(HEADS, *rows, strict=True):
        if head in absent:
            assert not any(cell in text for cell in cells)
        elif head != "meaning":
            assert all(cell in text for cell in cells)


def test_the_least_important_columns_go_first():
    order = ["clients", "interval"]
    left_out = [laid_out(HEADS, ROWS, width, order).left_out for width in range(110, 50, -1)]
    assert left_out[0] == ()
    assert ("clients",) in left_out
    assert ("clients", "interval") in left_out


def test_a_head_may_have_two_lines_before_anything_is_left_out():
    grid = laid_out(["group", "staleness, theory"], [["fast", "1.5"]] * 9, 22)
    assert grid.heads == ["group", "staleness,\ntheory"]
    assert not grid.left_out


def test_few_rows_stand_side_by_side_where_the_table_is_too_wide(at):
    lines = at(70, show.table, "title", HEADS, ROWS[:2])
    assert [line.split()[0] for line in lines[3:-1]] == ["clients", "staleness,", "staleness,", "interval", "meaning"]
    assert not any("left out" in line for line in lines)


def test_a_very_narrow_terminal_gets_a_block_of_lines_for_each_row(at):
    lines = at(24, show.table, "title", HEADS, ROWS[:2])
    assert lines[1:4] == ["group: group 1", "  clients: 11", "staleness, theory:"]


def test_without_a_terminal_a_sentence_stays_on_one_line(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    show.say("word " * 100)
    assert capsys.readouterr().out.count("\n") == 1


def test_a_sentence_is_wrapped_between_words_and_its_command_stays_on_one_line(at):
    lines = at(40, show.say, f"interrupted; everything done is kept; continue with: {COMMAND}")
    assert lines == ["interrupted; everything done is kept;", "continue with:", COMMAND]


@pytest.mark.parametrize(
    "words",
    [
        ["analyze", "FLEET", "--cap", "1", "-C", "50"],
        ["analyze", "SMALL", "-C", "1000", "--limits"],
        ["simulate", "FLEET", "--steps", "2000", "-R", "10"],
        ["plan", "FLEET", "--time", "1000"],
        ["plan", "FLEET", "--time", "1000", "--by", "bound", "--no-law-check", "--no-sensitivity"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("width", [60, 80])
def test_what_a_verb_prints_is_as_wide_as_the_terminal(fleet, tmp_path, words, width):
    (tmp_path / "small.csv").write_text("name,count,rate\nfast,5,1.2\nslow,5,1\n")
    paths = {"FLEET": str(fleet), "SMALL": str(tmp_path / "small.csv")}
    words = [paths.get(word, word) for word in words]
    result = CliRunner().invoke(app, words, env={"COLUMNS": str(width)})
    lines = [line for line in result.stdout.splitlines() if not line.startswith("sojourn ")]
    assert result.exit_code == 0
    assert max(map(len, lines)) <= width
    assert "…" not in result.stdout
