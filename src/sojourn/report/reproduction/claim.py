"""Claims: what a paper states, what we find, and whether the two agree by a stated rule.

A verdict is never written by hand. A claim has parts, and an experiment says of each part whether it is confirmed
(True), contradicted (False) or open (None: the numbers allow either). The verdict follows from the parts:

agrees               all are confirmed
partly               some are confirmed, others contradicted or open
disagrees            none is confirmed, and at least one is contradicted
too close to call    all are open
not stated           there are no parts: the paper gives no number
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from sojourn.csv_file import read_csv, write_csv
from sojourn.errors import UnreadableFile

Verdict = Literal["agrees", "partly", "disagrees", "too close to call", "not stated"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
EXACT = "exact"
CSV_ONLY = "-"
STROKE = " / "
ON_A_PAGE = ("short", "parts", "brief")
"""The fields of a claim that only a page uses."""


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, with our result.

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
    """Our result."""
    error: str
    """Standard error of our result, or `exact`."""
    verdict: Verdict
    """Whether the two agree."""
    rule: str
    """The rule by which they agree."""
    note: str
    """What a reader should know about it."""
    short: str = ""
    """Its name on a page; empty = the statement, `-` = it is only in the CSV file."""
    parts: str = ""
    """What each of its values belongs to, separated by slashes as the values are; a page has one row for each."""
    brief: str = ""
    """What a page shows instead of our result; empty = our result with its standard error."""


def claim(
    statement: str,
    paper: str,
    ours: str,
    *,
    error: str = EXACT,
    holds: Sequence[bool | None] = (),
    rule: str = "",
    note: str = "",
    short: str = "",
    parts: str = "",
    brief: str = "",
) -> Claim:
    """A claim with its verdict, from its parts: which hold, which do not, and which are open."""
    return Claim(statement, paper, ours, error, judged(holds), rule, note, short, parts, brief)


def judged(holds: Sequence[bool | None]) -> Verdict:
    """The verdict on a claim whose parts are each confirmed (True), contradicted (False) or open (None).

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
    """Whether an interval lies above a value; None if the interval contains the value.

    >>> above(0.3, 1.2), above(-1.2, -0.3), above(-0.3, 1.2)
    (True, False, None)
    """
    if low > value:
        return True
    return False if high < value else None


def near(ours: float, paper: float, share: float) -> bool:
    """Whether our value differs from the paper's by at most this share of the paper's value."""
    return bool(abs(ours - paper) <= share * abs(paper))


def numbers(values: Iterable[float], digits: int = 4, unit: str = "") -> str:
    """Numbers separated by slashes.

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
    """A number to so many digits, without an exponent if it is readable without one."""
    if not np.isfinite(value):
        return str(value)
    size = abs(value)
    if size and not 1e-4 <= size < 1e6:
        return f"{value:.{digits - 1}e}"
    places = max(0, digits - 1 - int(np.floor(np.log10(size)))) if size else 0
    return f"{value:.{places}f}"


def percents(values: Iterable[float]) -> str:
    """Shares as percentages with one decimal.

    >>> percents([0.3246, -0.0001])
    '32.5% / 0.0%'
    """
    return " / ".join(f"{round(100 * value, 1) + 0.0:.1f}%" for value in values)


def span(values: Iterable[float], said: Callable[[list[float]], str]) -> str:
    """The smallest and the largest of some values.

    >>> span([0.325, 0.569, 0.443], percents)
    '32.5% to 56.9%'
    >>> span([0.9996, 0.9999], percents)
    '100.0%'
    """
    known = sorted(values)
    least, largest = said(known[:1]), said(known[-1:])
    return least if least == largest else f"{least} to {largest}"


def thousandths(values: Iterable[float]) -> str:
    """Small probabilities as the paper writes them.

    >>> thousandths([0.00688, 0.0102])
    '6.88e-3 / 10.2e-3'
    """
    return numbers([1e3 * value for value in values], 3, "e-3")


def write_claims(path: Path, claims: Sequence[Claim], experiments: Sequence[str] = ()) -> None:
    """Write claims as CSV; if the names of their experiments are given, as the first column."""
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
    texts = {item.name: row[item.name] for item in fields(Claim) if item.name not in ("verdict", *ON_A_PAGE)}
    texts |= {name: row.get(name, "") for name in ON_A_PAGE}
    return Claim(**texts, verdict=verdict)
