"""Source: the files of a dataset in one of its formats, and the function that reads them."""

import hashlib
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sojourn.errors import SojournError, UnreadableFile
from sojourn.types import Pixels

Watch = Callable[[str, int, int], None]
"""A progress callback (text, done, total); 0 of 0 = the text is a sentence to print."""

_VERSION = 1  # version of the decoded arrays; a new number makes old ones unused

FEW, RATIO = 2**24, 100  # bytes that any archive may unpack to, and how many per byte of its own size beyond that
SCANS = 100  # most scans of a JPEG, each of which covers the whole image


class Images(NamedTuple):
    """Decoded images of shape (examples, channels, height, width), and their class numbers."""

    train_x: Pixels
    train_y: Pixels
    test_x: Pixels
    test_y: Pixels


@dataclass(frozen=True)
class Source:
    """Files, and the function that reads them."""

    files: tuple[Path, ...]
    """All files that are read."""
    read: Callable[[Watch], Images]
    """Decode them."""
    variant: str = ""
    """Other options that decide the arrays."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the files by name, size and time of the last change, which is quick; not of their content."""
        digest = hashlib.sha256(f"{_VERSION} {self.variant}".encode())
        for path in self.files:
            with reading(path):
                facts = path.stat()
            digest.update(f"\n{path.absolute()} {facts.st_size} {facts.st_mtime_ns}".encode())
        return digest.hexdigest()[:16]


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn an error of the block into one sentence that names the file."""
    try:
        yield
    except SojournError:
        raise
    except Exception as error:  # a reader may raise any error for a damaged file
        why = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise UnreadableFile(
            f"image file {path} is damaged or of another format ({why}); replace it by an intact one"
        ) from None


def complete(folder: Path, names: list[str]) -> tuple[Path, ...]:
    """Return the paths of files that belong together; raise an error that names a missing one."""
    paths = tuple(folder / name for name in names)
    for path in paths:
        if not path.is_file():
            raise UnreadableFile(f"image file {path} is missing, {len(paths) - 1} other files belong to it; add it")
    return paths


def contents(path: Path, most: int) -> bytes:
    """Return the content of a file of at most `most` bytes; a longer one is refused before it is read."""
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise ValueError("it is not a plain file")
    if facts.st_size > most:
        raise ValueError(f"{facts.st_size:,} bytes, more than the {most:,} that it can need")
    return path.read_bytes()


class Bounded:
    """A stream that may yield only a limited number of bytes, since an archive may unpack to a
    thousand times its size.
    """

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._most, self._left = stream, most, most

    def read(self, size: int = -1) -> bytes:
        """Read like a file."""
        content: bytes = self._stream.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {self._most:,} bytes, the most that it can need")
        return content


def check_archive(archive: zipfile.ZipFile, most: int) -> None:
    """Refuse a zip by the sizes that it states, before anything is unpacked; no more than these is unpacked."""
    members = archive.infolist()
    stated, size = sum(one.file_size for one in members), sum(one.compress_size for one in members)
    if stated > min(most, FEW + RATIO * size):
        raise ValueError(f"its {size:,} bytes unpack to {stated:,}, more than it can need")
    if any(one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for one in members):
        raise ValueError("it is compressed in another way than zip files of images are")


def decode(encoded: bytes, most: int) -> Pixels:
    """Return the image in a JPEG or PNG file, of shape (height, width, 3); refuse one with more than `most` pixels."""
    from io import BytesIO

    try:
        from PIL import Image
    except ImportError:
        raise SojournError(
            "reading images needs Pillow, which is not installed; pip install 'sojourn[train]'"
        ) from None
    if encoded.count(b"\xff\xda") > SCANS and encoded.startswith(b"\xff\xd8"):
        raise ValueError(f"an image in more than {SCANS} scans")
    with Image.open(BytesIO(encoded), formats=("PNG", "JPEG")) as image:
        if image.width * image.height > most:
            raise ValueError(f"an image of {image.width}x{image.height}, it can have at most {most:,} pixels")
        return np.asarray(image.convert("RGB"))
