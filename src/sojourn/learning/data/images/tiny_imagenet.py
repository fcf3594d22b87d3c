"""TinyImageNet-200: 200 classes of 500 colour images of 64x64, and 10,000 for testing; JPEGs in folders or a zip.

The classes are numbered in the order of their WordNet ids, the images of a class in that of their numbers. The official
test set has no labels; the validation set takes its place.
"""

import os
import re
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.learning.data.images.source import Images, Source, Watch, check_archive, contents, decode, reading
from sojourn.types import Pixels

MEAN, STD = (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)

_TOP = "tiny-imagenet-200"
_ANNOTATIONS = "val/val_annotations.txt"
_TRAIN = re.compile(r"^train/([^/]+)/images/[^/]*?_(\d+)\.JPEG$")
_SIDE = 64
_CLASSES, _EACH, _JUDGED = 200, 500, 10_000
_MOST_ARCHIVE, _MOST_LIST, _MOST_IMAGE = (
    2**29,
    2**22,
    2**18,
)  # bytes; the official ones have 260 million, 600,000, 10,000
_EVERY = 250  # images between two reports

Named = tuple[str, int]
Read = Callable[[str], bytes]


def find(folder: Path, per_class: int | None = None) -> Source | None:
    """Find the unpacked folders or the official archive; take the first `per_class` images of each class."""
    variant = f"per_class={per_class}"
    for top in (folder / _TOP, folder):
        if (top / _ANNOTATIONS).is_file():
            names = [_ANNOTATIONS, *_tree(top)]
            return Source(tuple(top / name for name in names), partial(_read_tree, top, names, per_class), variant)
    path = folder / f"{_TOP}.zip"
    return Source((path,), partial(_read_zip, path, per_class), variant) if path.is_file() else None


def _tree(top: Path) -> list[str]:
    """Return the names of the images in the folders."""
    found = []
    for kind in sorted(os.listdir(top / "train")) if (top / "train").is_dir() else []:
        images = top / "train" / kind / "images"
        if images.is_dir():
            found += [f"train/{kind}/images/{name}" for name in sorted(os.listdir(images))]
    if (top / "val" / "images").is_dir():
        found += [f"val/images/{name}" for name in sorted(os.listdir(top / "val" / "images"))]
    return found


def _read_tree(top: Path, names: list[str], per_class: int | None, watch: Watch) -> Images:
    return _read(top, names, lambda name: contents(top / name, _most(name)), per_class, watch)


def _read_zip(path: Path, per_class: int | None, watch: Watch) -> Images:
    with reading(path), zipfile.ZipFile(path) as archive:
        check_archive(archive, _MOST_ARCHIVE)
        names = [name.removeprefix(f"{_TOP}/") for name in archive.namelist() if name.startswith(f"{_TOP}/")]
        return _read(path, names, lambda name: _member(archive, name), per_class, watch)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    member = archive.getinfo(f"{_TOP}/{name}")
    if member.file_size > _most(name):
        raise ValueError(f"{member.file_size:,} bytes, more than the {_most(name):,} that it can need")
    return archive.read(member)


def _most(name: str) -> int:
    return _MOST_LIST if name == _ANNOTATIONS else _MOST_IMAGE


def _read(where: Path, names: Iterable[str], read: Read, per_class: int | None, watch: Watch) -> Images:
    held = set(names)
    with reading(where / _ANNOTATIONS):
        annotations = read(_ANNOTATIONS).decode("utf-8")
    with reading(where):
        train, number_of = _training(held, per_class, where)
        test = _validation(annotations, number_of, held)
    wanted = [*train, *test]
    pixels = np.empty((len(wanted), 3, _SIDE, _SIDE), dtype=np.uint8)
    for row, (name, _) in enumerate(wanted):
        with reading(where / name):
            pixels[row] = _image(read(name))
        _report(watch, row, len(wanted))
    labels = np.array([label for _, label in wanted], dtype=np.uint8)
    return Images(pixels[: len(train)], labels[: len(train)], pixels[len(train) :], labels[len(train) :])


def _training(names: Iterable[str], per_class: int | None, where: Path) -> tuple[list[Named], dict[str, int]]:
    """Return training images with their class numbers, and the class number of every WordNet id."""
    by_class: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        match = _TRAIN.match(name)
        if match is not None:
            by_class.setdefault(match[1], []).append((int(match[2]), name))
    if not by_class:
        raise ValueError("there are no images in train/*/images")
    if len(by_class) > _CLASSES or max(len(images) for images in by_class.values()) > _EACH:
        raise ValueError(f"there are more than {_CLASSES} classes of {_EACH} images")
    number_of = {kind: number for number, kind in enumerate(sorted(by_class))}
    _check_per_class(per_class, min(len(images) for images in by_class.values()), where)
    chosen = [(name, number) for kind, number in number_of.items() for _, name in sorted(by_class[kind])[:per_class]]
    return chosen, number_of


def _validation(annotations: str, number_of: dict[str, int], names: set[str]) -> list[Named]:
    """Return test images with their class numbers, from lines that begin with a name and a WordNet id."""
    found = []
    for line in annotations.splitlines():
        words = line.split("\t")
        if len(words) < 2 or words[1] not in number_of or f"val/images/{words[0]}" not in names:
            raise ValueError(f"{_ANNOTATIONS} has the line '{line[:60]}', which names no image of a known class")
        found.append((f"val/images/{words[0]}", number_of[words[1]]))
    if not 1 <= len(found) <= _JUDGED:
        raise ValueError(f"{_ANNOTATIONS} is empty" if not found else f"{_ANNOTATIONS} has more than {_JUDGED} lines")
    return found


def _check_per_class(per_class: int | None, most: int, where: Path) -> None:
    if per_class is not None and not 1 <= per_class <= most:
        raise InvalidInput(
            f"dataset tiny-imagenet: per_class must be at least 1 and at most the {most} images of a class in {where}, "
            f"got {per_class}"
        )


def _image(encoded: bytes) -> Pixels:
    pixels = decode(encoded, _SIDE * _SIDE)
    if pixels.shape != (_SIDE, _SIDE, 3):
        raise ValueError(f"an image of {pixels.shape[1]}x{pixels.shape[0]}, not {_SIDE}x{_SIDE}")
    return pixels.transpose(2, 0, 1)


def _report(watch: Watch, row: int, total: int) -> None:
    if (row + 1) % _EVERY == 0 or row + 1 == total:
        watch("decoding tiny-imagenet", row + 1, total)
