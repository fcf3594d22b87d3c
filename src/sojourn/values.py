"""Check the types of values from JSON and TOML files: text, numbers, whole numbers, lists, tables.

A file that anyone may have written can hold any kind of value anywhere. Its reader says here what each value must be,
and a wrong one raises an error of one sentence, so that later code never meets a value of another kind.
"""

from typing import Any

from sojourn.errors import InvalidInput
from sojourn.shown import quoted

LARGEST = 2**63 - 1  # the largest whole number that arrays hold


class WrongKind(InvalidInput):
    """A value is not of the kind that belongs in its place."""


def text(value: Any, what: str) -> str:
    """Return the value, which must be text."""
    if isinstance(value, str):
        return value
    raise WrongKind(f"{what} must be text, got {quoted(value)}")


def number(value: Any, what: str) -> float:
    """Return the value, which must be a number, whole or not.

    >>> number(3, "rate"), number(0.5, "rate")
    (3.0, 0.5)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise WrongKind(f"{what} must be a number, got {quoted(value)}")


def optional_number(value: Any, what: str) -> float | None:
    """Return the value, which must be a number or None."""
    return None if value is None else number(value, what)


def whole(value: Any, what: str, least: int = 0, most: int = LARGEST) -> int:
    """Return the value, which must be a whole number within the bounds."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise WrongKind(f"{what} must be a whole number from {least} to {most}, got {quoted(value)}")


def items(value: Any, what: str) -> list[Any]:
    """Return the value, which must be a list."""
    if isinstance(value, list):
        return value
    raise WrongKind(f"{what} must be a list, got {quoted(value)}")


def numbers(value: Any, what: str) -> list[float]:
    """Return the value, which must be a list of numbers."""
    if not isinstance(value, list):
        raise WrongKind(f"{what} must be a list of numbers, got {quoted(value)}")
    return [number(one, f"a value of {what}") for one in value]


def table(value: Any, what: str) -> dict[str, Any]:
    """Return the value, which must be a table of keys and values."""
    if isinstance(value, dict):
        return value
    raise WrongKind(f"{what} must be a table of keys and values, got {quoted(value)}")
