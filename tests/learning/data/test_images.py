"""Image datasets: every format they come in, files that are damaged or missing, downloads, and what is kept."""

import gzip
import hashlib
import io
import os
import pickle
import shutil
import struct
import sys
import tarfile
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sojourn import InvalidInput, SojournError
from sojourn.errors import UnreadableFile
from sojourn.learning.data.images import cifar10
from sojourn.learning.data.images.load import KINDS
from sojourn.learning.data.images.plain_pickle import load_plain
from sojourn.learning.data.load import load_dataset

REAL = os.environ.get("SOJOURN_DATA")
NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A cache of this test's own, and no way to the world."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.delenv("SOJOURN_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    for name, kind in list(KINDS.items()):
        remote = tuple(replace(one, homes=(NOWHERE,)) for one in kind.remote)
        monkeypatch.setitem(KINDS, name, replace(kind, remote=remote))
    return cache / "sojourn"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    return place


def random(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def load(name, folder, **options):
    inside = ", ".join(f"{key}={value}" for key, value in {"folder": folder, **options}.items())
    return load_dataset(f"{name}({inside})")


def refused(text_or_name, folder=None, **options):
    """The sentence with which a dataset is refused."""
    with pytest.raises(SojournError) as caught:
        load_dataset(text_or_name) if folder is None else load(text_or_name, folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Fashion-MNIST

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


def idx(array):
    head = struct.pack(">4B", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def write_fashion(folder, pack=gzip.compress, ending=".gz"):
    parts = {TRAIN_IMAGES: random(20, 28, 28), TRAIN_LABELS: np.arange(20, dtype=np.uint8) % 10}
    parts |= {TEST_IMAGES: random(10, 28, 28, seed=1), TEST_LABELS: np.arange(10, dtype=np.uint8)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in parts.items():
        (folder / name.replace(".gz", ending)).write_bytes(pack(idx(array)))
    return list(parts.values())


@pytest.mark.parametrize("below", ["", "fashion-mnist", "FashionMNIST/raw"])
@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (bytes, "")])
def test_fashion_mnist_from_its_four_files(folder, below, pack, ending):
    images, labels, test_images, test_labels = write_fashion(folder / below, pack, ending)
    data = load("fashion-mnist", folder)
    assert data.train_x.dtype == np.uint8
    assert np.array_equal(data.train_x, images[:, None])
    assert np.array_equal(data.test_x, test_images[:, None])
    assert np.array_equal(data.train_y, labels)
    assert np.array_equal(data.test_y, test_labels)
    assert (data.classes, data.mean, data.std) == (10, (0.2860,), (0.3530,))
    assert data.name == "fashion-mnist (20 of 60000 examples)"


def test_a_missing_companion_is_named(folder):
    write_fashion(folder)
    (folder / TEST_LABELS).unlink()
    assert f"{folder / TEST_LABELS} is missing, 3 other files belong to it; add it" in refused("fashion-mnist", folder)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (TRAIN_IMAGES, lambda whole: whole[:-100], "Compressed file ended"),
        (TRAIN_IMAGES, lambda whole: whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:], "CRC check failed"),
        (TRAIN_IMAGES, lambda whole: b"", "it does not begin as an idx file of 3 axes"),
        (TRAIN_IMAGES, lambda whole: b"<html>", "Not a gzipped file"),
        (TEST_LABELS, lambda whole: gzip.compress(b"\0\0\x08\x03"), "it does not begin as an idx file of 1 axes"),
        (TEST_LABELS, lambda whole: gzip.compress(b"\0\0\x08\x01\0"), "it does not begin as an idx file of 1 axes"),
        (TEST_LABELS, lambda whole: gzip.compress(gzip.decompress(whole)[:-1]), r"17 bytes do not fit its shape (10,)"),
        (TEST_LABELS, lambda whole: gzip.compress(idx(np.zeros(9, np.uint8))), "9 labels for 10 images"),
        (TEST_LABELS, lambda whole: gzip.compress(idx(np.full(10, 12, np.uint8))), "a label of 12, there are ten"),
    ],
)  # fmt: skip
def test_a_damaged_idx_file_is_named(folder, name, change, message):
    write_fashion(folder)
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    said = refused("fashion-mnist", folder)
    assert said.startswith(f"image file {folder / name} is damaged or of another format ({message}")
    assert said.endswith("; replace it by an intact one")


