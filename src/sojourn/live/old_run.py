"""The run that was in a folder before: what is removed when another one takes its place."""

from fnmatch import fnmatch
from pathlib import Path
from shutil import rmtree

from sojourn.callbacks.callback import KEPT
from sojourn.files import writing

MARK = "config.json"  # the file that makes a folder a run's
FILES = ("summary.json", "trace.parquet", "model.safetensors", "metrics.csv", "rows.bin")
LOGS = ("log.jsonl*", "clients-*.log")
FOLDERS = ("checkpoints", "plans", *KEPT)
OURS = ("log.jsonl", "rows.bin", "checkpoints")  # files of these names are a live run's, and nobody else's
BESIDE = ("lock", "*.partial", "dashboard.token")  # what may lie there without belonging to the run


def remove_old_run(folder: Path) -> None:
    """Remove the run in a folder, and leave files that are not a run's; the configuration goes last, so that the folder
    can be told from a stranger's until then.
    """
    with writing(folder, "to"):
        for one in (*(folder / name for name in FILES), *(one for logs in LOGS for one in folder.glob(logs))):
            one.unlink(missing_ok=True)
        for name in FOLDERS:
            rmtree(folder / name, ignore_errors=True)
        (folder / MARK).unlink(missing_ok=True)


def left_of_run(folder: Path) -> bool:
    """Whether a folder without a configuration holds files of a run and no others."""
    names = [one.name for one in folder.iterdir()]
    known = (*FILES, *LOGS, *FOLDERS, *BESIDE)
    return any(name in OURS for name in names) and all(any(fnmatch(name, one) for one in known) for name in names)
