"""What both trainings of the paper share: a fleet of which half is slow, and the times of the server."""

from dataclasses import dataclass
from pathlib import Path

from sojourn.fleet import Fleet

FAST_RATE, SLOW_RATE = 1 / 2, 1 / 16
SLOW_FAVOURED = 0.73  # the paper's probability of a fast client, in units of the uniform one
WAITING, INTERACTION = 4.0, 3.0  # of the server, where it acts by the clock


@dataclass(frozen=True)
class HalfSlow:
    """So many clients, half of them slow."""

    clients: int
    """Half of them slow."""

    def fleet(self, slow_rate: float = SLOW_RATE) -> Fleet:
        """Half fast, half slow."""
        half = self.clients // 2
        return Fleet.of(fast=(self.clients - half, FAST_RATE), slow=(half, slow_rate))

    def saved_fleet(self, folder: Path, slow_rate: float = SLOW_RATE) -> str:
        """The fleet as a file, which runs ask for."""
        path = folder / f"fleet-of-{self.clients}-slow-{slow_rate:g}.csv"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self.fleet(slow_rate).save(path)
        return str(path)

    def sampling(self, fast: float) -> str:
        """Probabilities, a fast client's in units of the uniform one.

        >>> HalfSlow(100).sampling(0.73)
        'fast=0.0073,slow=0.0127'
        """
        return f"fast={fast / self.clients:.8g},slow={(2 - fast) / self.clients:.8g}"
