"""Cells on a real Ray instance of this machine."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from some_cells import MARKS, contents, fleet_file, seeds, small

from sojourn.errors import SojournError
from sojourn.experiments.cells import Cell, Cells
from sojourn.experiments.on_ray import Errand, _unpack, train_there
from sojourn.experiments.on_ray import cluster as connected
from sojourn.experiments.run_cells import run_cells
from sojourn.experiments.train_cells import lots_of

ray = pytest.importorskip("ray")


@pytest.fixture
def fleet(tmp_path):
    return fleet_file(tmp_path)


@pytest.fixture(scope="module")
def cluster():
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    small_one = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    for left in (2, 1, 0):  # beside other instances that start at the same moment it may not come up in time
        try:
            ray.init(_node_ip_address="127.0.0.1", log_to_driver=False, logging_level="ERROR", **small_one)
            break
        except Exception:
            ray.shutdown()
            if not left:
                raise
    yield
    ray.shutdown()


def own(fleet: str, function: str, **changes) -> Cell:
    return Cell(function, small(fleet, data=f"some_cells:{function}", partition="iid", batch_size=2, **changes))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Ray's own
def test_ray_gives_the_same_bits_as_processes_here(cluster, fleet, tmp_path):
    cells = seeds(fleet, 3)
    swept = run_cells(cells, tmp_path / "ray", on="ray")
    assert (swept.ended, swept.failures) == (3, {})
    run_cells(cells, tmp_path / "here", jobs=2)
    on_ray, here = contents(tmp_path / "ray" / "cells"), contents(tmp_path / "here" / "cells")
    assert len(here) == 9
    assert on_ray == here
    assert sorted(path.name for path in (tmp_path / "ray").iterdir()) == ["cells"]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_worker_killed_in_the_middle_is_replaced_and_its_cell_ends_in_the_same_bits(cluster, fleet, tmp_path):
    cells = [own(fleet, "pairs_by_pid", steps=6000, evaluate_every=100), *seeds(fleet, 2), own(fleet, "deadly")]
    for mark in MARKS.glob("*.pid"):
        mark.unlink()
    killed = []

    def kill() -> None:
        folder = Cells(tmp_path / "ray").of(cells[0])
        for _ in range(2400):
            if list((folder / "checkpoints").glob("*.json")) and len(list(MARKS.glob("*.pid"))) == 1:
                killed.append(int(next(MARKS.glob("*.pid")).stem))
                os.kill(killed[0], signal.SIGKILL)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    swept = run_cells(cells, tmp_path / "ray", on="ray", jobs=2, checkpoint_seconds=0.05)
    thread.join()
    assert killed
    assert "pairs_by_pid" in swept.retried
    assert list(swept.failures) == ["deadly"]
    assert "its process died" in swept.failures["deadly"]
    assert swept.ended == 3
    run_cells(cells[:3], tmp_path / "here", jobs=2)
    assert contents(tmp_path / "here" / "cells").items() == contents(tmp_path / "ray" / "cells").items()


@pytest.mark.slow
def test_a_worker_without_this_disk_sends_back_the_files(fleet, tmp_path):
    cell = seeds(fleet, 1, sampling="speed")[0]
    (lot,) = lots_of([cell], Cells(tmp_path / "out"), 1)
    inputs = {fleet: Path(fleet).read_bytes()}
    told, files = train_there(Errand(lot, inputs, tmp_path / "a folder of another machine", 60.0, tmp_path))
    assert told[cell.hash].word == "complete"
    _unpack(files[cell.hash], lot.members[0].folder)
    run_cells([cell], tmp_path / "here", jobs=1)
    assert contents(tmp_path / "out" / "cells") == contents(tmp_path / "here" / "cells")
    configs = [next((tmp_path / name / "cells").glob("*/config.json")).read_text() for name in ("out", "here")]
    assert configs[0] == configs[1]


@pytest.mark.parametrize("connected_already", [False, True])
def test_an_address_where_nobody_is_is_said_at_once(connected_already, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: connected_already)
    with (
        pytest.raises(SojournError, match=r"cannot connect to the Ray cluster at 127\.0\.0\.1:9"),
        connected("127.0.0.1:9", None),
    ):
        pass
