"""`sojourn live keys`: what it makes, what it prints, and what it never prints."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sojourn.cli.main import app
from sojourn.errors import InvalidInput, SojournError
from sojourn.live.keys import ClientKeys, Registry, ServerKeys, Unknown


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words):
    """Run the command; return what it prints."""
    shown = CliRunner().invoke(app, ["live", "keys", "keys", *map(str, words)])
    assert shown.exit_code == 0, (shown.output, shown.exception)
    return shown.output


def refused(*words):
    shown = CliRunner().invoke(app, ["live", "keys", "keys", *map(str, words)])
    assert shown.exit_code != 0
    assert isinstance(shown.exception, SojournError), shown.output
    return str(shown.exception)


def tokens(home):
    return {path.parent.name: path.read_text().strip() for path in home.glob("keys/clients/*/token")}


def name_of(home, name):
    keys = ClientKeys.load(home / "keys" / "clients" / name)
    return Registry(home / "keys" / "server" / "clients.json").name_of(keys.token, keys.certificate)


def test_clients_may_be_named_in_every_way_and_each_folder_is_said_to_go_somewhere(home):
    out = call("--clients", "a, b,c", "--client", "d", "--client", "e", "--count", 2, "--prefix", "x-")
    assert set(tokens(home)) == {"a", "b", "c", "d", "e", "x-0", "x-1"}
    assert "7 new clients, certificates valid until 20" in out
    for name in tokens(home):
        assert f"keys/clients/{name}" in out
        assert name_of(home, name) == name
    assert "to the server, 127.0.0.1 or localhost" in out
    assert "nowhere: its key admits clients" in out
    assert "copy them over a safe channel and keep their permissions" in out


def test_no_token_and_no_key_is_ever_printed(home):
    said = call("--clients", "a,b") + call("--client", "c", "--json") + call("--client", "d", "--csv")
    seen = set(tokens(home).values())
    said += call("--renew", "a") + call("--reissue", "b") + call("--revoke", "c") + call("--renew", "d", "--json")
    seen |= set(tokens(home).values())
    assert len(seen) == 4 + 3
    assert not any(token in said for token in seen)
    assert "PRIVATE" not in said


def test_a_count_is_named_like_the_clients_of_a_fleet(home):
    call("--count", 3)
    assert set(tokens(home)) == {"client-0", "client-1", "client-2"}


def test_hosts_and_days_are_those_that_are_given(home):
    facts = json.loads(call("--client", "a", "--host", "fl.example.org", "--host", "::1", "--days", 90, "--json"))
    assert facts["command"] == "live keys"
    assert facts["hosts"] == ["fl.example.org", "::1"]
    assert facts["clients"] == [{"name": "a", "folder": "keys/clients/a"}]
    assert (facts["authority"], facts["server"], facts["new_server"]) == ("keys/authority", "keys/server", True)
    longer = json.loads(call("--client", "b", "--days", 400, "--json"))
    assert longer["valid_until"] == facts["valid_until"]  # the server's expires first
    assert ServerKeys.load(home / "keys" / "server")


def test_clients_are_added_later_and_the_server_needs_the_new_registry_alone(home):
    call("--client", "a")
    out = call("--client", "b")
    assert "keys/server/clients.json" in out
    assert "a running server reads clients.json within a second" in out
    assert "authority" not in out
    assert name_of(home, "a") == "a"
    assert "exists already in keys; leave it out, renew its token, or take another name" in refused("--client", "a")


def test_without_clients_the_server_is_made_and_the_way_to_clients_is_said(home):
    assert "no new clients; add some with --clients, --client or --count" in call()
    assert ServerKeys.load(home / "keys" / "server")


def test_a_new_server_certificate_alone_is_said_to_be_one(home):
    call("--client", "a")
    for name in ("server.pem", "server.key"):
        (home / "keys" / "server" / name).unlink()
    out = call("--host", "10.0.0.5")
    assert "a new certificate of the server, valid until 20" in out
    assert "takes up its new certificate when it is started again" in out
    assert "new clients" not in out


def test_clients_are_revoked_and_given_new_tokens_and_keys(home):
    call("--clients", "a,b,c,d")
    before = tokens(home)
    out = call("--revoke", "a", "--revoke", "d", "--renew", "b", "--reissue", "c", "--days", 30)
    after = tokens(home)
    assert "keys/clients/b/token" in out
    assert "a running server reads clients.json within a second" in out
    assert {name for name in before if before[name] != after[name]} == {"b", "c"}
    for name in ("a", "d"):
        with pytest.raises(Unknown, match="revoked"):
            name_of(home, name)
    for name in ("b", "c"):
        assert name_of(home, name) == name
    facts = json.loads(call("--revoke", "b", "--json"))
    changed = [{"name": "b", "state": "revoked", "place": "keys/server/clients.json"}]
    assert facts == {"command": "live keys", "registry": "keys/server/clients.json", "changed": changed}


def test_what_was_done_before_an_error_is_shown(home):
    call("--clients", "anna,ben")
    shown = CliRunner().invoke(app, ["live", "keys", "keys", "--revoke", "ben", "--revoke", "ana"])
    assert isinstance(shown.exception, InvalidInput)
    assert str(shown.exception) == "there is no client 'ana' in keys; did you mean anna?"
    assert "ben" in shown.output
    assert "revoked" in shown.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--client", "../x"], "a client's name must have 1 to 64 letters"),
        (["--clients", "a,,b"], "a client's name must have 1 to 64 letters"),
        (["--clients", "a,b,a"], "every client must be named once, got 'a' twice"),
        (["--count", "0"], "--count must be a whole number from 1 to 100,000, got 0"),
        (["--count", "1", "--prefix", "."], "must not begin with a dot, got '.0'"),
        (["--prefix", "x"], "--prefix needs --count, got --prefix 'x' alone"),
        (["--host", "a:1"], "a host must be a name or an address, got 'a:1'"),
        (["--days", "0"], "days must be a whole number from 1 to 36,500, got 0"),
        (["--revoke", "a", "--client", "b"], "--revoke excludes new clients and hosts, got both"),
        (["--renew", "a", "--host", "b"], "--renew excludes new clients and hosts, got both"),
        (["--revoke", "a"], "folder of keys keys does not exist; check the path"),
        (["--json", "--csv"], "--json and --csv exclude each other"),
    ],
)
def test_nonsense_is_one_sentence_and_nothing_is_written(home, words, message):
    assert message in refused(*words)
    assert list(home.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_reported(home):
    (home / "keys").write_text("mine")
    assert "it is a file; name a folder" in refused("--client", "a")


def test_without_the_package_for_certificates_the_way_out_is_said(home, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refused("--client", "a") == (
        "keys need the package cryptography, which is not installed; pip install 'sojourn[live]'"
    )


def test_help_has_examples_and_the_group_lists_its_verbs():
    out = CliRunner().invoke(app, ["live", "keys", "--help"]).output
    assert "sojourn live keys keys/ --clients lyon,oslo,porto --host fl.example.org" in out
    assert "keys" in CliRunner().invoke(app, ["live", "--help"]).output


def test_help_loads_neither_cryptography_nor_grpc():
    code = (
        "import sys\nfrom sojourn.cli.main import app\ntry:\n  app(['live', 'keys', '--help'])\nexcept SystemExit: pass"
    )
    script = f"{code}\nprint([name for name in ('cryptography', 'grpc', 'torch') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
