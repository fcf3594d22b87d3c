"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 + 10,000 grey images of 28x28, four idx files."""

import gzip
import hashlib
from functools import partial
from pathlib import Path

import numpy as np

from sojourn.errors import UnreadableFile
from sojourn.learning.data.images.source import Bounded, Images, Source, Watch, complete, contents, reading
from sojourn.types import Pixels

MEAN, STD = (0.2860,), (0.3530,)
FILES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]

_MOST = {3: 16 + 60_000 * 28 * 28, 1: 8 + 60_000}  # bytes of a file by its axes, images and labels
_BYTES = 8  # idx's code for unsigned bytes
_MNIST = "f68b3c2dcbeaaa9fbdd348bbdeb94873"  # md5 of the handwritten digits' first file, which has the same name


def find(folder: Path, per_class: int | None = None) -> Source | None:
    """Find the four files, compressed or not."""
    for ending in (".gz", ""):
        names = [name + ending for name in FILES]
        if any((folder / name).is_file() for name in names):
            files = complete(folder, names)
            return Source(files, partial(_read, files))
    return None


def _read(files: tuple[Path, ...], watch: Watch) -> Images:
    with reading(files[0]):
        first = contents(files[0], _MOST[3])
    if hashlib.md5(first, usedforsecurity=False).hexdigest() == _MNIST:
        raise UnreadableFile(f"image file {files[0]} is of MNIST's digits, not of Fashion-MNIST; name another folder")
    train_x, train_y, test_x, test_y = (_idx(path, 1 + 2 * (number % 2 == 0)) for number, path in enumerate(files))
    for path, x, y in ((files[1], train_x, train_y), (files[3], test_x, test_y)):
        with reading(path):
            if len(x) != len(y):
                raise ValueError(f"{len(y)} labels for {len(x)} images")
    return Images(train_x[:, None], train_y, test_x[:, None], test_y)


def _idx(path: Path, axes: int) -> Pixels:
    """An array in the idx format: two zeros, kind, number of axes, their lengths (big-endian), values."""
    with reading(path):
        if path.suffix == ".gz":
            with gzip.open(path) as stream:
                content = Bounded(stream, _MOST[axes]).read()
        else:
            content = contents(path, _MOST[axes])
        head = 4 + 4 * axes
        if content[:4] != bytes([0, 0, _BYTES, axes]) or len(content) < head:
            raise ValueError(f"it does not begin as an idx file of {axes} axes")
        shape = tuple(np.frombuffer(content, dtype=">u4", count=axes, offset=4).tolist())
        if len(content) != head + int(np.prod(shape, dtype=object)):
            raise ValueError(f"{len(content)} bytes do not fit its shape {shape}")
        if axes == 1 and max(content[head:], default=0) > 9:
            raise ValueError(f"a label of {max(content[head:])}, there are ten classes")
        return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)
