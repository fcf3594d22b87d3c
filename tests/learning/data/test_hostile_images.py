"""Image files that a stranger has made to take all memory or all time: each is refused in one sentence."""

import gzip
import io
import os
import pickle
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from sojourn.errors import SojournError
from sojourn.learning.data.images import cifar10, source, tiny_imagenet
from sojourn.learning.data.images.plain_pickle import MOST, load_plain
from sojourn.learning.data.load import load_dataset

ZEROS = 2**26 + 1  # bytes that compress to a thousandth


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SOJOURN_DATA", raising=False)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    return place


def refused(name, folder):
    with pytest.raises(SojournError) as caught:
        load_dataset(f"{name}(folder={folder})")
    assert "\n" not in str(caught.value)
    return str(caught.value)


# pickles


def unread(content, message):
    with pytest.raises(pickle.UnpicklingError, match=message):
        load_plain(content)


def test_a_key_of_tuples_of_tuples_is_refused_before_its_hash_is_looked_for():
    many = b"".join(b"q%c" % number + b"h%c\x86" % number for number in range(100))  # each holds the one before twice
    bomb = b"\x80\x02})" + many + b"K\x01s."
    assert len(bomb) < 600
    unread(bomb, "the pickle has a tuple as a key, only texts are read")


@pytest.mark.parametrize("put", [b"r", b"p"])
def test_a_far_place_in_the_memory_costs_nothing(put):
    place = struct.pack("<I", 2**31 - 1) if put == b"r" else b"2147483647\n"
    assert load_plain(b"\x80\x02K\x05" + put + place + b".") == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02" + b"]" * (MOST + 1) + b".", "has more than 1,000,000 instructions"),
        (b"\x80\x02c_codecs\nencode\nq\x00X\x10\x00\x00\x00" + b"a" * 16 + b"X\x06\x00\x00\x00latin1\x86q\x01"
         + b"Rh\x00h\x01" * 20 + b"R.", "the pickle encodes more text than it holds"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".", "truncated or is damaged"),
        (b"\x80\x04B" + struct.pack("<I", 2**32 - 1) + b".", "truncated or is damaged"),
        (b"\x80\x022.", "the instruction DUP, which no file of bytes needs"),
        (b"\x80\x04\x8f.", "the instruction EMPTY_SET, which"),
        (b"\x80\x02Q.", "the instruction BINPERSID, which"),
        (b"\x80\x02)\x81.", "the instruction NEWOBJ, which"),
        (b"\x80\x02K\x01)R.", "something is called that is not a function"),
        (b"\x80\x02cnumpy\ndtype\n)q\x00" + b"h\x00\x86q\x00" * 60 + b"\x85R.", "an array of a tuple, only bytes"),
        (b"\x80\x02cnumpy\nndarray\n)RK\x01b.", "truncated or is damaged"),
        (b"\x80\x02K\x01K\x02a.", "something is put into a value of type int"),
        (b"\x80\x02u.", "truncated or is damaged"),
        (b"\x80\x02K\x01s.", "the stack holds fewer"),
        (b"\x80\x02h\x05.", "truncated or is damaged"),
        (b"\x80\x02.", "truncated or is damaged"),
        (b"L" + b"9" * 5000 + b"L\n.", "truncated or is damaged"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_pickle_that_is_not_one_of_a_batch_is_refused(content, message):
    unread(content, message)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_are_what_python_reads(protocol):
    value = {"a": [1, 2.5, None, True], 7: (1, (2,), (), (1, 2, 3, 4)), "long": 10**30, "text": "é" * 300, "": [[]]}
    content = pickle.dumps(value, protocol)
    assert load_plain(content) == pickle.loads(content) == value


@pytest.mark.parametrize("protocol", range(5))
def test_arrays_of_bytes_are_what_python_reads(protocol):
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    found = load_plain(pickle.dumps({"c": array, "f": np.asfortranarray(array)}, protocol))
    assert np.array_equal(found["c"], array)
    assert np.array_equal(found["f"], array)


# archives


def write_tar(path, **members):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"cifar-10/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_a_batch_in_an_archive_that_is_far_too_long_is_not_unpacked(folder):
    write_tar(folder / "cifar-10-python.tar.gz", data_batch_1=bytes(ZEROS))
    assert (folder / "cifar-10-python.tar.gz").stat().st_size < 400_000
    assert "data_batch_1 has 67,108,865 bytes, a batch has at most 67,108,864" in refused("cifar10", folder)


def test_an_archive_is_unpacked_as_far_as_it_can_need_and_no_further(folder, monkeypatch):
    monkeypatch.setattr(cifar10, "_MOST_ARCHIVE", 2**20)
    write_tar(folder / "cifar-10-binary.tar.gz", readme=bytes(ZEROS))
    assert "it unpacks to more than 1,048,576 bytes, the most that it can need" in refused("cifar10", folder)


def test_what_is_appended_to_an_archive_is_counted_too(folder, monkeypatch):
    monkeypatch.setattr(cifar10, "_MOST_ARCHIVE", 2**20)
    path = folder / "cifar-10-binary.tar.gz"
    write_tar(path, readme=b"")
    path.write_bytes(path.read_bytes() + gzip.compress(bytes(2**21)))
    assert "it unpacks to more than 1,048,576 bytes" in refused("cifar10", folder)


def test_unpacked_batches_have_a_length_too(folder):
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").write_bytes(b"")
    (folder / "test_batch.bin").write_bytes(b"")
    with (folder / "data_batch_1.bin").open("r+b") as file:
        file.truncate(10**12)  # takes no room on the disk
    assert "1,000,000,000,000 bytes, more than the 67,108,864 that it can need" in refused("cifar10", folder)


@pytest.mark.parametrize("ending", [".gz", ""])
def test_idx_files_are_read_as_far_as_they_can_need(folder, ending):
    for part, many in (("train", 60_001), ("t10k", 1)):
        content = struct.pack(">4B3I", 0, 0, 8, 3, many, 28, 28) + bytes(many * 28 * 28)
        labels = struct.pack(">4BI", 0, 0, 8, 1, many) + bytes(many)
        for name, whole in ((f"{part}-images-idx3-ubyte", content), (f"{part}-labels-idx1-ubyte", labels)):
            (folder / f"{name}{ending}").write_bytes(gzip.compress(whole, 1) if ending else whole)
    words = "it unpacks to more than 47,040,016" if ending else "47,040,800 bytes, more than the 47,040,016 that"
    assert words in refused("fashion-mnist", folder)


def write_zip(folder, compression=zipfile.ZIP_DEFLATED, **changes):
    files = {
        "val/val_annotations.txt": b"v.JPEG\tn1\n",
        "val/images/v.JPEG": jpeg(),
        "train/n1/images/n1_0.JPEG": jpeg(),
    }
    with zipfile.ZipFile(folder / "tiny-imagenet-200.zip", "w", compression) as archive:
        for name, content in {**files, **changes}.items():
            archive.writestr(f"tiny-imagenet-200/{name}", content)


def jpeg(side=64, mode="RGB", **options):
    file = io.BytesIO()
    Image.new(mode, (side, side)).save(file, format="JPEG", **options)
    return file.getvalue()


def test_a_small_zip_of_images_is_read(folder):
    write_zip(folder)
    assert load_dataset(f"tiny-imagenet(folder={folder})").train_x.shape == (1, 3, 64, 64)


def test_a_zip_that_states_more_than_any_dataset_is_not_unpacked(folder, monkeypatch):
    monkeypatch.setattr(tiny_imagenet, "_MOST_ARCHIVE", 1000)
    write_zip(folder)
    assert "more than it can need" in refused("tiny-imagenet", folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"readme": bytes(ZEROS)}, "more than it can need"),
        (
            {"val/images/v.JPEG": bytes(2**18 + 1)},
            "v.JPEG is damaged or of another format (262,145 bytes, more than the 262,144",
        ),
        ({"val/val_annotations.txt": bytes(2**22 + 1)}, "(4,194,305 bytes, more than the 4,194,304 that it can need)"),
        ({"val/val_annotations.txt": b"v.JPEG\tn1\n" * 10_001}, "val/val_annotations.txt has more than 10000 lines"),
        ({f"train/n1/images/n1_{n}.JPEG": b"" for n in range(501)}, "there are more than 200 classes of 500 images"),
        ({f"train/n{n}/images/n_1.JPEG": b"" for n in range(201)}, "there are more than 200 classes of 500 images"),
        ({f"train/n1/images/n1_{'9' * 5000}.JPEG": b""}, "tiny-imagenet-200.zip is damaged or of another format ("),
    ],
)
def test_a_zip_of_images_holds_as_much_as_the_dataset_and_no_more(folder, changes, message):
    write_zip(folder, **changes)
    assert message in refused("tiny-imagenet", folder)


