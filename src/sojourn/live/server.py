"""LiveServer: the server of a live run, which also follows what its clients remember."""

import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from sojourn.learning.algorithms.base import Algorithm, Sent, Setting
from sojourn.learning.replay.local import Update
from sojourn.learning.replay.server import Server
from sojourn.learning.replay.timeline import Ended
from sojourn.live.remembering import draws_in_secret, mark_after

MEMORIES, HIDDEN = "memories", "hidden"
MOST_FORGOTTEN, MOST_UNLIKE = 10_000, 1000  # updates that are noted; they are in every checkpoint, and in the trace


class LiveServer(Server):
    """Applies updates of live clients, and notes where a client's memory is not what the trace shows.

    An update that is too large to be used must not get to the model, for the run would end with it.
    """

    at_once = True

    def __init__(self, algorithm: Algorithm, first: Tensor, stats: Tensor, setting: Setting) -> None:
        super().__init__(algorithm, first, stats, setting)
        self._secret = draws_in_secret(algorithm)
        self._hidden = secrets.token_bytes(32)
        self._known: dict[int, int] = {}  # by client: the mark that its memory should have
        self.forgotten: list[list[int]] = []
        """Client and step of every update whose client had begun again with an empty memory; a replay does the same."""
        self.unlike: list[list[int]] = []
        """Client and step of every update whose client remembered something else, which no replay can repeat."""

    def receive(self, task: Ended, sent: Sent, update: Update) -> None:
        """Apply the update; where there is noise, the server's own is drawn in secret, and no loss is looked at."""
        private = update._replace(key=self._key_of(task, update), loss=None) if self._secret else update
        super().receive(task, sent, private)
        if update.remembered is None or not self.algorithm.remembers:
            return
        (client, nth), mark = task.name, update.remembered
        if mark != self._known.get(client, 0):
            self._note_memory([client, task.step], empty=mark == 0)
        self._known[client] = mark_after(mark, nth)

    def _note_memory(self, where: list[int], empty: bool) -> None:
        """Note an update whose client does not remember what the trace shows."""
        if empty and len(self.forgotten) < MOST_FORGOTTEN:
            self.forgotten.append(where)
        elif len(self.unlike) < MOST_UNLIKE:
            self.unlike.append(where)

    def _key_of(self, task: Ended, update: Update) -> int:
        """Return the key of the server's noise: the same if the update is sent again after a crash, so that nobody sees
        it under two noises, and another one for any other update.
        """
        made = blake2b(repr(task.name).encode(), key=self._hidden, digest_size=8)
        made.update(update.vector.detach().cpu().contiguous().numpy().tobytes())
        return int.from_bytes(made.digest()) >> 1

    @property
    def facts(self) -> dict[str, Any]:
        """What the trace says about memories and secrets; nothing where there are none."""
        memory = {"forgotten": self.forgotten, "unlike": self.unlike}
        found: dict[str, Any] = {"memory": memory} if self.algorithm.remembers else {}
        return found | ({"secret": True} if self._secret else {})

    def snapshot(self) -> dict[str, Any]:
        """Return the state, with what is known of memories."""
        lists = {"forgotten": tuple(map(tuple, self.forgotten)), "unlike": tuple(map(tuple, self.unlike))}
        memories: dict[str, Any] = {"known": dict(self._known), **lists}
        return {**super().snapshot(), MEMORIES: memories, HIDDEN: self._hidden.hex()}

    def restore(self, tree: dict[str, Any]) -> None:
        """Take over the state of a snapshot; older ones say nothing of memories."""
        super().restore(on_device(tree, self.params.device))
        self._hidden = bytes.fromhex(tree[HIDDEN]) if HIDDEN in tree else self._hidden
        found: Mapping[str, Any] = tree.get(MEMORIES, {})
        self._known = dict(found.get("known", {}))
        self.forgotten, self.unlike = ([list(one) for one in found.get(key, ())] for key in ("forgotten", "unlike"))


def on_device(value: Any, device: torch.device) -> Any:
    """Return a tree of tensors and plain values with all its tensors on a device; a checkpoint is read to main memory,
    where the tables of the loop stay.

    >>> on_device({"one": (torch.ones(2), 3)}, torch.device("meta"))["one"][0].device.type
    'meta'
    """
    match value:
        case Tensor():
            return value.to(device)
        case Mapping():
            return {key: on_device(one, device) for key, one in value.items()}
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(on_device(one, device) for one in value))
        case tuple() | list():
            return tuple(on_device(one, device) for one in value)
    return value


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
        many = len(unlike) if len(unlike) < MOST_UNLIKE else f"{len(unlike)} or more"
        return f"{many} updates came from clients that remembered tasks which the trace does not have"
    return ""
