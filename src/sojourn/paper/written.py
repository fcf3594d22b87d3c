"""Data of an experiment as CSV, one row a point, every number at full precision."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], heads: Sequence[str] | None = None) -> None:
    """Write rows of equal keys; the first row's keys are the heads unless others are given."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(heads or rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return repr(value) if value == value else ""
    return value
