"""A live run under Flower with real processes: a SuperLink, SuperNodes, `flwr run`; keys, crashes and names."""

import os
import signal

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from flower_processes import EXAMPLES, Flower, family
from processes import alive, names_in, until

from sojourn import SojournError, Trace
from sojourn.files import read_json
from sojourn.learning.run.store import Store
from sojourn.live.journal import ROW
from sojourn.live.keys import make_keys
from sojourn.live.replayed import replay_run
from sojourn.trace import APPLIED

SMALL = {"data": "quadratic(clients=2, examples=50)", "model": "problem", "partition": "natural", "steps": 6}
LONG = 300.0  # seconds to wait at most, on a busy machine: every message starts a process


def node_key(folder, name):
    """Make a pair of keys for a SuperNode; return the private and the public one."""
    key, private, public = ec.generate_private_key(ec.SECP384R1()), folder / name, folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return private, public


@pytest.mark.slow
def test_a_converted_app_trains_over_tls_with_keys_and_an_unregistered_node_is_refused(tmp_path):
    make_keys(tmp_path / "keys", [], hosts=["127.0.0.1"])
    with Flower(tmp_path, tmp_path / "keys" / "server") as flower:
        flower.superlink("--enable-supernode-auth")
        stranger = flower.supernode("porto", key=node_key(tmp_path, "stranger")[0])
        for part, name in enumerate(("oslo", "lyon")):
            private, public = node_key(tmp_path, name)
            flower.flwr("supernode", "register", public, "--name", name)
            flower.supernode(name, part, 2, private)
        flower.run(EXAMPLES / "after", steps=2)
        flower.happened("ended", seconds=LONG)
        assert stranger.wait(LONG) != 0
        assert "Failed to initialize the connection" in flower.said("porto.log")
    trace = Trace.load(flower.live / "trace.parquet")
    assert set(trace.metadata["names"]) == {"oslo", "lyon"}
    assert int(trace.applied.sum()) == 2
    assert not trace.metadata["refusals"]
    assert (trace.finished_at - trace.started_at)[trace.applied].min() > 0.3  # seconds: service includes a process
    assert read_json(flower.live / "summary.json", "summary")["complete"]


@pytest.mark.slow
def test_a_killed_server_program_goes_on_and_a_killed_node_comes_back_under_its_name(tmp_path):
    with Flower(tmp_path) as flower:
        flower.superlink()
        nodes = [flower.supernode(name) for name in ("fast", "slow")]
        flower.run(EXAMPLES / "new", **SMALL)
        until(lambda: committed_rows(flower).size, LONG, lambda: (flower.log(), flower.said("superlink.log")))
        kill(flower.server_program())
        committed = committed_rows(flower)
        for node in nodes:
            for pid in family(node.pid):
                kill(pid)
            node.wait(LONG)
        flower.supernode("slow")
        flower.run(EXAMPLES / "new", **SMALL)
        flower.happened("ended", seconds=LONG)
        assert flower.said("superlink.log").count("[Fleet.ActivateNode] Activated") == 3  # each under a new number
    trace = Trace.load(flower.live / "trace.parquet")
    applied = names_in(trace, APPLIED)
    assert len({name[:2] for name in applied}) == len(applied) == SMALL["steps"]
    assert trace.metadata["names"] == {"fast": 0, "slow": 1}
    assert [one["step"] for one in trace.metadata["resumes"]] == [len(committed)]
    np.testing.assert_array_equal(trace.applied_at[: len(committed)], committed["applied_at"])
    assert {name.client for name in applied if name.epoch == 2} == {1}  # slow is who it was
    assert replay_run(flower.live, tmp_path / "again").same


def kill(pid):
    """Kill a process, and wait until it has ended."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), LONG, f"process {pid} does not end")


def committed_rows(flower):
    """The tasks of the last commit."""
    try:
        many = Store(flower.live / "checkpoints").load()[1]["rows"]
    except (SojournError, OSError):  # there is none yet, or a new one takes its place
        many = 0
    return np.frombuffer((flower.live / "rows.bin").read_bytes()[: many * ROW.itemsize] if many else b"", ROW)