def test_the_handwritten_digits_have_the_same_names_and_are_distinguished(folder, monkeypatch):
    write_fashion(folder)
    first = hashlib.md5((folder / TRAIN_IMAGES).read_bytes()).hexdigest()
    monkeypatch.setattr("sojourn.learning.data.images.fashion_mnist._MNIST", first)
    assert "is of MNIST's digits, not of Fashion-MNIST; name another folder" in refused("fashion-mnist", folder)


# CIFAR-10

BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
CIFAR_X, CIFAR_Y = random(60, 3, 32, 32), np.arange(60, dtype=np.uint8) % 10  # six batches of ten


def binary(x, y):
    return np.concatenate([y[:, None], x.reshape(len(x), -1)], axis=1).tobytes()


def pickled(x, y):
    """As Python 3 writes for Python 2."""
    return pickle.dumps({b"data": x.reshape(len(x), -1), b"labels": y.tolist(), b"batch_label": b"of six"}, protocol=2)


def pickled_by_python_2(x, y):
    """As the official batches were written: byte strings throughout."""

    def text(value):
        return b"T" + struct.pack("<i", len(value)) + value

    def number(value):
        return b"J" + struct.pack("<i", value)

    kind = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R(" + number(3) + text(b"|")
    kind += b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"\x87R("
    array += number(1) + number(len(x)) + number(3072) + b"\x86" + kind + b"\x89" + text(x.tobytes()) + b"tb"
    labels = b"](" + b"".join(number(int(label)) for label in y) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + labels + b"u."


def batches(make, ending=""):
    rows = [slice(10 * number, 10 * number + 10) for number in range(6)]
    return {name + ending: make(CIFAR_X[part], CIFAR_Y[part]) for name, part in zip(BATCHES, rows, strict=True)}


def write_tar(path, top, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_binary_tar(folder, members=None):
    path = folder / "cifar-10-binary.tar.gz"
    write_tar(path, "cifar-10-batches-bin", {"readme.html": b"x", **(members or batches(binary, ".bin"))})
    return path


def write_python_tar(folder, make=pickled_by_python_2, **changes):
    path = folder / "cifar-10-python.tar.gz"
    write_tar(path, "cifar-10-batches-py", {"batches.meta": b"x", **batches(make), **changes})
    return path


def write_unpacked(folder, members):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in members.items():
        (folder / name).write_bytes(content)


def encoded(pixels, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, **options)
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


def assert_cifar(data):
    assert data.train_x.dtype == np.uint8
    assert np.array_equal(data.train_x, CIFAR_X[:50])
    assert np.array_equal(data.train_y, CIFAR_Y[:50])
    assert np.array_equal(data.test_x, CIFAR_X[50:])
    assert np.array_equal(data.test_y, CIFAR_Y[50:])
    assert (data.name, data.classes) == ("cifar10 (50 of 50000 examples)", 10)
    assert (data.mean, data.std) == ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))


@pytest.mark.parametrize(
    "write",
    [
        write_binary_tar,
        write_python_tar,
        partial(write_python_tar, make=pickled),
        lambda folder: write_unpacked(folder / "cifar-10-batches-bin", batches(binary, ".bin")),
        lambda folder: write_unpacked(folder / "cifar-10-batches-py", batches(pickled_by_python_2)),
        lambda folder: write_unpacked(folder, batches(pickled)),
        lambda folder: write_unpacked(folder / "cifar10" / "cifar-10-batches-bin", batches(binary, ".bin")),
    ],
)
def test_cifar10_from_its_official_files(folder, write):
    write(folder)
    assert_cifar(load("cifar10", folder))


@pytest.mark.parametrize("write", [write_binary_tar, write_python_tar])
@pytest.mark.parametrize(
    "change",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-4],
        lambda whole: whole[:5000] + bytes([whole[5000] ^ 255]) + whole[5001:],
        lambda whole: b"<html>not found</html>",
        lambda whole: gzip.compress(b"no archive" * 100),
        lambda whole: b"",
    ],
)
def test_a_damaged_archive_is_named(folder, write, change):
    path = write(folder)
    path.write_bytes(change(path.read_bytes()))
    assert refused("cifar10", folder).startswith(f"image file {path} is damaged or of another format (")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_batch_3.bin": bytes(3072)}, "3072 bytes are not a whole number of rows of 3073"),
        ({"data_batch_3.bin": b""}, "0 bytes are not a whole number of rows of 3073"),
        ({"data_batch_3.bin": bytes([10]) + bytes(3072)}, "labels are not class numbers from 0 to 9"),
        ({"data_batch_3.bin": bytes(3073)}, "batches of different lengths, 1 and 10"),
    ],
)
def test_a_batch_that_is_not_whole_is_refused(folder, changes, message):
    write_binary_tar(folder, {**batches(binary, ".bin"), **changes})
    assert message in refused("cifar10", folder)


