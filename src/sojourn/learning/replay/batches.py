"""Which examples a task sees; this depends only on (run, client, nth task of that client).

With `shuffled` a client goes through its examples in a random order, with a new order for every pass; its nth task
takes the examples from place n K b on. With `independent` every batch is drawn anew, with replacement. Either way the
batches depend neither on the order of execution nor on the dispatcher.
"""

from collections.abc import Iterator

import numpy as np

from sojourn.compiled import compiled
from sojourn.errors import InvalidInput
from sojourn.learning.data.partition import Partition
from sojourn.random import MOVE, mix, stream_of, unit
from sojourn.types import Integers

ORDERS = ("shuffled", "independent")
_BATCHES = 0x62617463  # keeps these streams apart from all others of the same seed


class Batches:
    """The batches of every task of every client."""

    def __init__(self, partition: Partition, batch_size: int, seed: int, order: str = "shuffled") -> None:
        if batch_size < 1:
            raise InvalidInput(f"batch_size must be at least 1, got {batch_size}")
        if order not in ORDERS:
            raise InvalidInput(f"the order of batches must be one of {', '.join(ORDERS)}, got '{order}'")
        self.partition = partition
        self.batch_size = batch_size
        self.order = order
        self.held: list[int] = partition.sizes.tolist()
        """Examples of each client."""
        self._key = np.random.SeedSequence((seed, _BATCHES)).generate_state(1, np.uint64)[0]
        self._laps: dict[int, tuple[int, Integers]] = {}

    def size(self, client: int) -> int:
        """Return the number of examples in a batch of this client: at most all that it has."""
        return min(self.batch_size, self.held[client])

    def of(self, client: int, nth: int, steps: int, most: int) -> Iterator[Integers]:
        """Yield the examples of each of the first `steps` local steps of the client's nth task, which may have up to
        `most`.
        """
        size = self.size(client)
        if self.order == "independent":
            mine = self.partition.of(client)
            drawn = mine[_drawn(self._key, client, nth, steps * size, mine.size)]
            for step in range(steps):
                yield drawn[step * size : (step + 1) * size]
            return
        for step in range(nth * most, nth * most + steps):
            yield self._shuffled(client, step * size, size)

    def _shuffled(self, client: int, place: int, size: int) -> Integers:
        whole = self.held[client]
        lap, at = divmod(place, whole)
        order = self._lap(client, lap)
        if at + size <= whole:
            return order[at : at + size]
        return np.concatenate([order[at:], self._lap(client, lap + 1)[: at + size - whole]])

    def _lap(self, client: int, lap: int) -> Integers:
        """Return the client's examples in the order of one pass through them."""
        kept = self._laps.get(client)
        if kept is None or kept[0] != lap:
            kept = (lap, _order(self._key, client, lap, self.partition.of(client)))
            self._laps[client] = kept
        return kept[1]


@compiled
def _order(key: np.uint64, client: int, lap: int, examples: Integers) -> Integers:
    """Return the examples in the random order that belongs to (client, lap)."""
    stream = stream_of(key, client, lap)
    order = examples.copy()
    for last in range(order.size - 1, 0, -1):
        stream += MOVE
        other = np.int64(unit(mix(stream)) * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


@compiled
def _drawn(key: np.uint64, client: int, nth: int, many: int, below: int) -> Integers:
    """Return numbers below a limit, drawn with replacement, that belong to (client, nth)."""
    stream = stream_of(key, client, nth)
    places = np.empty(many, np.int64)
    for one in range(many):
        stream += MOVE
        places[one] = np.int64(unit(mix(stream)) * below)
    return places
