"""Files that only their owner may read: keys, tokens and what the server knows of its clients.

Files are created with mode 0600 and folders with 0700, so that there is no moment at which others could open them.
"""

import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sojourn.errors import InvalidInput
from sojourn.files import PARTIAL, read_bytes, writing

FILE, FOLDER = 0o600, 0o700  # their modes
OTHERS = 0o077  # the rights of everybody but the owner
MOST = 2**20  # bytes of a key, a certificate or a token


def make_folder(path: Path) -> None:
    """Create a folder that only its owner may open; its parent must exist."""
    with writing(path, "to"):
        os.mkdir(path, FOLDER)
        os.chmod(path, FOLDER)  # a umask may have taken rights from the owner; nobody else has had any


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """Give a folder to fill, which is renamed to `place` at the end of the block; after an error it is removed."""
    partial = place.with_name(f".{place.name}{PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)  # left behind by a killed process
    make_folder(partial)
    try:
        yield partial
        with writing(place, "to"):
            partial.rename(place)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def create(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read; an existing file is never written over."""
    with writing(path):
        held = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE)
        with os.fdopen(held, "wb") as file:
            os.chmod(path, FILE)  # as above
            file.write(content)


def replace(path: Path, content: bytes) -> None:
    """Replace a file, whole or not at all, by one that only its owner may read; callers hold a lock."""
    partial = Path(f"{path}{PARTIAL}")
    with writing(path):
        partial.unlink(missing_ok=True)  # left behind by a killed process
        try:
            create(partial, content)
            _settle(partial)
            partial.replace(path)
            _settle(path.parent)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise


def _settle(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    held = os.open(path, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def read(path: Path, what: str) -> bytes:
    """Return the content of a secret file; one that others than its owner can open is refused."""
    content = read_bytes(path, what, MOST)
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & OTHERS:
        raise InvalidInput(
            f"{what} {path} must be for its owner alone, its mode is {mode:04o}; "
            f"type: chmod 600 {shlex.quote(str(path))}"
        )
    return content
