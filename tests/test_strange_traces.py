"""Parquet files that are no traces, or not quite: read where they mean one, refused in one sentence elsewhere."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import Fleet, Plan, Trace, UnreadableFile, simulate
from sojourn.trace import COLUMNS, KEY

FLEET = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
TRACE = simulate(FLEET, Plan.uniform(FLEET, 4), steps=20, seed=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.parquet"


@pytest.fixture
def whole(path):
    """The table of a trace as it should be."""
    TRACE.save(path)
    return pq.read_table(path)


def write(path, table, facts=b'{"schema": 1, "metadata": {}}'):
    pq.write_table(table.replace_schema_metadata({KEY: facts}), path)
    return path


def with_column(table, key, values):
    return table.set_column(table.column_names.index(key), key, values)


@pytest.mark.parametrize("key", COLUMNS)
def test_a_missing_or_doubled_column_is_named(path, whole, key):
    with pytest.raises(UnreadableFile, match=f"lacks the column '{key}'; write it again"):
        Trace.load(write(path, whole.drop_columns([key])))
    with pytest.raises(UnreadableFile, match=f"has the column '{key}' twice; write it again"):
        Trace.load(write(path, whole.append_column(key, whole[key])))


@pytest.mark.parametrize("key", [key for key in COLUMNS if key != "fate"])
@pytest.mark.parametrize("value", ["x", [1], {"a": 1}, True, b"1", None], ids=str)
def test_a_column_of_another_kind_is_refused(path, whole, key, value):
    with pytest.raises(UnreadableFile, match=f"the column '{key}' must hold (whole )?numbers, got"):
        Trace.load(write(path, with_column(whole, key, pa.array([value] * 24))))


@pytest.mark.parametrize("key", ["client", "dispatched_step", "applied_step", "work"])
def test_a_column_of_counts_takes_no_fractions_nothing_too_large_and_no_gaps(path, whole, key):
    with pytest.raises(UnreadableFile, match=f"the column '{key}' must hold whole numbers, got double"):
        Trace.load(write(path, with_column(whole, key, pa.array(np.full(24, 0.5)))))
    with pytest.raises(UnreadableFile, match="is damaged"):
        Trace.load(write(path, with_column(whole, key, pa.array([2**64 - 1] * 24, pa.uint64()))))
    with pytest.raises(UnreadableFile, match=f"the column '{key}' must have a value in every row"):
        Trace.load(write(path, with_column(whole, key, pa.array([1] * 23 + [None], pa.int64()))))


@pytest.mark.parametrize(
    ("fates", "message"),
    [
        (pa.array(["applied"] * 24), "the column 'fate' must be a dictionary; write it with Trace.save"),
        (pa.array([1] * 24).dictionary_encode(), "fate"),
        (pa.array(["eaten"] * 24).dictionary_encode(), "has the unknown fate 'eaten'; update sojourn"),
        (pa.array(["applied"] * 23 + [None]).dictionary_encode(), "'fate' must have a value in every row"),
    ],
    ids=["texts", "numbers", "unknown", "a gap"],
)
def test_a_column_of_fates_must_hold_fates(path, whole, fates, message):
    with pytest.raises(UnreadableFile, match=message):
        Trace.load(write(path, with_column(whole, "fate", fates)))


def test_a_trace_of_another_writer_is_read_where_its_numbers_fit(path, whole):
    other = with_column(whole, "client", whole["client"].cast(pa.int64()))
    other = with_column(other, "prob", whole["prob"].cast(pa.float32()))
    other = other.append_column("note", pa.array(["of mine"] * 24))
    read = Trace.load(write(path, other))
    assert read.client.tolist() == TRACE.client.tolist()
    assert read.client.dtype == np.int32
    assert read.prob.tolist() == pytest.approx(TRACE.prob.tolist())


@pytest.mark.parametrize(
    "facts",
    [
        *(b"", b"no JSON", b"\xff\xfe", b"[]", b"1", b"null", b"{}", b'{"schema": 1}', b'{"schema": 1, "metadata": 3}'),
        *(b'{"schema": "1", "metadata": {}}', b'{"schema": true, "metadata": {}}', b'{"schema": null, "metadata": {}}'),
        *(b"[" * 50_000, b'{"schema": ' + b"9" * 5000 + b', "metadata": {}}'),
    ],
    ids=lambda facts: repr(facts[:20]),
)
def test_metadata_that_mean_nothing_are_refused(path, whole, facts):
    with pytest.raises(UnreadableFile, match="has unreadable metadata; write it again"):
        Trace.load(write(path, whole, facts))


def test_a_trace_of_a_newer_sojourn_is_refused_with_the_way_out(path, whole):
    facts = json.dumps({"schema": 2, "metadata": {}}).encode()
    with pytest.raises(UnreadableFile, match=r"newer sojourn \(schema 2, this sojourn reads up to 1\); update sojourn"):
        Trace.load(write(path, whole, facts))
