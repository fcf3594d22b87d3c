"""Log: which device took how long for which task, read from any table that has these columns.

A task counts if it has a device and a duration (or a start and an end), and if its status, where there is such a
column, says that it finished. All other tasks are left out, and a note says how many: nobody knows how long they would
have taken. Impossible values (an end before its start, a negative or infinite duration) raise an error.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.durations import seconds_of_unit
from sojourn.errors import InvalidInput
from sojourn.shown import quoted, short
from sojourn.tabular import Tabular
from sojourn.timing.log.table import Columns, Table, columns_of, looks_like_status, table_of, unit_in, unit_name
from sojourn.timing.log.times import Clock, Place, are_numbers, clock_of, lengths_of, texts_of, unit_of
from sojourn.trace import APPLIED, Trace
from sojourn.types import Flags, Floats, Integers

SUCCEEDED = (
    *("ok", "okay", "success", "successful", "succeeded", "done", "finished", "complete", "completed", "applied"),
    *("passed", "true", "yes"),
)
"""Words of the status of a finished task; upper and lower case do not matter."""
FAILED = (
    *("failed", "fail", "failure", "failing", "error", "errored", "timeout", "timed out", "timedout", "crashed"),
    *("cancelled", "canceled", "aborted", "killed", "lost", "dropped", "refused", "rejected", "interrupted"),
    *("running", "pending", "queued", "started", "incomplete", "unfinished", "skipped", "false", "no"),
)
"""Words of the status of a task that did not finish, by which a column called outcome is recognised as the status."""
LONGEST = 1e15  # longest task in seconds: thirty million years
FOREVER = 1000.0  # a log without times ends after this many of its longest durations, so that no task is cut off


class LogOptions(TypedDict, total=False):
    """Options for reading a log: the names of its columns, the words that mean success, the unit of its numbers."""

    device: str | None
    start: str | None
    end: str | None
    duration: str | None
    status: str | None
    succeeded: Sequence[str] | str
    time_unit: str | None


@dataclass(frozen=True, eq=False, repr=False)
class Log(Tabular):
    """The finished tasks of named devices."""

    device: tuple[str, ...]
    """Names of the devices, in the order in which they appear."""
    client: Integers
    """Number of the device of each task, from 0."""
    began: Floats
    """When each task began, in seconds after the first task; 0 if the log has no times."""
    duration: Floats
    """How long each task took, in seconds."""
    timed: bool
    """Whether the log says when tasks began."""
    failed: int
    """Rows left out because of their status."""
    incomplete: int
    """Rows left out because their device, start, end or duration is missing."""
    notes: tuple[str, ...] = ()
    """Sentences on how the log was read and what was left out."""

    def _title(self) -> str:
        return f"Log of {self.client.size:,} tasks of {len(self.device):,} devices"

    def _table(self) -> dict[str, Any]:
        names = np.array(self.device, dtype=object)
        return {"device": names[self.client], "began": self.began, "duration": self.duration}

    @property
    def tasks(self) -> Integers:
        """Number of tasks of each device."""
        return np.bincount(self.client, minlength=len(self.device))

    @property
    def mean(self) -> Floats:
        """Mean duration of each device's tasks, in seconds."""
        return np.asarray(np.bincount(self.client, self.duration, len(self.device)) / self.tasks)

    def renumbered(self, order: Integers) -> "Log":
        """Return the same tasks, with the devices in another order."""
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        return replace(self, device=tuple(self.device[old] for old in order.tolist()), client=place[self.client])

    def trace(self) -> Trace:
        """Return the tasks as a Trace, in which every task is applied as soon as it is finished."""
        order = np.argsort(self.began, kind="stable")
        began, ended = self.began[order], (self.began + self.duration)[order]
        steps = np.arange(order.size)
        until = {} if self.timed else {"recorded_until": FOREVER * float(self.duration.max(initial=0.0))}
        return Trace(
            client=self.client[order].astype(np.int32),
            prob=np.full(order.size, np.nan),
            dispatched_at=began,
            started_at=began,
            finished_at=ended,
            applied_at=ended,
            dispatched_step=steps,
            applied_step=steps,
            work=np.ones(order.size, dtype=np.int32),
            fate=np.full(order.size, APPLIED, dtype=np.int8),
            metadata={"origin": "log", "clients": len(self.device), **until},
        )


