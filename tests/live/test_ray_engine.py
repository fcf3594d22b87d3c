"""The Ray engine over pretended actors: order, caps, artificial service times, deaths, and what is refused."""

import pickle
import threading

import numpy as np
import pytest
import torch

from live.pretended_crew import AtOnce, Crew
from sojourn.errors import InvalidInput, SojournError
from sojourn.learning.replay.local import Local
from sojourn.learning.run.config import TrainConfig
from sojourn.live.engine import Arrived, Joined, Left, Offer, Pulled, Rejected, TaskName, Work
from sojourn.live.engines.ray.engine import RayEngine
from sojourn.live.engines.ray.errand import Result, errand_of
from sojourn.live.replayed import replay_run
from sojourn.live.run import LiveRun, built_for, work_of

SIZE = 4
KILLED = "its process died: ActorDiedError: killed"


def work(prefetch=False, statistics=0):
    return Work(SIZE, statistics, Local(), 1, "shuffled", prefetch)


def offer(client, nth, epoch=1):
    return Offer(TaskName(client, nth, epoch), torch.zeros(SIZE), None, 0, 0.1, 1)


def result(least=0.0, seconds=0.0, **other):
    facts = {"vector": np.ones(SIZE, np.float32), "stats": None, "plain": True, "step_size": 0.1, "steps": 1}
    return Result(**{**facts, "loss": 0.5, "seconds": seconds, "least": least, **other})


def engine_with(spread, crew=None, **options):
    """An engine whose actors have begun, and whose clients the loop knows."""
    crew = crew or Crew()
    engine = RayEngine(crew, work(**options), spread, clock=lambda: crew.clock)
    for actor in range(len(spread)):
        crew.say(actor)
    joined = [engine.receive(0.0).client for _ in range(sum(map(len, spread)))]
    assert sorted(joined) == sorted(one for clients in spread for one in clients)
    return engine, crew


def events(engine):
    """All that has happened by now."""
    found = []
    while (event := engine.receive(0.0)) is not None:
        found.append(event)
    return found


def names(engine, kind):
    return [event.name for event in events(engine) if isinstance(event, kind)]


@pytest.mark.parametrize(("prefetch", "most"), [(False, 1), (True, 2)])
def test_a_client_has_one_task_at_a_time_in_order_or_two_if_it_prefetches(prefetch, most):
    engine, crew = engine_with([[0, 2], [1]], prefetch=prefetch)
    for nth in range(4):
        engine.offer(offer(0, nth))
    engine.offer(offer(1, 0))
    assert crew.called == [(0, TaskName(0, nth, 1)) for nth in range(most)] + [(1, TaskName(1, 0, 1))]
    for nth in range(4):
        assert len([one for one in crew.called if one[0] == 0]) == min(4, nth + most)
        crew.say(0, TaskName(0, nth, 1), result())
        assert names(engine, Arrived) == [TaskName(0, nth, 1)]


def test_a_task_is_pulled_when_an_actor_has_it_and_service_is_what_the_actor_measured():
    engine, crew = engine_with([[0, 1]])
    crew.clock = 10.0
    for client in range(2):
        engine.offer(offer(client, 0))
    assert [(event.name.client, event.at) for event in events(engine)] == [(0, 10.0), (1, 10.0)]
    crew.clock = 13.0
    crew.say(0, TaskName(0, 0, 1), result(seconds=2.0))
    first = engine.receive(0.0)
    assert (first.service, first.held, first.at) == (2.0, 2.0, 13.0)  # 1 s of travel
    crew.clock = 18.0
    crew.say(0, TaskName(1, 0, 1), result(seconds=4.0))
    second = engine.receive(0.0)
    assert (second.service, second.held) == (4.0, 7.0)  # it had waited for the other client's task


