"""The loop of a live run over pretended clients: caps hold, kills undo nothing, and replay gives the same bits."""

import json
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import names_in

from live.pretended_clients import Federation, Pretended
from sojourn import Trace
from sojourn.errors import InvalidInput
from sojourn.experiments.training import train
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.metrics import read_metrics
from sojourn.live.engine import Joined, Rejected, TaskName
from sojourn.live.journal import Commit, Journal
from sojourn.live.run import LiveRun, Settings, built_for
from sojourn.live.worker import FederationWorker
from sojourn.trace import APPLIED, DROPPED, IN_FLIGHT, LOST, REFUSED

SLOW = pytest.mark.slow
RATES = np.repeat([8.0, 1.0], 5)


def service(client: int, nth: int) -> float:
    """Exponential service times that belong to the task."""
    return float(np.random.default_rng((client, nth)).exponential(1 / RATES[client]))


class EveryFew(Journal):
    """Commits at every nth chance, at once, so that a kill comes where a test wants it."""

    every = 5

    def __init__(self, *given: object, **options: object) -> None:
        super().__init__(*given, **options)
        self._asked = 0

    def wait(self) -> float:
        self._asked += 1
        return 0.0 if self._asked % (2 * self.every + 1) == 0 else 1.0

    def commit(self, commit: Commit) -> None:
        self._put(commit)
        commit.then()


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,5,8\nslow,5,1\n")
    return TrainConfig(
        str(path), cap="1", concurrency=10, steps=200, partition="classes(k=2)", model="mlp(hidden=8)", device="cpu"
    )


@pytest.fixture(autouse=True)
def commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.live.run.Journal", EveryFew)


def clients(config: TrainConfig) -> Federation:
    return Federation(FederationWorker(built_for(config).federation), service, range(10))


def run_of(
    config: TrainConfig, folder: Path, federation: Federation, resume: bool = False, **settings: float
) -> LiveRun:
    return LiveRun(config, folder, lambda *_: Pretended(federation), Settings(**settings), resume)


def finished(run: LiveRun) -> Trace:
    with run:
        assert run.run(threading.Event())
    return Trace.load(run.folder / "trace.parquet")


def replayed(config: TrainConfig, trace: Trace, folder: Path) -> bytes:
    train(replace(config, steps=None, execution="one-by-one"), folder, trace=trace)
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"correction": 0.5},
        pytest.param({"cap": "2", "concurrency": 15}, marks=SLOW),
        {"cap": None, "concurrency": 12, "sampling": "speed^0.5"},
        pytest.param({"algorithm": "fedbuff(size=3)"}, marks=SLOW),
        pytest.param({"algorithm": "fedasync(alpha=0.5)"}, marks=SLOW),
        pytest.param({"algorithm": "asyncsgd(assignment=pure)", "cap": None}, marks=SLOW),
        {"local_steps": 3, "algorithm": "fedbuff(size=2)", "schedule": "linear(end=200)"},
        {"algorithm": "ringleader", "cap": None},
        pytest.param({"algorithm": "ca2fl(size=3)"}, marks=SLOW),
        {"algorithm": "asgrad", "cap": None},
        {"algorithm": "asgrad(assignment=pure, wait=3)", "cap": None, "concurrency": 7},
        pytest.param({"algorithm": "asgrad(assignment=random, wait=4)", "cap": None}, marks=SLOW),
        {"algorithm": "asgrad(wait=3)", "cap": None},
        {"algorithm": "aafl", "cap": None, "local_steps": 2},
        {"algorithm": "fedfix(form=buffered, size=3)", "cap": None, "local_steps": 2},
        {"algorithm": "fedavg", "cap": None, "local_steps": 2, "concurrency": 7},
        pytest.param({"algorithm": "fedprox", "cap": None, "local_steps": 2}, marks=SLOW),
        {"algorithm": "asyncfeded(first=2)", "cap": None, "local_steps": 5},
    ],
    ids=str,
)
def test_the_final_model_is_that_of_a_replay_bit_for_bit(config, tmp_path, changes):
    config = replace(config, **changes)
    trace = finished(run_of(config, tmp_path / "live", clients(config)))
    assert int(trace.applied.sum()) == 200
    assert (tmp_path / "live/model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")


