"""Random generators of this room, one for each purpose, so that drawing more for one never shifts another."""

import numpy as np

from sojourn.errors import InvalidInput

HOLD_OUT, PARTITION, POINTS = range(3)


def generator(seed: int, purpose: int) -> np.random.Generator:
    """The generator of a seed for one purpose; its key has two parts, those of simulated replications have one."""
    if seed < 0:
        raise InvalidInput(f"seed must be a whole number of at least 0, got {seed}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, 0)))
