"""The state of a loop on the disk: all that a commit holds besides the rows of the trace."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import UnreadableFile
from sojourn.learning.algorithms.base import Sent
from sojourn.learning.storable import check
from sojourn.live.chooser import InForce
from sojourn.live.engine import TaskName
from sojourn.live.flying import UNDECIDED, Flying

if TYPE_CHECKING:
    from sojourn.live.loop import Loop


def snapshot(loop: "Loop") -> dict[str, Any]:
    """Return everything but the rows, as a tree of tensors and plain values."""
    flying = list(loop.pending.values())
    table = [[*one.name, one.sent.version, one.dispatched_step] for one in flying]
    times = [[one.dispatched_at, one.prob] for one in flying]
    return {
        "server": loop.server.snapshot(),
        "chooser": loop.chooser.snapshot(),
        "epoch": loop.epoch,
        "time": max(loop.now, loop.latest) if loop.begun else 0.0,  # never before a task that it has
        "sent": torch.from_numpy(loop.sent.copy()),
        "returned": tuple(loop.batches.returned),
        "flying": _tensor(table, np.int64, 5),
        "flying_at": _tensor(times, np.float64, 2),
        "recent": _tensor(loop.recent.rows(), np.int64, 4),
        "faults": dict(loop.faults.counts),
        "refusals": tuple(dict(one) for one in loop.faults.refusals),
        "turned_away": tuple(dict(one) for one in loop.faults.turned_away),
        "expelled": dict(loop.faults.expelled),
        "strikes": dict(loop.faults.strikes),
        "durations": torch.from_numpy(loop.patience.snapshot()),
        "names": dict(loop.names),
        "resumes": tuple(dict(one) for one in loop.resumes),
        "plans": tuple(dict(one) for one in loop.plans),
        "force": None if loop.force is None else _stored(loop.force),
        "following": None if loop.follower is None else loop.follower.snapshot(),
    }


def restore(loop: "Loop", tree: dict[str, Any]) -> None:
    """Go on where a snapshot was taken: with its tasks in flight, but with no client present yet."""
    check(tree, {"server": dict[str, Any], "chooser": dict[str, Any], "epoch": int, "time": float, "sent": Tensor})
    check(tree, {"flying": Tensor, "flying_at": Tensor, "recent": Tensor, "faults": dict[str, int]})
    if len(tree["sent"]) != loop.sent.size:
        raise UnreadableFile("the checkpoint does not belong to this run: its fleet has other clients")
    loop.server.restore(tree["server"])
    _restore_plan(loop, tree)
    loop.chooser.restore(tree["chooser"])
    loop.batches.returned = list(tree.get("returned", ()))  # older checkpoints have none
    loop.epoch = tree["epoch"] + 1
    loop.sent[:] = tree["sent"].numpy()
    loop.begin, loop.latest = tree["time"], max(tree["time"], *tree["flying_at"][:, 0].tolist(), 0.0)
    loop.names, loop.resumes = dict(tree["names"]), [dict(one) for one in tree["resumes"]]
    loop.faults.counts, loop.faults.refusals = Counter(tree["faults"]), [dict(one) for one in tree["refusals"]]
    loop.faults.turned_away = [dict(one) for one in tree.get("turned_away", ())]
    loop.faults.expelled = dict(tree.get("expelled", {}))
    loop.faults.strikes = Counter(tree.get("strikes", {}))
    if "durations" in tree:  # older checkpoints have none
        loop.patience.restore(tree["durations"].numpy())
    for client, why in loop.faults.expelled.items():
        loop.engine.expel(client, why)
    loop.recent.restore(tree["recent"].tolist())
    nothing = loop.server.params.new_empty(0)
    for (client, nth, epoch, version, step), (at, prob) in zip(
        tree["flying"].tolist(), tree["flying_at"].tolist(), strict=True
    ):
        name = TaskName(client, nth, epoch)
        loop.pending[client, nth] = Flying(name, Sent(nothing, version), at, step, prob, place=UNDECIDED)
        loop.chooser.take(client)
    loop.clock.set(tree["time"])
    loop.clock.hold()
    loop.looked = tree["time"]
    loop.begun = bool(loop.sent.any())
    loop.resumes.append({"step": loop.server.received, "time": tree["time"], "epoch": loop.epoch})
    if getattr(loop.server.algorithm, "needs_sent", True):
        loop.drop_all("its model is gone with the server that sent it")


def _restore_plan(loop: "Loop", tree: dict[str, Any]) -> None:
    """Go on with the plan in force, and with what is known of the clients; older checkpoints have neither."""
    if tree.get("plans"):
        check(tree, {"plans": tuple[dict[str, Any], ...]})
        loop.plans = [dict(one) for one in tree["plans"]]
    if tree.get("force") is not None:
        check(tree["force"], {"sampling": Tensor, "cap": Tensor, "share": Tensor, "concurrency": int})
        sampling, cap, share = (tree["force"][key].numpy().copy() for key in InForce._fields[:3])
        loop.take_up(InForce(sampling, cap, share, tree["force"]["concurrency"]))
    if loop.follower is not None and tree.get("following") is not None:
        loop.follower.restore(tree["following"], loop.force, loop.plans[-1])


def _tensor(rows: list[list[Any]], kind: type, columns: int) -> Tensor:
    """Return a table as a tensor; by way of NumPy, which reads lists ten times as fast."""
    return torch.from_numpy(np.array(rows, kind).reshape(-1, columns))


def _stored(force: InForce) -> dict[str, Any]:
    arrays = {key: torch.from_numpy(getattr(force, key).copy()) for key in InForce._fields[:3]}
    return {**arrays, "concurrency": force.concurrency}
