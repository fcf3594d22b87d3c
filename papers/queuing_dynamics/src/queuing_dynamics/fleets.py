"""What both trainings of the paper share: a fleet in which half of the clients are slow, and the
times of the server.
"""

from dataclasses import dataclass
from pathlib import Path

from sojourn.fleet import Fleet

FAST_RATE, SLOW_RATE = 1 / 2, 1 / 16
SLOW_FAVOURED = 0.73  # the paper's probability of a fast client, in units of the uniform one
WAITING, INTERACTION = 4.0, 3.0  # times of a server that acts at fixed times


@dataclass(frozen=True)
class HalfSlow:
    """A fleet in which half of the clients are slow."""

    clients: int
    """Number of clients."""

    def fleet(self, slow_rate: float = SLOW_RATE) -> Fleet:
        """Return the fleet: half of the clients are fast, half are slow."""
        half = self.clients // 2
        return Fleet.of(fast=(self.clients - half, FAST_RATE), slow=(half, slow_rate))

    def saved_fleet(self, folder: Path, slow_rate: float = SLOW_RATE) -> str:
        """Write the fleet to a file, which runs need, and return its path."""
        path = folder / f"fleet-of-{self.clients}-slow-{slow_rate:g}.csv"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self.fleet(slow_rate).save(path)
        return str(path)

    def sampling(self, fast: float) -> str:
        """Return the probabilities; `fast` is a fast client's in units of the uniform one.

        >>> HalfSlow(100).sampling(0.73)
        'fast=0.0073,slow=0.0127'
        """
        return f"fast={fast / self.clients:.8g},slow={(2 - fast) / self.clients:.8g}"
