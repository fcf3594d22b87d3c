"""Reading the metrics of a run, without PyTorch."""

from pathlib import Path

from sojourn.csv_file import read_csv
from sojourn.errors import UnreadableFile

NEEDED = (
    *("received", "version", "time", "gradients", "test_loss", "accuracy"),
    *("client_worst", "client_10", "client_50", "client_90"),
)


def read_metrics(folder: str | Path) -> list[dict[str, float]]:
    """The rows of a run's metrics.csv."""
    path = Path(folder) / "metrics.csv"
    rows = read_csv(path, "metrics file", NEEDED)
    try:
        return [{key: float(cell) for key, cell in row.items()} for row in rows]
    except ValueError as error:
        raise UnreadableFile(f"{path} cannot be read as the metrics of a run: {error}") from None
