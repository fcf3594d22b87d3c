"""CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32x32, as official batches."""

import gzip
import tarfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from sojourn.learning.data.images.plain_pickle import load_plain
from sojourn.learning.data.images.source import Bounded, Images, Source, Watch, complete, contents, reading
from sojourn.types import Pixels

# the scale of the public code that the paper's experiments descend from; its std is the mean over images of the std
# within an image, not the std over all pixels (.2470 .2435 .2616)
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)

Batch = tuple[Pixels, Pixels]

_BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
_SIDE, _VALUES, _CLASSES = 32, 3 * 32 * 32, 10
_MOST_BATCH, _MOST_ARCHIVE = 2**26, 2**29  # bytes; official ones have 31 and 187 million, pickled anew half more


def find(folder: Path, per_class: int | None = None) -> Source | None:
    """The first of: the binary archive, its unpacked batches, the archive for Python, its unpacked batches."""
    kinds: list[tuple[str, str, Callable[[bytes], Batch]]] = [("bin", ".bin", _binary), ("py", "", _pickled)]
    for kind, ending, parse in kinds:
        archive = folder / f"cifar-10-{'binary' if kind == 'bin' else 'python'}.tar.gz"
        names = [name + ending for name in _BATCHES]
        if archive.is_file():
            return Source((archive,), partial(_archive, archive, names, parse))
        for place in (folder / f"cifar-10-batches-{kind}", folder):
            if any((place / name).is_file() for name in names):
                files = complete(place, names)
                return Source(files, partial(_unpacked, files, parse))
    return None


def _archive(path: Path, names: list[str], parse: Callable[[bytes], Batch], watch: Watch) -> Images:
    held: dict[str, bytes] = {}
    with reading(path):
        with gzip.open(path) as stream:
            bounded: Any = Bounded(stream, _MOST_ARCHIVE)
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                for member in archive:
                    name = PurePosixPath(member.name).name
                    content = archive.extractfile(member) if member.isfile() and name in names else None
                    if content is not None:
                        if member.size > _MOST_BATCH:
                            raise ValueError(f"{name} has {member.size:,} bytes, a batch has at most {_MOST_BATCH:,}")
                        held[name] = content.read()
                        watch(f"reading {path.name}", len(held), len(names))
            while bounded.read(1 << 20):  # to the end, where the checksum is
                pass
        missing = [name for name in names if name not in held]
        if missing:
            raise ValueError(f"there is no {missing[0]} in it")
        return _joined([parse(held[name]) for name in names])


def _unpacked(files: Sequence[Path], parse: Callable[[bytes], Batch], watch: Watch) -> Images:
    batches = []
    for number, path in enumerate(files, start=1):
        with reading(path):
            batches.append(parse(contents(path, _MOST_BATCH)))
        watch("reading cifar10", number, len(files))
    with reading(files[0].parent):
        return _joined(batches)


def _joined(batches: list[Batch]) -> Images:
    """Join batches; all but the last are for training. They have equal lengths, so that a truncated one is noticed."""
    lengths = {len(labels) for _, labels in batches[:-1]}
    if len(lengths) > 1:
        raise ValueError(f"batches of different lengths, {min(lengths)} and {max(lengths)}")
    images, labels = zip(*batches, strict=True)
    return Images(np.concatenate(images[:-1]), np.concatenate(labels[:-1]), images[-1], labels[-1])


def _binary(content: bytes) -> Batch:
    """Read rows of a label and the pixels."""
    if not content or len(content) % (1 + _VALUES):
        raise ValueError(f"{len(content)} bytes are not a whole number of rows of {1 + _VALUES}")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + _VALUES)
    return _checked(rows[:, 1:], rows[:, 0])


def _pickled(content: bytes) -> Batch:
    """Read a dict with `data`, one row per image, and `labels`."""
    batch = load_plain(content)
    if not isinstance(batch, dict):
        raise ValueError("it does not hold a dict")
    named = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
    data, labels = named.get("data"), named.get("labels")
    if not isinstance(data, np.ndarray) or not isinstance(labels, list):
        raise ValueError("it does not hold data and labels")
    if not all(isinstance(label, int) and 0 <= label < _CLASSES for label in labels):
        raise ValueError(f"labels are not class numbers from 0 to {_CLASSES - 1}")
    return _checked(data, np.array(labels, dtype=np.uint8))


def _checked(pixels: Pixels, labels: Pixels) -> Batch:
    if pixels.shape != (len(labels), _VALUES):
        raise ValueError(f"pixels of shape {pixels.shape} for {len(labels)} labels")
    if labels.size == 0 or labels.max() >= _CLASSES:
        raise ValueError(f"labels are not class numbers from 0 to {_CLASSES - 1}")
    return pixels.reshape(-1, 3, _SIDE, _SIDE), labels