def test_a_batch_that_is_missing_is_named(folder):
    members = batches(binary, ".bin")
    del members["data_batch_4.bin"]
    write_binary_tar(folder, members)
    assert "there is no data_batch_4.bin in it" in refused("cifar10", folder)
    (folder / "cifar-10-binary.tar.gz").unlink()
    write_unpacked(folder, members)
    assert f"{folder / 'data_batch_4.bin'} is missing, 5 other files belong to it; add it" in refused("cifar10", folder)


class Malicious:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps([1, 2]), "it does not hold a dict"),
        (pickle.dumps({"data": b"1", "labels": [1]}), "it does not hold data and labels"),
        (pickle.dumps({"data": np.zeros((1, 5)), "labels": [1]}, 2), "holds an array of 'f8', only bytes are read"),
        (pickle.dumps({"data": np.zeros((1, 5), np.uint8), "labels": [1]}, 2), "pixels of shape (1, 5) for 1 labels"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": ["a"]}, 2), "labels are not class numbers"),
        (pickle.dumps({"data": print}), "the pickle asks for builtins.print, which no file of this dataset needs"),
        (pickled(CIFAR_X[:2], CIFAR_Y[:2])[:-200], "data was truncated"),
        (b"\x80", ""),
        (b"", ""),
    ],
)
def test_a_foreign_pickle_is_refused(folder, content, message):
    write_unpacked(folder, {**batches(pickled), "data_batch_2": content})
    said = refused("cifar10", folder)
    assert said.startswith(f"image file {folder / 'data_batch_2'} is damaged or of another format (")
    assert message in said


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_before_it_does_anything(folder, tmp_path, protocol):
    target = tmp_path / "made by the pickle"
    evil = pickle.dumps({b"data": Malicious(target), b"labels": [1]}, protocol)
    write_python_tar(folder, data_batch_1=evil)
    assert f"the pickle asks for {os.mkdir.__module__}.mkdir" in refused("cifar10", folder)
    assert not target.exists()
    pickle.loads(evil)  # and this is what it would have done
    assert target.exists()


@pytest.mark.parametrize("name", ["codecs\ndecode", "numpy\nload", "numpy.core.multiarray\nfromfile", "builtins\neval"])
def test_only_what_an_array_of_bytes_needs_is_admitted(name):
    with pytest.raises(pickle.UnpicklingError, match="the pickle asks for"):
        load_plain(b"\x80\x02c" + name.encode() + b"\n.")


