"""Fleet files: read CSV and TOML files into plain columns, and write them.

CSV has one row per group; the columns `name,count,rate` are enough. TOML has one `[[group]]` table per group with the
same keys. A row may have `seconds_per_task`, the mean time of a task, in place of `rate`.
Numbers are written so that reading them back gives the same bits.
"""

import csv
import difflib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sojourn.csv_file import read_lines
from sojourn.durations import seconds, seconds_of_unit
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import read_toml, write_text, written
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.shown import short

Columns = dict[str, list[Any]]
Rows = Iterator[tuple[str, Mapping[str, object]]]


def _count(value: object) -> int:
    text = str(value).strip()
    if text.isdecimal():
        return int(text)  # exact, however long
    number = float(text)
    if number != int(number):
        raise ValueError
    return int(number)


def _number(value: object) -> float:
    return float(str(value))


def _name(value: object) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError
    return str(value)


def _law(value: object) -> Law:
    return Law.parse(str(value), run_code=False)


# column -> (how to read a cell, what the cell is called in an error, default; None = required)
COLUMNS: dict[str, tuple[Callable[[object], Any], str, Any]] = {
    "name": (_name, "text", None),
    "count": (_count, "a whole number", 1),
    "rate": (_number, "a number", None),
    "law": (_law, "a law", EXPONENTIAL),
    "uplink_rate": (_number, "a number", math.inf),
    "uplink_law": (_law, "a law", EXPONENTIAL),
    "downlink_rate": (_number, "a number", math.inf),
    "downlink_law": (_law, "a law", EXPONENTIAL),
    "data_size": (_number, "a number", math.nan),
    "power": (_number, "a number", math.nan),
    "uplink_power": (_number, "a number", math.nan),
    "downlink_power": (_number, "a number", math.nan),
}


RATES = ("rate", "uplink_rate", "downlink_rate")
UNIT = "time_unit"  # unit of a row's rates, which are converted to tasks per second when they are read
SECONDS = "seconds_per_task"  # in place of the rate


def read_columns(path: Path) -> Columns:
    """Read a fleet file into one list per column of `COLUMNS`, defaults filled in."""
    readers = {".csv": _read_csv, ".toml": _read_toml}
    if os.path.isdir(path):  # does not raise for names that cannot be
        raise UnreadableFile(f"fleet file {path} is a folder; name the file in it")
    reader = readers.get(path.suffix.lower())
    if reader is None:
        if not os.path.exists(path):
            raise UnreadableFile(f"fleet file {path} does not exist; check the path")
        raise UnreadableFile(f"a fleet file must end in .csv or .toml, got {path}; rename it or convert it")
    columns = columns_of(reader(path))
    if not columns["name"]:
        raise InvalidInput(f"{path}: a fleet needs at least one group, got none; add a row with name,count,rate")
    return columns


def _read_csv(path: Path) -> Rows:
    """Yield one row after the other, so that of a million groups only the columns are held in memory."""
    lines = read_lines(path, "fleet file")
    header = [cell.strip() for cell in next(lines, (0, []))[1]]
    _check_header(path, header)
    if len(set(header)) < len(header):
        repeated = next(cell for cell in header if header.count(cell) > 1)
        raise InvalidInput(f"{path}: column '{repeated}' appears twice; keep one")
    checked = False
    for number, line in lines:
        if not any(cell.strip() for cell in line):
            continue
        where = f"{path}, line {number}"
        if len(line) != len(header):
            raise InvalidInput(f"{where}: a row must have {len(header)} cells, got {len(line)}; quote commas")
        if not checked:
            _known(str(path), header)
            checked = True
        yield where, {key: cell.strip() for key, cell in zip(header, line, strict=True) if cell.strip()}


