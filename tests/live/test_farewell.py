"""A finished run that is resumed tells clients that still wait that it has ended."""

import socket
import threading
from dataclasses import replace

import numpy as np
import pytest
from waiting import free_port

pytest.importorskip("grpc")

from grpc_peers import Doubles, Running

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
