"""Tests that need a browser say at the end of a run that they were left out, and what to install for them."""

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the tests of pages that were skipped, by reason."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "tests/browser/" in report.nodeid]
    for reason, count in sorted(Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped).items()):
        terminalreporter.write_line(f"left out: {count} browser {'test' if count == 1 else 'tests'}: {reason}")
