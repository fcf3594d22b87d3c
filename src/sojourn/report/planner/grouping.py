"""The rows that a page shows: the groups of a fleet, or its clients in classes of speed where it has many groups."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.fleet import Fleet
from sojourn.timing.exact.analysis import Analysis
from sojourn.types import Integers

MOST = 20  # rows


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which row of the page each group of a fleet belongs to."""

    fleet: Fleet
    label: Integers
    """Row of each group."""

    @classmethod
    def of(cls, fleet: Fleet, most: int = MOST) -> "Grouping":
        """Put each group in a row of its own, or many groups in classes of about as many clients each, by speed.

        >>> Grouping.of(Fleet.of_rates([1.0, 5.0, 2.0, 4.0]), most=2).label.tolist()
        [1, 0, 1, 0]
        """
        if fleet.groups <= most:
            return cls(fleet, np.arange(fleet.groups))
        pace = 1 / (1 / fleet.rate + fleet.link_time)
        order = np.argsort(-pace, kind="stable")
        behind = np.cumsum(fleet.count[order]) - fleet.count[order] / 2
        label = np.empty(fleet.groups, dtype=np.int64)
        label[order] = np.minimum(behind * (most / fleet.clients), most - 1).astype(np.int64)
        return cls(fleet, np.unique(label, return_inverse=True)[1])

    @property
    def joined(self) -> bool:
        """Whether a row holds several groups."""
        return int(self.label.max()) + 1 < self.fleet.groups

    def rows(self) -> list[dict[str, Any]]:
        """Return name, number of clients and slowest and fastest rate of each row."""
        fleet, found = self.fleet, []
        for row in range(int(self.label.max()) + 1):
            mine = np.flatnonzero(self.label == row)
            low, high = float(fleet.rate[mine].min()), float(fleet.rate[mine].max())
            name = f"{low:.3g} to {high:.3g} / s" if self.joined else fleet.name[mine[0]]
            found.append({"name": name, "count": int(fleet.count[mine].sum()), "slowest": low, "fastest": high})
        return found

    def of_analysis(self, found: Analysis) -> list[dict[str, float]]:
        """Return share of the updates, mean staleness of them, idle clients and waiting tasks of each row."""
        count = self.fleet.count
        share = count * found.share
        idle = count * (1 - found.utilisation).round(12)
        waiting = count * (found.queue - found.utilisation).clip(0).round(12)
        columns = {
            "share": self._sum(share),
            "staleness": self._sum(share * found.staleness()) / self._sum(share),
            "idle": self._sum(idle),
            "waiting": self._sum(waiting),
        }
        return [
            dict(zip(columns, values, strict=True))
            for values in zip(*(one.tolist() for one in columns.values()), strict=True)
        ]

    def _sum(self, values: Any) -> Any:
        return np.bincount(self.label, values)
