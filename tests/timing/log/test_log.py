"""Logs as people have them: what is read, what is left out, what is refused."""

import datetime as dt
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import InvalidInput, UnreadableFile
from sojourn.timing.log.log import SUCCEEDED, read_log
from sojourn.timing.log.table import KNOWN


@pytest.fixture
def log(tmp_path):
    """Write a log and read it."""

    def read(text, name="log.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_log(path, **options)

    return read


@pytest.mark.parametrize(
    "head",
    [
        "device,start,end",
        "client,started,finished",
        "Worker;Started At;Finished At",
        "id\tstart_time\tend_time",
        "client_id|startedAt|endedAt",
        '"Device","Start","End"',
    ],
)
def test_columns_are_recognised_by_their_names(log, head):
    mark = next((one for one in ";\t|" if one in head), ",")
    found = log(head + "\n" + "\n".join(mark.join(row) for row in [("a", "0", "2"), ("b", "1", "4"), ("a", "2", "3")]))
    assert found.device == ("a", "b")
    assert found.client.tolist() == [0, 1, 0]
    assert found.began.tolist() == [0, 1, 2]
    assert found.duration.tolist() == [2, 3, 1]


@pytest.mark.parametrize("head", ["device,duration", "client,seconds", "extra,client,Duration_s"])
def test_durations_alone_are_enough(log, head):
    first = "x," if head.startswith("extra") else ""
    found = log(f"{head}\n{first}a,2\n{first}b,3\n")
    assert found.duration.tolist() == [2, 3]
    assert not found.timed


def test_columns_are_named_where_they_are_called_otherwise(log):
    text = "phone,id,begin_of_it,took\nx,1,5,2\ny,2,9,3\n"
    found = log(text, device="phone", start="begin_of_it", duration="took")
    assert found.device == ("x", "y")
    assert (found.began.tolist(), found.duration.tolist()) == ([0, 4], [2, 3])


def test_a_duration_that_is_named_counts_though_start_and_end_are_there(log):
    text = "device,start,end,cpu\na,0,10,3\n"
    assert log(text).duration.tolist() == [10]
    assert log(text, duration="cpu").duration.tolist() == [3]


@pytest.mark.parametrize(
    ("cell", "unit", "seconds"),
    [
        ("90s", None, 90),
        ("1.5 min", None, 90),
        ("1h 30min", None, 5400),
        ("00:01:30.5", None, 90.5),
        ("1 days 00:00:30", None, 86430),
        ("90", None, 90),
        ("1.5", "min", 90),
        ("1500", "ms", 1.5),
        ("2s", "min", 2),
    ],
)
def test_durations_have_units(log, cell, unit, seconds):
    found = log(f"device,duration\na,{cell}\nb,7s\n", time_unit=unit)
    assert found.duration.tolist() == pytest.approx([seconds, 7])


def test_the_name_of_a_column_may_say_its_unit(log):
    assert log("device,duration_ms\na,1500\n").duration.tolist() == [1.5]
    assert log("device,minutes\na,2\n").duration.tolist() == [120]
    assert log("device,duration_ms\na,1500\n", time_unit="s").duration.tolist() == [1500]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-03-01T12:00:00", "2026-03-01T12:01:30.5"),
        ("2026-03-01 12:00:00.000000", "2026-03-01 12:01:30.500000"),
        ("2026-03-01T12:00:00Z", "2026-03-01T12:01:30.5Z"),
        ("2026-03-01T12:00:00+02:00", "2026-03-01T10:01:30.500+00:00"),
        ("20260301T120000", "20260301T120130.5"),
        ("12/31/2026 12:00:00.0", "12/31/2026 12:01:30.5"),
        ("31.12.2026 12:00:00.0", "31.12.2026 12:01:30.5"),
        ("Mar 1, 2026 12:00:00.0 PM".replace(",", ""), "Mar 1, 2026 12:01:30.5 PM".replace(",", "")),
        ("1772366400", "1772366490.5"),
        ("1772366400000", "1772366490500"),
        ("1772366400000000", "1772366490500000"),
        ("1772366400000000000", "1772366490500000000"),
        ("1.7723664e9", "1.7723664905e9"),
    ],
)
def test_times_are_read_however_they_are_written(log, start, end):
    assert log(f"device,start,end\na,{start},{end}\n").duration.tolist() == pytest.approx([90.5], abs=1e-6)


