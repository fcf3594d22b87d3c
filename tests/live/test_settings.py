"""The files of a server and of a client: read, written, and refused where they make no sense."""

from math import inf

import pytest
import torch

import sojourn.live
from sojourn.errors import InvalidInput
from sojourn.live.settings import ClientFile, ServerFile, read_file, write_file

RUN = {"fleet": "fleet.csv", "time": 60.0, "model": "mlp(hidden=8)"}


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "client.toml"
    write_file(
        path, {"server": "127.0.0.1:9", "clients": ['o"slo', "é"], "holds": "part", "paced": True, "keys": None}, RUN
    )
    file, config = read_file(ClientFile, path, {}, {"seed": 3})
    assert file == ClientFile("127.0.0.1:9", clients=('o"slo', "é"), holds="part", paced=True)
    assert (config.fleet, config.time, config.seed) == ("fleet.csv", 60.0, 3)


def test_a_server_file_may_name_callbacks(tmp_path):
    path = tmp_path / "server.toml"
    path.write_text('callbacks = ["mlflow", "early-stop(accuracy>=0.9)"]\n[run]\nfleet = "fleet.csv"\n')
    assert read_file(ServerFile, path, {}, {})[0].callbacks == ("mlflow", "early-stop(accuracy>=0.9)")
    path.write_text('callbacks = "mlflow"\n[run]\nfleet = "fleet.csv"\n')
    with pytest.raises(InvalidInput, match="callbacks must be a list of texts, got 'mlflow'"):
        read_file(ServerFile, path, {}, {})


def test_times_have_units_and_flags_override_the_file(tmp_path):
    path = tmp_path / "server.toml"
    path.write_text('patience = "2min"\nout = "a"\n[run]\nfleet = "fleet.csv"\ntime = "1h"\n')
    file, config = read_file(ServerFile, path, {"out": "b"}, {})
    assert (file.patience, file.out, config.time) == (120.0, "b", 3600.0)


def test_a_tilde_in_a_path_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/oslo")
    path = tmp_path / "server.toml"
    path.write_text('out = "~/live"\nkeys = "~/keys/server"\n[run]\nfleet = "fleet.csv"\n')
    file, _ = read_file(ServerFile, path, {}, {})
    assert (file.out, file.keys) == ("/home/oslo/live", "/home/oslo/keys/server")


@pytest.mark.parametrize(
    ("line", "seconds"), [("", 604800.0), ('give_up = "10min"', 600.0), ('give_up = "never"', inf)]
)
def test_a_client_waits_a_week_for_its_server_unless_its_file_says_otherwise(tmp_path, line, seconds):
    path = tmp_path / "client.toml"
    path.write_text(f'clients = ["oslo"]\n{line}\n[run]\nmodel = "mlp"\n')
    assert read_file(ClientFile, path, {}, {})[0].give_up == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[run]\nfleet = "f"\n[other]\n', "unknown key 'other'"),
        ("out = 3\n[run]\nfleet = 'f'\n", "out must be text, got 3"),
        ("strikes = true\n[run]\nfleet = 'f'\n", "strikes must be a whole number, got True"),
        ('adress = "127.0.0.1:1"\n[run]\nfleet = "f"\n', "unknown key 'adress'; did you mean address"),
        ('out = "a"\n', r"must have a table \[run\]"),
        ('[run]\ntime = "1h"\n', "key fleet is required"),
        ('address = "7733"\n[run]\nfleet = "f"\n', "an address must be HOST:PORT"),
        ('address = "0.0.0.0:7733"\n[run]\nfleet = "f"\n', "needs keys, because others can reach it"),
        ('engine = "rey"\n[run]\nfleet = "f"\n', "engine must be one of grpc, ray, got 'rey'; did you mean ray"),
        ('engine = "ray"\nprocesses = 0\n[run]\nfleet = "f"\n', "processes must be at least 1, got 0"),
        ('engine = "ray"\nkeys = "k"\n[run]\nfleet = "f"\n', "keys belongs to the engine grpc, the engine is ray"),
        ('cluster = "a:1"\n[run]\nfleet = "f"\n', "cluster belongs to the engine ray, the engine is grpc"),
        ("paced = true\n[run]\nfleet = 'f'\n", "paced belongs to the engine ray"),
        ('replan = "soon"\n[run]\nfleet = "f"\n', "replan must be a time such as 10min, never or auto, got 'soon'"),
        ("metrics_port = 70000\n[run]\nfleet = 'f'\n", "metrics_port must lie between 0 and 65535, got 70000"),
        ("durable = 1\n[run]\nfleet = 'f'\n", "durable must be true or false, got 1"),
    ],
)
def test_a_server_file_that_makes_no_sense_is_refused(tmp_path, text, why):
    path = tmp_path / "server.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=why):
        read_file(ServerFile, path, {}, {})


def test_beyond_this_machine_a_server_has_keys_or_says_that_it_is_insecure():
    assert ServerFile("0.0.0.0:7733", keys="keys/server").keys
    assert ServerFile("0.0.0.0:7733", insecure=True).insecure
    assert ServerFile("[::1]:7733").keys is None


def test_beyond_this_machine_a_client_has_keys_or_says_that_it_is_insecure():
    why = r"a client of a server at fl\.example\.org:7733 needs keys, .*, got none; .* insecure = true"
    with pytest.raises(InvalidInput, match=why):
        ClientFile("fl.example.org:7733", clients=("a",))
    with pytest.raises(InvalidInput, match=why):
        sojourn.live.client("fl.example.org:7733", torch.nn.Linear(1, 1), name="a", fit=print)
    assert ClientFile("fl.example.org:7733", keys="keys/clients/a", clients=("a",)).keys
    assert ClientFile("fl.example.org:7733", insecure=True, clients=("a",)).insecure
    assert ClientFile("[::1]:7733", clients=("a",)).keys is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"holds": "some"}, "all or part"),
        ({"clients": ()}, "must name its"),
        ({"paced": True}, "paced = true needs holds = 'part', got 'all'"),
    ],
)
def test_a_client_file_names_its_clients_and_what_they_hold(content, why):
    with pytest.raises(InvalidInput, match=why):
        ClientFile(**{"clients": ("a",), **content})


def test_a_client_with_all_its_data_needs_no_fleet(tmp_path):
    path = tmp_path / "client.toml"
    path.write_text('clients = ["oslo"]\n[run]\nmodel = "mlp"\n')
    assert read_file(ClientFile, path, {}, {})[1].model == "mlp"
    path.write_text('clients = ["oslo"]\nholds = "part"\n[run]\nmodel = "mlp"\n')
    with pytest.raises(InvalidInput, match="key fleet is required"):
        read_file(ClientFile, path, {}, {})
