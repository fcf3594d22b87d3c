"""Source: the files of a dataset in one of the formats that it comes in, and how they are read."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError, UnreadableFile

Pixels = NDArray[np.uint8]
Watch = Callable[[str, int, int], None]
"""Is told what is being done, how much is done and how much there is; 0 of 0 = the text is a sentence of its own."""

_VERSION = 1  # of what the readers make of files; a new one lets old decoded arrays lie


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
    """All that is read."""
    read: Callable[[Watch], Images]
    """Decode them."""
    note: str = ""
    """What the dataset's name should say of them."""
    variant: str = ""
    """What else decides the arrays."""

    @property
    def fingerprint(self) -> str:
        """Of the files by name, size and time of the last change, which is quick; not of their content."""
        digest = hashlib.sha256(f"{_VERSION} {self.variant}".encode())
        for path in self.files:
            with reading(path):
                facts = path.stat()
            digest.update(f"\n{path.absolute()} {facts.st_size} {facts.st_mtime_ns}".encode())
        return digest.hexdigest()[:16]


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Say in one sentence which file cannot be read."""
    try:
        yield
    except SojournError:
        raise
    except Exception as error:  # what a reader raises at a damaged file is of any kind
        why = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise UnreadableFile(
            f"image file {path} is damaged or of another format ({why}); put a whole one in its place"
        ) from None


def complete(folder: Path, names: list[str]) -> tuple[Path, ...]:
    """The paths of files that belong together; one that is missing is named."""
    paths = tuple(folder / name for name in names)
    for path in paths:
        if not path.is_file():
            raise UnreadableFile(f"image file {path} is missing beside {len(paths) - 1} that belong to it; add it")
    return paths


@contextmanager
def packed(path: Path) -> Iterator[Any]:
    """The arrays of an npz file by name; nothing in it is unpickled."""
    with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as held:
        yield held


def decode(encoded: bytes) -> Pixels:
    """The pixels of a PNG, JPEG or WebP file, of shape (height, width, 3)."""
    from io import BytesIO

    try:
        from PIL import Image
    except ImportError:
        raise SojournError(
            "reading images needs Pillow, which is not installed; pip install 'sojourn[train]'"
        ) from None
    with Image.open(BytesIO(encoded)) as image:
        return np.asarray(image.convert("RGB"))
