"""Tables of the pages that repeat what the code says: options of algorithms, columns of files."""

import re
from dataclasses import MISSING, fields

import pytest
from page_links import ROOT

from sojourn.algorithms import ALGORITHMS, algorithm
from sojourn.experiments.statistics import AXES
from sojourn.learning.run.metrics import Metrics
from sojourn.trace import COLUMNS, FATES

DOCS = ROOT / "docs"


def rows(page: str, head: str) -> list[list[str]]:
    """The rows of the table with this head, cell by cell."""
    below = (DOCS / page).read_text("utf-8").partition(f"\n{head}\n")[2]
    table = below.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


OPTIONS = {
    (name, codes(row[1])[0]): row[2]
    for row in rows("cli.md", "| algorithm | option | values |")
    for name in codes(row[0])
}


def test_the_page_has_every_option_of_every_algorithm():
    known = {(name, item.name) for name, kind in ALGORITHMS.items() for item in fields(kind) if item.name != "server"}
    assert set(OPTIONS) == known


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda word: word)
def test_the_first_value_is_the_default_and_the_others_are_taken(name, option):
    told = codes(OPTIONS[name, option]) or [OPTIONS[name, option].split()[0]]
    (item,) = (item for item in fields(ALGORITHMS[name]) if item.name == option)
    assert item.default is not MISSING
    if item.default is None:
        assert told == ["none"]
        return
    for value in told:
        assert algorithm(f"{name}({option}={value})") is not None
    assert getattr(algorithm(f"{name}({option}={told[0]})"), option) == item.default


def test_the_page_of_methods_has_a_section_for_every_method():
    told = re.findall(r"^### (\S+)$", (DOCS / "methods.md").read_text("utf-8"), re.MULTILINE)
    assert set(told) == set(ALGORITHMS)


def test_the_columns_of_a_trace_are_those_of_the_page():
    told = {codes(row[0])[0]: row for row in rows("files.md", "| column | type | meaning |")}
    assert list(told) == list(COLUMNS)
    assert codes(told["fate"][2]) == list(FATES)


def test_the_columns_of_the_metrics_are_those_of_the_page(tmp_path):
    page = (DOCS / "files.md").read_text("utf-8").partition("The columns of `metrics.csv` are:\n\n")[2]
    table = [line.split(" | ")[0] for line in page.partition("\n\n")[0].splitlines()[2:]]
    told = [name for cell in table for name in codes(cell) if name != "--metrics"]
    own = ("clipped", "refused", "epsilon", "epsilon_NAME")  # those of the wrapper gaussian
    assert told == list(Metrics(tmp_path / "metrics.csv", ("NAME",), own).columns)


def test_the_axes_of_a_comparison_are_those_of_the_page():
    (axis,) = (row for row in rows_of_table_csv() if codes(row[0]) == ["axis"])
    assert set(codes(axis[1])) == set(AXES)


def rows_of_table_csv() -> list[list[str]]:
    page = (DOCS / "files.md").read_text("utf-8").partition("The columns of `table.csv` are:\n\n")[2]
    return [line.strip("| ").split(" | ") for line in page.partition("\n\n")[0].splitlines()[2:]]
