"""Many cells in processes of this machine."""

import fcntl
import os
import shutil
import signal
import threading
import time

import pytest
from some_cells import MARKS, contents, fleet_file, seeds, small

from sojourn.errors import InvalidInput
from sojourn.experiments.cells import Cell, Cells, ended
from sojourn.experiments.run_cells import STOP, _halting, run_cells
from sojourn.experiments.training import train
from sojourn.files import alone


@pytest.fixture
def fleet(tmp_path):
    return fleet_file(tmp_path)


def own(fleet: str, function: str) -> Cell:
    return Cell(function, small(fleet, data=f"some_cells:{function}", partition="iid", batch_size=2))


def test_ctrl_c_is_acknowledged_at_once(tmp_path):
    told = []
    with _halting(tmp_path, told.append):
        signal.raise_signal(signal.SIGINT)
    assert told == ["stopping: every run writes a checkpoint first; Ctrl-C again stops at once"]
    assert (tmp_path / STOP).exists()


@pytest.mark.slow
def test_cells_end_in_the_bits_of_a_plain_run_whatever_the_number_of_jobs(fleet, tmp_path):
    cells = seeds(fleet, 3)
    for jobs in (1, 2):
        swept = run_cells(cells, tmp_path / str(jobs), jobs=jobs)
        assert (swept.cells, swept.ended, swept.failures, swept.interrupted) == (3, 3, {}, False)
    train(cells[1].config, tmp_path / "plain" / cells[1].folder_name)
    plain = contents(tmp_path / "plain")
    assert len(plain) == 3
    for jobs in (1, 2):
        assert plain.items() <= contents(tmp_path / str(jobs) / "cells").items()


@pytest.mark.slow
def test_what_has_ended_is_left_alone_and_twins_are_trained_once(fleet, tmp_path):
    cells = seeds(fleet, 2)
    run_cells(cells[:1], tmp_path / "out", jobs=2)
    first = Cells(tmp_path / "out").of(cells[0])
    before = (first / "summary.json").stat().st_mtime_ns
    seen = []
    swept = run_cells([*cells, Cell("twin", cells[1].config)], tmp_path / "out", watch=lambda *told: seen.append(told))
    assert (swept.cells, swept.ended) == (2, 2)
    assert (first / "summary.json").stat().st_mtime_ns == before
    assert seen == [("seed 1", 2, 2)]


@pytest.mark.slow
def test_a_cell_that_raises_is_tried_once_more_and_the_rest_goes_on(fleet, tmp_path):
    cells = [own(fleet, "wrong"), own(fleet, "wrong_once"), own(fleet, "pairs")]
    swept = run_cells(cells, tmp_path / "out", jobs=2)
    assert swept.ended == 2
    assert sorted(swept.retried) == ["wrong", "wrong_once"]
    assert swept.failures == {"wrong": "RuntimeError: no such luck"}
    report = next((tmp_path / "out" / "failures").iterdir()).read_text()
    assert "no such luck" in report
    assert "Traceback" in report


@pytest.mark.slow
def test_a_cell_that_kills_its_process_is_convicted_alone_and_its_neighbours_are_not(fleet, tmp_path):
    cells = [own(fleet, "deadly"), own(fleet, "deadly_once"), *seeds(fleet, 3)]
    swept = run_cells(cells, tmp_path / "out", jobs=2)
    assert swept.ended == 4
    assert list(swept.failures) == ["deadly"]
    assert "its process died" in swept.failures["deadly"]
    assert "deadly_once" in swept.retried


@pytest.mark.slow
def test_a_cell_that_diverges_has_ended_and_is_not_tried_again(fleet, tmp_path):
    cell = Cell("far", small(fleet, step_size=1e20, model="mlp"))
    for _ in range(2):
        swept = run_cells([cell], tmp_path / "out", jobs=2)
        assert (swept.ended, swept.failures, swept.retried) == (1, {}, [])
    assert ended(Cells(tmp_path / "out").of(cell)) == "diverged"


@pytest.mark.slow
def test_the_work_of_two_machines_in_one_folder_is_the_work_of_both(fleet, tmp_path):
    cells = seeds(fleet, 4)
    (tmp_path / "elsewhere").mkdir()
    same = fleet_file(tmp_path / "elsewhere", "another-name.csv")
    run_cells(cells[:2], tmp_path / "one", jobs=2)
    run_cells(seeds(same, 4)[2:], tmp_path / "two", jobs=2)
    shutil.copytree(tmp_path / "two", tmp_path / "one", dirs_exist_ok=True)
    swept = run_cells(cells, tmp_path / "one", watch=lambda *told: pytest.fail("nothing is left to do"))
    assert (swept.cells, swept.ended) == (4, 4)


def test_the_hash_knows_what_lies_in_the_files_and_not_where_they_lie(fleet, tmp_path):
    cell = Cell("one", small(fleet))
    (tmp_path / "there").mkdir()
    assert Cell("two", small(fleet_file(tmp_path / "there"))).hash == cell.hash
    assert Cell("one", small(fleet, seed=1)).hash != cell.hash
    assert Cell("one", small(fleet, sampling="speed")).hash != cell.hash
    other = tmp_path / "other.csv"
    other.write_text("name,count,rate\nfast,6,4\nslow,4,2\n")
    assert Cell("one", small(str(other))).hash != cell.hash
    images = [Cell("one", small(fleet, data=text)).hash for text in ("cifar10(folder=/a)", "cifar10(folder=/b)")]
    spelt = ("cifar10(validation=0.1, folder=/a)", "cifar10(folder=/a, validation=0.1)", "cifar10(validation=0.1)")
    assert len({Cell("one", small(fleet, data=text)).hash for text in spelt}) == 1
    assert images[0] == images[1] == Cell("one", small(fleet, data="cifar10")).hash