def test_whether_the_day_or_the_month_comes_first_is_recognised_by_both_columns_or_not_at_all(log):
    rows = "device,start,end\na,01.02.2026 12:00:00,02.02.2026 12:00:00\n"
    assert log(rows + "a,28.02.2026 12:00:00,01.03.2026 12:00:00\n").duration.tolist() == [86_400, 86_400]
    with pytest.raises(
        InvalidInput, match=r"got '01.02.2026 12:00:00' in line 2, which may have the day or the month first"
    ):
        log(rows)


def test_a_clock_that_counts_milliseconds_is_recognised_by_its_size_and_reported(log):
    text = "device,start,end\na,1772366400000,1772366490500\n"
    assert any("read as milliseconds" in note for note in log(text).notes)
    assert log(text, time_unit="s").duration.tolist() == [90500]


def test_small_numbers_of_a_clock_are_in_the_unit_that_is_named(log):
    assert log("device,start,end\na,10,12\n").duration.tolist() == [2]
    assert log("device,start,end\na,10,12\n", time_unit="min").duration.tolist() == [120]


def test_failed_and_unfinished_tasks_are_counted_and_left_out(log):
    found = log("device,start,end,status\na,0,2,ok\na,2,9,timeout\nb,1,,OK\nb,1,3,\n,0,1,done\nb,5,NaN,lost\n")
    assert found.duration.tolist() == [2, 2]
    assert (found.failed, found.incomplete) == (2, 2)
    assert "left out: 2 tasks that failed (status timeout, lost)" in found.notes
    assert any(note.startswith("left out: 2 rows without a device") for note in found.notes)


def test_a_failed_task_may_be_as_wrong_as_it_likes(log):
    assert log("device,duration,state\na,2,done\na,-1,failed\n").duration.tolist() == [2]


def test_words_of_success_may_be_named(log):
    text = "device,duration,exit\na,2,0\na,3,1\n"
    with pytest.raises(InvalidInput, match=r"column 'exit', must have some tasks that succeeded .* got only 0, 1;"):
        log(text, status="exit")
    assert log(text, status="exit", succeeded="0").duration.tolist() == [2]
    with pytest.raises(InvalidInput, match=r"has no column of status"):
        log("device,duration\na,1\n", succeeded="0")


def test_names_of_devices_stay_as_they_are(log):
    assert log("device,duration\n007,1\n 7 ,1\nZoë's phone,1\n").device == ("007", "7", "Zoë's phone")
    assert read_log({"device": [7.0, 8.0, np.nan], "duration": [1, 2, 3]}).device == ("7", "8")
    assert read_log({"device": [7.5, 1e300], "duration": [1, 2]}).device == ("7.5", "1e+300")


def test_tables_of_python_are_read_as_files_are(tmp_path):
    began = [dt.datetime(2026, 3, 1, 12, 0, second) for second in (0, 5)]
    ended = [one + dt.timedelta(seconds=90) for one in began]
    frame = pd.DataFrame({"client": ["a", "b"], "start": began, "end": ended, "status": pd.Categorical(["ok", "bad"])})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "log.parquet")
    frame.to_csv(tmp_path / "log.csv")
    columns = {key: list(frame[key]) for key in frame}
    for source in (frame, columns, tmp_path / "log.parquet", str(tmp_path / "log.csv")):
        found = read_log(source)
        assert (found.device, found.duration.tolist(), found.failed) == (("a",), [90], 1)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "has no column that says which device did a task .* its columns are none"),
        (
            {"device": [[1], [2]], "duration": [1, 2]},
            "column 'device', must hold names, got list<.*>; name another column",
        ),
        ({"device": [b"a", b"\xff"], "duration": [1, 2]}, "column 'device', must hold names, got binary"),
        (
            {"device": ["a"], "start": [dt.time(1)], "end": [dt.time(2)]},
            "column 'start', must hold numbers or times, got",
        ),
        ({"device": ["a"], "duration": [{"a": 1}]}, "column 'duration', must hold numbers or times, got struct"),
        (
            {"device": ["a"], "start": pa.array([10**12], pa.timestamp("s")), "end": pa.array([1], pa.timestamp("s"))},
            "column 'start', must hold times from the years 1678 to 2262",
        ),
    ],
)
def test_columns_of_other_kinds_are_refused(columns, message):
    with pytest.raises(InvalidInput, match=message):
        read_log(columns)


