"""Errors, each with a message of one sentence: name, rule, value, way out."""

from sojourn.shown import short

MOST = 500  # characters of a message at most


class SojournError(Exception):
    """Base of every error that sojourn raises on purpose; its text is meant for the user.

    The text may quote any input. A text that is too long loses its middle, and characters that do not print are shown
    by their codes.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(short(str(message), MOST))


class InvalidInput(SojournError, ValueError):
    """An input breaks a rule; the message says which rule, what was given, and what to do instead."""


class UnreadableFile(SojournError, OSError):
    """A file is missing, truncated, of another kind, or written by a newer sojourn."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnwritableFile(SojournError, OSError):
    """A file cannot be written: the folder is missing, full or read-only, or another process is writing the file."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
