"""Keys of a federation: what lies where and who may read it, who can connect to whom, and whom the server admits."""

import json
import os
import ssl
import threading
from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from sojourn import secret_files
from sojourn.errors import InvalidInput, SojournError, UnreadableFile, UnwritableFile
from sojourn.files import claimed
from sojourn.live import certificates, registry
from sojourn.live.keys import ClientKeys, Registry, ServerKeys, Unknown, make_keys, reissue, renew_token, revoke

NONSENSE = ["../x", "", "x" * 200, "zürich", "名", ".hidden", "a/b", "a b", "a\n", "a\0b", "..", "x" * 65, None, 7]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A federation that no test changes."""
    return make_keys(tmp_path_factory.mktemp("keys") / "keys", ["anna", "ben"], ["localhost", "127.0.0.1", "::1"])


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another federation with the same names."""
    return make_keys(tmp_path_factory.mktemp("other") / "keys", ["anna", "ben"])


@pytest.fixture
def folder(tmp_path):
    """A federation to change."""
    make_keys(tmp_path / "keys", ["anna", "ben"])
    return tmp_path / "keys"


@pytest.fixture
def at_once(monkeypatch):
    """The server looks at the file before every answer."""
    monkeypatch.setattr(registry, "PAUSE", 0.0)


def made_in(year, monkeypatch, place, **options):
    with monkeypatch.context() as then:
        then.setattr(certificates, "now", lambda: datetime(year, 1, 1, tzinfo=UTC))
        return make_keys(place, ["anna"], **options)


