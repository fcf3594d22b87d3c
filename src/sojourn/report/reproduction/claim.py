"""Claims: what a paper states, what comes out here, and whether the two agree, by a rule that is stated.

A verdict is never written by hand. A claim has parts, and an experiment says of each whether it is confirmed (True),
contradicted (False) or open (None: the numbers allow either). What they come to:

agrees               all are confirmed
partly               some are confirmed, others contradicted or open
disagrees            none is confirmed, and at least one is contradicted
too close to call    all are open
not stated           there are none: the paper has no number there
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from sojourn.csv_file import read_csv, write_csv
from sojourn.errors import UnreadableFile

Verdict = Literal["agrees", "partly", "disagrees", "too close to call", "not stated"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
EXACT = "exact"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper beside ours.

    >>> claim("mean staleness", "50", "48.8", holds=[near(48.8, 50, 0.05)], rule="within 5%").verdict
    'agrees'
    >>> claim("largest staleness", "-", "569").verdict
    'not stated'
    """

    statement: str
    """What is claimed, in words."""
    paper: str
    """What the paper prints."""
    ours: str
    """What comes out here."""
    error: str
    """Standard error of ours, or `exact`."""
    verdict: Verdict
    """Whether the two agree."""
    rule: str
    """When they would."""
    note: str
    """What a reader should know of it."""


def claim(
    statement: str,
    paper: str,
    ours: str,
    *,
    error: str = EXACT,
    holds: Sequence[bool | None] = (),
    rule: str = "",
    note: str = "",
) -> Claim:
    """A claim with its verdict, from its parts: which hold, which do not, and which are open."""
    return Claim(statement, paper, ours, error, judged(holds), rule, note)


def judged(holds: Sequence[bool | None]) -> Verdict:
    """What the parts of a claim come to, each confirmed (True), contradicted (False) or open (None).

    >>> judged([True, None]), judged([False, None]), judged([None, None])
    ('partly', 'disagrees', 'too close to call')
    """
    if not holds:
        return "not stated"
    if all(holds):
        return "agrees"
    if any(holds):
        return "partly"
    return "too close to call" if all(part is None for part in holds) else "disagrees"


def above(low: float, high: float, value: float = 0.0) -> bool | None:
    """Whether what lies in an interval is above a value; None where the interval holds the value.

    >>> above(0.3, 1.2), above(-1.2, -0.3), above(-0.3, 1.2)
    (True, False, None)
    """
    if low > value:
        return True
    return False if high < value else None


def near(ours: float, paper: float, share: float) -> bool:
    """Whether ours differs by at most this share of what the paper has."""
    return bool(abs(ours - paper) <= share * abs(paper))


def numbers(values: Iterable[float], digits: int = 4, unit: str = "") -> str:
    """Numbers with strokes between.

    >>> numbers([48.792209, 1949.2078])
    '48.79 / 1949'
    """
    return " / ".join(f"{plain(value, digits)}{unit}" for value in values)


def printed(values: Iterable[float]) -> str:
    """Numbers as the paper prints them.

    >>> printed([50.0, 1950.0])
    '50 / 1950'
    """
    return " / ".join(f"{value:g}" for value in values)


def plain(value: float, digits: int = 4) -> str:
    """A number to so many digits, without an exponent where it can be read so."""
    if not np.isfinite(value):
        return str(value)
    size = abs(value)
    if size and not 1e-4 <= size < 1e6:
        return f"{value:.{digits - 1}e}"
    places = max(0, digits - 1 - int(np.floor(np.log10(size)))) if size else 0
    return f"{value:.{places}f}"


def percents(values: Iterable[float]) -> str:
    """Shares as percentages, to a tenth.

    >>> percents([0.3246, -0.0001])
    '32.5% / 0.0%'
    """
    return " / ".join(f"{round(100 * value, 1) + 0.0:.1f}%" for value in values)


def write_claims(path: Path, claims: Sequence[Claim], experiments: Sequence[str] = ()) -> None:
    """Write claims as CSV; with the name of each one's experiment in front where they are given."""
    rows = [asdict(one) for one in claims]
    if experiments:
        rows = [{"experiment": name, **row} for name, row in zip(experiments, rows, strict=True)]
    write_csv(path, rows, read_back=True)


def read_claims(path: Path) -> list[Claim]:
    """Read claims written by `write_claims`."""
    try:
        return [_read(row) for row in read_csv(path, "claims file")]
    except (UnreadableFile, KeyError):
        raise UnreadableFile(f"claims file {path} cannot be read; give --overwrite to make it again") from None


def _read(row: dict[str, str]) -> Claim:
    verdict = {str(word): word for word in VERDICTS}[row["verdict"]]
    texts = {item.name: row[item.name] for item in fields(Claim) if item.name != "verdict"}
    return Claim(**texts, verdict=verdict)
