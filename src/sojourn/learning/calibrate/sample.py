"""Which clients are asked for gradients, how often, and on which of their examples."""

from dataclasses import dataclass

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.learning.replay.federation import Federation
from sojourn.types import Flags, Integers

ROUNDS = 4  # gradients of a client at least: two groups of two
FREEDOM = 16  # degrees of freedom that all clients' groups together should have
_MEASURE = 0x63616C69  # keeps these streams apart from all others of the same seed


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """Random numbers of a seed for one purpose."""
    return np.random.default_rng(np.random.SeedSequence((seed, _MEASURE, *purpose)))


@dataclass(frozen=True)
class Design:
    """In each of `groups` * `size` rounds every client asked computes one gradient; rounds are independent."""

    asked: Integers
    """The clients, a random choice where not all."""
    clients: int
    """Clients in all."""
    groups: int
    """Groups of rounds; every group gives an estimate of its own."""
    size: int
    """Rounds of a group, at least two."""

    @property
    def gradients(self) -> int:
        """Gradients at one point."""
        return self.asked.size * self.groups * self.size

    @classmethod
    def of(cls, clients: int, gradients: int, seed: int) -> "Design":
        """As many clients as `gradients` at a point allow with four rounds each; then more rounds.

        >>> design = Design.of(clients=10, gradients=133, seed=0)
        >>> design.asked.size, design.groups, design.size
        (10, 3, 4)
        """
        least = min(clients, 2) * ROUNDS
        if gradients < least:
            raise InvalidInput(f"gradients must be at least {least} for each point, got {gradients}; give more")
        many = min(clients, gradients // ROUNDS)
        rounds = gradients // many
        groups = min(rounds // 2, 1 + max(1, -(-FREEDOM // many)))
        chosen = np.sort(generator(seed, 0).permutation(clients)[:many])
        return cls(chosen, clients, groups, rounds // groups)


def still(federation: Federation) -> Flags:
    """Whether a client's gradient has no noise: every batch is all that it holds, and nothing else is random."""
    chance = federation.order == "independent" or federation.model.random or federation.examples.augmented
    return np.asarray((federation.partition.sizes <= federation.local.batch_size) & (not chance))


def batch(federation: Federation, client: int, chance: np.random.Generator) -> Integers:
    """Examples of a stochastic gradient of a client, of the kind that it computes in training."""
    mine, size = federation.partition.of(client), federation.batches.size(client)
    if federation.order == "independent":
        return mine[chance.integers(mine.size, size=size)]
    return mine[chance.permutation(mine.size)[:size]]
