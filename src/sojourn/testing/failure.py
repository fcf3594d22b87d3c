"""What a check raises."""

from sojourn.errors import SojournError


class CheckFailed(SojournError, AssertionError):
    """A class of one's own does not do what it must; the sentence says what, with both values."""


def claim(true: object, sentence: str) -> None:
    """Raise `CheckFailed` with the sentence unless it is so."""
    if not true:
        raise CheckFailed(sentence)
