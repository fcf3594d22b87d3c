"""Load an image dataset by its name: find its files and make a Dataset from them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.images import cifar10, fashion_mnist, tiny_imagenet
from sojourn.learning.data.images.decoded import cache_folder, decoded, kept
from sojourn.learning.data.images.fetch import Remote, Unreachable, fetch
from sojourn.learning.data.images.source import Source, Watch, reading

VARIABLE = "SOJOURN_DATA"


@dataclass(frozen=True)
class Kind:
    """The facts about an image dataset."""

    find: Callable[[Path, int | None], Source | None]
    """Function that finds its files in a folder."""
    below: tuple[str, ...]
    """Subfolders in which its files often lie."""
    wanted: str
    """Files that the user should put there."""
    remote: tuple[Remote, ...]
    """Files that can be downloaded."""
    classes: int
    examples: int
    """Number of training examples of the whole dataset."""
    mean: tuple[float, ...]
    std: tuple[float, ...]


_FASHION = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)

KINDS = {
    "fashion-mnist": Kind(
        find=fashion_mnist.find,
        below=("fashion-mnist", "FashionMNIST/raw"),
        wanted="train-images-idx3-ubyte.gz and its three companions",
        remote=(
            Remote("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", _FASHION),
            Remote("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", _FASHION),
            Remote("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", _FASHION),
            Remote("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", _FASHION),
        ),
        classes=10,
        examples=60_000,
        mean=fashion_mnist.MEAN,
        std=fashion_mnist.STD,
    ),
    "cifar10": Kind(
        find=cifar10.find,
        below=("cifar10",),
        wanted="cifar-10-binary.tar.gz or cifar-10-python.tar.gz",
        remote=(
            Remote(
                "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", ("https://www.cs.toronto.edu/~kriz/",)
            ),
        ),
        classes=10,
        examples=50_000,
        mean=cifar10.MEAN,
        std=cifar10.STD,
    ),
    "tiny-imagenet": Kind(
        find=tiny_imagenet.find,
        below=("tiny-imagenet",),
        wanted="tiny-imagenet-200.zip",
        remote=(Remote("tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de", ("http://cs231n.stanford.edu/",)),),
        classes=200,
        examples=100_000,
        mean=tiny_imagenet.MEAN,
        std=tiny_imagenet.STD,
    ),
}


def load_images(
    name: str, folder: str | None = None, per_class: int | None = None, watch: Watch | None = None
) -> Dataset:
    """Return the dataset `fashion-mnist`, `cifar10` or `tiny-imagenet`, with images as uint8 pixels.

    With a `folder`, its files are searched only there. Without one they are searched in the folder that the environment
    variable SOJOURN_DATA names, then in the user's cache, into which they are downloaded if necessary. `watch` reports
    downloads and decoding.
    """
    told: Watch = watch or (lambda text, done, total: None)
    kind = KINDS[name]
    source = _in_folder(name, kind, folder, per_class) if folder else _anywhere(name, kind, per_class, told)
    images = decoded(name, source, told)
    many = len(images.train_y)
    label = name if many == kind.examples else f"{name} ({many} of {kind.examples} examples)"
    return Dataset(label, *images, classes=kind.classes, mean=kind.mean, std=kind.std)


def _in_folder(name: str, kind: Kind, folder: str, per_class: int | None) -> Source:
    place = Path(os.path.expanduser(folder))  # unlike Path.expanduser it never raises an error
    if not os.path.isdir(place):
        raise InvalidInput(f"dataset {name}: folder must be a folder that exists, got {folder}")
    source = _search(kind, place, per_class)
    if source is None:
        raise UnreadableFile(
            f"dataset {name} is not in {place}; put {kind.wanted} there, or leave folder out to download it"
        )
    return source


def _anywhere(name: str, kind: Kind, per_class: int | None, watch: Watch) -> Source:
    searched = [cache_folder()]
    named = os.environ.get(VARIABLE)
    if named:
        place = Path(os.path.expanduser(named))
        if not os.path.isdir(place):
            raise InvalidInput(f"{VARIABLE} must name a folder that exists, got {named}")
        source = _search(kind, place, per_class)
        if source is not None:
            return source
        searched.insert(0, place)
    try:
        return _own(name, kind, per_class, watch)
    except Unreachable as error:
        raise UnreadableFile(
            f"dataset {name} is not in {' or '.join(map(str, searched))} and cannot be downloaded ({error}); "
            f"put {kind.wanted} into a folder and name it by folder=... or {VARIABLE}"
        ) from None


def _own(name: str, kind: Kind, per_class: int | None, watch: Watch) -> Source:
    """Return the source in the user's cache; downloads are checked before they are read, and repeated if damaged."""
    home = cache_folder() / name
    own = {home / one.file for one in kind.remote}
    try:
        source = _search(kind, cache_folder(), per_class)
    except UnreadableFile:  # only some of the files are there: the rest is downloaded
        source = None
    if source is None or (own.issuperset(source.files) and kept(name, source) is None):
        fetch(kind.remote, home, watch)
        source = kind.find(home, per_class)
    assert source is not None
    return source


def _search(kind: Kind, folder: Path, per_class: int | None) -> Source | None:
    for below in (*kind.below, ""):
        place = folder / below
        with reading(place):
            source = kind.find(place, per_class) if place.is_dir() else None
        if source is not None:
            return source
    return None
