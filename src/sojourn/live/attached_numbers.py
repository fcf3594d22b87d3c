"""A running server as its metrics port shows it, for machines that cannot read its folder."""

from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np

from sojourn.errors import SojournError
from sojourn.live.monitor import PREFIX
from sojourn.live.seen import RECENT, Seen, frame
from sojourn.watched import RUNNING

PATIENCE = 5.0  # seconds that the port may take to answer
SAMPLES = 100_000  # looks that are remembered
GONE = "gone"


class AttachedNumbers(Seen):
    """A running server, as its metrics port shows it: numbers alone. What is seen is remembered, one row per look."""

    def __init__(self, address: str) -> None:
        self.url = f"http://{address}/metrics"
        self.state, self.numbers = GONE, dict[str, float]()
        self._samples: deque[dict[str, float]] = deque(maxlen=SAMPLES)
        self.refresh()

    def refresh(self) -> "AttachedNumbers":
        """Ask the port again, and return this object; a server that is gone leaves the last numbers."""
        try:
            with urlopen(self.url, timeout=PATIENCE) as reply:
                text = reply.read().decode()
        except (URLError, OSError) as error:
            if not self.numbers:
                raise SojournError(
                    f"nobody serves the metrics of a live run at {self.url} ({error}); is it running?"
                ) from None
            self.state = GONE
            return self
        pairs = (line.removeprefix(PREFIX).split() for line in text.splitlines() if line.startswith(PREFIX))
        self.state, self.numbers = RUNNING, {key: float(value) for key, value in pairs}
        self._samples.append(self.numbers)
        return self

    @property
    def time(self) -> float:
        """Seconds that the run has been going."""
        return self.numbers["time_seconds"]

    @property
    def updates(self) -> int:
        """Updates applied."""
        return int(self.numbers["updates_total"])

    @property
    def throughput(self) -> float:
        """Updates per second: over the last 30 seconds that were seen, or since the beginning after a single look."""
        first = next(one for one in self._samples if one["time_seconds"] >= self.time - RECENT)
        if first["time_seconds"] == self.time:
            first = {"time_seconds": 0.0, "updates_total": 0.0}
        span = self.time - first["time_seconds"]
        return (self.numbers["updates_total"] - first["updates_total"]) / span if span > 0 else 0.0

    @property
    def staleness(self) -> float:
        """Mean staleness of all updates."""
        return self.numbers["staleness_mean"]

    @property
    def faults(self) -> dict[str, int]:
        """What went wrong so far, by kind."""
        kinds = [key for key in self.numbers if key.endswith("_total") and key != "updates_total"]
        return {key.removesuffix("_total"): int(self.numbers[key]) for key in kinds}

    @property
    def metrics(self) -> Any:
        """What was seen at each look, as a pandas DataFrame."""
        return frame(list(self._samples))

    def curves(self) -> dict[str, tuple[Any, Any]]:
        """Return the curves of the picture: times and values, by what they are."""
        at = np.array([one["time_seconds"] for one in self._samples])
        seen = {key: np.array([one.get(key, np.nan) for one in self._samples]) for key in self.numbers}
        rate = np.diff(seen["updates_total"]) / np.maximum(np.diff(at), 1e-9)
        key = "accuracy" if "accuracy" in seen else "staleness_mean"
        return {
            key: (at, seen[key]),
            "updates per second": ((at[1:] + at[:-1]) / 2, rate),
            "staleness": (at, seen["staleness_mean"]),
        }

    def _faults(self) -> Mapping[str, float]:
        return self.faults

    def _accuracy(self) -> float:
        return self.numbers.get("accuracy", float("nan"))

    def _there(self) -> int:
        return int(self.numbers["clients_present"])

    def _flying(self) -> int:
        return int(self.numbers["tasks_in_flight"])
