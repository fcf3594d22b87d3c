"""A partition in which data depends on speed: only the slowest clients hold some of the classes."""

import numpy as np
from numpy.typing import NDArray


def by_speed(
    labels: NDArray[np.int64],
    clients: int,
    rng: np.random.Generator,
    k: int = 2,
    slow: int = 50,
    alone: int = 3,
) -> NDArray[np.int64]:
    """Return the client of each example: k classes per client; `alone` classes are held only by the last `slow`
    clients.

    Clients are in order of speed, the fastest first. Fast clients draw their classes among the common ones; slow
    clients draw one among those that only they have, and the others among all that are left. Which classes these are is
    drawn too. A class is dealt evenly to the clients that hold it.
    """
    kinds, label = np.unique(labels, return_inverse=True)
    order = rng.permutation(kinds.size)
    rare, common = order[:alone], order[alone:]
    holds = np.zeros((clients, kinds.size), dtype=bool)
    for client in range(clients):
        if client < clients - slow:
            mine = rng.choice(common, k, replace=False).tolist()
        else:
            own = rare[client % alone]  # in turn, so that none is left out
            mine = [own, *rng.choice(np.setdiff1d(order, [own]), k - 1, replace=False).tolist()]
        holds[client, mine] = True
    for left in np.flatnonzero(~holds.any(axis=0)):  # a common class that nobody drew goes to a fast client
        holds[rng.integers(clients - slow), left] = True
    owner = np.empty(label.size, dtype=np.int64)
    for kind in range(kinds.size):
        examples = rng.permutation(np.flatnonzero(label == kind))
        holders = rng.permutation(np.flatnonzero(holds[:, kind]))
        owner[examples] = holders[np.arange(examples.size) % holders.size]
    return owner
