"""Live runs in which updates wait for each other, or clients get tasks in turn: who is sent what, and when."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from live.test_loop import clients, commits, config, finished, replayed, run_of  # noqa: F401 fixtures by their names
from sojourn import Fleet, Plan, Trace
from sojourn.errors import InvalidInput
from sojourn.live.batches import Batches
from sojourn.live.chooser import Chooser
from sojourn.trace import APPLIED, LOST

WAITING = ["asgrad(assignment=pure, wait=3)", "asgrad(assignment=random, wait=3)", "asgrad(wait=3)", "aafl(alpha=0.3)"]


def chooser_of(present, clients=6, tasks=6, **options):
    fleet = Fleet.of(all=(clients, 1.0))
    even = np.full(clients, 1 / clients)
    made = Chooser(Plan.uniform(fleet, tasks), even, even, **{"dispatcher": "shuffled", "seed": 4, **options})
    for client in present:
        made.arrive(client)
    return made


def chosen(chooser, many):
    return [chooser.choose(None) for _ in range(many)]


def test_in_turn_every_client_gets_one_task_before_anybody_gets_two():
    drawn = np.array(chosen(chooser_of(range(6)), 60)).reshape(10, 6)
    assert (np.sort(drawn, axis=1) == np.arange(6)).all()
    assert len({tuple(row) for row in drawn.tolist()}) > 5


def test_who_is_absent_misses_its_turn_and_who_comes_in_time_does_not():
    chooser = chooser_of(range(3))
    assert sorted(chosen(chooser, 3)) == [0, 1, 2]
    chooser.arrive(5)
    assert chosen(chooser, 1) == [5]
    assert sorted(chosen(chooser, 4)) == [0, 1, 2, 5]


def test_clients_in_turn_have_equal_shares_whatever_came_back():
    chooser = chooser_of(range(4))
    chooser.take(0)
    chooser.release(0, used=True)
    assert chooser.shares[:4] == pytest.approx(np.full(4, 1 / 6))


@pytest.mark.parametrize("before", [0, 4, 6, 9])
def test_an_order_goes_on_after_a_restart_where_it_was(before):
    whole, first = (chooser_of(range(6)) for _ in range(2))
    begun = chosen(first, before)
    again = chooser_of([])
    again.restore(first.snapshot())
    for client in range(6):
        again.arrive(client)
    assert begun + chosen(again, 20) == chosen(whole, before + 20)


def test_checkpoints_of_earlier_versions_have_no_order():
    tree = chooser_of(range(6), dispatcher="routed").snapshot()
    del tree["had"]
    chooser_of([], dispatcher="routed").restore(tree)


@pytest.mark.parametrize("algorithm", WAITING)
def test_no_task_is_sent_until_a_batch_is_full_and_then_all_that_are_missing(config, tmp_path, algorithm):  # noqa: F811
    config = replace(config, algorithm=algorithm, cap=None, steps=60)
    trace = finished(run_of(config, tmp_path / "live", clients(config), begin_with=10))
    steps, many = np.unique(trace.dispatched_step, return_counts=True)
    assert steps.tolist() == list(range(0, 61, 3))
    assert many.tolist() == [10] + [3] * 20
    assert trace.metadata["batch"] == 3


def test_the_next_tasks_go_to_the_clients_that_have_returned(config, tmp_path):  # noqa: F811
    config = replace(config, algorithm=WAITING[0], cap=None, concurrency=6, steps=60)
    trace = finished(run_of(config, tmp_path / "live", clients(config), begin_with=10))
    for full in range(3, 60, 3):
        back = trace.client[trace.applied & (trace.applied_step >= full - 3) & (trace.applied_step < full)]
        assert sorted(trace.client[trace.dispatched_step == full].tolist()) == sorted(back.tolist())


def test_a_round_has_as_many_different_clients_as_tasks_drawn_evenly(config, tmp_path):  # noqa: F811
    config = replace(config, algorithm="fedavg", cap=None, concurrency=4, sampling="speed", steps=400)
    trace = finished(run_of(config, tmp_path / "live", clients(config), begin_with=10))
    rounds = np.sort(trace.client[trace.applied].reshape(100, 4), axis=1)
    assert (np.diff(rounds, axis=1) > 0).all()
    assert np.bincount(rounds.ravel()).min() > 25  # 40 each are expected, with a standard deviation of 5
    assert sorted(set(trace.dispatched_step.tolist())) == list(range(0, 401, 4))


@pytest.mark.parametrize("algorithm", ["aafl(alpha=1)", "fedavg", "asgrad(assignment=pure, wait=10)"])
def test_a_client_that_dies_within_a_batch_is_replaced_and_the_run_goes_on(config, tmp_path, algorithm):  # noqa: F811
    config = replace(config, algorithm=algorithm, cap=None, steps=100)
    run = run_of(config, tmp_path / "live", clients(config), begin_with=10)
    dead = []

    def look(one):
        if one.server.received == 34 and not dead:
            dead.append(next(flying.name.client for flying in one.loop.pending.values()))
            one.engine.leave(dead[0])

    with run:
        assert run.run(threading.Event(), look)
    trace = Trace.load(run.folder / "trace.parquet")
    assert trace.client[trace.fate == LOST].tolist() == dead
    assert int((trace.fate == APPLIED).sum()) == 100
    assert int((trace.dispatched_step == 34).sum()) == 1
    assert (run.folder / "model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")


def test_who_waits_for_a_batch_is_known_after_a_restart(config, tmp_path):  # noqa: F811
    config = replace(config, algorithm=WAITING[0], cap=None, concurrency=6)
    federation, stop = clients(config), threading.Event()
    with run_of(config, tmp_path / "live", federation, begin_with=10) as run:
        run.run(stop, lambda one: stop.set() if one.server.received >= 32 else None)
        waiting = list(run.loop.batches.returned)
    assert len(waiting) == 2
    with run_of(config, tmp_path / "live", federation, resume=True) as again:
        assert again.loop.batches.returned == waiting


def test_without_batches_nobody_waits():
    none = Batches()
    none.returned.append(3)
    assert [none.closes(step) for step in range(3)] == [False] * 3
    assert [none.tasks(received, 7) for received in range(3)] == [7] * 3
    none.sent(1)
    assert none.next() is None


def test_a_method_that_waits_is_not_planned_again(config, tmp_path):  # noqa: F811
    with pytest.raises(InvalidInput, match="replan needs a method whose tasks queue, in aafl updates wait"):
        run_of(replace(config, algorithm="aafl", cap=None), tmp_path / "live", clients(config), replan=60.0)
