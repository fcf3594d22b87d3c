"""Real processes, really killed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STEPS = 30_000
KILLS = 20


def _command(fleet: Path, out: Path, *options: str) -> list[str]:
    words = ["train", str(fleet), "--out", str(out), "--partition", "classes(k=2)", "--steps", str(STEPS), *options]
    return [sys.executable, "-m", "sojourn", *words]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,12,4\nslow,8,1\n")
    return path


def test_a_run_killed_at_20_random_moments_ends_in_the_same_bits_as_an_undisturbed_one(fleet, tmp_path) -> None:
    options = ("--concurrency", "30", "--evaluate-every", "500", "--checkpoint-seconds", "0.02")
    subprocess.run(_command(fleet, tmp_path / "whole", *options), check=True, capture_output=True)
    broken, moments = tmp_path / "broken", random.Random(5)
    kills = 0
    while kills < KILLS:
        with subprocess.Popen(_command(fleet, broken, "--resume", *options), stderr=subprocess.PIPE) as process:
            # some die while they start and read the folder, most while they train and write checkpoints
            time.sleep(moments.uniform(0.5, 6.0))
            ended = process.poll()
            if ended is None:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
            else:  # a fast machine: it is through already, and another run is begun
                assert ended == 0, process.stderr.read().decode()
                _same(broken, tmp_path / "whole")
                shutil.rmtree(broken)
    last = subprocess.run(_command(fleet, broken, "--resume", *options), capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    _same(broken, tmp_path / "whole")


def _same(one: Path, other: Path) -> None:
    for name in ("model.safetensors", "metrics.csv", "summary.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot bind a process to one core")
def test_one_core_and_two_give_the_same_bits(fleet, tmp_path) -> None:
    for cores in (1, 2):
        mine = set(sorted(os.sched_getaffinity(0))[:cores])
        environment = {**os.environ, "OMP_NUM_THREADS": str(cores)}
        subprocess.run(
            _command(fleet, tmp_path / str(cores), "--steps", "300", "--model", "cnn(channels=4)"),
            check=True,
            capture_output=True,
            env=environment,
            preexec_fn=lambda mine=mine: os.sched_setaffinity(0, mine),
        )
    one, two = (tmp_path / str(cores) / "model.safetensors" for cores in (1, 2))
    assert one.read_bytes() == two.read_bytes()
