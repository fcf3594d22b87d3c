"""Door: what the loop is told of callers that are not let in; anybody can call, so it is told now and then only."""

import time

from sojourn.live.engine import TurnedAway

AGAIN = 10.0  # seconds until the same is said again
MOST = 10  # different things that are said in this time
LONGEST = 200  # characters of a name that a caller gives


class Door:
    """Who was turned away lately."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str, str], float] = {}
        self._unsaid = 0

    def turn_away(self, who: str, peer: str, reason: str) -> TurnedAway | None:
        """Return what the loop should be told of a caller that is not let in; None = nothing now."""
        now = time.monotonic()
        self._said = {what: at for what, at in self._said.items() if now - at < AGAIN}
        what = who[:LONGEST], host_of(peer), reason[: 2 * LONGEST]
        if what in self._said or len(self._said) >= MOST:
            self._unsaid += 1
            return None
        self._said[what] = now
        unsaid, self._unsaid = self._unsaid, 0
        return TurnedAway(*what, unsaid)


def host_of(peer: str) -> str:
    """Return the address in what gRPC calls a peer, without the port, which is another one each time.

    >>> host_of("ipv4:10.0.0.5:40312"), host_of("ipv6:%5B::1%5D:40312")
    ('10.0.0.5', '[::1]')
    """
    return peer.partition(":")[2].rpartition(":")[0].replace("%5B", "[").replace("%5D", "]")