def read_log(
    source: Any,
    *,
    device: str | None = None,
    start: str | None = None,
    end: str | None = None,
    duration: str | None = None,
    status: str | None = None,
    succeeded: Sequence[str] | str = (),
    time_unit: str | None = None,
) -> Log:
    """Read a log from a CSV or Parquet file, a DataFrame or a dict of columns.

    Columns are recognised by their names (device or client, start and end, or duration, and status), or are named by
    the arguments. `succeeded` are words of the status that mean success, besides the usual ones; `time_unit` is the
    unit of plain numbers.

    >>> log = read_log({"client": ["a", "b", "a"], "duration": ["90s", "2min", None]})
    >>> log.device, log.duration.tolist(), log.incomplete
    (('a', 'b'), [90.0, 120.0], 1)
    """
    table = table_of(source)
    named = Columns(device, start, end, duration, status)
    columns = columns_of(table, named, lambda name: _is_status(table, name))
    read = table.read(columns.used)
    if len(read) == 0:
        raise InvalidInput(f"{table.where} has a header but no rows; a log needs a row for every task")
    unit = None if time_unit is None else seconds_of_unit(time_unit)
    began, lasted, said = _times(table, read, columns, unit)
    name = texts_of(read[columns.device], f"{table.where}, column {quoted(columns.device)},")
    failed, tried = _failed(table, read, columns, succeeded)
    there = name.is_valid().to_numpy(zero_copy_only=False) & ~np.isnan(lasted) & ~np.isnan(began)
    used = there & ~failed
    if not used.any():
        raise InvalidInput(
            f"{table.where} has no finished task: of {len(read):,} rows {int(failed.sum()):,} failed and "
            f"{int((~failed & ~there).sum()):,} lack a value; is it the right file?"
        )
    _check(table, columns, lasted, used)
    timed = columns.start is not None
    coded = name.filter(pa.array(used)).dictionary_encode()
    since = float(began[used].min()) if timed else 0.0
    incomplete = int((~failed & ~there).sum())
    return Log(
        device=tuple(coded.dictionary.to_pylist()),
        client=coded.indices.to_numpy().astype(np.int64),
        began=began[used] - since,
        duration=lasted[used],
        timed=timed,
        failed=int(failed.sum()),
        incomplete=incomplete,
        notes=(*said, *_not_read(table, columns), *_left_out(int(failed.sum()), tried, incomplete)),
    )


def _times(table: Table, read: Any, columns: Columns, unit: float | None) -> tuple[Floats, Floats, list[str]]:
    """Return start and duration of every row's task, NaN where missing; start 0 if the log has no times."""

    def place(name: str | None) -> Place:
        return Place(f"{table.where}, column {quoted(name)},", table.at)

    if columns.start is None or columns.end is None:
        named = columns.duration or ""
        length = (unit_in(named) or 1.0) if unit is None else unit
        lasted = lengths_of(read[named], place(named), length)
        said = _read_as([named], length) if are_numbers(read[named]) else []
        if columns.start is None:
            return np.zeros(lasted.size), lasted, said
        start = clock_of(read[columns.start], place(columns.start))
        own, note = _unit(table, [start], [columns.start], unit)
        return start.seconds(start.first, own), lasted, [*said, *note]
    both = (columns.start, columns.end)
    start, end = (clock_of(read[a], place(a), read[b]) for a, b in (both, both[::-1]))
    if end.there.any() and start.there.any() and start.kind != end.kind:
        raise InvalidInput(
            f"{table.where}: columns {quoted(columns.start)} and {quoted(columns.end)} must be of one kind, got "
            f"{start.kind} and {end.kind}; write both in one way"
        )
    own, note = _unit(table, [start, end], list(both), unit)
    origin = start.first
    began, ended = start.seconds(origin, own), end.seconds(origin, own)
    return began, ended - began, note


def _unit(table: Table, clocks: list[Clock], names: list[str], given: float | None) -> tuple[float, list[str]]:
    """Return the unit of clocks in seconds: the given one, that in their names, or guessed; and a note on it."""
    if clocks[0].kind != "numbers":
        return 1.0, []
    own = {name: unit_in(name) for name in names}
    if given is None and len({*own.values()} - {None}) > 1:
        raise InvalidInput(
            f"{table.where}: columns {' and '.join(map(quoted, names))} must have one unit, got two; rename one"
        )
    unit = given if given is not None else next((one for one in own.values() if one is not None), None)
    if unit is not None:
        return unit, _read_as(names, unit)
    unit, word = unit_of(clocks)
    if not word:
        return unit, _read_as(names, unit)
    return unit, [f"the clock's numbers are so large that they are read as {word} (--time-unit sets another unit)"]