def test_bytes_are_not_decoded_by_just_any_codec():
    with pytest.raises(pickle.UnpicklingError, match="encodes by 'zlib', only latin1 is read"):
        load_plain(b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x04\0\0\0zlib\x86R.")


# TinyImageNet

KINDS_OF_THINGS = ["n02", "n01", "n10"]  # numbered in their own order: n01, n02, n10
TINY_TRAIN = {(kind, number): 12 * number + 70 * place for place, kind in enumerate(sorted(KINDS_OF_THINGS))
              for number in range(12)}  # fmt: skip
TINY_TEST = [("n10", 250), ("n01", 5), ("n02", 99), ("n02", 33)]


def jpeg(level, mode="RGB", side=64):
    """An image of one grey level, which JPEG keeps."""
    pixels = np.full((side, side, 3) if mode == "RGB" else (side, side), level, dtype=np.uint8)
    return encoded(pixels, format="JPEG", quality=90).tobytes()


def tiny_files():
    files = {f"train/{kind}/images/{kind}_{n}.JPEG": jpeg(level % 256) for (kind, n), level in TINY_TRAIN.items()}
    files |= {f"train/{kind}/{kind}_boxes.txt": b"" for kind in KINDS_OF_THINGS}
    files |= {f"val/images/val_{n}.JPEG": jpeg(level, "L") for n, (_, level) in enumerate(TINY_TEST)}
    lines = [f"val_{n}.JPEG\t{kind}\t0\t32\t44\t62\n" for n, (kind, _) in enumerate(TINY_TEST)]
    files["val/val_annotations.txt"] = "".join(lines).encode()
    files["wnids.txt"] = "\n".join(KINDS_OF_THINGS).encode()
    files["test/images/test_0.JPEG"] = jpeg(1)
    return files


def write_tree(folder, files=None):
    for name, content in (files or tiny_files()).items():
        path = folder / "tiny-imagenet-200" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_zip(folder, files=None):
    with zipfile.ZipFile(folder / "tiny-imagenet-200.zip", "w") as archive:
        archive.writestr("tiny-imagenet-200/", b"")
        for name, content in (files or tiny_files()).items():
            archive.writestr(f"tiny-imagenet-200/{name}", content)


TINY_WRITERS = [write_tree, write_zip]


@pytest.mark.parametrize("write", TINY_WRITERS)
def test_tiny_imagenet_by_class_and_number(folder, write):
    write(folder)
    data = load("tiny-imagenet", folder)
    assert data.train_x.shape == (36, 3, 64, 64)
    assert data.train_y.tolist() == [0] * 12 + [1] * 12 + [2] * 12
    levels = [level % 256 for _, level in sorted(TINY_TRAIN.items())]  # n01_2 before n01_10, by number
    assert np.abs(data.train_x[:, 0, 5, 5].astype(int) - levels).max() <= 1
    assert data.test_y.tolist() == [2, 0, 1, 1]
    assert np.abs(data.test_x[:, 2, 60, 3].astype(int) - [250, 5, 99, 33]).max() <= 1
    assert (data.classes, data.name) == (200, "tiny-imagenet (36 of 100000 examples)")


def test_all_formats_of_tiny_imagenet_are_one_dataset(tmp_path):
    found = set()
    for write in TINY_WRITERS:
        folder = tmp_path / write.__name__
        folder.mkdir()
        write(folder)
        found |= {(load("tiny-imagenet", folder).hash, load("tiny-imagenet", folder, per_class=3).hash)}
    assert len(found) == 1


@pytest.mark.parametrize("write", TINY_WRITERS)
def test_the_first_images_of_each_class(folder, write):
    write(folder)
    data, whole = load("tiny-imagenet", folder, per_class=3), load("tiny-imagenet", folder)
    assert np.array_equal(data.train_x, whole.train_x[[0, 1, 2, 12, 13, 14, 24, 25, 26]])
    assert np.array_equal(data.test_x, whole.test_x)
    for wrong in (0, 13, -1):
        assert f"per_class must be at least 1 and at most the 12 images of a class in {folder}" in refused(
            "tiny-imagenet", folder, per_class=wrong
        )


@pytest.mark.parametrize("write", [write_tree, write_zip])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train/n02/images/n02_7.JPEG", jpeg(3)[:300], "n02_7.JPEG is damaged or of another format ("),
        ("val/images/val_2.JPEG", b"<html>", "val_2.JPEG is damaged or of another format (cannot identify image file"),
        ("train/n02/images/n02_7.JPEG", jpeg(3, side=32), "n02_7.JPEG is damaged or of another format (an image of 32"),
        ("val/val_annotations.txt", b"val_0.JPEG\tn77\n", r"the line 'val_0.JPEG\tn77', which names no image of"),
        ("val/val_annotations.txt", b"val_9.JPEG\tn01\n", "which names no image of a known class"),
        ("val/val_annotations.txt", b"val_9.JPEG\n", "which names no image of a known class"),
        ("val/val_annotations.txt", b"\xff\xff", "val_annotations.txt is damaged or of another format ('utf-8'"),
        ("val/val_annotations.txt", b"", "val/val_annotations.txt is empty"),
    ],
)  # fmt: skip
def test_a_damaged_image_or_list_is_named(folder, write, name, content, message):
    write(folder, {**tiny_files(), name: content})
    assert message in refused("tiny-imagenet", folder)


def test_a_tree_without_training_images_is_refused(folder):
    write_tree(folder)
    shutil.rmtree(folder / "tiny-imagenet-200" / "train")
    assert "there are no images in train/*/images" in refused("tiny-imagenet", folder)


