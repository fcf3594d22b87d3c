"""Tables as CSV, Markdown and LaTeX: one flag each, on every verb that prints a table."""

import csv
import dis
import io
from importlib import import_module
from types import CodeType, FunctionType

import command_pages
import pytest

from sojourn import Fleet, Plan, analyze
from sojourn.cli.cells import Cell, count, interval, number, percent, with_error
from sojourn.cli.comparison_shown import _line
from sojourn.cli.formats import FORMATS, Sheet, as_csv, as_latex, as_markdown
from sojourn.cli.main import app
from sojourn.cli.show import table
from sojourn.errors import InvalidInput

END = ("", "_low", "_high")
FLEET = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))


@pytest.fixture
def fleet(tmp_path):
    FLEET.save(tmp_path / "fleet.csv")
    return tmp_path / "fleet.csv"


@pytest.fixture
def call(capsys):
    """Run the command line in this process: what it prints, with stdout and stderr apart."""

    def go(*words):
        app([str(word) for word in words], standalone_mode=False)
        return capsys.readouterr()

    return go


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def named_in(function):
    """What a function names: of its module, of a function around it, or imported from the command line."""
    module, codes = "", [function.__code__]
    yield from (cell.cell_contents for cell in function.__closure__ or ())
    for code in codes:
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME":
                module = step.argval
            elif step.opname == "IMPORT_FROM" and module.startswith("sojourn.cli"):
                yield getattr(import_module(module), step.argval)
            elif step.opname == "LOAD_GLOBAL":
                yield function.__globals__.get(step.argval)


def prints_tables(verb):
    """Whether a verb, or what it calls in the command line, names the function that prints a table."""
    reached = [verb]
    for function in reached:
        for one in named_in(function):
            ours = isinstance(one, FunctionType) and one.__module__.startswith("sojourn.cli.")
            if ours and one not in reached:
                reached.append(one)
    return table in reached


def with_a_table():
    from sojourn.cli.show import table

    return [table("t", ["a"], row) for row in []]


def without_a_table():
    from sojourn.cli.show import say

    say("table")


def test_a_verb_that_prints_tables_is_recognised():
    assert prints_tables(with_a_table)
    assert not prints_tables(without_a_table)
    verbs = command_pages.verbs()
    without = {name for name in verbs if " " not in name and not prints_tables(verbs[name].callback)}
    assert without == {"replay", "report", "dashboard"}


@pytest.mark.parametrize("name", command_pages.verbs())
def test_every_verb_that_prints_tables_and_no_other_has_every_format(name):
    verb = command_pages.verbs()[name]
    flags = {flag for option in verb.params for flag in option.opts}
    if prints_tables(verb.callback):
        assert flags >= {"--json", *FORMATS}
    else:
        assert not flags & set(FORMATS)  # they would print nothing


def test_csv_has_the_numbers_at_full_precision_and_nothing_else_on_stdout(call, fleet):
    result = call("analyze", fleet, "-C", 50, "--csv")
    exact = analyze(FLEET, Plan.uniform(FLEET, 50))
    rows = read(result.out)
    assert [row["group"] for row in rows] == ["fast", "slow"]
    assert [float(row["queue"]) for row in rows] == exact.queue.tolist()
    assert [float(row["staleness"]) for row in rows] == exact.staleness().tolist()
    assert "throughput" in result.err
    assert "throughput" not in result.out


def test_csv_has_every_row_and_column_however_narrow_the_terminal(call, monkeypatch, tmp_path):
    Fleet.of_rates([1.0 + n for n in range(60)]).save(tmp_path / "many.csv")
    monkeypatch.setenv("COLUMNS", "30")
    rows = read(call("analyze", tmp_path / "many.csv", "--csv").out)
    assert len(rows) == 60
    assert {"m_i", "waiting"} <= set(rows[0])


