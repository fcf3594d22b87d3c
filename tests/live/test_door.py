"""The door of the gRPC engine: what is said of callers that are not let in."""

from types import SimpleNamespace

from sojourn.live.engines.grpc import door
from sojourn.live.engines.grpc.door import MOST, Door

PEER = "ipv4:10.0.0.5:40312"


def test_the_same_is_said_again_after_some_time_only(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(door, "time", SimpleNamespace(monotonic=lambda: now[0]))  # for other threads time goes on
    one = Door()
    assert one.turn_away("lyon", PEER, "unknown token") == ("lyon", "10.0.0.5", "unknown token", 0)
    now[0] = door.AGAIN - 1
    assert one.turn_away("lyon", "ipv4:10.0.0.5:40313", "unknown token") is None
    now[0] = door.AGAIN
    assert one.turn_away("lyon", PEER, "unknown token") == ("lyon", "10.0.0.5", "unknown token", 1)


def test_callers_with_many_names_cannot_fill_the_log():
    one = Door()
    said = [one.turn_away(f"{number}" * 1000, PEER, "unknown") for number in range(1000)]
    assert sum(what is not None for what in said) == MOST
    assert max(len(what.who) for what in said if what is not None) == door.LONGEST
