"""Trace: a table of what happened to every task, one row per task, whether simulated or recorded.

Only facts are stored; everything else (staleness, sojourn, waiting) is derived. Steps are counted in one way: w_k is
the model after k updates. `dispatched_step` is the k of the model that the task carries (the paper's I_k, 0 for the
initial tasks), and `applied_step` is the number of updates applied before this one.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sojourn.errors import InvalidInput, SojournError, UnreadableFile
from sojourn.files import check_place, written
from sojourn.frozen import Frozen, frozen, read_only
from sojourn.tabular import Tabular
from sojourn.values import table, whole

SCHEMA = 1
KEY = b"sojourn_trace"
BUFFER = 1 << 16  # bytes of a column that are read at a time; otherwise all of a row group is held in memory
FEW_ROWS, ROWS_A_BYTE = (
    1_000_000,
    2,
)  # a file that claims more rows than this per byte is damaged; real files have at least 7 bytes per row
APPLIED, IN_FLIGHT, DROPPED, REFUSED, LOST = range(5)
FATES = ("applied", "in_flight", "dropped", "refused", "lost")

COLUMNS: dict[str, Any] = {
    "client": np.int32,
    "prob": np.float64,
    "dispatched_at": np.float64,
    "started_at": np.float64,
    "finished_at": np.float64,
    "applied_at": np.float64,
    "dispatched_step": np.int64,
    "applied_step": np.int64,
    "work": np.int32,
    "fate": np.int8,
}
_FATE_TYPE = pa.dictionary(pa.int8(), pa.string())
_ARROW = pa.schema(
    [(key, _FATE_TYPE if key == "fate" else pa.from_numpy_dtype(np.dtype(kind))) for key, kind in COLUMNS.items()]
)


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Frozen, Tabular):
    """A read-only table with one row per task, and metadata about the whole. Times are in seconds.

    >>> from sojourn import Fleet, Plan, simulate
    >>> fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    >>> trace = simulate(fleet, Plan.uniform(fleet, concurrency=4), steps=1000, seed=1)
    >>> len(trace), int((trace.fate == IN_FLIGHT).sum())
    (1004, 4)
    >>> bool((trace.staleness >= 0).all())
    True
    """

    client: NDArray[np.int32]
    """Number of the client in the fleet, from 0."""
    prob: NDArray[np.float64]
    """The client's share of all updates, as believed when the task was sent; its unbiased weight is 1/(n prob)."""
    dispatched_at: NDArray[np.float64]
    """Server clock when the task was dispatched, in seconds; here and below NaN = not yet."""
    started_at: NDArray[np.float64]
    """When the client began to serve it."""
    finished_at: NDArray[np.float64]
    """When the client finished serving it; NaN also if it never did, because it left or the round was over."""
    applied_at: NDArray[np.float64]
    """When the server applied it, or when it ended in another way, as `fate` says: lost, dropped, refused."""
    dispatched_step: NDArray[np.int64]
    """Number of updates in the model that the task carries."""
    applied_step: NDArray[np.int64]
    """Number of updates applied before this one; -1 = the task's update was never applied."""
    work: NDArray[np.int32]
    """Local steps done."""
    fate: NDArray[np.int8]
    """How the task ended: APPLIED, IN_FLIGHT, DROPPED, REFUSED or LOST."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the whole: origin, seed, start, hashes of fleet and plan; `prob`: exact, estimated or drawn."""

    def __post_init__(self) -> None:
        for key, kind in COLUMNS.items():
            object.__setattr__(self, key, read_only(np.asarray(getattr(self, key), dtype=kind)))
        object.__setattr__(self, "metadata", frozen(self.metadata))
        sizes = {getattr(self, key).shape for key in COLUMNS}
        if len(sizes) > 1:
            raise InvalidInput(f"the columns of a trace must have equal length, got {sorted(sizes)}")
        if self.fate.size and not (self.fate.min() >= 0 and self.fate.max() < len(FATES)):
            raise InvalidInput(f"fate must be one of 0..{len(FATES) - 1}, got {self.fate.min()}..{self.fate.max()}")

    def _title(self) -> str:
        ended = self.applied_at[self.applied]
        known = ended[np.isfinite(ended)]
        within = f" within {known.max() - self._begin():.6g} seconds" if known.size else ""
        return f"{self.metadata.get('origin', 'given')} Trace of {len(self):,} tasks, {ended.size:,} applied{within}"

    def _begin(self) -> float:
        """Return when the first task was dispatched; its clock may begin anywhere."""
        begin = float(np.fmin.reduce(self.dispatched_at, initial=np.inf))
        return begin if np.isfinite(begin) else 0.0

    def _table(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in COLUMNS}

    def __len__(self) -> int:
        return int(self.client.size)

    @property
    def applied(self) -> NDArray[np.bool_]:
        """Mask of the rows whose update was applied."""
        return np.asarray(self.fate == APPLIED)

    @property
    def staleness(self) -> NDArray[np.int64]:
        """Number of updates applied strictly between a task's dispatch and its application, for the applied rows."""
        return (self.applied_step - self.dispatched_step)[self.applied]

    @property
    def sojourn(self) -> NDArray[np.float64]:
        """Time from dispatch to application in seconds, for the applied rows."""
        return (self.applied_at - self.dispatched_at)[self.applied]

    @property
    def hash(self) -> str:
        """Fingerprint of the columns, without the metadata."""
        digest = hashlib.sha256()
        for key in COLUMNS:
            digest.update(np.ascontiguousarray(getattr(self, key)).data)
        return digest.hexdigest()[:16]

    def save(self, path: str | Path) -> None:
        """Write the trace as Parquet."""
        with TraceWriter(path, self.metadata) as writer:
            writer.write({key: getattr(self, key) for key in COLUMNS})

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Read a whole Parquet trace into memory; `sojourn.scan` reads it in pieces."""
        pieces = list(scan(path))
        columns = {key: np.concatenate([getattr(piece, key) for piece in pieces]) for key in COLUMNS}
        return cls(**columns, metadata=pieces[0].metadata)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        floats = {key for key, kind in COLUMNS.items() if kind is np.float64}
        same = (np.array_equal(getattr(self, k), getattr(other, k), equal_nan=k in floats) for k in COLUMNS)
        return dict(self.metadata) == dict(other.metadata) and all(same)

    __hash__ = None  # type: ignore[assignment]


class TraceWriter:
    """Writes a trace in pieces, so that its length is not bounded by memory.

    The file gets its name when the writer closes. After an interruption or an error it gets its name with the rows that
    were written so far, unless it is damaged, or a file of that name exists already: then that file stays. Set facts
    that are known only at the end in `metadata` before closing.
    """

    _file: Any

    def __init__(self, path: str | Path, metadata: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.metadata = dict(metadata)
        self.rows = 0
        self._ended, self._file = False, None
        check_place(path, "trace file")
        self._place = ExitStack()
        partial = self._place.enter_context(written(path, "trace file"))
        with self._place_kept():
            self._file = pq.ParquetWriter(
                partial, _ARROW, compression="zstd", compression_level=1, write_page_checksum=True
            )

    def write(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append rows, given as one array per column."""
        arrays = [pa.array(columns[key]) for key in COLUMNS if key != "fate"]
        fate = pa.DictionaryArray.from_arrays(pa.array(columns["fate"]), pa.array(FATES))
        with self._place_kept():
            self._file.write_table(pa.Table.from_arrays([*arrays, fate], schema=_ARROW))
        self.rows += len(fate)

    def close(self) -> None:
        """Finish the file and give it its name."""
        if not self._ended:
            with self._place_kept():
                text = json.dumps({"schema": SCHEMA, "metadata": self.metadata}, default=str)
                self._file.add_key_value_metadata({KEY: text.encode()})
                self._file.close()
            self._end(None, None, None)

    @contextmanager
    def _place_kept(self) -> Iterator[None]:
        """Give up the file if the block fails half-way through a write; a previous file of that name is kept."""
        try:
            yield
        except BaseException as error:
            self._end(type(error), error, error.__traceback__)
            raise

    def _end(self, *problem: Any) -> None:
        if not self._ended:
            self._ended = True
            if problem[0] is not None and self._file is not None:
                self._file.is_open = False  # it writes nothing more, not even when it is deleted
            self._place.__exit__(*problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None or (self.rows and not self.path.exists()):
            self.close()
        else:
            self._end(kind, error, traceback)


def scan(path: str | Path, rows: int = 1_000_000) -> Iterator[Trace]:
    """Read a Parquet trace in pieces of at most `rows` rows; each piece is a Trace with the metadata of the whole."""
    file, metadata = _open(Path(path))
    empty = True
    try:
        for batch in file.iter_batches(batch_size=max(1, rows), columns=list(COLUMNS)):
            yield _piece(path, batch, metadata)
            empty = False
    except SojournError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableFile(f"trace file {path} is damaged ({_first_line(error)}); write it again") from None
    if empty:
        yield Trace(**{key: np.empty(0, dtype=kind) for key, kind in COLUMNS.items()}, metadata=metadata)


def metadata_of(path: str | Path) -> dict[str, Any]:
    """Return the facts about a whole Parquet trace; no rows are read."""
    return _open(Path(path))[1]


def _open(path: Path) -> tuple[Any, dict[str, Any]]:
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=BUFFER)
    except FileNotFoundError:
        raise UnreadableFile(f"trace file {path} does not exist; check the path") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        if path.is_dir():
            raise UnreadableFile(f"trace file {path} is a folder; name the file in it") from None
        reason = _first_line(error)
        raise UnreadableFile(
            f"trace file {path} is not a complete Parquet file ({reason}); it may be truncated: write it again"
        ) from None
    if file.metadata.num_rows > FEW_ROWS + ROWS_A_BYTE * path.stat().st_size:
        raise UnreadableFile(
            f"trace file {path} claims {file.metadata.num_rows:,} rows in {path.stat().st_size:,} bytes, "
            "more than fit; is it the right file?"
        )
    metadata = _metadata(path, file)
    _check_columns(path, file.schema_arrow)
    return file, metadata


