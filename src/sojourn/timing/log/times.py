"""Turn the times in a column into seconds: numbers with a unit, timestamps, or texts such as `90s`, `00:01:30`, ISO
8601.

The numbers of a clock may be seconds since 1970, milliseconds, microseconds or nanoseconds. Unless the unit is given,
it is guessed from their size. Timestamps without a time zone are read as they are: only differences count.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.shown import quoted, short
from sojourn.types import Flags, Floats

MISSING = ("", "na", "n/a", "nan", "nat", "null", "none", "-")
EPOCHS = ((1e17, 1e-9, "nanoseconds"), (1e14, 1e-6, "microseconds"), (1e11, 1e-3, "milliseconds"))
"""Above these numbers a clock counts in units smaller than seconds: 1e11 seconds after 1970 is the year 5138."""
LARGEST = 1e25  # largest number of a clock
_CLOCK = re.compile(r"(?:(\d+) days?,? )?(\d+):(\d\d):(\d\d(?:\.\d*)?)")


@dataclass(frozen=True)
class Clock:
    """A column of moments."""

    kind: str
    """`numbers`, `times with a zone` or `times without a zone`."""
    value: Any
    """The moments as numbers, or as integer nanoseconds since 1970."""
    there: Flags

    def seconds(self, origin: Any, unit: float) -> Floats:
        """Return the seconds since the origin."""
        scale = unit if self.kind == "numbers" else 1e-9
        return np.where(self.there, (self.value - origin) * scale, np.nan)

    @property
    def first(self) -> Any:
        """Return the earliest moment."""
        return self.value[self.there].min() if self.there.any() else self.value.dtype.type(0)


@dataclass(frozen=True)
class Place:
    """A column of a log, for error messages."""

    name: str
    """The log and its column in words."""
    at: Callable[[int], str]
    """Where a row is, counted from 0: `line 3` of a file, or `row 2` of a table."""

    def __str__(self) -> str:
        return self.name


def clock_of(column: Any, where: Place, beside: Any = None) -> Clock:
    """Return the moments in a column; `where` names it in errors, `beside` is a column written in the same way."""
    column = _whole(column)
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = None if pa.types.is_date(kind) else kind.tz
        try:
            return _moments(column.cast(pa.timestamp("ns", zone)), zone is not None)
        except pa.ArrowException:
            raise InvalidInput(
                f"{where} must hold times from the years 1678 to 2262, got other years; correct them"
            ) from None
    if _is_text(kind):
        other = None if beside is None else _whole(beside)
        return _clock_of_texts(
            _texts(column), where, _texts(other) if other is not None and _is_text(other.type) else []
        )
    return _clock_of_numbers(_numbers(column, where), where)


def lengths_of(column: Any, where: Place, unit: float) -> Floats:
    """Return the durations in a column in seconds; `unit` is the unit of plain numbers in seconds, NaN = missing."""
    column = _whole(column)
    if pa.types.is_duration(column.type):
        nanoseconds = column.cast(pa.duration("ns")).cast(pa.int64())
        return np.where(_there(column), pc.fill_null(nanoseconds, 0).to_numpy(zero_copy_only=False) * 1e-9, np.nan)
    if not _is_text(column.type):
        return _numbers(column, where) * unit
    texts = _texts(column)
    try:
        return _floats(texts.cast(pa.float64())) * unit
    except pa.ArrowException:
        pass
    coded = texts.dictionary_encode()
    values = np.array([_length(one, unit) for one in coded.dictionary.to_pylist()])
    if np.isnan(values).any():
        wrong = coded.dictionary[int(np.argmax(np.isnan(values)))].as_py()
        row = texts.index(wrong).as_py()
        raise InvalidInput(
            f"{where} must hold numbers (1.5, not 1,5), or durations such as 90s, 1.5min or 00:01:30, "
            f"got {quoted(wrong)} in {where.at(row)}; correct the cell, or leave it empty"
        )
    index = pc.fill_null(coded.indices, len(values)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(values, np.nan)[index])


def are_numbers(column: Any) -> bool:
    """Whether a column has plain numbers, which need a unit."""
    column = _whole(column)
    if not _is_text(column.type):
        return not pa.types.is_duration(column.type)
    texts = _texts(column)
    return bool(pc.any(pc.match_substring_regex(texts, r"^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$")).as_py())


def unit_of(clocks: list[Clock]) -> tuple[float, str]:
    """Return the clocks' unit in seconds, guessed from the size of their numbers, and its name; empty = seconds."""
    values = np.concatenate([one.value[one.there] for one in clocks]) if clocks else np.zeros(0)
    if clocks[0].kind != "numbers" or values.size == 0:
        return 1.0, ""
    size = float(np.median(np.abs(values)))
    return next(((unit, name) for least, unit, name in EPOCHS if size > least), (1.0, ""))


def texts_of(column: Any, where: str) -> Any:
    """Return the cells of a column as texts, null where a cell is empty."""
    column = _whole(column)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        column = column.cast(pa.int64()) if _all_whole(column) else column
    if not _is_text(column.type):
        try:
            column = column.cast(pa.string())
        except pa.ArrowException:
            raise InvalidInput(f"{where} must hold names, got {short(str(column.type))}; name another column") from None
    return _texts(column)


