"""The error that a failing check raises."""

from sojourn.errors import SojournError


class CheckFailed(SojournError, AssertionError):
    """A class of your own lacks a required property; the message says which, with both values."""


def claim(true: object, sentence: str) -> None:
    """Raise `CheckFailed` with the sentence unless `true` holds."""
    if not true:
        raise CheckFailed(sentence)