@pytest.mark.slow
@pytest.mark.parametrize(("cap", "tasks"), [("1", 10), ("2", 15), ("3", 20)])
def test_c_tasks_are_in_flight_and_no_client_holds_more_than_its_cap(config, tmp_path, cap, tasks):
    config = replace(config, cap=cap, concurrency=tasks)
    run, most, flying = run_of(config, tmp_path / "live", clients(config), begin_with=10), [], []
    with run:
        run.run(
            threading.Event(),
            lambda one: (most.append(one.loop.chooser.held.max()), flying.append(len(one.loop.pending))),
        )
    assert max(most) == int(cap)
    assert set(flying[20:]) == {tasks}


class Killed(Exception):
    pass


def kill_after(updates: int):
    def look(run: LiveRun) -> None:
        if run.server.received >= updates:
            raise Killed

    return look


@pytest.mark.parametrize(
    "algorithm",
    [
        "generalized-asyncsgd",
        "asyncsgd",
        "fedbuff(size=3)",
        "fedasync",
        pytest.param("ringleader", marks=SLOW),
        "asgrad",
        pytest.param("asgrad(assignment=pure, wait=3)", marks=SLOW),
        "fedavg",
        pytest.param("asyncfeded", marks=SLOW),
    ],
)
@pytest.mark.parametrize("every", [pytest.param(1, marks=SLOW), 5, pytest.param(30, marks=SLOW)])
def test_a_server_killed_again_and_again_loses_nothing_acknowledged_and_applies_nothing_twice(
    config, tmp_path, monkeypatch, every, algorithm
):
    monkeypatch.setattr(EveryFew, "every", every)
    config = replace(config, algorithm=algorithm, correction=0.5 if "gen" in algorithm else None)
    federation, folder = clients(config), tmp_path / "live"
    for number, updates in enumerate((3, 20, 21, 77, 150)):
        run = run_of(config, folder, federation, resume=number > 0)
        with run, pytest.raises(Killed):
            run.run(threading.Event(), kill_after(updates))
    trace = finished(run_of(config, folder, federation, resume=True))
    applied = trace.fate == APPLIED
    assert applied.sum() == 200
    names = list(zip(trace.client[applied].tolist(), nth_of(trace)[applied].tolist(), strict=True))
    assert len(set(names)) == 200
    assert {(name.client, name.nth) for name in federation.acknowledged} <= set(names)
    assert len(trace.metadata["resumes"]) == 5
    assert (folder / "model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")


@pytest.mark.parametrize("every", [1, pytest.param(5, marks=SLOW)])
def test_a_server_killed_while_its_clients_come_back_after_a_kill_loses_nothing(config, tmp_path, monkeypatch, every):
    monkeypatch.setattr(EveryFew, "every", every)
    config = replace(config, cap="2", concurrency=15)
    federation, folder = clients(config), tmp_path / "live"
    with run_of(config, folder, federation) as run, pytest.raises(Killed):
        run.run(threading.Event(), kill_after(50))
    for events in (0, 1, 9, 2, 12, 5, 0, 30, 7, 18):  # ten clients come back, then their updates
        with run_of(config, folder, federation, resume=True) as run, pytest.raises(Killed):
            run.run(threading.Event(), kill_after_events(events))
    with run_of(config, folder, federation, resume=True) as run:
        flying = []
        assert run.run(threading.Event(), lambda one: flying.append(len(one.loop.pending)))
    assert set(flying[50:]) == {15}
    trace = Trace.load(folder / "trace.parquet")
    names = names_in(trace, APPLIED)
    assert len(set(names)) == len(names) == 200
    assert set(federation.acknowledged) <= set(names)
    assert not {name for name, _ in federation.refused} & set(names)
    assert (folder / "model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")


def kill_after_events(events: int):
    seen = iter(range(events))

    def look(run: LiveRun) -> None:
        if next(seen, None) is None:
            raise Killed

    return look


