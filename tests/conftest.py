"""What every test may rely on."""

import signal
import sys
from collections.abc import Iterator

import pytest

from browser.browsing import browser as browser  # a fixture of tests of pages
from browser.browsing import visit as visit
from left_out import pytest_terminal_summary as pytest_terminal_summary  # pytest calls it

# a shell that runs tests in the background has its children ignore Ctrl-C, and they would pass that on
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    """Close the figures of a test: Matplotlib warns when many are open, and then a later test would fail."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