def _all_whole(column: Any) -> bool:
    """Whether a column of floats holds whole numbers; pandas turns integers with gaps into floats."""
    values = column.drop_null().to_numpy(zero_copy_only=False)
    return bool(((np.abs(values) < 2**53) & (values == np.floor(values))).all())


def _whole(column: Any) -> Any:
    """Return a column as one array, without dictionary encoding."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


def _texts(column: Any) -> Any:
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    missing = pc.is_in(pc.utf8_lower(column), pa.array(MISSING))
    return pc.if_else(pc.fill_null(missing, True), pa.scalar(None, pa.string()), column)


def _there(column: Any) -> Flags:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _floats(column: Any) -> Floats:
    return np.asarray(pc.fill_null(column, np.nan).to_numpy(zero_copy_only=False), dtype=np.float64)


def _numbers(column: Any, where: Place) -> Floats:
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        return _floats(column.cast(pa.float64(), safe=False))
    raise InvalidInput(f"{where} must hold numbers or times, got {short(str(column.type))}; name another column")


def _clock_of_numbers(values: Floats, where: Place) -> Clock:
    large = np.abs(values) > LARGEST
    if large.any():
        row = int(np.argmax(large))
        raise InvalidInput(f"{where} must hold numbers up to {LARGEST:g}, got {values[row]:g} in {where.at(row)}")
    there = ~np.isnan(values)
    return Clock("numbers", np.where(there, values, 0.0), there)


def _moments(column: Any, zone: bool) -> Clock:
    values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return Clock(f"times with{'' if zone else 'out'} a zone", values, _there(column))


def _clock_of_texts(texts: Any, where: Place, beside: Any) -> Clock:
    readers: tuple[Callable[[], Clock], ...] = (
        lambda: _clock_of_numbers(_floats(texts.cast(pa.float64())), where),
        lambda: _moments(texts.cast(pa.timestamp("ns")), zone=False),
        lambda: _moments(texts.cast(pa.timestamp("ns", "UTC")), zone=True),
    )
    for read in readers:
        try:
            return read()
        except pa.ArrowException:
            continue
    return _one_by_one(texts.to_pylist(), where, beside)


def _one_by_one(texts: list[str | None], where: Place, beside: Any) -> Clock:
    """Read moments that are written in several ways, or in a way that only pandas knows."""
    moments: list[datetime | None] = []
    for row, text in enumerate(texts):
        try:
            moments.append(None if text is None else datetime.fromisoformat(text))
        except ValueError:
            return _by_pandas(texts, where, row, beside)
    zoned = [moment.tzinfo is not None for moment in moments if moment is not None]
    if len(set(zoned)) > 1:
        row = next(i for i, one in enumerate(moments) if one is not None and (one.tzinfo is not None) != zoned[0])
        rule = f"{where} must hold times that all have a zone, or none, got {quoted(texts[row])} in {where.at(row)}"
        raise InvalidInput(f"{rule} beside {quoted(next(one for one in texts if one))}; write all in one way")
    moved = [None if one is None else one.astimezone(UTC) if one.tzinfo else one.replace(tzinfo=UTC) for one in moments]
    return _moments(pa.array(moved, pa.timestamp("ns", "UTC")), zone=bool(zoned and zoned[0]))


def _by_pandas(texts: list[str | None], where: Place, row: int, beside: Any) -> Clock:
    """Let pandas, if it is installed, read all rows of both columns with one format."""
    everything = [*texts, *(one.as_py() for one in beside)]
    found = [
        times for times in (_pandas_times(everything, day_first) for day_first in (False, True)) if times is not None
    ]
    if not found:
        raise InvalidInput(
            f"{where} must hold numbers or times such as 2026-01-31T12:00:00, got {quoted(texts[row])} in "
            f"{where.at(row)}"
        )
    if not found[0].equals(found[-1]):
        raise InvalidInput(
            f"{where} must hold times that can be read in one way, got {quoted(texts[row])} in {where.at(row)}, "
            "which may have the day or the month first; write 2026-01-31T12:00:00"
        )
    return clock_of(pa.array(found[0][: len(texts)], from_pandas=True), where)


def _pandas_times(texts: list[str | None], day_first: bool) -> Any:
    """Return the times; None if pandas is not installed or finds no format that fits all rows."""
    try:
        import pandas

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = pandas.to_datetime(pandas.Series(texts, dtype=object), dayfirst=day_first)
    except (ImportError, ValueError, TypeError, OverflowError):
        return None
    guessed = any("infer format" in str(one.message) for one in said)  # then the rows have different formats
    return None if guessed or found.dtype.kind != "M" else found


def _length(text: str, unit: float) -> float:
    """Return one duration in seconds; NaN if the text is not a duration."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        days, hours, minutes = (float(part or 0) for part in clock.groups()[:3])
        return days * 86_400 + hours * 3600 + minutes * 60 + float(clock[4])
    try:
        return float(text) * unit
    except ValueError:
        pass
    try:
        return seconds(text)
    except InvalidInput:
        return float("nan")
