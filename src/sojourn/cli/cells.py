"""Cells of a table: text for people, with the numbers behind it for programs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sojourn.shown import rounded, whole


class Cell(str):
    """A text for people with the numbers behind it: the value, and others such as its standard error.

    >>> Cell("48.8 ± 0.2", {"": 48.79, "standard error": 0.21}).parts[""]
    48.79
    """

    parts: Mapping[str, Any]

    def __new__(cls, text: str, parts: Any) -> "Cell":
        """Make a cell; `parts` is a number, or several numbers by the names that their CSV columns get after the
        column's head.
        """
        made = super().__new__(cls, text)
        made.parts = parts if isinstance(parts, Mapping) else {"": parts}
        return made


def number(value: float, digits: int = 6) -> Cell:
    """Return a number for a table.

    >>> number(13_107.4, 4), number(13_107.4, 4).parts
    ('13,110', {'': 13107.4})
    """
    return Cell("-" if np.isnan(value) else rounded(value, digits), float(value))


def amount(value: float) -> Cell:
    """Return a predicted number of things, such as updates."""
    return Cell("-" if np.isnan(value) else whole(value), float(value))


def count(value: int) -> Cell:
    """Return a whole number with commas between the thousands."""
    return Cell(f"{value:,}", int(value))


def percent(share: float, form: str = ".3g") -> Cell:
    """Return a share in percent.

    >>> percent(0.25), percent(0.25).parts
    ('25%', {'': 0.25})
    """
    return Cell("-" if np.isnan(share) else f"{100 * share:{form}}%", float(share))


def interval(low: float, high: float, digits: int = 6, value: float | None = None) -> Cell:
    """Return the ends of an interval, after the estimate if one is given.

    >>> interval(1, 2), interval(1, 2, value=1.5)
    ('1 to 2', '1.5 (1 to 2)')
    """
    ends, parts = f"{number(low, digits)} to {number(high, digits)}", {"low": float(low), "high": float(high)}
    if value is None:
        return Cell(ends, parts)
    shown = number(value, digits)
    return Cell(shown if low == high else f"{shown} ({ends})", {"": float(value), **parts})


def with_error(value: float, error: float) -> Cell:
    """Return an estimate with its standard error: after ±, or in words where ± would reach below zero.

    >>> with_error(48.79, 0.21), with_error(0.3, 0.5)
    ('48.79 ± 0.21', '0.3 (standard error 0.5)')
    """
    shown: str = number(value)
    if not np.isnan(error):
        small = number(error, 2)
        shown = f"{shown} (standard error {small})" if 0 <= value < error else f"{shown} ± {small}"
    return Cell(shown, {"": float(value), "standard error": float(error)})