def _check_header(path: Path, header: Sequence[str]) -> None:
    """Refuse a first line that is no header, or whose cells are not separated by commas."""
    if len(header) == 1 and ";" in header[0]:
        raise InvalidInput(f"{path}: cells must be separated by commas, got semicolons; replace them by commas")
    if len(header) > 1 and not any(cell in COLUMNS for cell in header) and any(map(_is_number, header)):
        line = short(",".join(header))
        raise InvalidInput(
            f"{path}: the first line must name the columns, got '{line}'; write name,count,rate above it"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_toml(path: Path) -> Rows:
    content = read_toml(path, "fleet file")
    extra = [key for key in content if key != "group"]
    groups = content.get("group", [])
    if extra or not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        found = f"'{extra[0]}'" if extra else "something else"
        raise InvalidInput(f"{path}: a fleet in TOML is a list of [[group]] tables, got {found}; see docs/files.md")
    for index, group in enumerate(groups):
        _known(f"{path}, group {index + 1}", list(group))
        yield f"{path}, group {index + 1}", group


def _known(where: str, keys: Sequence[str]) -> None:
    for key in keys:
        if key not in COLUMNS and key not in (UNIT, SECONDS):
            near = difflib.get_close_matches(key, (*COLUMNS, SECONDS), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"the columns are {', '.join(COLUMNS)}"
            raise InvalidInput(f"{where}: unknown column '{key}'; {hint}")


def columns_of(rows: Rows) -> Columns:
    """Return one list per column of `COLUMNS` from rows, each with the words that say where it stands."""
    columns: Columns = {key: [] for key in COLUMNS}
    for where, row in rows:
        units = dict.fromkeys(RATES, _unit(row, where))
        if SECONDS in row:
            row, units["rate"] = {**row, "rate": _rate(row, where)}, 1.0
        for key, (read, kind, default) in COLUMNS.items():
            if key not in row:
                if default is None:
                    way_out = f"add it, or {SECONDS}" if key == "rate" else "add it"
                    raise InvalidInput(f"{where}: column '{key}' is required and missing; {way_out}")
                columns[key].append(default)
                continue
            try:
                columns[key].append(read(row[key]) / units[key] if key in units else read(row[key]))
            except InvalidInput as error:
                raise InvalidInput(f"{where}: {error}") from None
            except (ValueError, OverflowError):
                found = short(str(row[key]))
                raise InvalidInput(f"{where}: {key} must be {kind}, got '{found}'; correct the cell") from None
    return columns


def _unit(row: Mapping[str, object], where: str) -> float:
    """Return the seconds in the row's unit of time; 1 if the row names none."""
    if UNIT not in row:
        return 1.0
    try:
        return seconds_of_unit(str(row[UNIT]))
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None


def _rate(row: Mapping[str, object], where: str) -> float:
    """Return the tasks per second of a row that gives the time of a task."""
    given = row[SECONDS]
    if "rate" in row:
        raise InvalidInput(
            f"{where}: a row must have either rate or {SECONDS}, got both, {short(str(row['rate']))} and "
            f"{short(str(given))}; leave one of the two empty"
        )
    try:
        value = seconds(given if isinstance(given, str | int | float) else str(given), SECONDS)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None
    if not (math.isfinite(value) and value > 0 and math.isfinite(1 / value)):
        raise InvalidInput(f"{where}: {SECONDS} must be positive and finite, got {short(str(given))}; correct the cell")
    return 1 / value


def write_columns(path: Path, columns: Columns) -> None:
    """Write columns to a CSV or TOML file, without optional columns that hold only defaults."""
    kept = [
        key
        for key, (_, _, default) in COLUMNS.items()
        if key in ("name", "count", "rate") or any(not _same(value, default) for value in columns[key])
    ]
    if path.suffix.lower() == ".csv":
        rows = zip(*([_text(value) for value in columns[key]] for key in kept), strict=True)
        with written(path, "fleet file") as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(kept)
            writer.writerows(rows)
    elif path.suffix.lower() == ".toml":
        groups = (_toml_group(columns, kept, row) for row in range(len(columns["name"])))
        write_text(path, "\n".join(groups), "fleet file")
    else:
        raise InvalidInput(f"a fleet file must end in .csv or .toml, got {path}")


def _toml_group(columns: Columns, kept: list[str], row: int) -> str:
    lines = ["[[group]]"]
    for key in kept:
        value = columns[key][row]
        quoted = json.dumps(str(value), ensure_ascii=False) if isinstance(value, str | Law) else _text(value)
        lines.append(f"{key} = {quoted}")
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    return repr(float(value)) if isinstance(value, float) else str(value)


def _same(value: object, default: object) -> bool:
    both_nan = isinstance(value, float) and isinstance(default, float) and math.isnan(value) and math.isnan(default)
    return both_nan or value == default
