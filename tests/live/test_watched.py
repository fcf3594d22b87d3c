"""A live run that is watched, by its own process and by its folder: both see what its files say."""

import threading

import numpy as np
import pytest

from live.changing_fleet import Rarely, five_clients
from sojourn import Trace, tails
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.live import attach
from sojourn.live.journal import ROW
from sojourn.live.log_state import LogState
from sojourn.live.watched_folder import WatchedFolder
from sojourn.live.watched_run import WatchedRun
from sojourn.report.live_page.state import State


@pytest.fixture(autouse=True)
def commits(monkeypatch):
    monkeypatch.setattr("sojourn.live.run.Journal", Rarely)


@pytest.fixture
def opened(tmp_path):
    return five_clients(tmp_path, steps=400)


class _Killed(Exception):
    pass


def _killed_at(run, updates):
    def watch(now):
        if now.server.received == updates:
            raise _Killed

    with pytest.raises(_Killed):
        run.run(threading.Event(), watch)


def test_what_is_watched_is_what_the_trace_says_in_the_end(opened):
    run, stop, seen = opened(), threading.Event(), []
    state = State(WatchedRun(run, stop))

    def watch(now):
        if now.server.received % 20 == 0:
            seen.append(state.look())

    with run:
        run.run(stop, watch)
    last, trace = state.look(), Trace.load(run.folder / "trace.parquet")
    assert last["state"] == "ended"
    assert last["updates"] == int(trace.applied.sum()) == 400
    assert last["staleness"]["whole"] == pytest.approx(trace.staleness.mean(), rel=1e-5)
    client = trace.client[trace.applied]
    assert last["groups"]["updates"] == [int((client < 3).sum()), int((client >= 3).sum())]
    assert last["flying"] == 0  # nobody waits for them any more
    assert max(one["flying"] for one in seen) == 5
    assert all(one["flying"] == sum(one["groups"]["serving"]) + sum(one["groups"]["waiting"]) for one in seen)
    assert seen[-1]["staleness"]["promised"] == pytest.approx(4.0, rel=0.01)  # C - 1
    assert {one["what"] for one in last["events"]} >= {"started", "joined", "ended"}


def test_a_page_that_opens_late_sees_the_same_run_as_one_that_was_there_all_along(opened):
    run, stop = opened(), threading.Event()
    early = State(WatchedRun(run, stop))
    with run:
        run.run(stop, lambda now: early.look() if now.server.received % 10 == 0 else None)
    late = State(WatchedFolder(run.folder)).look()
    there = early.look()
    for key in ("updates", "staleness", "history", "curves", "plans", "events", "groups", "faults"):
        if key == "groups":
            assert late[key]["updates"] == there[key]["updates"]
        elif key in ("staleness", "history"):
            assert late[key].keys() == there[key].keys()
        else:
            assert late[key] == there[key]
    assert late["staleness"]["whole"] == there["staleness"]["whole"]


def _as_told(state):
    """What a page has of the past of a run, which another page that opens now must have too."""
    now = state.look()
    return {key: now[key] for key in ("updates", "history", "curves", "events")} | {"by": now["groups"]["updates"]}


@pytest.mark.parametrize("evaluate_every", [1, 10, 10**9])  # cut are metrics.csv and rows.bin, or one of them, or none
@pytest.mark.parametrize("rows_cut", [False, True])
def test_a_killed_run_that_is_resumed_is_read_anew(tmp_path, evaluate_every, rows_cut):
    opened = five_clients(tmp_path, steps=400, evaluate_every=evaluate_every)
    run = opened()
    with run:
        _killed_at(run, 195)
    if rows_cut:
        with (run.folder / "rows.bin").open("ab") as file:
            file.write(b"\0" * ROW.itemsize)  # a row whose commit did not come to its end
    early, late = State(WatchedFolder(run.folder)), State(WatchedFolder(run.folder))
    assert 0 < early.look()["updates"] <= 196
    late.look()
    again = opened(resume=True)
    with again:
        assert _as_told(early) == _as_told(State(WatchedFolder(run.folder)))
        again.run(threading.Event())
    for state in (early, late):
        found = _as_told(state)
        assert found["updates"] == 400
        assert found == _as_told(State(WatchedFolder(run.folder)))


