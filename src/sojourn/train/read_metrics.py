"""Reading the metrics of a run, without PyTorch."""

import csv
from pathlib import Path

from sojourn.errors import UnreadableFile


def read_metrics(folder: str | Path) -> list[dict[str, float]]:
    """The rows of a run's metrics.csv."""
    path = Path(folder) / "metrics.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise UnreadableFile(f"{path} cannot be read as the metrics of a run: {error}") from None