def test_clients_of_one_actor_wait_side_by_side_for_artificial_service_times():
    engine, crew = engine_with([[0, 1]])
    for client in range(2):
        engine.offer(offer(client, 0))
    crew.clock = 0.5
    for client in range(2):
        crew.say(0, TaskName(client, 0, 1), result(least=5.0 - client, seconds=0.5))
    events(engine)
    crew.clock = 3.9
    assert engine.receive(0.0) is None
    arrived = [engine.receive(10.0) for _ in range(2)]
    assert [event.name.client for event in arrived] == [1, 0]
    assert [event.service for event in arrived] == [4.0, 5.0]
    assert [event.at for event in arrived] == [4.0, 5.0]


def test_a_prefetched_task_is_served_only_when_the_one_before_is_over():
    engine, crew = engine_with([[0]], prefetch=True)
    for nth in range(2):
        engine.offer(offer(0, nth))
    for nth in range(2):
        crew.say(0, TaskName(0, nth, 1), result(least=3.0))
    events(engine)
    first, second = engine.receive(100.0), engine.receive(100.0)
    assert (first.at, second.at) == (3.0, 6.0)
    assert (first.held, second.held, second.service) == (3.0, 6.0, 3.0)


def test_a_withdrawn_task_is_not_handed_over_and_one_that_an_actor_has_still_arrives():
    engine, crew = engine_with([[0]])
    for nth in range(3):
        engine.offer(offer(0, nth))
    engine.withdraw(TaskName(0, 0, 1))
    engine.withdraw(TaskName(0, 1, 1))
    crew.say(0, TaskName(0, 0, 1), result())
    assert names(engine, Arrived) == [TaskName(0, 0, 1)]
    assert [name.nth for _, name in crew.called] == [0, 2]


def test_clients_of_a_dead_actor_leave_with_what_they_hold_and_come_back_with_the_next_one():
    engine, crew = engine_with([[0, 2], [1]], prefetch=True)
    for client in range(3):
        engine.offer(offer(client, 0))
    crew.say(0, TaskName(2, 0, 1), result(least=9.0))  # in service when its process dies
    events(engine)
    for client in (0, 2):
        crew.say(0, TaskName(client, 0, 1), wrong="ActorDiedError: killed", died=True)
    assert events(engine) == [Left(0, KILLED), Left(2, KILLED)]
    assert crew.lives == {0: 2, 1: 1}
    engine.offer(offer(0, 1))  # sent before the loop knew
    crew.clock = 20.0
    crew.say(0, TaskName(0, 0, 1), result(), life=1)
    assert events(engine) == []  # what the dead one said is no news
    crew.say(0)
    assert events(engine) == [Joined(0, ()), Joined(2, ()), Pulled(TaskName(0, 1, 1), 20.0)]
    crew.say(0, TaskName(0, 1, 1), result())
    assert names(engine, Arrived) == [TaskName(0, 1, 1)]


def test_an_actor_that_dies_again_and_again_before_it_begins_ends_the_run():
    crew = Crew()
    engine = RayEngine(crew, work(), [[0]], clock=lambda: crew.clock)
    for _ in range(2):
        crew.say(0, wrong="ActorDiedError: no memory", died=True)
        assert engine.receive(0.0) is None
    crew.say(0, wrong="ActorDiedError: no memory", died=True)
    with pytest.raises(SojournError, match="died 3 times before it had begun: ActorDiedError: no memory"):
        engine.receive(0.0)


def test_what_hinders_clients_from_beginning_is_said():
    crew = Crew()
    engine = RayEngine(crew, work(), [[0]], clock=lambda: crew.clock)
    crew.say(0, wrong="there is no file 'x'")
    with pytest.raises(SojournError, match="clients on Ray cannot begin: there is no file 'x'"):
        engine.receive(0.0)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"wrong": "ValueError: odd"}, "its work failed: ValueError: odd"),
        ({"result": result(vector=np.ones(3, np.float32))}, r"must have (4, 0) numbers and statistics, got (3, 0)"),
        ({"result": result(stats=np.ones(2, np.float32))}, r"must have (4, 0) numbers and statistics, got (4, 2)"),
        ({"result": result(step_size=0.2)}, "must have the step size of its task, got 0.2"),
        ({"result": result(loss=float("nan"))}, "the loss must be finite, got nan"),
    ],
)
def test_an_update_of_no_use_is_rejected_and_the_next_task_goes_out(said, why):
    engine, crew = engine_with([[0]])
    for nth in range(2):
        engine.offer(offer(0, nth))
    crew.say(0, TaskName(0, 0, 1), **said)
    rejected = [event for event in events(engine) if isinstance(event, Rejected)]
    assert [event.name for event in rejected] == [TaskName(0, 0, 1)]
    assert why in rejected[0].reason
    assert [name.nth for _, name in crew.called] == [0, 1]


