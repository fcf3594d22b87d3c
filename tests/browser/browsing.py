"""A real browser for tests of pages: a page that logs an error, or asks another machine, fails its test."""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from browser.visiting import Visit

NAMES = ("chromium", "chromium-browser", "google-chrome")
HERE = ("localhost", "evil.example")  # names that lead to this machine; no other one leads anywhere
RULES = ", ".join([*(f"MAP {name} 127.0.0.1" for name in HERE), "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1"])
ARGUMENTS = ["--no-sandbox", f"--host-resolver-rules={RULES}"]


@pytest.fixture(scope="module")  # not of the session: while it is open, its thread can call no asyncio.run
def browser() -> Iterator[Any]:
    """Debian's Chromium without a window, or another browser of its family."""
    if find_spec("playwright") is None:
        pytest.skip("playwright is not installed; pip install 'sojourn[browser]'")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("chromium is not installed; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Open pages with `visit(place)`; the test fails if one of them had a problem that it did not allow."""
    visit = Visit(browser)
    yield visit
    visit.end()
