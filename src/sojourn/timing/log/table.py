"""Read a log as a table: a CSV or Parquet file, a DataFrame or a dict of columns; and find out what its columns mean.

All cells of a CSV file are read as texts, so that names such as `007` stay unchanged; `times` turns them into numbers.
Columns are recognised by their names, whatever their case and the marks between words (`Started At`), or are named by
the caller.
"""

import csv
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sojourn.durations import SECONDS
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import is_binary, read_bytes
from sojourn.shown import quoted, short
from sojourn.trace import KEY

WHAT = "log file"
KNOWN = {
    "device": ("device", "client", "worker", "deviceid", "clientid", "workerid", "id"),
    "start": ("start", "started", "startedat", "starttime", "begin"),
    "end": ("end", "ended", "endedat", "endtime", "finished", "finishedat"),
    "duration": ("duration", "seconds", "milliseconds", "minutes", "hours", *(f"duration{unit}" for unit in SECONDS)),
    "status": ("status", "fate"),
}
"""Names by which a column is recognised, in order of preference."""
PERHAPS_STATUS = ("state", "outcome", "result")
"""Names of a column that is the status if its words say how a task ended."""
UNITS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1e-6),
    **SECONDS,
}
"""Units that the name of a column may end in, in seconds."""
DELIMITERS = ",;\t|"
PARQUET = b"PAR1"
OTHERS = {
    b"\x1f\x8b": "it is compressed; unpack it with gunzip",
    b"PK\x03\x04": "it is a spreadsheet or an archive; save the sheet as CSV, or unpack it",
}
"""First bytes of other kinds of files that people give as logs, with what to do about them."""
_BROKEN = re.compile(rb'"|\r(?!\n)|\n\r?\n')  # where rows and lines may differ: quotes, empty lines


@dataclass(frozen=True)
class Table:
    """Named columns that are read on demand."""

    where: str
    """Its name in error messages."""
    names: tuple[str, ...]
    read: Callable[[Sequence[str]], Any]
    """A function that returns the Arrow table of some columns."""
    lined: bool = False
    """Whether every row is one line of a text file, after a header in line 1."""

    def at(self, row: int) -> str:
        """Return where a row is, counted from 0: the line of the file, or the row of the table."""
        return f"line {row + 2}" if self.lined else f"row {row + 1}"