def tree(place):
    """The content of every file below a folder."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def asked(folder):
    """The registry of a federation."""
    return Registry(folder / "server" / "clients.json")


def held(folder, name):
    """Token and certificate of a client."""
    keys = ClientKeys.load(folder / "clients" / name)
    return keys.token, keys.certificate


# --- what lies where


def test_every_party_has_a_folder_with_its_own_files(made):
    assert set(tree(made.authority.parent)) == {
        *(f"authority/{name}" for name in ("ca.pem", "ca.key")),
        *(f"server/{name}" for name in ("ca.pem", "server.pem", "server.key", "clients.json")),
        *(
            f"clients/{who}/{name}"
            for who in ("anna", "ben")
            for name in ("ca.pem", "client.pem", "client.key", "token")
        ),
    }
    assert made.clients == {name: made.authority.parent / "clients" / name for name in ("anna", "ben")}
    assert made.new_server


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_nobody_but_the_owner_may_open_a_file_or_a_folder_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        make_keys(tmp_path / "keys", ["anna"])
        make_keys(tmp_path / "keys", ["ben"])
        revoke(tmp_path / "keys", "anna")
        renew_token(tmp_path / "keys", "ben")
        reissue(tmp_path / "keys", "ben")
    finally:
        os.umask(before)
    for path in (tmp_path / "keys", *(tmp_path / "keys").rglob("*")):
        assert path.stat().st_mode & 0o7777 == (0o700 if path.is_dir() else 0o600), path


def test_modes_are_right_from_the_beginning(tmp_path, monkeypatch):
    modes = Counter()
    real_open, real_mkdir = os.open, os.mkdir

    def mine(path):  # other threads may open files of their own meanwhile
        return str(path).startswith(str(tmp_path))

    def opened(path, flags, mode=0o777, **more):
        if flags & os.O_CREAT and mine(path) and not str(path).endswith(".lock"):
            modes[mode] += 1
        return real_open(path, flags, mode, **more)

    def made(path, mode=0o777):
        real_mkdir(path, mode)
        modes.update([mode] if mine(path) else [])

    monkeypatch.setattr(secret_files.os, "open", opened)
    monkeypatch.setattr(secret_files.os, "mkdir", made)
    make_keys(tmp_path / "keys", ["anna"])
    assert set(modes) == {0o600, 0o700}
    assert modes[0o600] == 2 + 4 + 4 + 1  # the authority's, the server's, the client's, and the registry again


def test_the_parents_of_the_folder_are_made_and_an_existing_folder_may_hold_other_things(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    make_keys(tmp_path, ["anna"])
    make_keys(tmp_path / "a" / "b", [])
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert json.loads((tmp_path / "a" / "b" / "server" / "clients.json").read_text()) == {}


def test_the_server_knows_tokens_by_their_hashes_only(made):
    text = (made.server / "clients.json").read_text()
    entries = json.loads(text)
    for name, place in made.clients.items():
        token = (place / "token").read_text().strip()
        assert len(token) == 43  # 256 bits
        assert token not in text
        assert entries[name]["token_sha256"] == sha256(token.encode()).hexdigest()
        der = ssl.PEM_cert_to_DER_cert((place / "client.pem").read_text())
        assert entries[name]["certificate_sha256"] == sha256(der).hexdigest()
        assert entries[name]["revoked"] is False
    assert len({(place / "token").read_text() for place in made.clients.values()}) == 2


def test_a_client_is_named_in_its_certificate_and_the_server_has_all_its_hosts(made):
    (client,) = certificates.certificates((made.clients["anna"] / "client.pem").read_bytes(), "it")
    assert client.subject.rfc4514_string() == "CN=anna"
    assert made.hosts == ("localhost", "127.0.0.1", "::1")


def test_further_clients_are_added_and_nothing_that_exists_changes(folder):
    before = tree(folder)
    later = make_keys(folder, ["carl", "dora"])
    after = tree(folder)
    assert not later.new_server
    assert list(later.clients) == ["carl", "dora"]
    assert {name: after[name] for name in before if name != "server/clients.json"} == {
        name: content for name, content in before.items() if name != "server/clients.json"
    }
    assert list(json.loads(after["server/clients.json"])) == ["anna", "ben", "carl", "dora"]
    for name in ("anna", "carl"):
        assert asked(folder).name_of(*held(folder, name)) == name
    shake(folder / "server", folder / "clients" / "dora")


def test_a_client_that_exists_is_refused_with_the_way_out_and_nobody_is_added(folder):
    before = tree(folder)
    with pytest.raises(
        InvalidInput, match=r"client 'ben' exists already in .*; leave it out, renew its token, or take"
    ):
        make_keys(folder, ["carl", "ben"])
    assert tree(folder) == before


def test_a_folder_that_the_server_does_not_know_is_not_written_over(folder):
    (folder / "clients" / "dora").mkdir()
    before = tree(folder)
    with pytest.raises(InvalidInput, match="dora exists, but the server does not know this client; remove it"):
        make_keys(folder, ["carl", "dora"])
    assert tree(folder) == before
    assert not (folder / "clients" / "carl").exists()


def test_clients_that_could_not_be_registered_leave_nothing_behind(folder, monkeypatch):
    def full(*_):
        raise UnwritableFile("the disk is full; name another place")

    before = tree(folder)
    monkeypatch.setattr("sojourn.live.keys.write_entries", full)
    with pytest.raises(UnwritableFile, match="full"):
        make_keys(folder, ["carl", "dora"])
    assert tree(folder) == before
    assert sorted(path.name for path in (folder / "clients").iterdir()) == ["anna", "ben"]


@pytest.mark.parametrize("name", NONSENSE)
def test_a_name_that_cannot_be_a_folder_is_refused_before_anything_is_written(tmp_path, name):
    with pytest.raises(InvalidInput, match="a client's name must have 1 to 64 letters"):
        make_keys(tmp_path / "keys", ["good", name])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 64, "-", "_", "9"])
def test_other_names_are_fine(folder, name):
    make_keys(folder, [name])
    assert asked(folder).name_of(*held(folder, name)) == name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"clients": "abc"}, "clients must be a list of names, got 'abc'"),
        ({"clients": ["a", "b", "a"]}, "every client must be named once, got 'a' twice"),
        ({"hosts": []}, "hosts must name the server at least once"),
        ({"hosts": "localhost"}, "hosts must name the server at least once"),
        ({"hosts": ["localhost:8080"]}, "a host must be a name or an address, got 'localhost:8080'"),
        ({"hosts": ["https://x.org"]}, "a host must be"),
        ({"hosts": ["300.1.1.1"]}, "a host must be"),
        ({"hosts": ["fe80::1%eth0"]}, "a host must be"),
        ({"hosts": ["münchen.de"]}, "a host must be"),
        ({"hosts": [7]}, "a host must be"),
        ({"hosts": [""]}, "a host must be"),
        ({"days": 0}, "days must be a whole number from 1 to 36,500, got 0"),
        ({"days": 10**9}, "days must be"),
        ({"days": 1.5}, "days must be"),
    ],
)
def test_other_nonsense_is_refused_before_anything_is_written(tmp_path, words, message):
    with pytest.raises(InvalidInput, match=message):
        make_keys(tmp_path / "keys", **{"clients": [], **words})
    assert list(tmp_path.iterdir()) == []


def test_the_servers_certificate_is_made_again_where_it_was_removed_with_its_key(folder):
    with pytest.raises(
        InvalidInput, match=r"is for 127.0.0.1, localhost, got fl.org; remove server.pem and server.key"
    ):
        make_keys(folder, [], ["fl.org"])
    assert make_keys(folder, [], ["localhost"]).hosts == ("127.0.0.1", "localhost")
    (folder / "server" / "server.pem").unlink()
    with pytest.raises(UnreadableFile, match=r"must have server.pem and server.key; remove .*server.key to have both"):
        make_keys(folder, [], ["fl.org"])
    (folder / "server" / "server.key").unlink()
    again = make_keys(folder, [], ["FL.org"])
    assert (again.new_server, again.hosts) == (True, ("fl.org",))
    assert asked(folder).name_of(*held(folder, "anna")) == "anna"
    shake(folder / "server", folder / "clients" / "anna", "fl.org")


@pytest.mark.parametrize("lost", ["authority", "server"])
def test_a_federation_without_its_authority_or_its_server_is_not_founded_anew(folder, lost):
    (folder / lost).rename(folder / "elsewhere")
    with pytest.raises(UnreadableFile, match=f"{lost} does not exist, and cannot be made again; put a copy back"):
        make_keys(folder, ["carl"])


def test_two_processes_do_not_change_the_same_folder(folder, monkeypatch):
    monkeypatch.setattr("sojourn.files.PATIENCE", 0.0)
    with claimed(folder / ".lock", ""), pytest.raises(InvalidInput, match="another process is changing the keys"):
        make_keys(folder, ["carl"])


def test_no_certificate_outlives_the_authority(folder):
    (authority,) = certificates.certificates((folder / "authority" / "ca.pem").read_bytes(), "it")
    made = make_keys(folder, ["carl"], days=36_500)
    (client,) = certificates.certificates((made.clients["carl"] / "client.pem").read_bytes(), "it")
    assert client.not_valid_after_utc == authority.not_valid_after_utc


def test_an_expired_authority_signs_nothing(tmp_path, monkeypatch):
    made_in(2000, monkeypatch, tmp_path / "keys")
    with pytest.raises(InvalidInput, match=r"ca.pem must be valid now, it expired on 2009-12-29 at 00:00 UTC"):
        make_keys(tmp_path / "keys", ["carl"])


# --- who can connect to whom


def context(side, place, name):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if side == "server" else ssl.PROTOCOL_TLS_CLIENT)
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT  # as newer Pythons have it
    made.load_cert_chain(place / f"{name}.pem", place / f"{name}.key")
    made.load_verify_locations(place / "ca.pem")
    return made


def shake(server, client, host="localhost", serves="server", joins="client"):
    """Shake hands in memory; return the certificate that the server sees."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        context("client", client, joins).wrap_bio(down, up, server_hostname=host),
        context("server", server, serves).wrap_bio(up, down, server_side=True),
    ]
    open_sides = list(sides)
    for _ in range(10):
        for side in list(open_sides):
            try:
                side.do_handshake()
                open_sides.remove(side)
            except ssl.SSLWantReadError:
                pass
        if not open_sides:
            return sides[1].getpeercert(binary_form=True)
    raise AssertionError("the two never agreed")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_server_and_client_of_one_federation_agree_and_the_server_learns_who_calls(made, host):
    seen = shake(made.server, made.clients["anna"], host)
    token = ClientKeys.load(made.clients["anna"]).token
    assert asked(made.authority.parent).name_of(token, seen) == "anna"