@pytest.mark.slow
def test_after_a_kill_a_client_with_many_unacknowledged_updates_is_not_told_that_they_were_refused(
    config, tmp_path, monkeypatch
):
    config = replace(config, steps=700)
    federation, folder = clients(config), tmp_path / "live"
    with run_of(config, folder, federation) as run, pytest.raises(Killed):
        run.run(threading.Event(), kill_after(1))
    monkeypatch.setattr(EveryFew, "every", 400)  # so many updates in one commit
    with monkeypatch.context() as dead, run_of(config, folder, federation, resume=True) as run:
        dead.setattr(Commit, "then", property(lambda commit: killed))  # it is on the disk, and nobody has heard of it
        with pytest.raises(Killed):
            run.run(threading.Event())
    held = Counter(name.client for name in federation.kept)
    assert max(held.values()) > 40
    monkeypatch.setattr(EveryFew, "every", 1)
    federation.gap = 0.05  # it takes a while until all are sent again
    trace = finished(run_of(config, folder, federation, resume=True))
    applied = set(names_in(trace, APPLIED))
    assert set(federation.acknowledged) <= applied
    assert not {name for name, _ in federation.refused} & applied


def killed() -> None:
    raise Killed


def nth_of(trace: Trace) -> np.ndarray:
    from sojourn.learning.replay.timeline import _nth

    return _nth(trace)


def test_after_a_kill_tasks_that_clients_hold_go_on_and_the_others_are_sent_anew(config, tmp_path, monkeypatch):
    monkeypatch.setattr(EveryFew, "every", 1)
    federation, folder = clients(config), tmp_path / "live"
    with run_of(config, folder, federation) as run, pytest.raises(Killed):
        run.run(threading.Event(), kill_after(50))
    gone = next(iter(federation.serving))
    del federation.serving[gone]  # the client was killed too, and has come back with nothing
    trace = finished(run_of(config, folder, federation, resume=True))
    ended = trace.fate[trace.fate != IN_FLIGHT]
    assert (ended == DROPPED).sum() == 1
    assert int(trace.client[trace.fate == DROPPED][0]) == gone
    assert (ended == APPLIED).sum() == 200


def test_tasks_that_a_crash_has_undone_are_refused_from_the_last_to_the_first(config, tmp_path):
    federation = clients(config)
    with run_of(config, tmp_path / "live", federation) as run:
        run.loop.handle(Joined(3, tuple(TaskName(3, nth, 1) for nth in (4, 5, 6))))
    assert [name.nth for name, _ in federation.refused] == [6, 5, 4]  # so a client's memory can go back, step by step


def test_a_client_that_dies_loses_its_tasks_and_the_others_get_them(config, tmp_path):
    config = replace(config, cap="2", concurrency=10)
    federation = clients(config)
    run = run_of(config, tmp_path / "live", federation, begin_with=10)
    dead = []

    def look(one: LiveRun) -> None:
        if one.server.received >= 60 and not dead:
            dead.append(7)
            one.engine.leave(7)

    with run:
        assert run.run(threading.Event(), look)
        assert not run.loop.chooser.present[7]
        assert len(run.loop.pending) == 10
    trace = Trace.load(run.folder / "trace.parquet")
    mine = trace.fate[trace.client == 7]
    assert 1 <= (mine == LOST).sum() + (mine == DROPPED).sum() <= 2
    assert (trace.fate == APPLIED).sum() == 200
    assert (run.folder / "model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")


@pytest.mark.slow
def test_a_task_that_takes_too_long_is_given_up_and_its_late_update_refused(config, tmp_path):
    def stuck(client: int, nth: int) -> float:
        return 20.0 if client == 9 and nth == 8 else 1 / RATES[client]

    config = replace(config, steps=1500)
    federation = clients(config)
    federation.times = stuck
    run = run_of(config, tmp_path / "live", federation, begin_with=10, patience=5.0)
    trace = finished(run)
    lost = trace.fate == LOST
    assert trace.client[lost].tolist() == [9]
    assert run.loop.faults.counts["timeouts"] == 1
    assert [reason for _, reason in federation.refused] == ["it came too late"]
    back = trace.applied & (trace.client == 9) & (trace.dispatched_at > trace.applied_at[lost][0])
    assert back.any()  # once heard from, it gets tasks again


def test_a_client_that_hangs_is_given_up_soon_even_if_its_speed_was_told_wrongly(config, tmp_path):
    config = replace(config, steps=10_000)
    federation, stop = clients(config), threading.Event()
    federation.clients = [0, 1, 2]
    federation.times = lambda client, nth: 1e9 if (client, nth) == (2, 2) else 12.0  # 96 times of what the fleet says

    def look(one: LiveRun) -> None:
        if one.loop.faults.counts["timeouts"] or one.engine.now() > 1000:
            stop.set()

    with run_of(config, tmp_path / "live", federation, begin_with=3) as run:
        run.run(stop, look)
        assert run.loop.faults.counts["timeouts"] == 1
        assert run.engine.now() < 24 + 25 * 12


