"""Tables as CSV files: numbers keep full precision, a file is written whole or not at all, rows are as long as the
header.
"""

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

FORMULA = ("=", "+", "-", "@")  # a spreadsheet would compute a cell that begins with one of these


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], read_back: bool = False) -> None:
    """Write a table with a column for every key that some row has, for people and their spreadsheets.

    A text that a spreadsheet would take for a formula gets an apostrophe in front, and characters that do not print are
    shown by their codes; numbers stay as they are. With `read_back`, for files that sojourn reads again, nothing is
    changed.
    """
    content = list(rows)
    heads = list(dict.fromkeys(key for row in content for key in row))
    with made(path.parent), written(path, "table") as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        shown = _text if read_back else _guarded
        writer.writerow([shown(head) for head in heads])
        writer.writerows([shown(row.get(key)) for key in heads] for row in content)


def csv_text(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    r"""Return such a table as text.

    >>> csv_text(["name", "rate"], [["fast", 1 / 3], ["=1+1", None]])
    "name,rate\nfast,0.3333333333333333\n'=1+1,\n"
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([_guarded(value) for value in row] for row in (heads, *rows))
    return file.getvalue()


def read_lines(path: str | Path, what: str) -> Iterator[tuple[int, list[str]]]:
    """Read the lines of a CSV file with their numbers; `what` names the file in the error about a damaged one."""
    lines = csv.reader(io.StringIO(read_text(path, what), newline=""))
    try:
        for line in lines:
            yield lines.line_num, line
    except csv.Error as error:
        raise UnreadableFile(f"{what} {path} is not valid CSV: {error}, line {lines.line_num}") from None


def read_csv(
    path: str | Path, what: str, needed: Iterable[str] = (), way_out: str = "is it the right file?"
) -> list[dict[str, str]]:
    """Read the rows of a CSV file as dicts by the header, which must have the columns `needed`; an empty file has no
    rows.
    """
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
    r"""Return a cell that no spreadsheet takes for a formula.

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
    """Return a value as text, numbers at full precision; None as an empty text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return str(value)