def test_lengths_may_be_timedeltas_and_times_may_have_zones():
    zoned = pd.to_datetime(["2026-03-01T12:00:00+02:00", "2026-03-01T13:00:00+02:00"])
    frame = pd.DataFrame({"device": ["a", "b"], "start": zoned, "duration": pd.to_timedelta(["90s", None])})
    found = read_log(frame)
    assert (found.duration.tolist(), found.incomplete, found.timed) == ([90], 1, True)


def test_a_file_may_come_from_a_spreadsheet(log):
    assert log(b"\xef\xbb\xbfdevice;duration\r\na;2\r\n\r\nb;3\r\n").duration.tolist() == [2, 3]
    assert log('device,note,duration\na,"x, ""y""\nz",2\n').duration.tolist() == [2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; a log needs a header such as device,start,end and a row for every task"),
        ("\n\n", "is empty"),
        ("device,duration\n", "has a header but no rows; a log needs a row for every task"),
        ("device,duration\na,\n", "has no finished task: of 1 rows 0 failed and 1 lack a value"),
        (
            "a,b\n1,2\n",
            r"no column that says which device did a task \(called device or client\); its columns are a, b: ",
        ),
        ("device,x\n1,2\n", r"no column that says how long a task took .*: name the column with duration"),
        ("device,start\n1,2\n", r"no column that has the end of a task .*: name the column with end \(--end NAME\)"),
        (
            "device,end,elapsed ms\n1,2,3\n",
            "the start of a task .* or one that says how long it took with --duration NAME",
        ),
        ("device,duration,duration\na,1,2\n", "has the column 'duration' twice; rename one"),
        (
            "device,duration\na,1\nb,-2\nb,-3\n",
            r"'duration' must take from 0 to 1e\+15 s, got -2 s in line 3 \(and 1 more\)",
        ),
        ("device,duration\na,inf\n", r"must take from 0 to 1e\+15 s, got inf s in line 2"),
        (
            "device,start,end\na,0,1\na,5,3\n",
            "'end' must not be before 'start', got 2 s before in line 3; correct such rows, leave them out, or mark",
        ),
        (
            "device,duration\na,1\na,soon\n",
            "column 'duration', must hold numbers .* or durations such as .* got 'soon' in line 3",
        ),
        ("device,start,end\na,soon,1\n", "column 'start', must hold numbers or times such as .* got 'soon' in line 2"),
        (
            "device,start,end\na,2026-01-01T00:00:00,7\n",
            "must be of one kind, got times without a zone and numbers; write",
        ),
        (
            "device,start,end\na,2026-01-01T00:00:00Z,2026-01-01T00:00:00\n",
            "got times with a zone and times without a zone",
        ),
        (
            "device,start,end\na,2026-01-01T00,1\na,2026-01-01T00Z,1\n",
            "all have a zone, or none, got '2026-01-01T00Z' in line 3",
        ),
        ("device,start,end\na,0,inf\n", r"column 'end', must hold numbers up to 1e\+25, got inf in line 2"),
        (
            "device,start,end\na,-1e308,1e308\n",
            r"column 'start', must hold numbers up to 1e\+25, got -1e\+308 in line 2",
        ),
        (
            "device,start,end\na,0,1\na,0,1e20\n",
            r"'start' to 'end' must take from 0 to 1e\+15 s, got 1e\+20 s in line 3",
        ),
        ("device,duration\na,1,2\n", "a row must have 2 cells, got 3"),
        (b"device,duration\n\xff\xfe,1\n", "is not UTF-8 text; save it as UTF-8"),
        (b"\xff\xfed\x00e\x00", "is not UTF-8 text; save it as UTF-8"),
        (b"\x1f\x8b\x08\x00", "must be CSV or Parquet, it is compressed; unpack it with gunzip"),
        (b"PK\x03\x04\x14", "must be CSV or Parquet, it is a spreadsheet or an archive; save the sheet as CSV"),
        (b"PAR1 and no more", "is not a complete Parquet file"),
        (b"\x00\x01\x02", "is not a text file"),
    ],
)
def test_what_is_not_a_log_is_refused_in_one_sentence(log, text, message):
    with pytest.raises((InvalidInput, UnreadableFile), match=message) as caught:
        log(text)
    assert "log.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_column_that_is_not_there_is_named_with_its_neighbour(log):
    with pytest.raises(InvalidInput, match=r"has no column 'devise', which was named as device; did you mean 'device'"):
        log("device,duration\na,1\n", device="devise")
    with pytest.raises(InvalidInput, match=r"time_unit must be a unit of time such as s, min, h or day, got 'metre'"):
        log("device,duration\na,1\n", time_unit="metre")


