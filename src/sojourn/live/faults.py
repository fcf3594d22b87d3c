"""Faults: what went wrong in a live run, and who has to leave because of it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

REMEMBERED = 1000  # refusals that the trace keeps with their reasons


@dataclass
class Faults:
    """What went wrong so far, by kind; refusals with their reasons."""

    counts: Counter[str] = field(default_factory=Counter)
    """Numbers: lost, dropped, refused, late, timeouts, expelled."""
    refusals: list[dict[str, Any]] = field(default_factory=list)
    """The first refusals: time, client, nth, reason."""
    turned_away: list[dict[str, Any]] = field(default_factory=list)
    """The first callers that were not let in: time, who, reason."""
    strikes: Counter[int] = field(default_factory=Counter)
    """Refusals in a row, by client."""
    expelled: dict[int, str] = field(default_factory=dict)
    """Clients that are admitted no more, and why."""

    def note_refusal(self, time: float, client: int, nth: int, reason: str) -> dict[str, Any]:
        """Count a refusal, and return the facts about it; nth -1 = it was about no task."""
        facts = {"time": round(time, 6), "client": client, "nth": nth, "reason": reason}
        self.counts["refused"] += 1
        if len(self.refusals) < REMEMBERED:
            self.refusals.append(facts)
        return facts

    def note_turned_away(self, time: float, who: str, reason: str) -> None:
        """Note somebody who was not let in."""
        if len(self.turned_away) < REMEMBERED:
            self.turned_away.append({"time": round(time, 6), "who": who, "reason": reason})

    def strike(self, client: int, reason: str, most: int) -> str | None:
        """Count a refused message of a client; return why it is expelled, if it has had `most` in a row."""
        self.strikes[client] += 1
        if self.strikes[client] < most:
            return None
        self.counts["expelled"] += client not in self.expelled
        self.expelled[client] = f"{self.strikes[client]} messages in a row were refused; last: {reason}"
        return self.expelled[client]