def _metadata(path: Path, file: Any) -> dict[str, Any]:
    raw = (file.schema_arrow.metadata or {}).get(KEY) or (file.metadata.metadata or {}).get(KEY)
    if raw is None:
        raise UnreadableFile(f"trace file {path} is Parquet but not a sojourn trace; write it with Trace.save")
    try:
        content = table(json.loads(raw), "it")
        schema = whole(content.get("schema"), "schema")
        metadata = table(content.get("metadata"), "metadata")
    except (ValueError, RecursionError):
        raise UnreadableFile(f"trace file {path} has unreadable metadata; write it again") from None
    if schema > SCHEMA:
        newer = f"schema {schema}, this sojourn reads up to {SCHEMA}"
        raise UnreadableFile(f"trace file {path} was written by a newer sojourn ({newer}); update sojourn")
    return metadata


def _check_columns(path: Path, schema: Any) -> None:
    for key, kind in COLUMNS.items():
        if schema.names.count(key) != 1:
            problem = f"lacks the column '{key}'" if key not in schema.names else f"has the column '{key}' twice"
            raise UnreadableFile(f"trace file {path} {problem}; write it again")
        found = schema.field(key).type
        if key == "fate" and not pa.types.is_dictionary(found):
            raise UnreadableFile(f"trace file {path}: the column 'fate' must be a dictionary; write it with Trace.save")
        fits = pa.types.is_integer(found) or (kind is np.float64 and pa.types.is_floating(found))
        if key != "fate" and not fits:
            wanted = "numbers" if kind is np.float64 else "whole numbers"
            raise UnreadableFile(f"trace file {path}: the column '{key}' must hold {wanted}, got {found}")


def _piece(path: str | Path, batch: Any, metadata: dict[str, Any]) -> Trace:
    columns = {
        key: batch.column(key).cast(pa.from_numpy_dtype(np.dtype(kind))).to_numpy(zero_copy_only=False)
        for key, kind in COLUMNS.items()
        if key != "fate"
    }
    empty = [key for key, kind in COLUMNS.items() if kind is not np.float64 and batch.column(key).null_count]
    if empty:
        raise UnreadableFile(f"trace file {path}: the column '{empty[0]}' must have a value in every row")
    fate = batch.column("fate")
    names = fate.dictionary.to_pylist()
    unknown = [name for name in names if name not in FATES]
    if unknown:
        raise UnreadableFile(f"trace file {path} has the unknown fate '{unknown[0]}'; update sojourn")
    codes = np.array([FATES.index(name) for name in names], dtype=np.int8)
    return Trace(**columns, fate=codes[fate.indices.to_numpy()], metadata=metadata)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