def test_what_is_not_a_table_is_refused(tmp_path):
    with pytest.raises(UnreadableFile, match=r"log file .*none.csv does not exist; check the path"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(UnreadableFile, match=r"is a folder; name the file in it"):
        read_log(tmp_path)
    for wrong in (3, {"device": [1], "duration": [1, 2]}, {"device": ["a"], "duration": [object()]}):
        with pytest.raises(
            InvalidInput, match=r"a log must be a file, a DataFrame or a dict of columns of equal length"
        ):
            read_log(wrong)
    with pytest.raises(
        InvalidInput, match=r"column 'duration', must hold numbers or times, got bool; name another column"
    ):
        read_log({"device": ["a"], "duration": [True]})


DOCS = (Path(__file__).parents[3] / "docs" / "files.md").read_text("utf-8").split("## Log: ", 1)[1].split("\n## ", 1)[0]


def test_the_log_in_the_documentation_is_read_as_it_says(log):
    found = log(re.findall(r"```\n(.*?)```", DOCS, re.DOTALL)[0])
    assert found.device == ("pixel-4", "old tablet")
    assert found.duration.tolist() == [90.5, 577]
    assert found.failed == 1


@pytest.mark.parametrize("key", KNOWN)
def test_the_documentation_names_what_is_recognised(key):
    (names,) = re.findall(rf"^\| {key} \| (.*?) \| `--{key}` \|$", DOCS, re.MULTILINE)
    plain = [name.replace("_", "") for name in re.findall(r"`(\w+)`", names)]
    assert plain == list(KNOWN[key])[: len(plain)]
    assert "..." in names or len(plain) == len(KNOWN[key])


def test_the_documentation_names_the_words_of_success():
    told = DOCS.split("its status is empty or one of", 1)[1].split("in any case", 1)[0]
    assert tuple(re.findall(r"`(\w+)`", told)) == SUCCEEDED


@pytest.mark.parametrize(
    ("name", "seconds", "word"),
    [
        ("took_ms", 0.002, "milliseconds"),
        ("latency (ms)", 0.002, "milliseconds"),
        ("took_s", 2, "seconds"),
        ("took_sec", 2, "seconds"),
        ("took_seconds", 2, "seconds"),
        ("took_min", 120, "minutes"),
        ("tookH", 7200, "hours"),
        ("took_us", 2e-6, "microseconds"),
        ("took", 2, "seconds"),
    ],
)
def test_a_column_named_by_the_caller_is_read_in_the_unit_of_its_name_and_a_note_says_so(log, name, seconds, word):
    found = log(f"device,{name}\na,2\n", duration=name)
    assert found.duration.tolist() == pytest.approx([seconds])
    assert found.notes == (f"{name} read as {word} (--time-unit sets another unit)",)


def test_clocks_named_by_the_caller_are_read_in_the_unit_of_their_names(log):
    found = log("device,from_ms,to_ms\na,1000,3000\n", start="from_ms", end="to_ms")
    assert found.duration.tolist() == [2]
    assert found.notes == ("from_ms and to_ms read as milliseconds (--time-unit sets another unit)",)
    with pytest.raises(InvalidInput, match="must have one unit, got two; rename one"):
        log("device,from_ms,to_s\na,1000,3000\n", start="from_ms", end="to_s")


def test_durations_with_units_of_their_own_need_no_note_on_the_unit(log):
    assert log("device,took_ms\na,90s\n", duration="took_ms").notes == ()


@pytest.mark.parametrize("name", ["outcome", "result", "state"])
def test_a_column_whose_words_say_how_a_task_ended_is_the_status(log, name):
    found = log(f"device,seconds,{name}\na,2,ok\na,3,FAILED\n")
    assert (found.duration.tolist(), found.failed) == ([2], 1)


def test_columns_that_were_not_read_are_named_with_a_hint_at_the_status(log):
    (note,) = log("device,seconds,battery,outcome\na,2,80,fine\n").notes
    assert note == "columns not read: battery, outcome; if outcome says how a task ended, add --status outcome"
    assert log("device,seconds,state\na,2,Ohio\n").failed == 0
    assert log("device,seconds,status,battery\na,2,ok,80\n").notes == ("column not read: battery",)


def test_rows_are_named_by_their_line_only_where_each_row_is_one_line(log):
    with pytest.raises(InvalidInput, match="got -2 s in row 2;"):
        log("device,duration\na,1\n\nb,-2\n")