@pytest.mark.slow
def test_cells_that_have_ended_keep_no_checkpoints(fleet, tmp_path):
    cells = [*seeds(fleet, 1), Cell("far", small(fleet, step_size=1e20, model="mlp"))]
    run_cells(cells, tmp_path / "out", jobs=1, checkpoint_seconds=0)
    where = Cells(tmp_path / "out")
    assert [ended(where.of(cell)) for cell in cells] == ["complete", "diverged"]
    assert not list((tmp_path / "out").rglob("checkpoints"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cells"]


@pytest.mark.slow
def test_what_killed_commands_left_is_cleared_away_and_what_is_in_use_is_not(fleet, tmp_path):
    home = tmp_path / "out"
    run_cells(seeds(fleet, 1), home, jobs=1)
    checkpoints = Cells(home).of(seeds(fleet, 1)[0]) / "checkpoints"
    for folder in (checkpoints, home / ".in-progress-killed", home / ".in-progress-living"):
        folder.mkdir()
        (folder / "lock").touch()
    (home / "runs.csv.partial").write_text("half")
    with alone(home / ".in-progress-living"):
        run_cells(seeds(fleet, 2), home, jobs=1)
        assert sorted(path.name for path in home.iterdir()) == [".in-progress-living", "cells"]
    assert not checkpoints.exists()


@pytest.mark.slow
def test_a_report_that_cannot_be_written_does_not_stop_the_other_cells(fleet, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "failures").write_text("in the way")
    told = []
    swept = run_cells(
        [own(fleet, "wrong"), own(fleet, "pairs")], tmp_path / "out", jobs=1, watch=lambda *one: told.append(one[0])
    )
    assert (swept.ended, swept.failures) == (1, {"wrong": "RuntimeError: no such luck"})
    assert any("cannot write to" in text for text in told)


def test_a_place_that_is_none_is_refused(fleet, tmp_path):
    with pytest.raises(InvalidInput, match="on must be one of here, ray, got 'there'"):
        run_cells(seeds(fleet, 1), tmp_path, on="there")
    with pytest.raises(InvalidInput, match="jobs must be a whole number of at least 1, got 0"):
        run_cells(seeds(fleet, 1), tmp_path, jobs=0)


@pytest.mark.slow
def test_cells_that_share_waves_do_not_share_their_troubles(fleet, tmp_path):
    cells = [
        *seeds(fleet, 2),
        Cell("far", small(fleet, step_size=1e20)),
        Cell("too many", small(fleet, algorithm="fedavg", concurrency=11)),
    ]
    swept = run_cells(cells, tmp_path / "out", jobs=1, together=8)
    assert swept.ended == 3
    assert list(swept.failures) == ["too many"]
    where = Cells(tmp_path / "out")
    assert [ended(where.of(cell)) for cell in cells] == ["complete", "complete", "diverged", None]


@pytest.mark.slow
def test_a_cell_that_someone_else_trains_is_waited_for(fleet, tmp_path, monkeypatch):
    cells = seeds(fleet, 2)
    folder = Cells(tmp_path / "out").of(cells[0])
    folder.mkdir(parents=True)
    monkeypatch.setattr("sojourn.experiments.run_cells.PATIENCE", 0.2)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        someone = threading.Timer(
            3.0, lambda: (train(cells[0].config, tmp_path / "theirs"), _arrive(tmp_path / "theirs", folder))
        )
        someone.start()
        swept = run_cells(cells, tmp_path / "out", jobs=2)
        someone.join()
    assert (swept.ended, swept.failures, swept.retried) == (2, {}, [])


def _arrive(source, folder):
    for name in ("config.json", "metrics.csv", "summary.json"):
        shutil.copy(source / name, folder / name)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_is_replaced_and_its_cell_ends_in_the_same_bits(fleet, tmp_path):
    changes = {"partition": "iid", "batch_size": 2, "steps": 6000, "evaluate_every": 100}
    cells = [Cell("long", small(fleet, data="some_cells:pairs_by_pid", **changes)), *seeds(fleet, 3)]
    for mark in MARKS.glob("*.pid"):
        mark.unlink()
    killed = []

    def kill() -> None:
        folder = Cells(tmp_path / "out").of(cells[0])
        for _ in range(2400):
            ready = list((folder / "checkpoints").glob("*.json"))
            mine = [int(mark.stem) for mark in MARKS.glob("*.pid") if int(mark.stem) != os.getpid()]
            if ready and mine:
                killed.extend(mine)
                os.kill(mine[0], signal.SIGKILL)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    swept = run_cells(cells, tmp_path / "out", jobs=2, checkpoint_seconds=0.05)
    thread.join()
    assert len(killed) == 1
    assert "long" in swept.retried
    assert (swept.ended, swept.failures) == (4, {})
    train(cells[0].config, tmp_path / "plain" / cells[0].folder_name)
    assert contents(tmp_path / "plain").items() <= contents(tmp_path / "out" / "cells").items()
