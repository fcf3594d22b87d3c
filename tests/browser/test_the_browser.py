"""The tests of pages can fail: what they are to notice, they notice."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import reading
from PIL import Image
from visiting import PICTURES, Visit

import left_out

HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,"><title>t</title>'
GOOD = """<p>Plain words.</p><img alt="a dot" src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAAC">
<svg role="img" aria-label="a square" width="40" height="20"><rect width="40" height="20" fill="#124"/>
<text x="5" y="15" fill="#fff">ok</text></svg>
<label>Cap <input></label><button>Go</button><a href="#x">x</a><details><summary>More</summary><p>hidden</p></details>
<label><input type="radio" name="r">one</label>
<label><input type="radio" name="r">two</label><button disabled>No</button>
"""


@pytest.fixture
def page_of(visit: Any, tmp_path: Path) -> Any:
    def made(body: str, **options: Any) -> Any:
        place = tmp_path / "page.html"
        place.write_text(HEAD + body, "utf-8")
        return visit(place, **options)

    return made


@pytest.mark.parametrize("dark", [False, True])
def test_a_page_without_faults_has_none(page_of: Any, visit: Any, dark: bool) -> None:
    page = page_of(GOOD, dark=dark)
    assert reading.faults(page) == []
    assert visit.unexpected() == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<script>console.error('broken')</script>", "console: broken"),
        ("<script>setTimeout(() => { throw new Error('thrown') })</script>", "thrown"),
        ("<script>Promise.reject(new Error('rejected'))</script>", "rejected"),
        ('<img alt="" src="https://example.org/a.png">', "asked another machine: https://example.org/a.png"),
        ("<script>fetch('http://example.org/x').catch(() => 0)</script>", "asked another machine"),
        ('<img alt="" src="missing.png">', "missing.png"),
    ],
)
def test_what_goes_wrong_in_a_page_is_noticed(page_of: Any, visit: Any, body: str, words: str) -> None:
    page_of(body)
    assert words in "\n".join(visit.unexpected())
    visit.expect_errors("something else")
    assert visit.unexpected() == visit.problems
    visit.expect_errors()
    assert visit.unexpected() == []


def test_a_test_fails_at_its_end_if_its_page_had_a_problem(browser: Any) -> None:
    visit = Visit(browser)
    visit("data:text/html,<script>console.error('broken')</script>")
    with pytest.raises(AssertionError, match="console: broken"):
        visit.end()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<p style="color:#888">pale</p>', "contrast 3.54 is below 4.5: <p> pale"),
        ('<p style="color:#000;opacity:.4">pale</p>', "is below 4.5"),
        ('<div style="background:#333"><p style="color:#000">dark</p></div>', "is below 4.5"),
        (GOOD.replace('fill="#fff"', 'fill="#235"'), "is below 4.5: <text> ok"),
        ('<svg width="9" height="9"></svg>', "a picture has no words: <svg>"),
        ("<canvas></canvas>", "a picture has no words: <canvas>"),
        ("<button></button>", "a button has no name"),
        ("<input>", "a textbox has no name"),
        ('<a href="#x" tabindex="-1">far</a>', "Tab never comes to <a> far"),
        ('<p><span style="display:inline-block;width:500px">wide</span></p>', "wider than 390 pixels: 5"),
    ],
)
def test_what_somebody_cannot_read_is_noticed(page_of: Any, body: str, words: str) -> None:
    (fault,) = reading.faults(page_of(body))
    assert words in fault


def test_a_reader_who_wants_dark_and_still_gets_it(page_of: Any) -> None:
    asks = (
        "[matchMedia('(prefers-color-scheme: dark)').matches, matchMedia('(prefers-reduced-motion: reduce)').matches]"
    )
    assert page_of("<p>x</p>", dark=True, still=True).evaluate(asks) == [True, True]
    assert page_of("<p>x</p>").evaluate(asks) == [False, False]


def test_a_picture_of_a_page_is_kept_only_where_a_folder_is_named(
    page_of: Any, visit: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    page = page_of(GOOD, width=390)
    monkeypatch.delenv(PICTURES, raising=False)
    visit.picture(page, "nowhere")
    assert not list(tmp_path.glob("*.png"))
    monkeypatch.setenv(PICTURES, str(tmp_path))
    visit.picture(page, "good")
    with Image.open(tmp_path / "good.png") as picture:
        assert picture.size[0] == 390
        assert picture.mode == "P"


def test_the_summary_counts_the_tests_that_were_left_out() -> None:
    lines: list[str] = []
    reports = [
        SimpleNamespace(nodeid=nodeid, longrepr=("file", 1, "Skipped: chromium is not installed"))
        for nodeid in ("tests/browser/test_a.py::a", "tests/browser/test_a.py::b", "tests/live/test_b.py::c")
    ]
    left_out.pytest_terminal_summary(SimpleNamespace(stats={"skipped": reports}, write_line=lines.append))
    assert lines == ["left out: 2 browser tests: chromium is not installed"]
