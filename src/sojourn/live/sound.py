"""Sound: whether an update belongs to its task, and whether the model can still be trained."""

from math import isfinite

import torch
from torch import Tensor

from sojourn.learning.replay.local import Update
from sojourn.learning.replay.server import Diverged


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
        raise Diverged(
            f"the server's model has diverged: after {received} updates its numbers are not finite, or too large to go "
            "on; lower the step sizes",
            f"the run is kept as in its last commit, in {folder}",
        )
