"""The times of one side of a comparison, and its row in the table."""

from dataclasses import dataclass

import numpy as np

HEAD = "| case | side | best | median | worst | speed of sojourn over it | target |\n|---|---|---|---|---|---|---|"


@dataclass
class Figure:
    """Seconds of one side in every round, per step or solution."""

    name: str
    seconds: list[float]
    target: float | None = None
    most: float | None = None  # largest allowed ratio, if the side is ours and the ratio is its cost
    within: float | None = None  # seconds that the best round may take

    @property
    def best(self) -> float:
        """The round that was disturbed least."""
        return min(self.seconds)

    def row(self, case: str, ours: "Figure") -> str:
        """Return a row of the table: the time of this side, the spread of its rounds, and the comparison with ours."""
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
    """Return a time with three digits and its unit."""
    for scale, name in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