def test_a_client_whose_messages_are_refused_is_expelled_after_three(config, tmp_path):
    run = run_of(config, tmp_path / "live", clients(config), begin_with=10)
    done: list[int] = []

    def look(one: LiveRun) -> None:
        if one.server.received >= 20 and not done:
            done.append(one.server.received)
            name = next(flying.name for flying in one.loop.pending.values() if flying.name.client == 2)
            for task in (name, None, None):  # three in a row, one of them about a task in flight
                one.engine.happen(0.0, Rejected(2, task, "its numbers are not finite"))

    with run:
        assert run.run(threading.Event(), look)
        assert run.engine.expelled == [2]
        assert not run.loop.chooser.present[2]
    trace = Trace.load(run.folder / "trace.parquet")
    assert trace.client[trace.fate == REFUSED].tolist() == [2]
    refusals = [one for one in trace.metadata["refusals"] if one["reason"] == "its numbers are not finite"]
    assert [one["client"] for one in refusals] == [2, 2, 2]


def test_nobody_gets_a_task_before_enough_clients_are_there(config, tmp_path):
    federation = clients(config)
    federation.clients = [0, 1]
    run = run_of(config, tmp_path / "live", federation, begin_with=3)
    stop, third = threading.Event(), []

    def look(one: LiveRun) -> None:
        if one.engine.now() > 5 and not third:
            third.append(2)
            one.engine.happen(0.0, Joined(2, ()))
            one.engine._queues[2] = []
        if one.engine.now() > 10:
            stop.set()

    with run:
        assert not run.run(stop, look)
        assert run.server.received > 0
        assert 4.0 < run.loop.now < 6.0  # time counts from the first task


def test_while_the_first_clients_are_awaited_the_clock_stands_still(config, tmp_path):
    federation, stop, seen = clients(config), threading.Event(), []
    federation.clients = [0, 1]
    run = run_of(config, tmp_path / "live", federation, begin_with=3)

    def look(one: LiveRun) -> None:
        seen.append((one.engine.now(), one.loop.now))
        if one.engine.now() > 10:
            stop.set()

    with run:
        assert not run.run(stop, look)
    assert seen[-1][0] > 10
    assert {now for _, now in seen} == {0.0}


@pytest.mark.slow
def test_a_resumed_run_waits_for_its_clients_and_still_has_all_of_its_time(config, tmp_path):
    config = replace(config, steps=None, time=20.0)
    federation, folder, stop, late = clients(config), tmp_path / "live", threading.Event(), []
    with run_of(config, folder, federation) as run:
        assert not run.run(stop, lambda one: stop.set() if one.loop.now > 10 else None)
    everybody, federation.clients, federation.serving, federation.kept = federation.clients, [], {}, {}
    with run_of(config, folder, federation, resume=True) as run:
        began = run.engine.now()

        def look(one: LiveRun) -> None:
            if one.engine.now() < began + 1000:
                assert one.loop.now == pytest.approx(10.0, abs=1.5)
            elif not late:
                late.extend(everybody)
                for client in everybody:
                    one.engine._queues[client] = []
                    one.engine.happen(0.0, Joined(client, ()))

        before = run.server.received
        assert run.run(threading.Event(), look)
        assert run.server.received > 1.5 * before
        assert run.loop.now == pytest.approx(20.0, abs=1.0)


