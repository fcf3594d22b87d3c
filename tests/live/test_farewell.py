"""A finished run that is resumed tells clients that still wait that it has ended."""

import signal
import socket
import threading
from dataclasses import replace

import numpy as np
import pytest
from processes import START, Processes
from waiting import free_port, until

pytest.importorskip("grpc")

from grpc_peers import Doubles, Running, engine_of

from sojourn import Fleet, Plan, simulate
from sojourn.errors import InvalidInput
from sojourn.live.farewell import finished, say_farewell
from sojourn.live.settings import ServerFile


@pytest.fixture
def file(tmp_path):
    """The file of a server whose run, with clients a and b, has ended."""
    fleet = Fleet.of(all=(2, 1.0))
    trace = simulate(fleet, Plan.uniform(fleet, 2), 10, seed=1)
    replace(trace, metadata={**trace.metadata, "names": {"a": 0, "b": 1}}).save(tmp_path / "trace.parquet")
    (tmp_path / "summary.json").write_text("{}")
    assert not finished(tmp_path)  # a simulated run
    (tmp_path / "rows.bin").write_bytes(np.zeros(1).tobytes())
    return ServerFile(f"127.0.0.1:{free_port()}", out=str(tmp_path))


def test_clients_that_missed_the_end_of_a_run_hear_of_it(file):
    assert finished(file.out)
    waiting = Running(file.address, {"a": Doubles(), "b": Doubles()})
    assert say_farewell(file, threading.Event(), 60.0) == ["a", "b"]
    waiting.end()
    assert waiting.error is None
    assert {words for _, words in waiting.said if "reached" not in words} == {"the run has ended"}


def test_a_run_that_ends_as_soon_as_it_is_resumed_waits_for_its_clients_to_hear_of_it():
    address = f"127.0.0.1:{free_port()}"
    waiting = Running(address, {"a": Doubles(), "b": Doubles()})
    until(lambda: {name for name, _ in waiting.said} == {"a", "b"}, START, "both have tried")
    engine_of(address=address, epoch=2).stop(True)  # the server was killed just before its end
    waiting.end()
    assert waiting.error is None
    assert sorted(name for name, words in waiting.said if words == "the run has ended") == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before the summary", "before the farewell"])
def test_clients_of_a_server_killed_at_its_end_hear_of_the_end_when_it_is_resumed(tmp_path, moment):
    with Processes(tmp_path, "all,4,30\n", cap="1", concurrency=4, steps=40, partition="classes(k=3)") as all_of_it:
        clients = [all_of_it.clients(*(f"client-{number}" for number in range(part, 4, 2))) for part in range(2)]
        server = all_of_it.server(killed=moment)
        assert server.wait(2 * START) == -signal.SIGKILL, all_of_it.said()
        assert finished(all_of_it.live) == (moment == "before the farewell")
        again = all_of_it.server(resume=True)
        assert again.wait(START) == 0, all_of_it.said()
        assert [one.wait(START) for one in clients] == [0, 0]
        assert int(all_of_it.trace().applied.sum()) == 40


def test_a_farewell_ends_although_nobody_asks_or_when_it_is_stopped(file):
    assert say_farewell(file, threading.Event(), 0.3) == []
    stop = threading.Event()
    stop.set()
    assert say_farewell(file, stop) == []


def test_a_farewell_needs_the_address_for_itself(file):
    port = int(file.address.rpartition(":")[2])
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(InvalidInput, match="the address is in use"),
    ):
        say_farewell(file, threading.Event(), 0.1)
