"""TensorBoard, MLflow and W&B as they are: a run that is killed and resumed is recorded once, to its end."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import sojourn

SOURCE = Path(sojourn.__file__).parents[1].resolve()
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "WANDB_ERROR_REPORTING": "false"}


def command(folder, *words):
    told = ["tensorboard", "mlflow(uri=sqlite:///runs.db)", "wandb"]
    flags = ["--out", "run", "--steps", "120", "--evaluate-every", "20", "--model", "logistic", "--device", "cpu"]
    flags += [word for one in told for word in ("--callback", one)]
    return subprocess.run(
        [sys.executable, "-m", "sojourn", "train", "fleet.csv", *flags, *words],
        cwd=folder,
        env={**os.environ, **QUIET, "PYTHONPATH": f"{SOURCE}:{Path(__file__).parent}", "WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
    )


def in_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "run/tensorboard")).Reload()
    return [(one.step, round(one.value, 5)) for one in events.Scalars("test_loss")]


def in_mlflow(folder):
    with sqlite3.connect(folder / "runs.db") as store:
        (run, status), *others = store.execute("select run_uuid, status from runs").fetchall()
        assert (status, others) == ("FINISHED", [])
        assert ("steps", "120") in store.execute("select key, value from params").fetchall()
        rows = store.execute("select step, value from metrics where key = 'test_loss' and run_uuid = ?", [run])
        return sorted((step, round(value, 5)) for step, value in rows)


def in_wandb(folder):
    """Rows by the id of the run; ids in the order of their files."""
    from wandb.proto import wandb_internal_pb2 as pb
    from wandb.sdk.internal.datastore import DataStore

    found = {}
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime):
        rows = found.setdefault(path.stem.removeprefix("run-"), [])
        store = DataStore()
        store.open_for_scan(str(path))
        while (content := store.scan_data()) is not None:
            record = pb.Record()
            record.ParseFromString(content)
            items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            if "test_loss" in items:
                rows.append((int(items["_step"]), round(float(items["test_loss"]), 5)))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_that_is_killed_and_resumed_is_recorded_once_to_its_end(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,8\nslow,3,2\n")
    killed = command(tmp_path, "--callback", "own_callbacks:Dies(at=60)", "--checkpoint-seconds", "0.001")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = command(tmp_path, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "failed" not in resumed.stderr
    run = sojourn.Run(tmp_path / "run")
    rows = [(int(row["received"]), round(row["test_loss"], 5)) for row in run.metrics]
    assert [step for step, _ in rows] == [0, 20, 40, 60, 80, 100, 120]
    assert in_tensorboard(tmp_path) == rows
    assert in_mlflow(tmp_path) == rows
    killed, whole = in_wandb(tmp_path).values()
    assert whole == rows
    assert killed == rows[: len(killed)]  # W&B keeps what it has in memory, mostly
