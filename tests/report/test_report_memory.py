"""A page of a long trace takes no more memory than one of a short trace."""

import subprocess
import sys
from pathlib import Path

import pytest

from sojourn import Fleet, Plan, simulate_to_file

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
MB = 2**20
FLEET = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
PROGRAM = """
import sys
from sojourn.cli.main import run

sys.argv = ["sojourn", "report", sys.argv[1], "--fleet", sys.argv[2]]
try:
    run()
finally:
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(peak, "torch" in sys.modules)
"""


def peak(steps, folder):
    """Largest resident size of a process that reports a trace of so many updates, in bytes."""
    FLEET.save(folder / "fleet.csv")
    simulate_to_file(FLEET, Plan.uniform(FLEET, 100), steps, folder / f"{steps}.parquet", seed=1)
    command = [sys.executable, "-c", PROGRAM, str(folder / f"{steps}.parquet"), str(folder / "fleet.csv")]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    size, torch = ended.stdout.split()[-2:]
    assert torch == "False"  # it alone takes as much memory as all the rest
    return int(size) * 1024


@pytest.mark.slow
def test_four_million_tasks_are_reported_in_the_memory_of_half_a_million(tmp_path):
    few, many = peak(500_000, tmp_path), peak(4_000_000, tmp_path)
    assert many - few < 50 * MB  # the rows of the longer one alone are 230 MB more
    assert many < 500 * MB
