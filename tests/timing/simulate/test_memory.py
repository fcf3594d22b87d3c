"""Long runs in flat memory: each in a process of its own, whose largest size is read at the end."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
PRELUDE = """
import sys
from sojourn import Fleet, Plan, measure, simulate_to_file, simulate

fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
plan = Plan.uniform(fleet, 100)
"""
MEASURED = "summary = measure(fleet, plan, int(sys.argv[1]), seed=1, workers=2); assert summary.complete"
REPEATED = "measure(fleet, plan, 1000, start='even', replications=int(sys.argv[1]) // 1000, seed=1, workers=2)"
RECORDED = "assert simulate_to_file(fleet, plan, int(sys.argv[1]), sys.argv[2], seed=1)"
SIMULATED = "simulate(fleet, plan, int(sys.argv[1]), seed=1)"
MB = 2**20


def peak(program, *arguments):
    """Largest resident size of a process that runs `program`, in bytes."""
    # not getrusage: its maximum is inherited from the process that started this one
    report = "\nprint(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    command = [sys.executable, "-c", PRELUDE + program + report, *map(str, arguments)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout) * 1024


@pytest.mark.slow
def test_a_hundred_million_steps_are_measured_in_the_memory_of_a_million():
    assert peak(MEASURED, 10**8) - peak(MEASURED, 10**6) < 50 * MB


@pytest.mark.slow
def test_ten_thousand_replications_are_measured_in_the_memory_of_a_hundred():
    assert peak(REPEATED, 10**7) - peak(REPEATED, 10**5) < 50 * MB


@pytest.mark.slow
def test_twenty_million_rows_are_recorded_in_the_memory_of_two(tmp_path):
    path = tmp_path / "run.parquet"
    growth = peak(RECORDED, 20_000_000, path) - peak(RECORDED, 2_000_000, tmp_path / "short.parquet")
    assert path.stat().st_size > 200 * MB  # the rows are there
    path.unlink()
    # twenty million rows of 69 bytes are 1316 MB
    assert growth < 150 * MB


@pytest.mark.slow
def test_the_same_rows_in_memory_would_show():
    # the measurement sees memory when it is used: two million rows more are 132 MB and their pieces
    assert peak(SIMULATED, 3_000_000) - peak(SIMULATED, 1_000_000) > 120 * MB