def test_stopped_runs_go_on_and_finished_or_foreign_folders_are_refused(config, tmp_path):
    federation, folder, stop = clients(config), tmp_path / "live", threading.Event()
    with run_of(config, folder, federation) as run:
        assert not run.run(stop, lambda one: stop.set() if one.server.received >= 30 else None)
    with pytest.raises(InvalidInput, match="already holds a run; continue it with --resume"):
        run_of(config, folder, federation)
    with pytest.raises(InvalidInput, match="holds another run: its concurrency is 10 "):
        run_of(replace(config, concurrency=4), folder, federation, resume=True)
    trace = finished(run_of(config, folder, federation, resume=True))
    assert int(trace.applied.sum()) == 200
    with pytest.raises(InvalidInput, match="is finished"):
        run_of(config, folder, federation, resume=True)
    with pytest.raises(InvalidInput, match="already holds a run, which is finished; replace it with --overwrite"):
        run_of(config, folder, federation)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"step_size": 0.5}, "its step_size is 0.1 .now 0.5."),
        ({"algorithm": "fedbuff(size=5)"}, "its algorithm is 'fedbuff.size=3.' .now 'fedbuff.size=5.'."),
        ({"seed": 1}, "its seed is 0"),
        ({"steps": 300}, r"follow the schedule linear\(end=200\) \(now linear\(end=300\)\)"),
    ],
)
def test_a_resumed_run_trains_as_it_began_so_that_its_replay_is_exact(config, tmp_path, changes, why):
    config = replace(config, algorithm="fedbuff(size=3)", schedule="linear(end=budget)")
    stopped(run_of(config, tmp_path / "live", clients(config)), after=30)
    before = (tmp_path / "live/config.json").read_bytes()
    with pytest.raises(InvalidInput, match=why):
        run_of(replace(config, **changes), tmp_path / "live", clients(config), resume=True)
    assert (tmp_path / "live/config.json").read_bytes() == before


def test_a_resumed_run_may_last_longer_and_be_judged_more_often(config, tmp_path):
    federation, folder = clients(config), tmp_path / "live"
    stopped(run_of(config, folder, federation), after=30)
    trace = finished(run_of(replace(config, steps=300, evaluate_every=50), folder, federation, resume=True))
    assert int(trace.applied.sum()) == 300
    assert (folder / "model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")


@pytest.mark.parametrize("torn", ["300,7,1.2", ""], ids=["in a row", "in the header"])
def test_a_row_of_metrics_that_a_full_disk_has_torn_is_left_out_at_the_resume(config, tmp_path, torn):
    federation, folder = clients(config), tmp_path / "live"
    stopped(run_of(replace(config, evaluate_every=20), folder, federation), after=50)
    path = folder / "metrics.csv"
    path.write_bytes(path.read_bytes() + torn.encode() if torn else path.read_bytes()[:7])
    finished(run_of(replace(config, evaluate_every=20), folder, federation, resume=True))
    received = [row["received"] for row in read_metrics(folder)]
    assert received == sorted(set(received))
    assert received[-1] == 200
    assert (len(received) >= 10) is bool(torn)


def stopped(run: LiveRun, after: int) -> None:
    stop = threading.Event()
    with run:
        assert not run.run(stop, lambda one: stop.set() if one.server.received >= after else None)


def test_what_was_learnt_of_clients_is_known_after_a_resume(config, tmp_path):
    federation, folder = clients(config), tmp_path / "live"
    stop = threading.Event()

    def strike_and_stop(one: LiveRun) -> None:
        if one.server.received >= 100:
            one.loop.faults.strikes[3] = 2
            stop.set()

    with run_of(config, folder, federation, patience=1e-3) as run:
        assert not run.run(stop, strike_and_stop)
    with run_of(config, folder, federation, resume=True, patience=1e-3) as again:
        known = [[one.loop.patience.of(client) for client in range(10)] for one in (run, again)]
        assert known[0] == known[1]
        assert len(set(known[0])) == 10
        assert again.loop.faults.strikes == {3: 2}


def test_a_client_that_is_started_again_after_a_resume_loses_its_task_and_gets_another(config, tmp_path, monkeypatch):
    monkeypatch.setattr(EveryFew, "every", 1)
    federation, folder = clients(config), tmp_path / "live"
    with run_of(config, folder, federation) as run, pytest.raises(Killed):
        run.run(threading.Event(), kill_after(50))
    client, (_, offer) = next((one, task) for one, task in federation.serving.items() if one >= 5)
    with run_of(config, folder, federation, resume=True) as run:
        for number in range(10):
            held = [task.name for one, (_, task) in federation.serving.items() if one == number]
            run.loop.handle(Joined(number, tuple(held)))
        assert offer.name in [one.name for one in run.loop._of(client)]
        run.loop.handle(Joined(client, ()))  # it was killed and is back before anybody missed it
        assert offer.name not in [one.name for one in run.loop._of(client)]
        run.loop._fill(None)
        assert [one.name.epoch for one in run.loop._of(client)] == [2]
        assert run.loop.chooser.present[client]


