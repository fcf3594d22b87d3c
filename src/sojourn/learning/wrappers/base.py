"""Wrapper: what lies between a client's local work and an algorithm, whichever algorithm it is.

A wrapper is a frozen dataclass. Its fields are its options, its methods are pure functions of an explicit memory:

    leave(kept, update)     -> (kept, update)       at the client, when its local work is done: what it keeps and sends
    arrive(memory, arrival) -> (memory, arrival)    at the server, before the algorithm sees the update; None in place
                                                    of the arrival = the update is refused
    begin(setting)          -> memory               the server's memory at the start
    of_module(module, seed) -> module               before the run: the module that is trained
    for_model(layout)       -> wrapper              before the run: the wrapper for this model
    check_timing(method, dispatcher)                before the run: an error if it does not fit a method's timing
    columns(setting), measures(memory, setting)     its columns in metrics.csv

An update that its algorithm calls empty, because the server uses nothing of it, passes through no wrapper.

All have defaults that do nothing. `kept` and `memory` are None at first and follow the rules of an algorithm's state:
tensors, numbers, None, tuples, NamedTuples and dicts. A wrapper that draws random numbers takes them from
`random_of(self, update)`, so that a run is the same whenever it is repeated. The inner wrapper is nearer to the
client's work: `outer(inner(algorithm))`, or `wrap=[inner, outer]`.
"""

import zlib
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from sojourn.learning.algorithms.base import Algorithm, Arrival, Setting
from sojourn.learning.layout import Layout
from sojourn.learning.replay.local import Update
from sojourn.scenario import Dispatcher

if TYPE_CHECKING:
    from sojourn.learning.wrappers.wrapped import Wrapped

FLOAT = 32  # bits of a number that is sent as it is


class Wrapper:
    """Base with what most wrappers do: nothing."""

    name = "wrapper"
    remembers = False
    """Whether clients keep something from one task to the next."""
    secret = False
    """Whether nobody else may know what it draws, as with noise for privacy; a live run then draws from the machine."""

    def of_module(self, module: nn.Module, seed: int) -> nn.Module:
        """Train the module as it is."""
        return module

    def for_model(self, layout: Layout) -> Self:
        """Need nothing of the model."""
        return self

    def leave(self, kept: Any, update: Update) -> tuple[Any, Update]:
        """Send the update as it is, and keep nothing."""
        return kept, update

    def begin(self, setting: Setting) -> Any:
        """Remember nothing at the server."""
        return None

    def arrive(self, memory: Any, arrival: Arrival) -> tuple[Any, Arrival | None]:
        """Let the algorithm have the update as it is."""
        return memory, arrival

    def missed(self, memory: Any, client: int) -> Any:
        """Take note of an update that has come and is of no use to the algorithm: too late, or refused."""
        return memory

    def check_timing(self, method: str, dispatcher: Dispatcher) -> None:
        """Raise an error if it does not fit the timing of a method."""

    def check_live(self) -> None:
        """Raise an error if it cannot be part of a live run."""

    def columns(self, setting: Setting) -> tuple[str, ...]:
        """Have no columns."""
        return ()

    def measures(self, memory: Any, setting: Setting) -> tuple[float, ...]:
        """Have no values for them."""
        return ()

    def __call__(self, algorithm: Algorithm) -> "Wrapped":
        """Return the algorithm with this wrapper around it."""
        from sojourn.learning.wrappers.wrapped import Wrapped

        return Wrapped(algorithm, self)


def random_of(wrapper: Any, update: Update) -> torch.Generator:
    """Return random numbers that belong to a task and a wrapper alone."""
    generator = torch.Generator(update.vector.device)
    return generator.manual_seed((update.key ^ zlib.crc32(wrapper.name.encode())) & (2**63 - 1))


def places(size: int) -> int:
    """Return the bits that say which of `size` numbers is meant.

    >>> places(1), places(1000), places(1024)
    (1, 10, 10)
    """
    return max(1, (size - 1).bit_length())


def packed(size: int, many: int, bits: int) -> int:
    """Return the bits of `many` numbers of `bits` bits each out of `size`, the others being zero: as a list of places
    and numbers, with one bit for each place, or all in a row, whichever is shortest.

    >>> packed(1000, 10, 32), packed(1000, 500, 32), packed(1000, 1000, 32)
    (420, 17000, 32000)
    """
    return min(many * (places(size) + bits), size + many * bits, size * bits)


def besides(update: Update) -> int:
    """Return the bits of what is sent besides the vector: the statistics, as they are."""
    return 0 if update.stats is None else FLOAT * update.stats.numel()


def nonzeros(vector: Tensor) -> int:
    """Return how many numbers are not zero."""
    return int(torch.count_nonzero(vector))
