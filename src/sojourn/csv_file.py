"""Tables as CSV files: numbers at full precision, written whole or not at all."""

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.files import written
from sojourn.folders import made


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A table with a column for every key that a row has."""
    content = list(rows)
    heads = list(dict.fromkeys(key for row in content for key in row))
    with made(path.parent), written(path, "table") as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows([_text(row.get(key)) for key in heads] for row in content)


def _text(value: Any) -> str:
    """Numbers at full precision; nothing where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return str(value)