def test_the_server_is_known_under_its_hosts_alone(made):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(made.server, made.clients["anna"], "elsewhere.org")


def test_a_client_of_another_authority_is_refused(made, other, tmp_path):
    for name in ("client.pem", "client.key"):  # it trusts our server, and holds what another authority signed
        (tmp_path / name).write_bytes((other.clients["anna"] / name).read_bytes())
    (tmp_path / "ca.pem").write_bytes((made.server / "ca.pem").read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        shake(made.server, tmp_path)


def test_a_server_of_another_authority_is_refused(made, other):
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        shake(other.server, made.clients["anna"])


def test_a_client_cannot_serve(folder):
    place = make_keys(folder, ["localhost"]).clients["localhost"]  # the name does not help
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        shake(place, folder / "clients" / "anna", serves="client")


def test_the_server_cannot_join(made):
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        shake(made.server, made.server, joins="server")


# --- what is loaded


def test_keys_are_loaded_as_they_are_and_never_shown(made):
    server, client = ServerKeys.load(made.server), ClientKeys.load(str(made.clients["ben"]))
    assert server.certificate == (made.server / "server.pem").read_bytes()
    assert server.key == (made.server / "server.key").read_bytes()
    assert client.authority == server.authority == (made.authority / "ca.pem").read_bytes()
    assert f"{client.token}\n" == (made.clients["ben"] / "token").read_text()
    assert client.token not in repr(client)
    assert "PRIVATE" not in repr(client) + repr(server)


@pytest.mark.parametrize("name", ["client.key", "token"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_secret_that_others_can_open_is_refused_with_what_to_type(folder, name, mode):
    path = folder / "clients" / "anna" / name
    path.chmod(mode)
    with pytest.raises(InvalidInput) as refused:
        ClientKeys.load(path.parent)
    assert str(refused.value).endswith(f"for its owner alone, its mode is {mode:04o}; type: chmod 600 {path}")
    path.chmod(0o400)
    assert ClientKeys.load(path.parent)


def test_the_key_of_the_authority_is_not_for_others_either(folder):
    (folder / "authority" / "ca.key").chmod(0o644)
    with pytest.raises(InvalidInput, match=r"ca.key must be for its owner alone, its mode is 0644"):
        make_keys(folder, ["carl"])


@pytest.mark.parametrize("name", ["ca.pem", "client.pem", "client.key", "token"])
def test_a_missing_file_is_named(folder, name):
    (folder / "clients" / "anna" / name).unlink()
    with pytest.raises(UnreadableFile, match=f"{name} does not exist; check the path"):
        ClientKeys.load(folder / "clients" / "anna")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ca.pem", "ca.pem is not a certificate in PEM form"),
        ("client.pem", "client.pem is not a certificate in PEM form"),
        ("client.key", "client.key is not a private key in PEM form"),
        ("token", "token .*token must hold one word"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"two words", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\n"])
def test_a_damaged_file_is_named(folder, name, message, content):
    (folder / "clients" / "anna" / name).write_bytes(content)
    with pytest.raises(UnreadableFile, match=message):
        ClientKeys.load(folder / "clients" / "anna")


def test_an_expired_certificate_is_refused_and_says_when_it_expired(tmp_path, monkeypatch):
    made = made_in(2020, monkeypatch, tmp_path / "keys", days=31)
    for load, place in ((ServerKeys.load, made.server), (ClientKeys.load, made.clients["anna"])):
        with pytest.raises(InvalidInput, match=r"\.pem must be valid now, it expired on 2020-02-01 at 00:00 UTC; have"):
            load(place)
    assert made.until == datetime(2020, 2, 1, tzinfo=UTC)


def test_a_certificate_of_the_future_is_blamed_on_the_clock(tmp_path, monkeypatch):
    made = made_in(2190, monkeypatch, tmp_path / "keys")
    with pytest.raises(InvalidInput, match=r"it is so from 2189-12-31 at 23:00 UTC; is this machine's clock right"):
        ServerKeys.load(made.server)


def test_a_certificate_of_another_key_is_refused(folder):
    place = folder / "clients" / "anna"
    (place / "client.pem").write_bytes((folder / "clients" / "ben" / "client.pem").read_bytes())
    with pytest.raises(
        InvalidInput, match=r"client.pem must belong to key .*client.key, it is of another key; copy both"
    ):
        ClientKeys.load(place)


def test_a_certificate_of_another_authority_is_refused(folder, other):
    place = folder / "clients" / "anna"
    (place / "ca.pem").write_bytes((other.server / "ca.pem").read_bytes())
    with pytest.raises(InvalidInput, match=r"client.pem must be signed by certificate .*ca.pem, it is not"):
        ClientKeys.load(place)


def test_a_chain_that_goes_up_to_the_authority_is_fine(folder):
    place = folder / "clients" / "anna"
    with (place / "client.pem").open("ab") as file:
        file.write((place / "ca.pem").read_bytes())
    assert ClientKeys.load(place)


# --- whom the server admits


def test_a_client_is_known_by_token_and_certificate_in_either_form(made):
    known = asked(made.authority.parent)
    for name in ("anna", "ben"):
        token, pem = held(made.authority.parent, name)
        assert known.name_of(token, pem) == name
        assert known.name_of(token, b"\n" + pem.replace(b"\n", b"\r\n")) == name
        assert known.name_of(token, ssl.PEM_cert_to_DER_cert(pem.decode())) == name


def test_whoever_lacks_something_is_unknown_and_told_why_in_a_few_words(made, other):
    known, (token, pem) = asked(made.authority.parent), held(made.authority.parent, "anna")
    ben = held(made.authority.parent, "ben")[1]
    strange = held(other.authority.parent, "anna")[0]
    for words, reason, whose in [
        ((None, pem), "no token", "anna"),
        (("", pem), "no token", "anna"),
        ((strange, pem), "unknown token", "anna"),
        ((token[:-1], None), "unknown token", None),
        (("\ud800", ben), "unknown token", "ben"),
        ((token, None), "no certificate", "anna"),
        ((token, b""), "no certificate", "anna"),
        ((token, ben), "token of another certificate", "ben"),
        ((token, b"-----BEGIN CERTIFICATE-----A-----END CERTIFICATE-----"), "token of another certificate", None),
        ((token, b"\x30\x82" + pem), "token of another certificate", None),  # ours within another one
    ]:
        with pytest.raises(Unknown) as refused:
            known.name_of(*words)
        assert (str(refused.value), refused.value.client) == (reason, whose)
        assert isinstance(refused.value, SojournError)


def test_a_revoked_client_is_refused_while_the_server_runs(folder, at_once):
    known, anna, ben = asked(folder), held(folder, "anna"), held(folder, "ben")
    assert known.name_of(*anna) == "anna"
    assert revoke(folder, "anna") == folder / "server" / "clients.json"
    with pytest.raises(Unknown, match=r"^revoked$"):
        known.name_of(*anna)
    assert known.name_of(*ben) == "ben"
    revoke(folder, "anna")  # twice is once
    with pytest.raises(Unknown, match=r"^revoked$"):
        asked(folder).name_of(*anna)


def test_a_revoked_client_gets_no_new_keys(folder):
    revoke(folder, "anna")
    before = tree(folder)
    for again in (renew_token, reissue):
        with pytest.raises(
            InvalidInput, match="client 'anna' is revoked, so it gets no new keys; add it under another"
        ):
            again(folder, "anna")
    assert tree(folder) == before


def test_a_new_token_takes_the_place_of_the_old_one_while_the_server_runs(folder, at_once):
    known, (old, pem) = asked(folder), held(folder, "anna")
    assert renew_token(folder, "anna") == folder / "clients" / "anna" / "token"
    new, same = held(folder, "anna")
    assert same == pem
    assert known.name_of(new, pem) == "anna"
    with pytest.raises(Unknown, match="unknown token"):
        known.name_of(old, pem)


def test_a_client_whose_folder_has_moved_gets_a_new_token_or_new_keys_all_the_same(folder):
    (folder / "clients").rename(folder / "moved")
    token = renew_token(folder, "anna").read_text().strip()
    assert asked(folder).name_of(token, (folder / "moved" / "anna" / "client.pem").read_bytes()) == "anna"
    assert reissue(folder, "ben") == folder / "clients" / "ben"
    assert asked(folder).name_of(*held(folder, "ben")) == "ben"


def test_new_keys_take_the_place_of_the_old_ones(folder, at_once):
    known, (old, pem) = asked(folder), held(folder, "anna")
    reissue(folder, "anna", days=30)
    token, certificate = held(folder, "anna")
    assert known.name_of(token, certificate) == "anna"
    with pytest.raises(Unknown, match="unknown token"):
        known.name_of(old, pem)
    with pytest.raises(Unknown, match="token of another certificate"):
        known.name_of(token, pem)
    shake(folder / "server", folder / "clients" / "anna")


@pytest.mark.parametrize("change", [revoke, renew_token, reissue])
def test_a_client_that_nobody_knows_cannot_be_changed(folder, change, tmp_path):
    with pytest.raises(InvalidInput, match=r"there is no client 'ana' in .*; did you mean anna"):
        change(folder, "ana")
    with pytest.raises(InvalidInput, match=r"there is no client '\.\./anna' in"):
        change(folder, "../anna")
    with pytest.raises(UnreadableFile, match="nowhere does not exist; check the path"):
        change(tmp_path / "nowhere", "anna")


def test_a_token_is_enough_where_the_entry_has_no_certificate(folder):
    place, (token, pem) = folder / "server" / "clients.json", held(folder, "anna")
    entries = json.loads(place.read_text())
    entries["anna"]["certificate_sha256"] = None
    place.write_text(json.dumps(entries))
    assert asked(folder).name_of(token, None) == "anna"
    assert asked(folder).name_of(token, pem) == "anna"
    with pytest.raises(Unknown, match="no certificate"):
        asked(folder).name_of(held(folder, "ben")[0], None)


def test_the_file_is_looked_at_twice_a_second_at_most_and_read_when_it_has_changed(folder, monkeypatch):
    time, looks, reads = [100.0], Counter(), Counter()
    stamp, read = registry._stamp, registry.read_entries
    monkeypatch.setattr(registry, "monotonic", lambda: time[0])
    monkeypatch.setattr(registry, "_stamp", lambda path: (looks.update(["look"]), stamp(path))[1])
    monkeypatch.setattr(registry, "read_entries", lambda path: (reads.update(["read"]), read(path))[1])
    known, anna = asked(folder), held(folder, "anna")
    revoke(folder, "anna")
    time[0] = 100.4
    assert known.name_of(*anna) == "anna"
    assert (looks["look"], reads["read"]) == (1, 1)
    time[0] = 100.5
    with pytest.raises(Unknown, match="revoked"):
        known.name_of(*anna)
    time[0] = 101.5
    with pytest.raises(Unknown, match="revoked"):
        known.name_of(*anna)
    assert (looks["look"], reads["read"]) == (3, 2)


GOOD = {"token_sha256": "0" * 64, "certificate_sha256": None, "revoked": False}
DAMAGED = {
    "truncated": "{",
    "no table": "[]",
    "entry": json.dumps({"anna": 7}),
    "name": json.dumps({"../anna": GOOD}),
    "misspelt": json.dumps({"anna": {"token_sha256": "0" * 64, "certificate_sha256": None, "revokd": True}}),
    "token": json.dumps({"anna": GOOD | {"token_sha256": None}}),
    "certificate": json.dumps({"anna": GOOD | {"certificate_sha256": "x"}}),
    "revoked": json.dumps({"anna": GOOD | {"revoked": "no"}}),
    "twins": json.dumps({"anna": GOOD, "ben": GOOD}),
}


@pytest.mark.parametrize("text", [*DAMAGED.values(), None], ids=[*DAMAGED, "missing"])
def test_a_damaged_file_keeps_the_last_good_content_and_is_reported_until_it_is_whole(folder, at_once, text):
    place, anna = folder / "server" / "clients.json", held(folder, "anna")
    known, good = Registry(place), place.read_text()
    place.unlink() if text is None else place.write_text(text)
    assert known.name_of(*anna) == "anna"
    assert known.problem is not None
    assert known.problem.startswith(f"registry of clients {place} ")
    with pytest.raises(UnreadableFile):
        Registry(place)
    place.write_text(good)
    assert known.name_of(*anna) == "anna"
    assert known.problem is None


def test_a_file_that_was_away_for_a_moment_is_no_problem_for_ever(folder, at_once):
    place, anna = folder / "server" / "clients.json", held(folder, "anna")
    known = Registry(place)
    place.rename(folder / "away")
    assert known.name_of(*anna) == "anna"
    assert "does not exist" in str(known.problem)
    (folder / "away").rename(place)
    assert known.name_of(*anna) == "anna"
    assert known.problem is None


def test_many_threads_may_ask_while_the_file_changes(folder, at_once):
    known, ben = asked(folder), held(folder, "ben")
    names, errors = Counter(), []

    def ask():
        try:
            names.update(known.name_of(*ben) for _ in range(200))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        renew_token(folder, "anna")
    for thread in threads:
        thread.join()
    assert (errors, set(names)) == ([], {"ben"})
    assert known.problem is None


def test_a_killed_writer_is_no_obstacle(folder):
    (folder / "server" / "clients.json.partial").write_text("half")
    (folder / "clients" / ".carl.partial").mkdir()
    (folder / "clients" / ".carl.partial" / "token").write_text("half")
    revoke(folder, "anna")
    make_keys(folder, ["carl"])
    assert asked(folder).name_of(*held(folder, "carl")) == "carl"
    assert list(folder.rglob("*.partial")) == []
