"""Traces: one row a task, in memory and in Parquet."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import sojourn.trace
from sojourn import InvalidInput, Trace, UnreadableFile, UnwritableFile, scan
from sojourn.trace import APPLIED, COLUMNS, DROPPED, FATES, IN_FLIGHT, LOST, REFUSED, TraceWriter

ANY = settings(max_examples=60)
NAN = float("nan")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
metadata = st.dictionaries(st.text(max_size=5), json_values, max_size=3)


@st.composite
def traces(draw):
    rows = draw(st.integers(0, 12))
    columns = {}
    for key, kind in COLUMNS.items():
        fates = st.integers(0, len(FATES) - 1) if key == "fate" else None
        columns[key] = draw(arrays.arrays(kind, rows, elements=fates))
    return Trace(**columns, metadata=draw(metadata))


def some_trace(rows=100, **facts):
    k = np.arange(rows)
    columns = {
        "client": k % 7,
        "prob": 1 / (1 + k),
        "dispatched_at": k / 3,
        "started_at": k / 2,
        "finished_at": np.where(k % 5 == 4, NAN, k * 1.0),
        "applied_at": np.where(k % 5 == 4, NAN, k + 0.1),
        "dispatched_step": k // 2,
        "applied_step": np.where(k % 5 == 4, -1, k),
        "work": k % 3,
        "fate": np.where(k % 5 == 4, IN_FLIGHT, APPLIED),
    }
    return Trace(**{**columns, **facts})


def columns_of(trace):
    return {key: getattr(trace, key) for key in COLUMNS}


def joined(pieces):
    return Trace(
        **{key: np.concatenate([getattr(piece, key) for piece in pieces]) for key in COLUMNS},
        metadata=pieces[0].metadata,
    )


def rewritten(path, change):
    """The trace file at `path` written anew by plain pyarrow, its table passed through `change`."""
    facts = {b"sojourn_trace": json.dumps({"schema": 1, "metadata": {}}).encode()}
    pq.write_table(change(pq.read_table(path).replace_schema_metadata(facts)), path)
    return path


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "trace.parquet"
    some_trace().save(path)
    return path


def test_staleness_and_sojourn_are_derived_for_the_applied_rows_alone():
    trace = Trace(
        client=[0, 1, 0],
        prob=[0.5, 0.5, 0.5],
        dispatched_at=[0.0, 0.0, 1.5],
        started_at=[0.0, 0.0, NAN],
        finished_at=[1.0, 1.5, NAN],
        applied_at=[1.0, 1.5, NAN],
        dispatched_step=[0, 0, 2],
        applied_step=[0, 1, -1],
        work=[1, 1, 0],
        fate=[APPLIED, APPLIED, IN_FLIGHT],
    )
    assert len(trace) == 3
    assert trace.applied.tolist() == [True, True, False]
    assert trace.staleness.tolist() == [0, 1]
    assert trace.sojourn.tolist() == [1.0, 1.5]


def test_the_fates_are_named_in_the_order_of_their_codes():
    assert [FATES[code] for code in (APPLIED, IN_FLIGHT, DROPPED, REFUSED, LOST)] == list(FATES)


def test_columns_take_their_stored_types():
    trace = some_trace(3)
    assert {key: getattr(trace, key).dtype for key in COLUMNS} == {key: np.dtype(kind) for key, kind in COLUMNS.items()}


def test_columns_of_different_length_are_refused():
    with pytest.raises(InvalidInput, match=r"the columns of a trace must have equal length, got \[\(2,\), \(3,\)\]"):
        some_trace(3, work=[1, 1])


@ANY
@given(trace=traces())
def test_saving_and_loading_gives_the_same_trace(tmp_path_factory, trace):
    path = tmp_path_factory.getbasetemp() / "any-trace.parquet"
    trace.save(path)
    loaded = Trace.load(path)
    assert loaded == trace
    assert loaded.metadata == trace.metadata
    for key in COLUMNS:
        assert getattr(loaded, key).tobytes() == getattr(trace, key).tobytes()


@pytest.mark.parametrize("key", [*COLUMNS, "metadata"])
def test_two_traces_that_differ_in_one_place_are_different(key):
    changed = {"seed": 2} if key == "metadata" else np.where(np.arange(100) == 50, 3, getattr(some_trace(), key))
    assert some_trace(**{key: changed}) != some_trace()
    assert some_trace() == some_trace()
    assert some_trace() != "trace"


@pytest.mark.parametrize("rows", [1, 7, 50, 99, 100, 1000])
def test_reading_in_pieces_gives_the_same_rows(tmp_path, rows):
    path = tmp_path / "trace.parquet"
    trace = some_trace(metadata={"seed": 3})
    trace.save(path)
    pieces = list(scan(path, rows=rows))
    assert max(len(piece) for piece in pieces) <= rows
    assert len(pieces) == -(-100 // rows)
    assert all(piece.metadata == {"seed": 3} for piece in pieces)
    assert joined(pieces) == trace


def test_writing_in_pieces_gives_the_same_rows(tmp_path):
    path = tmp_path / "trace.parquet"
    trace = some_trace(metadata={"seed": 3, "steps": 100})
    with TraceWriter(path, {"seed": 3}) as writer:
        for start in range(0, 100, 30):
            writer.write({key: column[start : start + 30] for key, column in columns_of(trace).items()})
        writer.metadata["steps"] = 100  # a fact known only at the end
    assert Trace.load(path) == trace
    assert joined(list(scan(path, rows=45))) == trace


def test_an_empty_trace_is_a_trace(tmp_path):
    with TraceWriter(tmp_path / "empty.parquet", {"seed": 1}):
        pass
    trace = Trace.load(tmp_path / "empty.parquet")
    assert len(trace) == 0
    assert trace.metadata == {"seed": 1}


def test_the_file_appears_under_its_name_only_when_it_is_complete(tmp_path):
    path = tmp_path / "trace.parquet"
    with TraceWriter(path, {}) as writer:
        writer.write(columns_of(some_trace()))
        assert not path.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.parquet"]


def interrupted(path, trace):
    with TraceWriter(path, {}) as writer:
        writer.write(columns_of(trace))
        raise KeyboardInterrupt


def test_an_interruption_keeps_what_was_written_and_leaves_nothing_partial(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "trace.parquet", some_trace())
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.parquet"]
    assert Trace.load(tmp_path / "trace.parquet") == some_trace()


def test_a_trace_replaces_the_one_of_the_same_name(saved):
    some_trace(5).save(saved)
    assert Trace.load(saved) == some_trace(5)


def test_a_trace_in_a_folder_that_is_not_there_cannot_be_written(tmp_path):
    with pytest.raises(UnwritableFile, match=r"cannot write trace file .*trace\.parquet: "):
        some_trace().save(tmp_path / "none" / "trace.parquet")


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, -1, -8])
def test_a_truncated_trace_file_is_refused_with_the_way_out(saved, kept):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(len(whole) * kept) if isinstance(kept, float) else kept])
    with pytest.raises(UnreadableFile, match=r"is not a complete Parquet file \(.*may be truncated: write it again"):
        Trace.load(saved)


def test_a_text_file_is_not_a_trace(tmp_path):
    (tmp_path / "trace.parquet").write_text("client,prob\n" * 50, "utf-8")
    with pytest.raises(UnreadableFile, match="is not a complete Parquet file"):
        Trace.load(tmp_path / "trace.parquet")


def test_parquet_of_another_program_is_refused(tmp_path):
    pq.write_table(pa.table({"client": [1, 2]}), tmp_path / "other.parquet")
    with pytest.raises(UnreadableFile, match=r"is Parquet but not a sojourn trace; write it with Trace\.save"):
        Trace.load(tmp_path / "other.parquet")


def test_a_trace_of_a_newer_sojourn_is_refused_with_the_way_out(saved):
    facts = {b"sojourn_trace": json.dumps({"schema": 2, "metadata": {}}).encode()}
    rewritten(saved, lambda table: table.replace_schema_metadata(facts))
    with pytest.raises(UnreadableFile, match=r"newer sojourn \(schema 2, this sojourn reads up to 1\); update sojourn"):
        Trace.load(saved)


def test_a_trace_that_lacks_a_column_is_refused_by_name(saved):
    rewritten(saved, lambda table: table.drop_columns(["work"]))
    with pytest.raises(UnreadableFile, match=r"lacks the column 'work'; write it again"):
        Trace.load(saved)


def test_an_unknown_fate_is_refused_by_name(saved):
    def change(table):
        fates = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50, pa.int8()), pa.array(["applied", "teleported"]))
        return table.set_column(table.schema.get_field_index("fate"), "fate", fates)

    with pytest.raises(UnreadableFile, match="has the unknown fate 'teleported'; update sojourn"):
        Trace.load(rewritten(saved, change))


def test_fates_are_read_by_name_whatever_their_order_in_the_file(saved):
    def change(table):
        fates = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50, pa.int8()), pa.array(["lost", "applied"]))
        return table.set_column(table.schema.get_field_index("fate"), "fate", fates)

    assert Trace.load(rewritten(saved, change)).fate.tolist() == [LOST, APPLIED] * 50


def test_a_trace_that_is_not_there_or_a_folder_is_named(tmp_path):
    with pytest.raises(UnreadableFile, match=r"trace file .*none\.parquet does not exist; check the path"):
        Trace.load(tmp_path / "none.parquet")
    with pytest.raises(UnreadableFile, match="is a folder"):
        Trace.load(tmp_path)


def test_a_file_that_claims_more_rows_than_its_bytes_can_hold_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "trace.parquet"
    rows = 3_000_000
    Trace(**{key: np.zeros(rows, kind) for key, kind in COLUMNS.items()}).save(path)
    assert path.stat().st_size < rows / 10  # the same row again and again
    for read in (Trace.load, lambda path: next(scan(path))):
        with pytest.raises(
            UnreadableFile, match=r"claims 3,000,000 rows in [\d,]+ bytes, more than fit; is it the right"
        ):
            read(path)


def test_metadata_nested_without_end_are_refused(saved):
    deep = b'{"schema": 1, "metadata": ' + b"[" * 10**5
    pq.write_table(pq.read_table(saved).replace_schema_metadata({b"sojourn_trace": deep}), saved)
    with pytest.raises(UnreadableFile, match="has unreadable metadata; write it again"):
        Trace.load(saved)


def test_columns_that_no_trace_has_are_not_read(saved, monkeypatch):
    rewritten(saved, lambda table: table.append_column("noise", pa.array(["x" * 1000] * 100)))
    seen = []
    piece = sojourn.trace._piece
    monkeypatch.setattr(
        sojourn.trace, "_piece", lambda path, batch, facts: seen.append(batch) or piece(path, batch, facts)
    )
    assert Trace.load(saved) == some_trace()
    assert seen[0].schema.names == list(COLUMNS)
