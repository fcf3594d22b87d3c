"""The token of a page: a secret in a file that its owner alone may read, never in an address or in a log."""

import hmac
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sojourn.secret_files import replace

NAME = "dashboard.token"
BYTES = 32  # of randomness
FORM = re.compile(r"[A-Za-z0-9_-]{43}\n")
TRIES, WINDOW = 10, 60.0  # wrong tokens that are answered per so many seconds


@dataclass(frozen=True)
class Token:
    """The secret of a page, and the file that holds it."""

    value: str
    file: Path

    def __repr__(self) -> str:
        return f"Token(in {self.file})"  # never its value: an object may end up in a log

    def proof(self, host: bytes, nonce: bytes) -> str:
        """Return what only who knows the token can say: with it a server proves itself to a page, at one address.

        >>> Token("t" * 43, Path("nowhere")).proof(b"127.0.0.1:7734", b"0" * 64)[:16]
        '9ae1554a7cad2d23'
        """
        return hmac.new(self.value.encode(), b"sojourn %b %b" % (host, nonce), "sha256").hexdigest()


def token_in(folder: Path) -> Token:
    """Return the token of a folder, which is made if it is missing.

    A token that a killed server left is used again, so that open pages return by themselves. One that others may have
    read, or that is no token, is replaced.
    """
    place = folder / NAME
    found = _left(place)
    if found is None:
        found = secrets.token_urlsafe(BYTES)
        replace(place, f"{found}\n".encode())  # whole or not at all: who sees the file reads a token
    return Token(found, place)


def _left(place: Path) -> str | None:
    """Return the token in a file that belongs to this user alone, or None."""
    try:
        held = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(held, "rb") as file:
        facts = os.fstat(file.fileno())
        mine = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
        text = file.read(100).decode("ascii", "replace") if mine else ""
    return text.strip() if FORM.fullmatch(text) else None


@contextmanager
def passing_token(place: Path | None = None) -> Iterator[Token]:
    """Give a token in this folder, or in a private one of its own; it is removed at the end of the block."""
    if place is not None:
        token = token_in(place)
        try:
            yield token
        finally:
            forget(token)
        return
    folder = Path(tempfile.mkdtemp(prefix="sojourn-"))  # mode 0700
    try:
        yield token_in(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def forget(token: Token) -> None:
    """Remove the file of a token."""
    with suppress(OSError):
        token.file.unlink(missing_ok=True)


class Doorkeeper:
    """Compares tokens in constant time. After too many wrong ones it answers nobody for a while, right or wrong."""

    def __init__(self, token: Token, clock: Callable[[], float] = time.monotonic) -> None:
        self._token, self._clock, self._lock = token.value.encode(), clock, threading.Lock()
        self._wrong: deque[float] = deque(maxlen=TRIES)

    def wait(self) -> float:
        """Return the seconds until the next token is looked at; 0 unless there were too many wrong ones."""
        with self._lock:
            full = len(self._wrong) == TRIES
            return max(0.0, self._wrong[0] + WINDOW - self._clock()) if full else 0.0

    def admits(self, said: bytes) -> bool:
        """Return whether this is the token; a wrong one is counted."""
        if hmac.compare_digest(said, self._token):
            return True
        with self._lock:
            self._wrong.append(self._clock())
        return False