def test_an_expelled_client_gets_nothing_more_and_a_run_without_clients_ends():
    engine, crew = engine_with([[0, 1]])
    engine.offer(offer(0, 0))
    engine.expel(0, "three strikes")
    crew.say(0, TaskName(0, 0, 1), result())
    crew.say(0, wrong="killed", died=True)
    assert [event for event in events(engine) if not isinstance(event, Pulled)] == [Left(1, "its process died: killed")]
    crew.say(0)
    assert events(engine) == [Joined(1, ())]
    with pytest.raises(SojournError, match="every client has been expelled; the last because it lies"):
        engine.expel(1, "it lies")


def test_it_stops_once():
    closed = []
    crew = Crew()
    engine = RayEngine(crew, work(), [[0]], close=lambda: closed.append(crew.stopped))
    engine.stop(True)
    engine.stop(False)
    assert closed == [1]


@pytest.fixture
def config(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,400\nslow,2,200\n")
    return TrainConfig(
        str(tmp_path / "fleet.csv"), cap="2", concurrency=7, steps=60, partition="classes(k=2)", model="mlp(hidden=4)",
        device="cpu",
    )  # fmt: skip


def test_a_run_on_actors_is_replayed_to_the_bit(config, tmp_path):
    spread = [(0, 2, 4), (1, 3)]

    def connect(work, epoch, names):
        errands = [errand_of(config, work, clients, True) for clients in spread]
        return RayEngine(AtOnce(pickle.loads(pickle.dumps(errands))), work, spread)

    with LiveRun(config, tmp_path / "live", connect) as run:
        assert run.run(threading.Event())
    assert replay_run(tmp_path / "live", tmp_path / "again").same


def test_after_a_kill_the_tasks_in_flight_are_dropped_before_any_client_is_there(config, tmp_path):
    def run_of(crew, resume=False):
        engine = lambda work, epoch, names: RayEngine(crew(work), work, [range(5)])  # noqa: E731
        return LiveRun(config, tmp_path / "live", engine, resume=resume)

    def at_once(work):
        return AtOnce([errand_of(config, work, tuple(range(5)), True)])

    stop = threading.Event()
    with run_of(at_once) as run:
        run.run(stop, lambda run: stop.set() if run.server.received >= 20 else None)
        in_flight = len(run.loop.pending)
    assert in_flight == 7
    with run_of(lambda work: Crew(), resume=True) as run:  # actors that never begin
        assert run.loop.pending == {}
        assert run.loop.faults.counts["dropped"] == in_flight
    with run_of(at_once, resume=True) as run:
        assert run.run(threading.Event())
    found = replay_run(tmp_path / "live", tmp_path / "again")
    assert found.same
    assert found.updates == 60


def test_an_errand_needs_neither_the_servers_folder_nor_its_files(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = config.resolved(fleet="fleet.csv")
    errand = errand_of(given, work_of(built_for(given)), (0, 1), False)
    (tmp_path / "fleet.csv").unlink()
    moved = pickle.loads(pickle.dumps(errand))._replace(home="/nowhere")
    monkeypatch.chdir("/")
    assert moved.worker().service(0, 0) == 0.0


def test_an_actor_of_another_version_is_refused(config):
    errand = errand_of(config, work_of(built_for(config)), (0,), False)._replace(version="0.0.1")
    with pytest.raises(InvalidInput, match="all machines must have the same version of sojourn"):
        errand.worker()
