"""Fit a table into a width, so that every number is complete or absent.

A table that is too wide is changed in this order: heads on two lines, texts on several lines, rows and columns
exchanged (if there are few rows), the least important columns left out (at most half), each row as a block of lines.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

FEW = 4  # up to this many rows can become columns where the table is too wide
PROSE = 16  # least width of a column of longer texts
LONGEST = 30  # characters of a word or name, after which it continues on the next line
BETWEEN = 3  # characters between two columns
KEPT = "\N{NO-BREAK SPACE}"

_NUMBER = r"[-+(]?[\d.,]+(?:e[-+]?\d+)?%?"
_PAIR = re.compile(rf"({_NUMBER}) (±|\+-|to) ({_NUMBER})")


class Grid(NamedTuple):
    """The table to print; a cell may hold line breaks. Without widths, each row is printed as a block of lines."""

    heads: list[str]
    rows: list[list[str]]
    widths: list[int]
    left_out: tuple[str, ...] = ()


def laid_out(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, least: Sequence[str] = ()) -> Grid:
    """Fit a table into a width; columns named in `least` are left out first, then the rightmost.

    >>> grid = laid_out(["group", "rate", "queue"], [[f"g{n}", "1.23456", "100.251"] for n in range(9)], 22)
    >>> grid.heads, grid.rows[0], grid.left_out
    (['group', 'rate'], ['g0', '1.23456'], ('queue',))
    """
    found = _fitted(heads, rows, width)
    if found is None:
        found = _turned(heads, rows, width)
    left, gone = list(range(len(heads))), []
    order = [heads.index(name) for name in least if name in heads]
    order += [index for index in range(len(heads) - 1, 0, -1) if index not in order]
    while found is None and len(left) > max(2, (len(heads) + 1) // 2):  # at least half of the columns stay
        gone.append(order.pop(0))
        left.remove(gone[-1])
        found = _fitted([heads[i] for i in left], [[row[i] for i in left] for row in rows], width)
    if found is None:
        return Grid(list(heads), [list(row) for row in rows], [])
    return found._replace(left_out=tuple(heads[i] for i in sorted(gone)))


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines of at most this width, between words; `1.5 ± 0.2` and `1 to 2` count as one word.

    >>> wrapped("the loss is 48.8 ± 0.2 here", 12)
    ['the loss is', '48.8 ± 0.2', 'here']
    """
    lines = [""]
    for word in _words(text):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = [word] if _is_number(word) else _folded(word, width)
        lines[-1:] = [*([lines[-1]] if lines[-1] else []), *pieces]
    return [line.replace(KEPT, " ") for line in lines]


def is_prose(cells: Sequence[str]) -> bool:
    """Whether most of these are texts of several words.

    >>> is_prose(["largest curvature", "G2"]), is_prose(["1 to 2", "none"])
    (True, False)
    """
    return 2 * sum(len(words := cell.split()) > 1 and not _is_number(words[0]) for cell in cells) >= max(len(cells), 1)


def _folded(word: str, width: int) -> list[str]:
    pieces = [""]
    for mark in word:
        if pieces[-1] and cell_len(pieces[-1] + mark) > width:
            pieces.append("")
        pieces[-1] += mark
    return pieces


def _words(text: str) -> list[str]:
    return _PAIR.sub(rf"\1{KEPT}\2{KEPT}\3", text).split(" ")


def _is_number(word: str) -> bool:
    return re.match(rf"{_NUMBER}(?=$|[{KEPT});])", word) is not None


def _fitted(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Grid | None:
    """Return the table with the column widths that it needs and wrapped texts; None if some number would be cut."""
    columns = list(zip(*rows, strict=True)) or [() for _ in heads]
    tall = [max(map(cell_len, column), default=0) for column in columns]
    whole = [max(cell_len(head), high) for head, high in zip(heads, tall, strict=True)]
    if _total(whole) > width:
        two = [max(_two_lines(head), high) for head, high in zip(heads, tall, strict=True)]
        low = [max(map(_smallest, column), default=0) for column in columns]
        whole = _between([max(_two_lines(head), one) for head, one in zip(heads, low, strict=True)], two, width)
    if _total(whole) > width:
        return None
    return Grid(
        ["\n".join(wrapped(head, one)) for head, one in zip(heads, whole, strict=True)],
        [["\n".join(wrapped(cell, one)) for cell, one in zip(row, whole, strict=True)] for row in rows],
        whole,
    )


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + BETWEEN * len(widths) - 1


def _between(smallest: list[int], wanted: list[int], width: int) -> list[int]:
    """Return the smallest widths, with the rest of the width spread evenly over the columns that want more."""
    found = list(smallest)
    spare = width - _total(found)
    while spare > 0 and (open_ := [i for i, one in enumerate(found) if one < wanted[i]]):
        for index in open_[:spare]:
            found[index] += 1
        spare -= len(open_)
    return found


def _two_lines(head: str) -> int:
    """Return the smallest width in which a head fits on two lines.

    >>> _two_lines("largest change of a probability")
    16
    """
    width = min(max(map(cell_len, _words(head))), LONGEST)
    while len(wrapped(head, width)) > 2:
        width += 1
    return width


def _smallest(cell: str) -> int:
    words = _words(cell)
    longest = max(cell_len(word) if _is_number(word) else min(cell_len(word), LONGEST) for word in words)
    return max(longest, min(cell_len(cell), PROSE)) if len(words) > 1 else longest


def _turned(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Grid | None:
    """Exchange rows and columns of a table with few rows; nothing is left out."""
    names = [row[0] for row in rows]
    if not 0 < len(rows) <= FEW or len({*names, ""}) <= len(names):
        return None
    lines = [[head, *(row[index] for row in rows)] for index, head in enumerate(heads)]
    return _fitted(lines[0], lines[1:], width)