@dataclass(frozen=True)
class Columns:
    """The name of each column of a log; None = recognised by its name, or missing."""

    device: str | None = None
    start: str | None = None
    end: str | None = None
    duration: str | None = None
    status: str | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the columns that exist, each once."""
        given = (self.device, self.start, self.end, self.duration, self.status)
        return tuple(dict.fromkeys(name for name in given if name is not None))


def is_trace(path: str | Path) -> bool:
    """Whether the reader of traces should read a file: a trace, a damaged one, or a missing file named like one."""
    place = Path(path)
    called = place.suffix.lower() in (".parquet", ".pq")
    try:
        with place.open("rb") as file:
            begin = file.read(4)
        if begin != PARQUET:
            return called and not begin  # what begins otherwise never was a trace
        found = pq.ParquetFile(place)
    except (OSError, ValueError, pa.ArrowException):
        return called
    return KEY in (found.schema_arrow.metadata or {}) or KEY in (found.metadata.metadata or {})


def table_of(source: Any) -> Table:
    """Return the table in a file, a DataFrame or a dict of columns."""
    if isinstance(source, str | Path):
        content = read_bytes(source, WHAT)
        if content[:4] == PARQUET:
            return _parquet(f"{WHAT} {source}", content)
        for begin, way_out in OTHERS.items():
            if content.startswith(begin):
                raise UnreadableFile(f"{WHAT} {source} must be CSV or Parquet, {way_out}")
        return _csv(f"{WHAT} {source}", content)
    try:
        table = pa.table(dict(source) if isinstance(source, Mapping) else source)
    except (TypeError, ValueError, pa.ArrowException) as error:
        reason = short(str(error).splitlines()[0] if str(error) else type(error).__name__, 120)
        raise InvalidInput(
            f"a log must be a file, a DataFrame or a dict of columns of equal length, got {quoted(source)} ({reason})"
        ) from None
    return Table("the log", tuple(table.column_names), table.select)


def _parquet(where: str, content: bytes) -> Table:
    try:
        names = pq.ParquetFile(pa.BufferReader(content)).schema_arrow.names
    except (OSError, ValueError, pa.ArrowException):
        raise UnreadableFile(f"{where} is not a complete Parquet file; it may be truncated: write it again") from None

    def read(columns: Sequence[str]) -> Any:
        try:
            return pq.read_table(pa.BufferReader(content), columns=list(columns))
        except (OSError, ValueError, pa.ArrowException):
            raise UnreadableFile(f"{where} is damaged; write it again") from None

    return Table(where, tuple(names), read)


def _csv(where: str, content: bytes) -> Table:
    whole = content.removeprefix(b"\xef\xbb\xbf")
    content = whole.lstrip(b"\r\n")
    first = content.split(b"\n", 1)[0].rstrip(b"\r")
    if is_binary(content):
        raise UnreadableFile(f"{where} is not a text file; a log must be CSV or Parquet: is it the right file?")
    try:
        head = first.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{where} is not UTF-8 text; save it as UTF-8") from None
    if not head.strip():
        raise UnreadableFile(
            f"{where} is empty; a log needs a header such as device,start,end and a row for every task"
        )
    mark = max(DELIMITERS, key=head.count)
    try:
        names = [name.strip() for name in next(csv.reader([head], delimiter=mark, strict=True))]
    except csv.Error:
        raise UnreadableFile(f"{where} is not valid CSV: its header is {quoted(head)}; is it the right file?") from None

    lined = whole == content and not _BROKEN.search(content)

    def read(columns: Sequence[str]) -> Any:
        body = content[len(first) :].lstrip(b"\r\n")
        if not body.strip():
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        places = [f"{index}" for index in range(len(names))]  # since names may appear twice, or be empty
        wanted = {name: places[names.index(name)] for name in columns}
        try:
            found = pyarrow.csv.read_csv(
                pa.BufferReader(body),
                pyarrow.csv.ReadOptions(column_names=places),
                pyarrow.csv.ParseOptions(delimiter=mark, newlines_in_values=b'"' in body),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(places, pa.string()), include_columns=list(wanted.values())
                ),
            )
        except (ValueError, pa.ArrowException) as error:
            raise UnreadableFile(_not_csv(where, str(error), len(names), lined)) from None
        return found.rename_columns(list(wanted))

    return Table(where, tuple(names), read, lined)


def _not_csv(where: str, error: str, cells: int, lined: bool) -> str:
    if "UTF8" in error:
        return f"{where} is not UTF-8 text; save it as UTF-8"
    found = re.search(r"(?:Row #(\d+): )?Expected \d+ columns, got (\d+): (.*)", error, re.DOTALL)
    if found is None:
        return f"{where} is not valid CSV ({short(error, 120)}); is it the right file?"
    row = "" if not found[1] else f" in line {int(found[1]) + 1}" if lined else f" in row {found[1]}"
    return f"{where}: a row must have {cells} cells, got {found[2]}{row}, {quoted(found[3])}; quote commas"


def columns_of(table: Table, named: Columns, is_status: Callable[[str], bool] = lambda name: False) -> Columns:
    """Return the columns of a log: those that the caller named, and the others by their usual names.

    `is_status` says whether a column that may be the status has words of a status.
    """
    given = {key: _named(table, key, name) for key, name in vars(named).items() if name is not None}
    taken = set(given.values())
    for key, known in KNOWN.items():
        if key not in given:
            name = _recognised([one for one in table.names if one not in taken], known)
            if name is not None:
                given[key] = name
    if "status" not in given:
        free = [one for one in table.names if one not in {*given.values()} and table.names.count(one) == 1]
        perhaps = _recognised(free, PERHAPS_STATUS)
        if perhaps is not None and is_status(perhaps):
            given["status"] = perhaps
    found = Columns(**given)
    if named.duration is not None and named.end is None:  # a column that the caller names takes precedence
        found = Columns(found.device, found.start, None, found.duration, found.status)
    if found.device is None:
        raise InvalidInput(_missing(table, "says which device did a task", "device", "device or client"))
    if found.duration is None and (found.start is None or found.end is None):
        lacks = "end" if found.start is not None else "start"
        text = (
            "says how long a task took" if found.end is None and found.start is None else f"has the {lacks} of a task"
        )
        said = _missing(table, text, "duration" if "how" in text else lacks, "start and end, or duration")
        raise InvalidInput(said if "how" in text else f"{said}, or one that says how long it took with --duration NAME")
    for name in found.used:
        if table.names.count(name) > 1:
            raise InvalidInput(f"{table.where} has the column {quoted(name)} twice; rename one")
    return found


def unit_in(name: str) -> float | None:
    """Return the seconds in the unit that the name of a column ends in; None if it ends in none.

    >>> unit_in("duration_ms"), unit_in("Minutes"), unit_in("took (ms)"), unit_in("tookMs"), unit_in("took")
    (0.001, 60.0, 0.001, 0.001, None)
    """
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return UNITS.get(_plain(name).removeprefix("duration"), UNITS.get(words[-1]) if words else None)


def unit_name(unit: float) -> str:
    """Return the name of a unit of so many seconds.

    >>> unit_name(0.001), unit_name(60.0)
    ('milliseconds', 'minutes')
    """
    return next((word for word, size in UNITS.items() if size == unit and word.endswith("s") and len(word) > 4), "")


def looks_like_status(name: str) -> bool:
    """Whether the name of a column suggests that it says how a task ended."""
    words = (*KNOWN["status"], *PERHAPS_STATUS, "success", "fail", "error", "exit", "ended")
    return any(word in _plain(name) for word in words)


def _named(table: Table, key: str, name: str) -> str:
    if name in table.names:
        return name
    near = difflib.get_close_matches(name, table.names, n=1)
    way_out = f"did you mean {quoted(near[0])}?" if near else f"its columns are {_listed(table)}"
    raise InvalidInput(f"{table.where} has no column {quoted(name)}, which was named as {key}; {way_out}")


def _recognised(names: Sequence[str], known: Sequence[str]) -> str | None:
    by_name = {_plain(name): name for name in reversed(names)}
    return next((by_name[one] for one in known if one in by_name), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _missing(table: Table, what: str, key: str, usual: str) -> str:
    return (
        f"{table.where} has no column that {what} (called {usual}); its columns are {_listed(table)}: "
        f"name the column with {key} (--{key} NAME)"
    )


def _listed(table: Table) -> str:
    shown = [short(name, 30) for name in table.names[:8]]
    return (", ".join(shown) or "none") + (f" and {len(table.names) - 8} more" if len(table.names) > 8 else "")