def test_a_run_that_cannot_begin_leaves_nothing_behind(config, tmp_path):
    def busy(*_):
        raise InvalidInput("the address is in use")

    for _ in range(2):
        with pytest.raises(InvalidInput, match="the address is in use"):
            LiveRun(config, tmp_path / "live", busy)
    assert not (tmp_path / "live").exists()


def test_a_run_is_replaced_if_asked_and_files_of_others_stay(config, tmp_path):
    folder, connect = tmp_path / "live", lambda *_: Pretended(clients(config))
    finished(run_of(replace(config, steps=30), folder, clients(config)))
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="needs an end"):
        LiveRun(replace(config, steps=None), folder, connect, overwrite=True)
    assert (folder / "summary.json").exists()  # what cannot begin replaces nothing
    trace = finished(LiveRun(replace(config, steps=40), folder, connect, overwrite=True))
    assert int(trace.applied.sum()) == 40
    assert (folder / "notes.txt").read_text() == "mine"


def raising(*given, **options):
    raise Killed


@pytest.mark.parametrize("way", ["resume", "overwrite"])
def test_a_run_that_was_killed_at_its_very_start_is_begun_again(config, tmp_path, monkeypatch, way):
    folder, connect = tmp_path / "live", lambda *_: Pretended(clients(config))
    with monkeypatch.context() as killed:
        killed.setattr("sojourn.live.run.Log", raising)
        with pytest.raises(Killed):
            LiveRun(config, folder, connect)
    assert {one.name for one in folder.iterdir()} <= {"config.json", "lock"}
    trace = finished(LiveRun(replace(config, steps=30), folder, connect, **{way: True}))
    assert int(trace.applied.sum()) == 30


def test_a_run_that_was_killed_while_another_was_removed_is_begun_again(config, tmp_path, monkeypatch):
    folder, connect = tmp_path / "live", lambda *_: Pretended(clients(config))
    stopped(run_of(config, folder, clients(config)), after=20)
    with monkeypatch.context() as killed:
        killed.setattr("sojourn.live.old_run.rmtree", raising)
        with pytest.raises(Killed):
            LiveRun(config, folder, connect, overwrite=True)
    assert not (folder / "rows.bin").exists()
    trace = finished(LiveRun(replace(config, steps=30), folder, connect, overwrite=True))
    assert int(trace.applied.sum()) == 30


def test_what_is_left_of_a_run_is_replaced_if_asked_and_files_of_others_are_not(config, tmp_path):
    folder, connect = tmp_path / "live", lambda *_: Pretended(clients(config))
    folder.mkdir()
    for name in ("log.jsonl", "clients-0.log", "lock", "dashboard.token"):
        (folder / name).touch()
    with pytest.raises(InvalidInput, match=r"holds what is left of a run .*; replace it with --overwrite"):
        LiveRun(config, folder, connect)
    (folder / "notes.txt").touch()
    with pytest.raises(InvalidInput, match="holds other files, not a run"):
        LiveRun(config, folder, connect, overwrite=True)
    (folder / "notes.txt").unlink()
    LiveRun(config, folder, connect, overwrite=True).close()


def test_a_run_that_replaces_another_has_no_plans_and_models_of_it(config, tmp_path):
    def run(tasks, **how):
        changed = replace(config, concurrency=tasks, steps=30)
        finished(LiveRun(changed, folder, lambda *_: Pretended(clients(config)), Settings(replan=1e9), **how))
        return json.loads((folder / "plans/0/change.json").read_text())["concurrency"]

    folder = tmp_path / "live"
    assert run(10) == 10
    (folder / "models").mkdir()  # of the callback checkpoints
    (folder / "models/model-30.safetensors").touch()
    assert run(8, overwrite=True) == 8
    assert not (folder / "models").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"algorithm": "rennala(restart=stop)", "cap": None}, "rennala cancels running tasks"),
        ({"algorithm": "quafl"}, "quafl interrupts clients at set times, .*; use another method"),
        ({"algorithm": "fedasmu", "cap": None}, "fedasmu breaks if a client forgets"),
        ({"availability": "churn(on=10, off=2)"}, "belongs to simulated runs"),
        ({"steps": None}, "needs an end"),
    ],
)
def test_what_cannot_run_live_is_refused_with_the_reason(config, tmp_path, changes, why):
    with pytest.raises(InvalidInput, match=why):
        run_of(replace(config, **changes), tmp_path / "live", Federation(None, service, []))
