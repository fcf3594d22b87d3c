"""The run that was in a folder before: what is removed when another one takes its place."""

from pathlib import Path
from shutil import rmtree

from sojourn.callbacks.callback import KEPT
from sojourn.files import writing

FILES = ("config.json", "summary.json", "trace.parquet", "model.safetensors", "metrics.csv", "rows.bin")
LOGS = ("log.jsonl*", "clients-*.log")
FOLDERS = ("checkpoints", "plans", *KEPT)


def remove_old_run(folder: Path) -> None:
    """Remove the run in a folder, and leave files that are not a run's; the configuration goes first, since it marks
    the folder.
    """
    with writing(folder, "to"):
        for one in (*(folder / name for name in FILES), *(one for logs in LOGS for one in folder.glob(logs))):
            one.unlink(missing_ok=True)
        for name in FOLDERS:
            rmtree(folder / name, ignore_errors=True)
