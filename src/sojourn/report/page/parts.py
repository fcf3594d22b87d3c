"""The parts of a page as plain values: what is said, figures with their words, and tables. A template shows them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.durations import shown
from sojourn.shown import rounded, short, visible

MOST_ROWS = 40  # of a table
WIDE, WIDEST = 8, 12  # columns that paper takes in common and in small letters
MOST_CELL = 300  # characters
MOST_NAME = 60  # characters of a name in a sentence
MOST_NAMES = 12  # groups that are shown one by one


@dataclass(frozen=True)
class Cell:
    """What stands in a cell of a table: a text, and whether it is a number."""

    text: str
    number: bool = False


@dataclass(frozen=True)
class Table:
    """A table: what it is, the heads of its columns, its rows."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: int = 0
    """Rows that are left out."""

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows as cells."""
        return [[cell(value) for value in row] for row in self.rows]

    @property
    def size(self) -> str:
        """How wide it is for paper: "many" columns need small letters, "many most" also breaks within words."""
        columns = len(self.heads)
        return "" if columns <= WIDE else "many" if columns <= WIDEST else "many most"

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers."""
        cells = self.cells
        return [
            all(row[at].number or not row[at].text for row in cells) and any(row[at].number for row in cells)
            for at in range(len(self.heads))
        ]


@dataclass(frozen=True)
class Shown:
    """A figure: its name, what draws it, what it shows in words."""

    name: str
    """Name of its files."""
    figure: Any
    """The matplotlib figure."""
    alt: str
    """What a reader who does not see it should know."""
    caption: str
    """Its numbers in words."""
    wide: bool = False
    """Whether it needs the whole width of a page."""


@dataclass
class Section:
    """Something that a page says: a heading, sentences, figures, tables."""

    title: str
    said: list[str] = field(default_factory=list)
    figures: list[Shown] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    """Commands and files, shown as they are."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.said or self.figures or self.tables or self.notes or self.code)


@dataclass
class Part:
    """One thing that is reported: its name, the answer in two sentences, its main numbers, its sections."""

    name: str
    kind: str
    answer: list[str]
    facts: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a number and what it is."""
    sections: list[Section] = field(default_factory=list)
    compared: dict[str, Any] = field(default_factory=dict)
    """What it has in common with others of its kind, for a table of all of them."""
    rows: Sequence[Any] = ()
    """Of a run: its evaluations."""


def cell(value: Any) -> Cell:
    """Return a value as a cell: numbers with six digits at most, texts without what does not print.

    >>> cell(1234.5678), cell(float("nan")), cell(None), cell("a")
    (Cell(text='1,234.57', number=True), Cell(text='–', number=True), Cell(text='', number=False), Cell(text='a', \
number=False))
    """
    if isinstance(value, Cell):
        return value
    if value is None:
        return Cell("")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, int):
        return Cell(f"{value:,}", True)
    if isinstance(value, float):
        return Cell(number(value), True)
    text = visible(str(value))
    return Cell(text if len(text) <= MOST_CELL else f"{text[:MOST_CELL]} ...")


def number(value: float, digits: int = 6) -> str:
    """Return a number in a sentence or a cell; a dash where there is none.

    >>> number(0.123456789), number(float("nan"))
    ('0.123457', '–')
    """
    value = float(value)
    return rounded(value, digits) if math.isfinite(value) else "–" if math.isnan(value) else str(value)


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.1234), percent(float("nan"))
    ('12.3%', '–')
    """
    return "–" if math.isnan(share) else f"{100 * share:.3g}%"


def plus_minus(value: float, error: float) -> Cell:
    """Return an estimate with its standard error.

    >>> plus_minus(48.79, 0.21).text
    '48.79 ± 0.21'
    """
    return Cell(number(value) if not math.isfinite(error) else f"{number(value)} ± {number(error, 2)}", True)


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], most: int = MOST_ROWS) -> Table:
    """Return a table with at most so many rows; the others are counted."""
    return Table(caption, heads, list(rows[:most]), max(0, len(rows) - most))


def plural(many: float, word: str) -> str:
    """Return a number of things.

    >>> plural(1, "run"), plural(2000, "run"), plural(float("nan"), "run")
    ('1 run', '2,000 runs', '– runs')
    """
    return f"{many:,.0f} {word}{'' if many == 1 else 's'}" if math.isfinite(many) else f"– {word}s"


def duration(seconds: float) -> str:
    """Return a duration; a dash where it is not known.

    >>> duration(90.0), duration(float("nan")), duration(float("inf"))
    ('1.5 min', '–', '–')
    """
    return shown(seconds) if math.isfinite(seconds) else "–"


def were(many: float) -> str:
    """Return the verb that follows a number of things.

    >>> were(1), were(2000)
    ('was', 'were')
    """
    return "was" if many == 1 else "were"


def called(name: Any) -> str:
    """Return a name for a sentence; the middle of a long one is left out.

    >>> called("fast"), called("x" * 99) == f"{'x' * 28} ... {'x' * 27}"
    ('fast', True)
    """
    return short(str(name), MOST_NAME)


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return some names as part of a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed(list("abcdefgh"), 3)
    ('a, b and c', 'a', 'a, b, c and 5 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"
