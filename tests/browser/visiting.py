"""Visits to pages, which keep what went wrong: errors, and questions to other machines."""

import os
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = ("127.0.0.1", "", None)  # files, data: and blob: have no host
PICTURES = "SOJOURN_SCREENSHOTS"  # names a folder: then tests keep the pictures that they take
COLOURS = 128  # of a picture
PATIENCE = 60_000  # milliseconds that a page may take for anything, on a busy machine


class Visit:
    """Opens pages, each with a memory of its own, and keeps what went wrong in them as `problems`."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.problems: list[str] = []
        self._expected: tuple[str, ...] | None = None
        self._contexts: list[Any] = []

    def __call__(
        self, place: str | Path, *, width: int = 1100, height: int = 800, dark: bool = False, still: bool = False
    ) -> Any:
        """Open an address or a file, and return Playwright's page; `still`: the reader asks for reduced motion."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if still else "no-preference",
        )
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        context.on("console", self._console)
        context.on("weberror", lambda event: self.problems.append(f"error in the page: {event.error}"))
        context.on("request", self._request)
        context.on("requestfailed", self._failed)
        page = context.new_page()
        page.goto(place.resolve().as_uri() if isinstance(place, Path) else place)
        return page

    def expect_errors(self, *parts: str) -> None:
        """Allow problems: all of them, or only those whose text contains one of the parts."""
        self._expected = parts

    def picture(self, page: Any, name: str, *, whole: bool = True) -> None:
        """Keep a picture of the page as `name`.png, where the environment names a folder for pictures."""
        if folder := os.environ.get(PICTURES):
            _keep(page.screenshot(full_page=whole, animations="disabled"), Path(folder) / f"{name}.png")

    def unexpected(self) -> list[str]:
        """Return the problems that the test did not allow, after everything that was still under way has arrived."""
        for page in [page for context in self._contexts for page in context.pages]:
            page.evaluate("new Promise(done => setTimeout(done))")
        if self._expected is None:
            return self.problems
        return [each for each in self.problems if self._expected and not any(part in each for part in self._expected)]

    def end(self) -> None:
        """Close every page; a problem that the test did not allow is its failure. A second call does nothing."""
        if not self._contexts:
            return
        unexpected = self.unexpected()
        while self._contexts:
            self._contexts.pop().close()
        assert not unexpected, "problems in the page:\n" + "\n".join(unexpected)

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if urlsplit(request.url).hostname not in HERE:
            self.problems.append(f"asked another machine: {request.url}")

    def _failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # that is a page which was left, or a download
            self.problems.append(f"failed: {request.url[:200]}: {request.failure}")


def _keep(taken: bytes, place: Path) -> None:
    """Write a picture with a few colours, which are enough for a page and make it several times smaller."""
    from PIL import Image

    with Image.open(BytesIO(taken)) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(place, optimize=True)
