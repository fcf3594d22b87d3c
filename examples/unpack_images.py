"""Turn packed copies of CIFAR-10 and TinyImageNet into the standard files that sojourn reads.

    python examples/unpack_images.py PACKS OUT [--lossy]
    SOJOURN_DATA=OUT sojourn train fleet.csv --data cifar10 ...

pack in PACKS                                  file in OUT
cifar10_full_{train_00..09,test_00..01}.npz    cifar10/cifar-10-batches-bin/*.bin, as in the original archive
tiny_a_travel.npz                              tiny-imagenet/tiny-imagenet-200.zip: the original JPEGs, 100 per class
cifar10_travel.npz, with --lossy               cifar10-lossy/cifar-10-batches-bin/*.bin; name that folder by
                                               cifar10(folder=OUT/cifar10-lossy), and never compare it with the others

Files that are already in OUT are kept. Needs NumPy and Pillow; nothing in a pack is executed.
"""

import argparse
import io
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]

BATCHES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
SHEETS = [
    *(f"cifar10_full_train_{n:02d}.npz" for n in range(10)),
    *(f"cifar10_full_test_{n:02d}.npz" for n in range(2)),
]
LOSSY, TINY = "cifar10_travel.npz", "tiny_a_travel.npz"
SIDE = 32
END = b"\xff\xd9"  # of every JPEG


def main() -> None:
    """Unpack all packs of a folder."""
    parser = argparse.ArgumentParser(description="Turn packs of images into the standard files that sojourn reads.")
    parser.add_argument("packs", type=Path, help="folder of the packs")
    parser.add_argument("out", type=Path, help="folder for the standard files")
    parser.add_argument("--lossy", action="store_true", help="also unpack the lossy pack of CIFAR-10")
    given = parser.parse_args()
    made = unpack(given.packs, given.out, given.lossy)
    if not made:
        sys.exit(f"error: there are no packs in {given.packs}; name the folder of {SHEETS[0]} or {TINY}")
    for path in made:
        print(path)


def unpack(packs: Path, out: Path, lossy: bool = False) -> list[Path]:
    """Turn the packs in a folder into standard files, and return their paths."""
    made = []
    if all((packs / name).is_file() for name in SHEETS):
        place = out / "cifar10" / "cifar-10-batches-bin"
        made.append(_once(place, lambda part: write_batches(part, [one for n in SHEETS for one in sheets(packs / n)])))
    if lossy and (packs / LOSSY).is_file():
        place = out / "cifar10-lossy" / "cifar-10-batches-bin"
        made.append(_once(place, lambda part: write_batches(part, list(sheets(packs / LOSSY)))))
    if (packs / TINY).is_file():
        place = out / "tiny-imagenet" / "tiny-imagenet-200.zip"
        made.append(_once(place, lambda part: write_zip(part, packs / TINY)))
    return made


def sheets(path: Path) -> Iterator[tuple[Pixels, Pixels]]:
    """Yield images of shape (many, 3, 32, 32) and labels, sheet by sheet, row by row in each."""
    with np.load(path, allow_pickle=False) as held:
        labels, begin = held["y"], 0
        for number in range(len(held.files) - 1):
            with Image.open(io.BytesIO(held[f"s{number}"].tobytes())) as image:
                sheet = np.asarray(image.convert("RGB"))
            rows, columns = (length // SIDE for length in sheet.shape[:2])
            tiles = sheet.reshape(rows, SIDE, columns, SIDE, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)
            yield tiles, labels[begin : begin + len(tiles)]
            begin += len(tiles)


def write_batches(folder: Path, parts: list[tuple[Pixels, Pixels]]) -> None:
    """Write six files of equally many rows, each a label and pixels; the last file is the test set."""
    pixels, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows = np.concatenate([labels[:, None], pixels.reshape(len(pixels), -1)], axis=1)
    folder.mkdir()
    for name, batch in zip(BATCHES, np.split(rows, len(BATCHES)), strict=True):
        (folder / name).write_bytes(batch.tobytes())


def write_zip(path: Path, pack: Path) -> None:
    """Write the images in the folders of the official archive; the validation set in the order of its numbers."""
    with np.load(pack, allow_pickle=False) as held:
        arrays = {name: held[name] for name in held.files}
    heads, kinds = (arrays["h0"].tobytes(), arrays["h1"].tobytes()), [str(kind) for kind in arrays["wnids"]]
    end = np.cumsum(arrays["len"].astype(np.int64))
    judged: dict[int, str] = {}
    with zipfile.ZipFile(path, "w") as archive:
        for row, (length, label, number) in enumerate(zip(arrays["len"], arrays["y"], arrays["num"], strict=True)):
            body = arrays["data"][end[row] - int(length) : end[row]].tobytes()
            kind, image = kinds[label], heads[arrays["hid"][row]] + body + END
            if arrays["val"][row]:
                judged[int(number)] = kind
                archive.writestr(f"tiny-imagenet-200/val/images/val_{number}.JPEG", image)
            else:
                archive.writestr(f"tiny-imagenet-200/train/{kind}/images/{kind}_{number}.JPEG", image)
        lines = [f"val_{number}.JPEG\t{kind}\n" for number, kind in sorted(judged.items())]
        archive.writestr("tiny-imagenet-200/val/val_annotations.txt", "".join(lines))


def _once(place: Path, write: Callable[[Path], None]) -> Path:
    """Make a file or folder unless it exists; it is written whole or not at all."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f"{place.name}.part-{os.getpid()}")
        write(part)
        part.rename(place)
    return place


if __name__ == "__main__":
    main()
