"""What goes wrong, said in one sentence: name, rule, value, way out."""

from sojourn.shown import short

MOST = 500  # characters of a sentence


class SojournError(Exception):
    """Base of every error that sojourn raises on purpose; its text is meant for the user.

    It quotes what was given, which may be anything: what is too long loses its middle, and what would not print is
    shown as what it is.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(short(str(message), MOST))


class InvalidInput(SojournError, ValueError):
    """A value from outside breaks a rule; the message says which, what was given, and the way out."""


class UnreadableFile(SojournError, OSError):
    """A file is missing, truncated, foreign, or written by a newer sojourn."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnwritableFile(SojournError, OSError):
    """A file cannot be written: its place is missing, full, read-only, or another process is writing it."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