def test_a_name_that_leads_nowhere_is_reported(folder):
    write_tree(folder)
    image = folder / "tiny-imagenet-200" / "train" / "n01" / "images" / "n01_3.JPEG"
    image.unlink()
    image.symlink_to(folder / "gone")
    assert refused("tiny-imagenet", folder).startswith(f"image file {image} is damaged or of another format ([Errno 2]")


@pytest.mark.parametrize("change", [lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: b"PK no"])
def test_a_damaged_zip_is_named(folder, change):
    write_zip(folder)
    path = folder / "tiny-imagenet-200.zip"
    path.write_bytes(change(path.read_bytes()))
    assert refused("tiny-imagenet", folder).startswith(f"image file {path} is damaged or of another format (")


def test_a_foreign_zip_is_named(folder):
    with zipfile.ZipFile(folder / "tiny-imagenet-200.zip", "w") as archive:
        archive.writestr("photos/me.jpg", b"x")
    assert "tiny-imagenet-200.zip/val/val_annotations.txt is damaged or of another" in refused("tiny-imagenet", folder)


def test_without_pillow_the_message_says_what_to_install(folder, monkeypatch):
    write_tree(folder)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert refused("tiny-imagenet", folder).endswith(
        "needs Pillow, which is not installed; pip install 'sojourn[train]'"
    )


# where files are looked for


def test_the_environment_names_a_folder(folder, monkeypatch):
    write_binary_tar(folder)
    monkeypatch.setenv("SOJOURN_DATA", str(folder))
    assert_cifar(load_dataset("cifar10"))


def test_a_home_folder_is_understood(folder, monkeypatch):
    write_binary_tar(folder)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert_cifar(load("cifar10", "~/data"))


def test_files_that_the_user_put_into_the_cache_are_found(own_cache):
    own_cache.mkdir(parents=True)
    write_python_tar(own_cache)
    assert_cifar(load_dataset("cifar10"))


def test_a_validation_set_of_images(folder):
    write_binary_tar(folder)
    data = load("cifar10", folder, validation=0.2)
    assert (len(data.train_x), len(data.test_x)) == (40, 10)
    assert data.name == "cifar10 (50 of 50000 examples) (validation)"
    assert data.train_x.dtype == np.uint8
    assert data.mean == cifar10.MEAN


@pytest.mark.parametrize("name", list(KINDS))
def test_a_folder_without_the_files_is_named_with_what_to_put_there(folder, name):
    wanted = KINDS[name].wanted
    assert refused(name, folder) == (
        f"dataset {name} is not in {folder}; put {wanted} there, or leave folder out to download it"
    )


def test_a_folder_that_does_not_exist_is_named(folder, monkeypatch):
    gone = folder / "gone"
    assert refused("cifar10", gone) == f"dataset cifar10: folder must be a folder that exists, got {gone}"
    monkeypatch.setenv("SOJOURN_DATA", str(gone))
    assert refused("cifar10") == f"SOJOURN_DATA must name a folder that exists, got {gone}"


@pytest.mark.parametrize("name", list(KINDS))
def test_without_files_and_network_the_message_says_what_was_searched(own_cache, folder, monkeypatch, name):
    pytest.importorskip("pooch")
    monkeypatch.setenv("SOJOURN_DATA", str(folder))
    said = refused(name)
    assert said.startswith(
        f"dataset {name} is not in {folder} or {own_cache} and cannot be downloaded (127.0.0.1 cannot be reached: "
    )
    assert said.endswith(f"put {KINDS[name].wanted} into a folder and name it by folder=... or SOJOURN_DATA")


def test_without_pooch_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert "cannot be downloaded (the package pooch is not installed, pip install 'sojourn[train]')" in refused(
        "cifar10"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cifar", "did you mean cifar10?"),
        ("cifar10(per_class=3)", "dataset cifar10: options are folder, validation, got 'per_class=3'"),
        ("tiny-imagenet(per_class=many)", "dataset tiny-imagenet: per_class must be a whole number, got 'many'"),
        ("fashion-mnist(validation=much)", "dataset fashion-mnist: validation must be a number, got 'much'"),
    ],
)
def test_a_text_that_names_no_images_is_refused(text, message):
    with pytest.raises(InvalidInput) as caught:
        load_dataset(text)
    assert message in str(caught.value)


