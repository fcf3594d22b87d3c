"""TensorBoard: each evaluation as scalars in event files."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from sojourn.callbacks.callback import Callback, Ending, Model, Row, RunFacts
from sojourn.errors import SojournError

FOLDER = "tensorboard"


class TensorBoard(Callback):
    """Writes event files into the folder `tensorboard` of the run; steps are updates received.

    When a run is resumed, events of updates that a crash has undone are hidden.
    """

    name = "tensorboard"

    def __init__(self) -> None:
        self._writer: Any = None

    def check(self, columns: Sequence[str]) -> None:
        """Refuse a machine without the package."""
        if find_spec("tensorboard") is None:
            raise SojournError(
                "callback tensorboard needs the package tensorboard, which is not installed; pip install tensorboard"
            )

    def begin(self, run: RunFacts) -> None:
        """Open the files; rows of an earlier start are written if nothing is there."""
        from torch.utils.tensorboard import SummaryWriter

        place = run.folder / FOLDER
        new = not place.is_dir() or not any(place.iterdir())
        again = run.received + 1 if run.resumed else 0  # events from there on are hidden
        self._writer = SummaryWriter(str(place), purge_step=None if new else again)
        for row in run.rows if new else ():
            self._write(row)

    def evaluated(self, row: Row, model: Model) -> None:
        """Write a row."""
        self._write(row)
        self._writer.flush()

    def _write(self, row: Row) -> None:
        for key, value in row.items():
            self._writer.add_scalar(key, value, int(row["received"]))

    def end(self, ending: Ending) -> None:
        """Close the files."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