def test_what_a_failed_look_has_read_is_told_by_the_next_one(opened):
    run, states = opened(), []

    def watch(now):
        if now.server.received == 100:
            states.append(State(WatchedFolder(run.folder)))
            states[0].look()
        if now.server.received == 300:
            (run.folder / "checkpoints").rename(run.folder / "away")
            with pytest.raises(UnreadableFile):
                states[0].look()
            (run.folder / "away").rename(run.folder / "checkpoints")

    with run:
        run.run(threading.Event(), watch)
    assert states[0].look()["updates"] == 400


def test_a_run_that_is_longer_than_a_piece_is_told_whole_at_once(opened, monkeypatch):
    run = opened()
    with run:
        run.run(threading.Event())
    whole = _as_told(State(WatchedFolder(run.folder)))
    monkeypatch.setattr(tails, "PIECE", 1000)
    assert _as_told(State(WatchedFolder(run.folder))) == whole
    assert whole["updates"] == 400


def test_the_speeds_of_a_folder_are_those_that_the_run_itself_believes(opened):
    run = opened()
    with run:
        _killed_at(run, 300)
        known = run.loop.follower.speeds.known
        run.loop.commit()
    found = WatchedFolder(run.folder).look()
    np.testing.assert_allclose(found.speeds.mean, known.turnaround)
    np.testing.assert_allclose(found.speeds.low, known.interval()[0])
    assert found.state in ("killed", "running")  # its files are a moment old
    assert len(found.flying) == 5


def test_clients_have_the_names_that_they_said_while_a_run_goes_on_and_afterwards(opened):
    run, seen = opened(), []
    run.loop.names = {"anna": 0, "<b>": 3}

    def watch(now):
        if now.server.received == 200 and not seen:
            seen.extend([WatchedFolder(run.folder).look().names, WatchedRun(run, threading.Event()).look().names])

    with run:
        run.run(threading.Event(), watch)
    seen.append(WatchedFolder(run.folder).look().names)
    assert seen == [{0: "anna", 3: "<b>"}] * 3


@pytest.mark.parametrize("turnovers", [2, 5])
def test_a_page_that_opens_after_the_log_was_turned_over_knows_who_is_there(opened, monkeypatch, turnovers):
    run, seen = opened(), []
    monkeypatch.setattr("sojourn.live.log.MOST", 150)

    def watch(now):
        if now.server.received == 100 and not seen:
            now.loop.controls.pause()
            now.loop._heed()
            now.loop._left(3, "it went away")
            for number in range(3 * turnovers):
                now.note("keys", {"reason": f"something else {number}, in as many words as fill a log"})
            now.loop.commit()
            seen.append((WatchedFolder(run.folder).look(), attach(run.folder).present))
            now.loop.controls.go_on()

    with run:
        run.run(threading.Event(), watch)
    look, present = seen[0]
    assert look.state == "paused"
    assert look.present.tolist() == [True, True, True, False, True]
    assert present == [0, 1, 2, 4]


def test_a_client_that_was_given_up_as_the_log_was_turned_over_and_came_back_is_there(opened, monkeypatch):
    run, seen = opened(), []

    def watch(now):
        if now.server.received == 100 and not seen:
            now.loop.chooser.depart(2)  # as where its task takes too long
            monkeypatch.setattr("sojourn.live.log.MOST", 1)
            now.note("keys", {"reason": "something else"})
            monkeypatch.undo()
            now.loop._back(2)
            now.loop.commit()
            seen.append((WatchedFolder(run.folder).look().present.tolist(), attach(run.folder).present))

    with run:
        run.run(threading.Event(), watch)
    assert seen == [([True] * 5, [0, 1, 2, 3, 4])]


def test_a_line_of_a_log_that_says_nonsense_of_who_is_there_is_harmless():
    state = LogState()
    state.take({"what": "new log", "clients": [1, -1, "a", True, None, 2.5], "paused": "yes"})
    assert (state.present, state.paused) == ({1}, False)
    state.take({"what": "new log"})
    assert state.present == set()


def test_a_folder_without_a_live_run_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(InvalidInput, match="holds no live run"):
        WatchedFolder(tmp_path)