# downloads


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder whose files are what the world publishes; `asked` are the names that were fetched from it."""
    pytest.importorskip("pooch")
    folder = tmp_path / "served"
    folder.mkdir()
    asked = []

    class Handler(Silent):
        def do_GET(self):
            asked.append(Path(self.path).name)
            super().do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def publish(name):
        kind = KINDS[name]
        home = f"http://127.0.0.1:{server.server_port}/"
        remote = tuple(
            replace(one, md5=hashlib.md5((folder / one.file).read_bytes()).hexdigest(), homes=(NOWHERE, home))
            for one in kind.remote
        )
        monkeypatch.setitem(KINDS, name, replace(kind, remote=remote))

    yield folder, publish, asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_is_found_nowhere_is_downloaded_once(served, own_cache):
    folder, publish, asked = served
    write_binary_tar(folder)
    publish("cifar10")
    told = []
    assert_cifar(load_dataset("cifar10", lambda *what: told.append(what)))
    assert ("downloading cifar-10-binary.tar.gz", *[(folder / "cifar-10-binary.tar.gz").stat().st_size] * 2) in told
    assert (own_cache / "cifar10" / "cifar-10-binary.tar.gz").is_file()
    assert_cifar(load_dataset("cifar10"))
    assert asked == ["cifar-10-binary.tar.gz"]


@pytest.mark.parametrize("name", ["fashion-mnist", "tiny-imagenet"])
def test_the_other_datasets_are_downloaded_too(served, name):
    folder, publish, asked = served
    (write_fashion if name == "fashion-mnist" else write_zip)(folder)
    publish(name)
    assert load_dataset(name).train_x.dtype == np.uint8
    assert asked == [one.file for one in KINDS[name].remote]


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[: len(whole) // 3], lambda whole: whole[:-9] + b"9" + whole[-8:]]
)
def test_a_damaged_file_in_the_cache_is_reported_and_fetched_again(served, own_cache, damage):
    folder, publish, asked = served
    whole = write_binary_tar(folder).read_bytes()
    publish("cifar10")
    mine = own_cache / "cifar10" / "cifar-10-binary.tar.gz"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(damage(whole))
    told = []
    assert_cifar(load_dataset("cifar10", lambda *what: told.append(what)))
    assert told[0] == (f"file {mine} is damaged or incomplete; it is downloaded again", 0, 0)
    assert mine.read_bytes() == whole
    assert asked == ["cifar-10-binary.tar.gz"]


def test_only_the_files_that_are_missing_or_damaged_are_fetched(served, own_cache):
    folder, publish, asked = served
    write_fashion(folder)
    publish("fashion-mnist")
    mine = own_cache / "fashion-mnist"
    shutil.copytree(folder, mine)
    (mine / TEST_LABELS).unlink()
    (mine / TRAIN_LABELS).write_bytes(b"half")
    assert len(load_dataset("fashion-mnist").train_x) == 20
    assert sorted(asked) == [TEST_LABELS, TRAIN_LABELS]


def test_a_damaged_file_in_a_users_folder_is_left_alone(served, tmp_path, monkeypatch):
    folder, publish, asked = served
    write_binary_tar(folder)
    publish("cifar10")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "cifar-10-binary.tar.gz").write_bytes(b"half")
    monkeypatch.setenv("SOJOURN_DATA", str(mine))
    assert refused("cifar10").startswith(f"image file {mine / 'cifar-10-binary.tar.gz'} is damaged")
    assert (mine / "cifar-10-binary.tar.gz").read_bytes() == b"half"
    assert asked == []


def test_a_download_with_another_checksum_is_refused_and_not_kept(served, own_cache):
    folder, publish, _ = served
    path = write_binary_tar(folder)
    publish("cifar10")
    path.write_bytes(path.read_bytes() + b"more")
    said = refused("cifar10")
    assert "127.0.0.1 cannot be reached: " in said
    assert "; the file from 127.0.0.1 does not have the published checksum)" in said
    assert list((own_cache / "cifar10").iterdir()) == []


def test_an_answer_that_is_no_file_is_reported(served):
    folder, publish, _ = served
    path = write_binary_tar(folder)
    publish("cifar10")
    path.unlink()
    assert "127.0.0.1 answers 404)" in refused("cifar10")


def test_the_checksums_are_the_published_ones():
    published = {one.file: one.md5 for kind in KINDS.values() for one in kind.remote}
    assert published == {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
        "tiny-imagenet-200.zip": "90528d7ca1a48142e341f4ef8d21d0de",
    }


# what is kept


@pytest.fixture
def counted(monkeypatch):
    """How often batches were parsed."""
    calls = []
    parse = cifar10._binary
    monkeypatch.setattr(cifar10, "_binary", lambda content: calls.append(1) or parse(content))
    return calls


def test_images_are_decoded_once_and_then_mapped(folder, counted):
    write_binary_tar(folder)
    first = load("cifar10", folder)
    assert len(counted) == 6
    second = load("cifar10", folder)
    assert len(counted) == 6
    assert first.hash == second.hash
    assert_cifar(second)
    base = second.train_x
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_changed_files_are_decoded_anew(folder, counted):
    path = write_binary_tar(folder)
    load("cifar10", folder)
    os.utime(path, (1, 1))
    load("cifar10", folder)
    assert len(counted) == 12


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
)
@pytest.mark.parametrize("name", ["train_x.npy", "test_y.npy"])
def test_damaged_decoded_arrays_are_decoded_again(folder, own_cache, counted, damage, name):
    write_binary_tar(folder)
    load("cifar10", folder)
    (kept,) = (own_cache / "decoded").iterdir()
    damage(kept / name)
    assert_cifar(load("cifar10", folder))
    assert len(counted) == 12
    assert_cifar(load("cifar10", folder))
    assert len(counted) == 12


def test_an_interrupted_decoding_leaves_nothing_behind(folder, own_cache, monkeypatch):
    write_binary_tar(folder)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("sojourn.learning.data.images.decoded.np.save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        load("cifar10", folder)
    assert list((own_cache / "decoded").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_reported_and_done_without(folder, own_cache, counted):
    write_binary_tar(folder)
    own_cache.parent.mkdir(parents=True, exist_ok=True)
    own_cache.write_text("a file where the folder should be")
    told = []
    for _ in range(2):
        assert_cifar(load_dataset(f"cifar10(folder={folder})", lambda *what: told.append(what)))
    assert len(counted) == 12
    assert ("decoded images cannot be cached: Not a directory", 0, 0) in told


def test_who_watches_is_told_how_far_decoding_is(folder):
    write_tree(folder)
    told = []
    load_dataset(f"tiny-imagenet(folder={folder})", lambda *what: told.append(what))
    assert told == [("decoding tiny-imagenet", 40, 40)]


def test_nothing_that_can_be_left_out_is_loaded_with_the_room():
    import subprocess

    heavy = "pooch", "PIL", "requests", "torch", "rich", "typer", "matplotlib"
    code = f"import sys, sojourn.learning.data.load; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# the real thing


def test_the_real_cifar10_has_its_known_statistics():
    if not REAL:
        pytest.skip("SOJOURN_DATA names no folder with the real CIFAR-10")
    try:
        data = load("cifar10", REAL)
    except UnreadableFile as error:
        pytest.skip(str(error))
    assert data.name == "cifar10"
    assert np.bincount(data.train_y).tolist() == [5000] * 10
    assert np.bincount(data.test_y).tolist() == [1000] * 10
    mean = [data.train_x[:, channel].mean() / 255 for channel in range(3)]
    std = [data.train_x[:, channel].std() / 255 for channel in range(3)]
    assert mean == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
    assert std == pytest.approx([0.2470, 0.2435, 0.2616], abs=5e-5)


def test_the_real_tiny_imagenet_has_fifty_images_of_each_class_to_judge_by():
    if not REAL:
        pytest.skip("SOJOURN_DATA names no folder with the real TinyImageNet")
    try:
        data = load("tiny-imagenet", REAL, per_class=2)
    except UnreadableFile as error:
        pytest.skip(str(error))
    assert np.bincount(data.train_y).tolist() == [2] * 200
    assert np.bincount(data.test_y).tolist() == [50] * 200
    for channel, (mean, std) in enumerate(zip(data.mean, data.std, strict=True)):
        assert data.test_x[:, channel].mean() / 255 == pytest.approx(mean, abs=0.02)
        assert data.test_x[:, channel].std() / 255 == pytest.approx(std, abs=0.02)
