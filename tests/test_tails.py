import numpy as np
import pytest

from sojourn.tails import LineTail, LogTail, MetricsTail, RowTail, RunTails
from sojourn.trace import COLUMNS

ROW = np.dtype(list(COLUMNS.items()))


def test_a_tail_gives_each_line_once_and_leaves_one_that_is_being_written(tmp_path):
    path = tmp_path / "file"
    tail = LineTail(path)
    assert tail.lines() == []
    path.write_text("one\ntwo\nthr")
    assert tail.lines() == ["one", "two"]
    assert tail.lines() == []
    with path.open("a") as file:
        file.write("ee\n")
    assert tail.lines() == ["three"]
    assert not tail.anew


def test_a_file_that_was_cut_is_read_anew(tmp_path):
    path = tmp_path / "file"
    path.write_text("one\ntwo\n")
    tail = LineTail(path)
    tail.lines()
    path.write_text("new\n")
    assert tail.lines() == ["new"]
    assert tail.anew
    assert tail.lines() == []
    assert not tail.anew


def test_a_log_that_was_turned_over_goes_on_in_its_new_file(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"what": "started"}\nnonsense\n[1]\n')
    tail = LogTail(path)
    assert tail.entries() == [{"what": "started"}]
    path.rename(tmp_path / "log.jsonl.1")
    path.write_text('{"what": "ended"}\n')
    assert tail.entries() == [{"what": "ended"}]


def test_metrics_come_with_their_columns_also_after_a_resume_that_cut_them(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("time,accuracy\n0,0.1\n10,0.5\n20,0.6\n")
    tail = MetricsTail(path)
    assert [row["time"] for row in tail.rows()] == [0, 10, 20]
    with path.open("a") as file:
        file.write("30,0.7\n")
    assert tail.rows() == [{"time": 30, "accuracy": 0.7}]
    path.write_text("time,accuracy\n0,0.1\n10,0.5\n")
    assert [row["time"] for row in tail.rows()] == [0, 10]
    assert tail.anew


def test_an_evaluation_that_is_odd_is_left_out_and_the_others_stay(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("time,accuracy\n0,0.1\nnan,0.2\ninf,0.3\n3\nx,0.4\n4,0.5,1\n5,nan\n")
    assert [row["time"] for row in MetricsTail(path).rows()] == [0, 5]
    path.write_text("accuracy\n0.1\n")
    assert MetricsTail(path).rows() == []


@pytest.mark.parametrize("client", ["", ', "client": "x"', ', "client": -1', ', "client": NaN', ', "client": true'])
def test_who_joins_and_leaves_without_a_client_is_left_out(tmp_path, client):
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"what": "joined"{client}}}\n{{"what": "left"{client}}}\n{{"what": "left", "client": 3}}\n')
    assert LogTail(path).entries() == [{"what": "left", "client": 3}]


def test_a_line_of_nothing_but_brackets_is_no_entry(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("[" * 100_000 + '\n{"what": "ended"}\n')
    assert LogTail(path).entries() == [{"what": "ended"}]


def test_a_task_of_nobody_or_that_never_ended_is_left_out(tmp_path):
    rows = np.zeros(5, ROW)
    rows["client"], rows["applied_at"] = [0, -7, 1, 2, 3], [1.0, 2.0, np.nan, np.inf, 5.0]
    (tmp_path / "rows.bin").write_bytes(rows.tobytes())
    metrics, log = MetricsTail(tmp_path / "metrics.csv"), LogTail(tmp_path / "log.jsonl")
    with RunTails(RowTail(tmp_path / "rows.bin", ROW), metrics, log).new() as (found, _, _, _):
        assert found["client"].tolist() == [0, 3]


def test_records_are_given_whole_and_up_to_a_number(tmp_path):
    kind = np.dtype([("client", "<i4"), ("at", "<f8")])
    path = tmp_path / "rows.bin"
    rows = np.array([(1, 0.5), (2, 1.5), (3, 2.5)], kind).tobytes()
    path.write_bytes(rows[:-3])
    tail = RowTail(path, kind)
    assert tail.records(1)["client"].tolist() == [1]
    assert tail.records()["client"].tolist() == [2]
    path.write_bytes(rows)
    assert tail.records()["client"].tolist() == [3]


def test_a_long_file_is_read_in_pieces_and_a_tail_says_when_there_are_more(tmp_path, monkeypatch):
    monkeypatch.setattr("sojourn.tails.PIECE", 10)
    path = tmp_path / "file"
    path.write_text("one\ntwo\nthree\nfour\n")
    tail, found, more = LineTail(path), [], []
    while not more or more[-1]:
        found += tail.lines()
        more.append(tail.more)
    assert found == ["one", "two", "three", "four"]
    assert more == [True, True, False]
    path.write_text("a line that is longer than a piece")
    assert tail.lines() == []
    assert not tail.more
