"""Pages of the documentation: lines that fit a screen, links that lead somewhere, and words in their usual order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = [*ROOT.glob("*.md"), *(page for room in ("docs", "papers", "src") for page in (ROOT / room).rglob("*.md"))]
PAGES = (
    "benchmarks",
    "calibrate",
    "callbacks",
    "dashboard",
    "design",
    "enter",
    "extending",
    "field",
    "following",
    "flower",
    "live",
    "live-ray",
    "methods",
    "mutants",
    "nobody-waits",
    "operations",
    "paper",
    "performance",
    "planner",
    "report",
    "theory",
    "tune",
    "twin",
    "wrappers",
)
ODD = ("convicts", "not spoken of", "that are none", "one a client", "a row a task", "one row a task")


def text_of(page):
    return (DOCS / f"{page}.md").read_text("utf-8")


def anchors(page):
    """Of the headings of a page, as code hosts make them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_line_is_longer_than_100_characters(page):
    assert [line for line in page.read_text("utf-8").splitlines() if len(line) > 100] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page):
    for file, anchor in re.findall(r"\]\(([^)#:]*)#?([^)]*)\)", text_of(page)):
        target = (DOCS / file) if file else DOCS / f"{page}.md"
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page):
    for table in re.findall(r"(?:^ *\|.*\n)+", text_of(page), re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(cells) == 1, table


@pytest.mark.parametrize("page", PAGES)
def test_what_nobody_would_say_is_not_said(page):
    words = " ".join(text_of(page).split())
    assert [odd for odd in ODD if odd in words] == []
