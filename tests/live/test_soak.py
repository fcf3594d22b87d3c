"""A hundred thousand tasks through a live run of a thousand clients: each is applied once, and memory stays bounded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "soak.py"
TASKS, CLIENTS = 100_000, 1000
SECONDS = 900.0  # at most; it takes about three minutes on two cores


@pytest.mark.slow
def test_a_hundred_thousand_tasks_are_applied_once_each_in_bounded_memory():
    words = [sys.executable, str(SCRIPT), "--tasks", str(TASKS), "--most", str(SECONDS), "--json"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, timeout=SECONDS + 300).stdout)
    assert found["once"]
    assert found["applied"] == TASKS
    assert TASKS <= found["rows"] <= TASKS + 2 * CLIENTS  # and the tasks that were in flight at the end
    assert found["acknowledged"] > 0.99 * TASKS
    for half, end in (("half", "end"), ("clients_half", "clients_end")):  # of the server; of its clients' processes
        assert found[half] > 0
        assert found[end] < 1.05 * found[half] + 5  # megabytes
