"""What one side of a comparison took, and its row in the table."""

from dataclasses import dataclass

import numpy as np

HEAD = "| case | side | best | median | worst | speed of sojourn over it | target |\n|---|---|---|---|---|---|---|"


@dataclass
class Figure:
    """Seconds of one side in every round, a step or a solution."""

    name: str
    seconds: list[float]
    target: float | None = None
    most: float | None = None  # of our own, where the side is ours and the ratio is what it costs
    within: float | None = None  # seconds that the best round may take

    @property
    def best(self) -> float:
        """The round that was disturbed least."""
        return min(self.seconds)

    def row(self, case: str, ours: "Figure") -> str:
        """A row of the table: what this side needs, how far its rounds spread, and how we compare."""
        ratio = self.best / ours.best
        verdict = "" if self.target is None else f"{self.target:g}: " + ("met" if ratio >= self.target else "missed")
        if self.most is not None:
            verdict = f"at most {self.most:g}: " + ("met" if ratio <= self.most else "missed")
        if self.within is not None:
            verdict = f"{in_units(self.within)}: " + ("met" if self.best <= self.within else "missed")
        median = float(np.median(self.seconds))
        cells = (
            case,
            self.name,
            in_units(self.best),
            in_units(median),
            in_units(max(self.seconds)),
            f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}",
            verdict,
        )
        return "| " + " | ".join(cells) + " |"


def in_units(seconds: float) -> str:
    """A time with three digits and its unit."""
    for scale, name in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
