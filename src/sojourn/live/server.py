"""LiveServer: the server of a live run, which also follows what its clients remember."""

import secrets
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from sojourn.learning.algorithms.base import Algorithm, Sent, Setting
from sojourn.learning.replay.local import Update
from sojourn.learning.replay.server import Server
from sojourn.learning.replay.timeline import Ended
from sojourn.live.remembering import draws_in_secret

MEMORIES = "memories"


class LiveServer(Server):
    """Applies updates of live clients, and notes where a client's memory is not what the trace shows."""

    def __init__(self, algorithm: Algorithm, first: Tensor, stats: Tensor, setting: Setting) -> None:
        super().__init__(algorithm, first, stats, setting)
        self._secret = draws_in_secret(algorithm)
        self._known: dict[int, int] = {}  # updates that a client's memory should know of
        self.forgotten: list[list[int]] = []
        """Client and step of every update whose client had begun again with an empty memory; a replay does the same."""
        self.unlike: list[list[int]] = []
        """Client and step of every update whose client remembered something else, which no replay can repeat."""

    def receive(self, task: Ended, sent: Sent, update: Update) -> None:
        """Apply the update; where there is noise, the server's own is drawn in secret, and no loss is looked at."""
        private = update._replace(key=secrets.randbits(63), loss=None)
        super().receive(task, sent, private if self._secret else update)
        if update.remembered is None:
            return
        client, known = task.name[0], update.remembered
        expected = self._known.get(client, 0)
        if known != expected:
            (self.forgotten if known == 0 else self.unlike).append([client, task.step])
        self._known[client] = known + 1

    @property
    def facts(self) -> dict[str, Any]:
        """What the trace says about memories and secrets; nothing where there are none."""
        memory = {"forgotten": self.forgotten, "unlike": self.unlike}
        found: dict[str, Any] = {"memory": memory} if self.algorithm.remembers else {}
        return found | ({"secret": True} if self._secret else {})

    def snapshot(self) -> dict[str, Any]:
        """Return the state, with what is known of memories."""
        lists = {"forgotten": tuple(map(tuple, self.forgotten)), "unlike": tuple(map(tuple, self.unlike))}
        return {**super().snapshot(), MEMORIES: {"known": dict(self._known), **lists}}

    def restore(self, tree: dict[str, Any]) -> None:
        """Take over the state of a snapshot; older ones say nothing of memories."""
        super().restore(tree)
        found: Mapping[str, Any] = tree.get(MEMORIES, {})
        self._known = dict(found.get("known", {}))
        self.forgotten, self.unlike = ([list(one) for one in found.get(key, ())] for key in ("forgotten", "unlike"))


def inexact(facts: Mapping[str, Any]) -> str:
    """Return why the replay of a live trace cannot give the same model; empty = it can.

    >>> inexact({"memory": {"forgotten": [[0, 7]], "unlike": []}}), inexact({"secret": True})
    ('', 'noise was drawn in secret')
    """
    if facts.get("secret"):
        return "noise was drawn in secret"
    memory = facts.get("memory")
    unlike = memory.get("unlike") if isinstance(memory, Mapping) else None
    if unlike:
        return f"{len(unlike)} updates came from clients that remembered tasks which the trace does not have"
    return ""
