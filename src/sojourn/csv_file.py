"""Tables as CSV files: numbers at full precision, written whole or not at all; every row as long as the head."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import UnreadableFile
from sojourn.files import read_text, written
from sojourn.folders import made
from sojourn.shown import visible

FORMULA = ("=", "+", "-", "@")  # with which a cell begins that a spreadsheet would compute


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], read_back: bool = False) -> None:
    """A table with a column for every key that a row has, for people and their spreadsheets.

    A text that a spreadsheet would take for a formula gets an apostrophe in front, and what would not print is shown as
    what it is; numbers stay as they are. A file that is `read_back` by us is written as it is.
    """
    content = list(rows)
    heads = list(dict.fromkeys(key for row in content for key in row))
    with made(path.parent), written(path, "table") as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        shown = _text if read_back else _guarded
        writer.writerow([shown(head) for head in heads])
        writer.writerows([shown(row.get(key)) for key in heads] for row in content)


def read_lines(path: str | Path, what: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV file with their numbers; what a damaged file is called goes into the sentence about it."""
    lines = csv.reader(io.StringIO(read_text(path, what), newline=""))
    try:
        for line in lines:
            yield lines.line_num, line
    except csv.Error as error:
        raise UnreadableFile(f"{what} {path} is not valid CSV: {error}, line {lines.line_num}") from None


def read_csv(
    path: str | Path, what: str, needed: Iterable[str] = (), way_out: str = "is it the right file?"
) -> list[dict[str, str]]:
    """The rows of a CSV file by the names in its head, which must have those `needed`; an empty file has no rows."""
    head: list[str] = []
    rows: list[dict[str, str]] = []
    for number, line in read_lines(path, what):
        if not line:
            continue
        if not head:
            head = line
            for name in needed:
                if name not in head:
                    raise UnreadableFile(f"{what} {path} has no column {name}: {way_out}")
            if len(set(head)) < len(head):
                raise UnreadableFile(f"{what} {path} has a column twice: {way_out}")
            continue
        if len(line) < len(head):
            raise UnreadableFile(f"{what} {path} has a row without {head[len(line)]}: {way_out} (line {number})")
        if len(line) > len(head):
            raise UnreadableFile(f"{what} {path} has a row with a cell too many: {way_out} (line {number})")
        rows.append(dict(zip(head, line, strict=True)))
    return rows


def _guarded(value: Any) -> str:
    r"""A cell in which no name or text is a formula.

    >>> _guarded("=1+1"), _guarded("-5"), _guarded(-5), _guarded("plain"), _guarded("\t=1+1")
    ("'=1+1", '-5', '-5', 'plain', '\\t=1+1')
    """
    text = visible(_text(value))
    if not isinstance(value, str) or not text.startswith(FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _text(value: Any) -> str:
    """Numbers at full precision; nothing where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return str(value)
