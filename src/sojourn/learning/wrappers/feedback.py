"""Error feedback: what a compressor leaves out of an update is added to the client's next one.

    sent = C(v + e),    e <- v + e - sent

v is the client's update and e its memory, zero at first. The sum of all that it sent plus e is the sum of its true
updates, whatever the compressor. e belongs to the client: nobody adds it to the model when the run ends. Under
staleness e holds parts of updates from older models.

Seide, Fu, Droppo, Li, Yu, Interspeech 2014; Karimireddy, Rebjock, Stich, Jaggi, ICML 2019.
"""

from typing import NamedTuple

from torch import Tensor

from sojourn.learning.storable import storable


@storable("error-feedback")
class Residual(NamedTuple):
    """What a client has not sent yet."""

    error: Tensor
    """e."""


def corrected(kept: Residual | None, vector: Tensor) -> Tensor:
    """Return an update with what was left out before."""
    return vector if kept is None else vector + kept.error


def left_out(wanted: Tensor, sent: Tensor, feedback: bool) -> Residual | None:
    """Return what the client keeps; nothing if there is no feedback."""
    return Residual(wanted - sent) if feedback else None