def test_an_error_or_an_interval_has_columns_of_its_own():
    cells = [with_error(1 / 3, 0.01), interval(1, 2), interval(1, 2, value=1.5), percent(1 / 3), count(12345)]
    text = as_csv([Sheet("t", ["a", "b", "c", "d", "e"], [cells, [number(float("nan")), "none", "-", "x", "7"]])])
    heads, first, second = csv.reader(io.StringIO(text))
    assert heads == ["a", "a, standard error", "b, low", "b, high", "b", "c", "c, low", "c, high", "d", "e"]
    assert first == [repr(1 / 3), "0.01", "1.0", "2.0", "", "1.5", "1.0", "2.0", repr(1 / 3), "12345"]
    assert second == ["", "", "", "", "none", "", "", "", "x", "7"]


def test_several_tables_follow_each_other_with_their_titles(call, fleet):
    out = call("plan", fleet, "--time", 1000, "--csv").out
    first, second = out.split("\n\n")
    assert first.startswith("# 100 tasks in flight")
    assert second.startswith("# other policies in the same time\npolicy,tasks,")


def test_markdown_has_titles_tables_and_sentences(call, fleet):
    out = call("plan", fleet, "--time", 1000, "--markdown").out
    title, _, head, line, *_ = out.splitlines()
    assert title == "**100 tasks in flight, 730,000 updates in 16.7 min**"
    assert head.startswith("| group | clients | rate |")
    assert line.startswith("| --- | ---: | ---: |")
    assert "\n\n**other policies in the same time**\n\n| policy | tasks |" in out
    assert "\n\nCorrection 1/2 for how often" in out


def test_latex_has_tables_and_what_is_reported_is_a_comment(call, fleet):
    out = call("analyze", fleet, "-C", 50, "--latex").out
    assert out.startswith("\\begin{table}\n\\caption{100 clients, 50 tasks in flight")
    assert "\\begin{tabular}{lrrrrrrrrr}\n\\hline\ngroup & clients & rate" in out
    assert "m\\_i" in out
    assert "\n% throughput " in out
    assert out.count("\\\\\n") == 3


def test_names_in_a_format_do_nothing_there():
    sheet = [Sheet("a|b_c", ["name"], [["50% & #1 {x} \\ 1 ± 2"], ["=1+1"], ["a\nb"]])]
    assert "50\\% \\& \\#1 \\{x\\} \\textbackslash{} 1 $\\pm$ 2" in as_latex(sheet)
    assert "**a\\|b\\_c**" in as_markdown(sheet)
    assert as_csv(sheet).splitlines()[2:] == ["'=1+1", "a\\nb"]


@pytest.mark.parametrize("flags", [["--csv", "--markdown"], ["--json", "--latex"]])
def test_there_is_one_format_at_a_time(call, fleet, flags):
    with pytest.raises(InvalidInput, match=f"{flags[0]} and {flags[1]} exclude each other, got 2 of them; give one"):
        call("analyze", fleet, *flags)


def test_a_cell_is_the_text_that_is_shown():
    assert Cell("1.5", 1.4999) == "1.5"
    assert Cell("1.5", 1.4999).parts == {"": 1.4999}


@pytest.mark.parametrize("words", [["simulate", "--steps", 2000], ["plan", "--time", 1000]])
def test_no_two_columns_of_a_table_have_the_same_head(call, fleet, words):
    verb, *rest = words
    for sheet in call(verb, fleet, *rest, "--csv").out.split("\n\n"):
        heads = next(csv.reader(line for line in sheet.splitlines() if not line.startswith("#")))
        assert len(set(heads)) == len(heads)


def test_an_algorithm_is_named_once_for_people_and_in_every_row_for_programs():
    facts = {f"{key}{end}": 0.5 for key in ("mean", "client_worst", "client_10", "client_50") for end in END}
    row = {**facts, "algorithm": "asyncsgd", "step_size": 0.125, "edge": "", "axis": "time", "at": 9.0, "diverged": 0}
    lines = [_line(row, first, "virtual time", target=False) for first in (True, False)]
    assert [line[:2] for line in lines] == [["asyncsgd", "virtual time"], ["", "virtual time"]]
    rows = list(csv.reader(io.StringIO(as_csv([Sheet("t", [str(n) for n in range(8)], lines)]))))
    assert [cells[:2] for cells in rows[1:]] == [["asyncsgd", "virtual time"]] * 2
