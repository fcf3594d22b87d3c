"""The gRPC engine with keys: who may join, and as whom."""

import shutil
import time
from datetime import timedelta

import grpc
import pytest
import torch
from grpc_peers import SECONDS, Doubles, Peer, Running, arrivals, engine_of, events_until, many, of_kind, offer_of
from waiting import until

from sojourn.errors import InvalidInput, SojournError
from sojourn.live import certificates
from sojourn.live.engine import Joined, TurnedAway
from sojourn.live.key_folder import authority_of
from sojourn.live.keys import ClientKeys, Registry, ServerKeys, make_keys, revoke

CODE = grpc.StatusCode


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "federation"
    make_keys(folder, ["a", "b"])
    return folder


def keys_of(folder, name):
    return ClientKeys.load(folder / "clients" / name)


def serving(folder, names=("a", "b", "a/1", "a/2"), **options):
    keys, registry = ServerKeys.load(folder / "server"), Registry(folder / "server" / "clients.json")
    return engine_of(names, keys=keys, registry=registry, **options)


@pytest.fixture
def engine(made):
    engine = serving(made)
    yield engine
    engine.stop(ended=False)


def peer_with(engine, certificate, token):
    mine = grpc.ssl_channel_credentials(certificate.authority, certificate.key, certificate.certificate)
    return Peer(engine.address, mine, token)


def refused(call, code):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() == code
    return caught.value.details()


def test_a_client_with_its_keys_works_under_its_name_and_names_below(made, engine):
    running = Running(engine.address, {"a": Doubles(), "a/1": Doubles(), "a/2": Doubles()}, keys=keys_of(made, "a"))
    for client in (0, 2, 3):
        engine.offer(offer_of(client, 0))
    assert {arrived.name.client for arrived in arrivals(engine, 3)} == {0, 2, 3}
    assert running.leave()["tasks"] == 3


def test_a_client_cannot_join_under_the_name_of_another(made, engine):
    running = Running(engine.address, {"b": Doubles()}, keys=keys_of(made, "a"))
    running.end()
    assert isinstance(running.error, InvalidInput)
    assert "the token belongs to a, it cannot join as b" in str(running.error)


def test_a_token_is_worth_nothing_without_its_certificate(made, engine):
    a, b = keys_of(made, "a"), keys_of(made, "b")
    with peer_with(engine, b, a.token) as peer:
        assert "another certificate" in refused(peer.join, CODE.UNAUTHENTICATED)
    (told,) = events_until(engine, many(TurnedAway))  # the owner of the token has no part in it
    assert told == TurnedAway("b", "127.0.0.1", "token of another certificate")
    for token in (None, "", "wrong"):
        with peer_with(engine, a, token) as peer:
            assert "token" in refused(peer.join, CODE.UNAUTHENTICATED)


def test_a_session_is_worth_nothing_with_the_keys_of_another(made, engine):
    a, b = keys_of(made, "a"), keys_of(made, "b")
    with peer_with(engine, a, a.token) as mine, peer_with(engine, b, b.token) as other:
        mine.join()
        other.session = mine.session
        refused(other.pull, CODE.NOT_FOUND)
        refused(lambda: other.push((0, 0, 1), torch.ones(6)), CODE.NOT_FOUND)


def test_a_client_without_certificate_or_of_another_federation_is_not_connected(made, engine, tmp_path):
    a = keys_of(made, "a")
    with Peer(engine.address, grpc.ssl_channel_credentials(a.authority), a.token) as peer:
        refused(peer.join, CODE.UNAVAILABLE)
    make_keys(tmp_path / "other", ["a"])
    running = Running(engine.address, {"a": Doubles()}, keys=keys_of(tmp_path / "other", "a"), patience=60)
    running.end()
    assert isinstance(running.error, SojournError)
    assert "is not trusted" in str(running.error)


def test_a_revoked_client_is_refused_while_the_server_runs(made, tmp_path):
    folder = tmp_path / "federation"
    shutil.copytree(made, folder)
    engine = serving(folder)
    running = Running(engine.address, {"b": Doubles()}, keys=keys_of(folder, "b"))
    events_until(engine, many(Joined))
    revoke(folder, "b")
    time.sleep(0.6)  # the registry looks at its file twice a second
    engine.offer(offer_of(1, 0))
    assert events_until(engine, many(TurnedAway))[-1] == TurnedAway("b", "127.0.0.1", "revoked")
    running.end()
    assert "revoked" in str(running.error)
    engine.stop(ended=False)