def _read_as(names: Sequence[str], unit: float) -> list[str]:
    """Return a note on the unit in which plain numbers were read."""
    columns = " and ".join(short(name, 30) for name in names)
    word = unit_name(unit)
    return [] if columns == word else [f"{columns} read as {word} (--time-unit sets another unit)"]


def _is_status(table: Table, name: str) -> bool:
    """Whether all words of a column are known words of a status; for `state`, whether some of them mean success."""
    texts = texts_of(table.read([name])[name], f"{table.where}, column {quoted(name)},")
    words = {one.lower() for one in texts.unique().to_pylist() if one is not None}
    if name.strip().lower() == "state":
        return not words.isdisjoint(SUCCEEDED)
    return bool(words) and words <= {*SUCCEEDED, *FAILED}


def _not_read(table: Table, columns: Columns) -> list[str]:
    """Return a note on columns that were not read, with a hint if one of them may be the status."""
    timed = columns.start is not None and columns.end is not None
    read = {*columns.used} - ({columns.duration} if timed else set())
    left = [name for name in table.names if name and name not in read]
    if not left:
        return []
    status = next((name for name in left if looks_like_status(name)), None) if columns.status is None else None
    hint = (
        "" if status is None else f"; if {short(status, 30)} says how a task ended, add --status {shlex.quote(status)}"
    )
    return [f"column{'s' * (len(left) > 1)} not read: {_listed(left)}{hint}"]


def _failed(table: Table, read: Any, columns: Columns, succeeded: Sequence[str] | str) -> tuple[Flags, list[str]]:
    """Return the rows whose status does not mean success, and the words of these; an empty status does not count."""
    if columns.status is None:
        if succeeded:
            raise InvalidInput(
                f"{table.where} has no column of status, in which {quoted(succeeded)} could mean success; "
                "name the column with status (--status NAME)"
            )
        return np.zeros(len(read), dtype=np.bool_), []
    own = succeeded.split(",") if isinstance(succeeded, str) else succeeded
    known = {*SUCCEEDED, *(str(word).strip().lower() for word in own)}
    where = f"{table.where}, column {quoted(columns.status)},"
    coded = texts_of(read[columns.status], where).dictionary_encode()
    words = coded.dictionary.to_pylist()
    bad = [word.lower() not in known for word in words]
    if words and all(bad):
        raise InvalidInput(
            f"{where} must have some tasks that succeeded (ok, done, "
            f"finished, ...), got only {_listed(words)}; name the words of success with succeeded (--succeeded WORD)"
        )
    index = pc.fill_null(coded.indices, len(words)).to_numpy(zero_copy_only=False)
    return np.array([*bad, False], dtype=np.bool_)[index], [word for word, one in zip(words, bad, strict=True) if one]


def _left_out(failed: int, words: Sequence[str], incomplete: int) -> list[str]:
    said = []
    if failed:
        said.append(f"left out: {failed:,} task{'s' * (failed > 1)} that failed (status {_listed(words)})")
    if incomplete:
        many = f"{incomplete:,} row{'s' * (incomplete > 1)}"
        said.append(f"left out: {many} without a device, a start, an end or a duration (perhaps not finished)")
    return said


def _check(table: Table, columns: Columns, lasted: Floats, used: Flags) -> None:
    wrong = used & ~((lasted >= 0) & (lasted <= LONGEST))
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    many = f" (and {int(wrong.sum()) - 1:,} more)" if wrong.sum() > 1 else ""
    if columns.start is not None and columns.end is not None and lasted[row] < 0:
        rule = f"{quoted(columns.end)} must not be before {quoted(columns.start)}, got {-lasted[row]:.6g} s before"
    else:
        name = quoted(columns.duration) if columns.end is None else f"{quoted(columns.start)} to {quoted(columns.end)}"
        rule = f"{name} must take from 0 to {LONGEST:g} s, got {lasted[row]:.6g} s"
    raise InvalidInput(
        f"{table.where}: {rule} in {table.at(row)}{many}; correct such rows, leave them out, "
        "or mark them as failed (--status NAME)"
    )


def _listed(words: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(short(word, 20) for word in words[:most])
    return shown + (f" and {len(words) - most} more" if len(words) > most else "")
