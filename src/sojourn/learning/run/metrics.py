"""metrics.csv, one row per evaluation: rows are appended, cut back to a checkpoint, and read without PyTorch."""

import csv
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.csv_file import read_csv
from sojourn.errors import UnreadableFile
from sojourn.files import write_text, writing

if TYPE_CHECKING:
    from sojourn.learning.replay.server import Server
    from sojourn.learning.run.evaluate import Judgement

PERCENTILES = (0, 10, 50, 90)  # of the clients' accuracies
WHOLE = ("received", "version", "gradients", "unused", "lost", "bits_up", "bits_down")  # columns of counts
MOST_GROUPS = 20  # up to this many groups get a staleness column each
NEEDED = (
    *("received", "version", "time", "gradients", "test_loss", "accuracy"),
    *("client_worst", "client_10", "client_50", "client_90"),
)


class Metrics:
    """The file, and its last row."""

    def __init__(self, path: Path, groups: tuple[str, ...], others: tuple[str, ...] = ()) -> None:
        """`others` are the names of the federation's own metrics, and of the algorithm's."""
        self.path = path
        shown = groups if len(groups) <= MOST_GROUPS else ()
        self.columns = (
            *("received", "version", "time", "gradients", "unused", "lost", "bits_up", "bits_down"),
            *("train_loss", "test_loss", "accuracy", "client_worst"),
            *(f"client_{percent}" for percent in PERCENTILES[1:]),
            *others,
            *("updates_between", "staleness"),
            *(f"staleness_{name}" for name in shown),
        )
        self._shown = len(shown)
        self.last: dict[str, float | int] = {}
        self._losses = (0, 0.0)  # number of tasks that did a step and their summed loss, at the last row

    def begin(self, length: int | None, losses: tuple[int, float] = (0, 0.0)) -> None:
        """Begin a new file, or cut the old one back to `length` bytes."""
        self._losses = losses
        head = io.StringIO()
        csv.writer(head, lineterminator="\n").writerow(self.columns)
        if length is None:
            write_text(self.path, head.getvalue(), "metrics")
            return
        if not self.path.is_file() or self.path.stat().st_size < length:
            raise UnreadableFile(f"{self.path} is missing or shorter than its run left it; restore it")
        with writing(self.path, "metrics"):
            os.truncate(self.path, length)
        rows = read_metrics(self.path.parent)
        if (tuple(rows[-1]) != self.columns) if rows else (self.path.read_bytes() != head.getvalue().encode()):
            raise UnreadableFile(f"{self.path} does not have the columns of its run; restore the right file")
        if any(not rows[-1][key].is_integer() for key in WHOLE if rows):
            raise UnreadableFile(f"{self.path} lacks whole numbers where they are required; restore the right file")
        if rows:
            self.last = {key: int(value) if key in WHOLE else value for key, value in rows[-1].items()}

    def append(self, replay: "Server", found: "Judgement") -> None:
        """Append a row with the state of the run."""
        tally = replay.tally
        before, summed = self._losses
        fresh = tally.worked - before
        arrivals = replay.arrivals
        values = [
            *(tally.received, replay.state.version, replay.time, tally.gradients, tally.unused, tally.lost),
            *(tally.bits_up, tally.bits_down),
            *((tally.loss - summed) / fresh if fresh else float("nan"), found.loss, found.accuracy),
            *found.percentiles(),
            *found.others,
            *replay.measures,
            replay.between.sum() / max(1, arrivals.sum()),
            replay.staleness.sum() / max(1, arrivals.sum()),
            *((replay.staleness / arrivals.clip(1)).tolist()[: self._shown]),
        ]
        self.last = {key: _plain(value) for key, value in zip(self.columns, values, strict=True)}
        self._losses = (tally.worked, tally.loss)
        with writing(self.path, "metrics"), self.path.open("a", encoding="utf-8") as file:
            file.write(",".join(repr(value) for value in self.last.values()) + "\n")

    def settled(self) -> tuple[int, tuple[int, float]]:
        """Return the size of the file once it is on the disk, and the losses up to its last row."""
        with writing(self.path, "metrics"), self.path.open("rb") as file:
            os.fsync(file.fileno())
            return file.seek(0, os.SEEK_END), self._losses


def _plain(value: object) -> float | int:
    return int(value) if isinstance(value, int) else float(value)  # type: ignore[arg-type]


def read_metrics(folder: str | Path) -> list[dict[str, float]]:
    """Return the rows of a run's metrics.csv."""
    path = Path(folder) / "metrics.csv"
    rows = read_csv(path, "metrics file", NEEDED)
    try:
        return [{key: float(cell) for key, cell in row.items()} for row in rows]
    except ValueError as error:
        raise UnreadableFile(f"{path} cannot be read as the metrics of a run: {error}") from None
