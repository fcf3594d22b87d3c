"""What people ask of a running server: pause, go on, plan again, stop; over pretended clients."""

import json
import threading

import numpy as np
import pytest

from live.changing_fleet import Rarely, finished, five_clients
from sojourn.errors import InvalidInput


@pytest.fixture(autouse=True)
def commits(monkeypatch):
    monkeypatch.setattr("sojourn.live.run.Journal", Rarely)


@pytest.fixture
def opened(tmp_path):
    return five_clients(tmp_path, steps=300)


def log_of(run):
    return [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]


def whats(run):
    return [entry["what"] for entry in log_of(run)]


def test_while_a_run_is_paused_no_task_is_sent_and_those_in_flight_come_back(opened):
    run, flying, paused_at = opened(), [], []

    def watch(now):
        if now.server.received == 100 and not paused_at:
            paused_at.append(now.engine.now())
            now.loop.controls.pause()
        if paused_at and now.loop.controls.paused:
            flying.append(len(now.loop.pending))
            if now.engine.now() > paused_at[0] + 20.0:  # far longer than any task takes
                now.loop.controls.go_on()

    with run:
        assert run.run(threading.Event(), watch)
    assert flying[-1] == 0
    assert flying == sorted(flying, reverse=True)
    assert run.server.received == 300
    assert [what for what in whats(run) if what in ("paused", "went on")] == ["paused", "went on"]


@pytest.mark.slow
def test_a_run_of_so_much_time_trains_as_long_whether_it_is_paused_or_not(tmp_path):
    def trace_of(name, pause):
        (tmp_path / name).mkdir()
        run, paused_at = five_clients(tmp_path / name, steps=None, time=60.0)(), []

        def watch(now):
            if pause and now.loop.now > 30.0 and not paused_at:
                paused_at.append(now.engine.now())
                now.loop.controls.pause()
            if paused_at and now.engine.now() > paused_at[0] + 1000.0:
                now.loop.controls.go_on()

        return finished(run, watch)

    paused, not_paused = trace_of("paused", True), trace_of("not", False)
    assert paused.metadata["recorded_until"] == pytest.approx(60.0, abs=0.6)
    assert paused.applied.sum() == pytest.approx(not_paused.applied.sum(), rel=0.05)
    slowest = [np.nanmax(one.finished_at - one.started_at) for one in (paused, not_paused)]
    assert slowest[0] == pytest.approx(slowest[1], rel=0.5)  # the pause is not part of a task


def test_a_plan_that_somebody_asks_for_is_worked_out_at_once(opened):
    run, asked = opened(), []

    def watch(now):
        if now.server.received >= 150 and not asked:
            asked.append(len(now.loop.plans))
            now.loop.controls.replan()

    with run:
        run.run(threading.Event(), watch)
    answers = [entry for entry in log_of(run) if entry["what"] in ("plan", "plan kept") and "asked" in entry["reason"]]
    assert len(answers) == 1
    assert 150 <= answers[0]["step"] < 160


def test_a_run_that_keeps_its_plan_says_so_when_it_is_asked_for_another(opened):
    run = opened(every=None)
    with (
        run,
        pytest.raises(
            InvalidInput,
            match="a run follows its fleet if it is given none, or is started with --replan",
        ),
    ):
        run.loop.controls.replan()


def test_a_run_that_is_asked_to_stop_can_be_resumed(opened):
    run, stop = opened(), threading.Event()
    run.loop.controls.stopping = stop

    def watch(now):
        if now.server.received == 100:
            now.loop.controls.stop()

    with run:
        assert not run.run(stop, watch)
    assert whats(run)[-1] == "stopped"
    again = opened(resume=True)
    with again:
        assert again.server.received == 100
        assert again.run(threading.Event())
