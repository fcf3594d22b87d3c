"""Sound: whether an update belongs to its task, and whether the model can still be trained.

A client whose messages are refused is expelled in the end. But updates that are not finite may be the fault of the
model: of a deep network the losses overflow long before its parameters do. So before a client is expelled the server
does the refused task itself, on its own examples (`doable`). What it finds there no client has told it. Where it cannot
find anything, since clients have other examples or a training loop of their own, it asks whether most clients are
refused (`check_most`), which the wrong messages of a minority cannot bring about.
"""

from collections.abc import Iterable
from math import isfinite

import torch
from torch import Tensor

from sojourn.errors import SojournError
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Update
from sojourn.learning.replay.server import Diverged
from sojourn.live.worker import FederationWorker, Task


def wrong_step_size(update: Update, sent: float) -> str:
    """Return what is wrong with the step size of an update whose task was sent with another; empty = nothing.

    The server divides by it, so a client that could choose it could make the model infinite.
    """
    return "" if update.step_size == sent else f"an update must have the step size of its task, got {update.step_size}"


def check_model(params: Tensor, received: int, folder: object) -> None:
    """Raise an error if the model has diverged: its numbers or their squared norm, as of an update, are not finite.

    Then no client can do anything with it, and it is neither evaluated nor kept.
    """
    if not isfinite(torch.dot(params, params).item()):
        raise diverged("its numbers are not finite, or too large to go on", received, folder)


def diverged(what: str, received: int, folder: object) -> Diverged:
    """Return the error that the model has diverged; `what` says by which sign."""
    return Diverged(
        f"the server's model has diverged: after {received} updates {what}; lower the step sizes", kept(folder)
    )


def kept(folder: object) -> str:
    """Return where a run is kept that has ended in an error."""
    return f"the run is kept as in its last commit, in {folder}"


def doable(federation: Federation, task: Task) -> bool:
    """Whether a task, done with the server's own examples, gives an update whose numbers can be used.

    If it cannot be done with them at all, the server cannot tell, and takes it as doable.
    """
    torch.set_num_threads(1)
    try:
        update = FederationWorker(federation).compute(task)
    except Exception:  # a model of one's own may refuse the server's examples, as where clients have their own loop
        return True
    norm = torch.dot(update.vector, update.vector)  # too large is of no use either, as of a client's update
    return all(bool(torch.isfinite(one).all()) for one in (norm, update.loss, update.stats) if one is not None)


def check_most(refused: set[int], served: Iterable[int], received: int, reason: str, folder: object) -> None:
    """Raise an error if more than half of the clients that have had tasks are `refused`: their last message was, or
    they are expelled.
    """
    everyone = refused | set(served)
    if 2 * len(refused) > len(everyone):
        raise SojournError(
            f"after {received} updates the messages of most clients are refused ({len(refused)} of {len(everyone)}), "
            f"the last because: {reason}; lower the step sizes if numbers are not finite, or see what the clients "
            f"send; {kept(folder)}"
        )