def test_a_zip_is_unpacked_by_deflate_only(folder):
    write_zip(folder, compression=zipfile.ZIP_LZMA)
    assert "it is compressed in another way than zip files of images are" in refused("tiny-imagenet", folder)


def test_a_pipe_among_the_images_is_not_waited_for(folder):
    images = folder / "tiny-imagenet-200" / "train" / "n1" / "images"
    images.mkdir(parents=True)
    (folder / "tiny-imagenet-200" / "val" / "images").mkdir(parents=True)
    (folder / "tiny-imagenet-200" / "val" / "val_annotations.txt").write_text("v.JPEG\tn1\n")
    (folder / "tiny-imagenet-200" / "val" / "images" / "v.JPEG").write_bytes(jpeg())
    os.mkfifo(images / "n1_0.JPEG")
    assert "n1_0.JPEG is damaged or of another format (it is not a plain file)" in refused("tiny-imagenet", folder)


# images


def png(width, height):
    """The beginning of a PNG: what it says of its size."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def test_an_image_of_more_pixels_than_there_can_be_is_not_decoded(folder):
    write_zip(folder, **{"val/images/v.JPEG": png(5000, 5000)})
    assert "an image of 5000x5000, it can have at most 4,096 pixels" in refused("tiny-imagenet", folder)


def test_a_jpeg_does_not_go_over_its_image_again_and_again():
    whole = jpeg(progressive=True)
    assert source.decode(whole, 64 * 64).shape == (64, 64, 3)
    scan = whole.index(b"\xff\xda")
    with pytest.raises(ValueError, match="an image in more than 100 scans"):
        source.decode(whole[:scan] + whole[scan:-2] * 101, 64 * 64)


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "BMP", "EPS", "PPM", "WEBP"])
def test_only_the_formats_that_datasets_come_in_are_decoded(kind):
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, format=kind)
    with pytest.raises(OSError, match="cannot identify image file"):
        source.decode(file.getvalue(), 64 * 64)