def test_who_was_expelled_does_not_come_back_under_a_name_below(made, engine):
    a, b = keys_of(made, "a"), keys_of(made, "b")
    with peer_with(engine, a, a.token) as peer, peer_with(engine, b, b.token) as other:
        peer.join("a/1")
        engine.expel(2, "it sent nonsense")
        until(lambda: engine._admission._expelled, SECONDS, "a/1 is expelled")
        for name in ("a/1", "a", "a/2"):
            told = refused(lambda name=name: peer.join(name), CODE.PERMISSION_DENIED)
            assert told == "the client a/1 was expelled: it sent nonsense"
        assert other.join("b").client == 1


def test_a_caller_is_named_by_its_own_keys_whatever_it_calls_itself(made, engine):
    a = keys_of(made, "a")
    with peer_with(engine, a, a.token) as peer:
        refused(lambda: peer.join("b", protocol=99), CODE.PERMISSION_DENIED)
    (told,) = of_kind(TurnedAway, events_until(engine, many(TurnedAway)))
    assert told.who == "a"


def test_a_message_of_a_revoked_client_is_not_even_read(made, tmp_path):
    folder = tmp_path / "federation"
    shutil.copytree(made, folder)
    revoke(folder, "b")
    engine, b = serving(folder), keys_of(folder, "b")
    with peer_with(engine, b, b.token) as peer:
        for method in ("Pull", "Fetch", "Push", "Leave"):
            assert refused(lambda method=method: peer.call(method, b"\xff\xff"), CODE.UNAUTHENTICATED) == "revoked"
    engine.stop(ended=False)


def test_a_damaged_list_of_clients_is_told_of_and_the_last_good_one_holds(made, tmp_path):
    folder = tmp_path / "federation"
    shutil.copytree(made, folder)
    engine, a = serving(folder), keys_of(folder, "a")
    path = folder / "server" / "clients.json"
    good = path.read_text()
    with peer_with(engine, a, a.token) as peer:
        for content, problem in ((good[:40], True), (good, False)):
            path.write_text(content)

            def told(problem=problem):
                return peer.join("a").client == 0 and (engine.problem is not None) is problem

            until(told, SECONDS, f"the problem is known: {problem}")
    engine.stop(ended=False)


def test_a_client_that_dials_a_host_without_a_certificate_is_told_how_to_make_one(tmp_path):
    make_keys(tmp_path / "keys", ["a"], hosts=["fl.example.org"])
    engine = serving(tmp_path / "keys")
    running = Running(engine.address, {"a": Doubles()}, keys=keys_of(tmp_path / "keys", "a"), patience=0.1)
    running.end()
    engine.stop(ended=False)
    ((_, said),) = running.said
    assert "the server's certificate is for other hosts, not for 127.0.0.1" in said
    assert "sojourn live keys KEYS --host 127.0.0.1" in said


@pytest.mark.parametrize(
    ("days", "reason"), [(-3, "has expired by this machine's clock"), (3, "is not valid yet by this machine's clock")]
)
def test_a_client_waits_for_a_server_whose_certificate_is_not_valid_now(made, monkeypatch, days, reason):
    """The clock of a client may be wrong, and an expired certificate is made again."""
    authority, today = authority_of(made), certificates.now()
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "now", lambda: today + timedelta(days=days))
        pair = certificates.issue(authority, "server", certificates.SERVES, 1, ("127.0.0.1",))
    keys = ServerKeys(pair.certificate, pair.key, authority.certificate)
    engine = engine_of(("a",), keys=keys, registry=Registry(made / "server" / "clients.json"))
    running = Running(engine.address, {"a": Doubles()}, keys=keys_of(made, "a"))
    until(lambda: running.said or running.error, SECONDS, "the client says something")
    engine.stop(ended=False)
    ((_, said),) = running.said
    assert f"the server's certificate {reason}" in said
    assert ("sojourn live keys KEYS --host 127.0.0.1" in said) == (days < 0)
    good = serving(made, address=engine.address)  # the same server, with a certificate that is valid
    events_until(good, many(Joined))
    running.leave()
    good.stop(ended=False)
    assert running.error is None


def test_a_caller_with_an_unknown_token_is_told_of_once_and_its_token_never(made, engine):
    with peer_with(engine, keys_of(made, "a"), "secret") as peer:
        for _ in range(5):
            refused(peer.join, CODE.UNAUTHENTICATED)
        peer.metadata = None
        refused(peer.join, CODE.UNAUTHENTICATED)
    unknown, last = events_until(engine, many(TurnedAway, 2))
    assert unknown == TurnedAway("a", "127.0.0.1", "unknown token")
    assert last == TurnedAway("a", "127.0.0.1", "no token", unsaid=4)


def test_keys_without_a_registry_are_refused(made):
    with pytest.raises(InvalidInput, match="must be given together"):
        engine_of(keys=ServerKeys.load(made / "server"))
