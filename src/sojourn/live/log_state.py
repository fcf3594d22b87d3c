"""What the log of a live run says of now: who is there, and whether the run is paused."""

from collections.abc import Mapping
from typing import Any


class LogState:
    """The state after the entries that were taken, in their order.

    A log that was turned over begins with a line that says it all (`new log`), so it is enough to read from there on.

    >>> state = LogState()
    >>> for entry in ({"what": "new log", "clients": [2, 5], "paused": True}, {"what": "left", "client": 2}):
    ...     state.take(entry)
    >>> state.present, state.paused
    ({5}, True)
    """

    def __init__(self) -> None:
        self.present: set[int] = set()
        """Numbers of the clients that are connected."""
        self.paused = False
        """Whether no new tasks are sent."""

    def facts(self) -> dict[str, Any]:
        """Return what a line `new log` says."""
        return {"clients": sorted(self.present), "paused": self.paused}

    def take(self, entry: Mapping[str, Any]) -> None:
        """Follow an entry of the log."""
        what = entry["what"]
        if what in ("started", "resumed"):
            self.present, self.paused = set(), False
        elif what == "new log":
            clients = entry.get("clients")
            told = clients if isinstance(clients, list) else []
            self.present = {one for one in told if type(one) is int and one >= 0}
            self.paused = entry.get("paused") is True
        elif what == "joined":
            self.present.add(int(entry["client"]))
        elif what == "left":
            self.present.discard(int(entry["client"]))
        elif what in ("paused", "went on"):
            self.paused = what == "paused"
