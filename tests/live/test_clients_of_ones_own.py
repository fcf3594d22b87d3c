"""Clients from Python with objects: data of their own, or a training loop of their own, against a real server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import free_port

import sojourn as sj
import sojourn.live
from live.own_clients import examples, fit, net
from sojourn.errors import InvalidInput, SojournError

FLEET = sj.Fleet.of(all=(2, 50.0))
CLIENTS = Path(__file__).with_name("own_clients.py")


@pytest.mark.slow
def test_a_client_with_data_and_one_with_a_loop_of_its_own_train_one_model(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    started = [
        subprocess.Popen([sys.executable, str(CLIENTS), name, address], stdout=subprocess.PIPE)
        for name in ("data", "loop")
    ]
    try:
        run = sj.serve(
            FLEET,
            folder=tmp_path / "live",
            address=address,
            model=net(),
            data=examples(5),
            time=6.0,
            cap=1,
            step_size=0.5,
        )
        counts = [json.loads(one.communicate(timeout=60)[0]) for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()
    assert run.complete
    assert run.last["accuracy"] > 0.9
    assert set(run.trace.client[run.trace.applied].tolist()) == {0, 1}
    assert min(one["acknowledged"] for one in counts) > 5


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, "give data, or fit"),
        ({"data": examples(0), "fit": fit}, "give data, or fit"),
        ({"model": "mlp", "fit": fit}, "model must be an nn.Module, got str"),
        ({"fit": fit, "name": None}, "needs a name"),
    ],
)
def test_what_a_client_lacks_is_said_before_it_dials(how, why):
    with pytest.raises(InvalidInput, match=why):
        sojourn.live.client("127.0.0.1:9", **{"model": net(), "name": "a", **how})


def test_a_client_that_reaches_no_server_gives_up():
    with pytest.raises(SojournError, match=r"127\.0\.0\.1"):
        sojourn.live.client(f"127.0.0.1:{free_port()}", net(), name="a", fit=fit, give_up=0.5)
