"""examples/unpack_images.py: packs of images become the standard files that sojourn reads, pixel by pixel."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sojourn.learning.data.load import load_dataset

HOME = Path(__file__).parents[2]
SCRIPT = HOME / "examples" / "unpack_images.py"
PACKS = Path(os.environ.get("SOJOURN_PACKS") or HOME.parent / "shared" / "data")
LEDGERS = HOME / "papers" / "queuing_dynamics" / "src" / "queuing_dynamics" / "results"
X = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
Y = np.arange(60, dtype=np.uint8) * 7 % 10
KINDS = ["n01", "n02", "n10"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def packs(tmp_path):
    folder = tmp_path / "packs"
    folder.mkdir()
    return folder


def unpack(packs, out, *words, code=0):
    done = subprocess.run([sys.executable, SCRIPT, packs, out, *words], capture_output=True, text=True, timeout=240)
    assert done.returncode == code, done.stderr
    return done.stdout.splitlines() if code == 0 else done.stderr


def encoded(pixels, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, **options)
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


def write_sheets(folder):
    """Twelve files of five images: three below each other in the first sheet, two in the second."""
    names = [*(f"train_{n:02d}" for n in range(10)), *(f"test_{n:02d}" for n in range(2))]
    for number, name in enumerate(names):
        x, y = X[5 * number :][:5], Y[5 * number :][:5]
        pair = {"s0": encoded(np.vstack(x[:3]), format="PNG"), "s1": encoded(np.vstack(x[3:]), format="PNG")}
        np.savez(folder / f"cifar10_full_{name}.npz", y=y, **pair)


def test_lossless_sheets_of_cifar10_become_its_binary_batches(packs, tmp_path):
    write_sheets(packs)
    assert unpack(packs, tmp_path / "out") == [str(tmp_path / "out" / "cifar10" / "cifar-10-batches-bin")]
    data = load_dataset(f"cifar10(folder={tmp_path / 'out'})")
    assert np.array_equal(np.concatenate([data.train_x, data.test_x]), X.transpose(0, 3, 1, 2))
    assert np.array_equal(np.concatenate([data.train_y, data.test_y]), Y)
    assert len(data.test_y) == 10


def test_the_lossy_sheets_are_unpacked_when_asked_for_and_never_in_the_place_of_others(packs, tmp_path):
    levels = np.repeat(np.arange(60, dtype=np.uint8) * 4, 32 * 32 * 3).reshape(5, 3, 4, 32, 32, 3)
    rows = levels.transpose(0, 1, 3, 2, 4, 5).reshape(5, 3 * 32, 4 * 32, 3)  # three rows of four images
    sheets = {f"s{n}": encoded(sheet, format="JPEG", quality=95) for n, sheet in enumerate(rows)}
    np.savez(packs / "cifar10_travel.npz", y=Y, **sheets)
    assert "there are no packs in" in unpack(packs, tmp_path / "out", code=1)
    assert unpack(packs, tmp_path / "out", "--lossy") == [
        str(tmp_path / "out" / "cifar10-lossy" / "cifar-10-batches-bin")
    ]
    data = load_dataset(f"cifar10(folder={tmp_path / 'out' / 'cifar10-lossy'})")
    found = np.concatenate([data.train_x, data.test_x]).astype(int)
    assert np.abs(found - 4 * np.arange(60)[:, None, None, None]).max() <= 3
    assert not (tmp_path / "out" / "cifar10").exists()


def grey(level):
    return encoded(np.full((64, 64, 3), level, dtype=np.uint8), format="JPEG", quality=90).tobytes()


def write_pack(folder):
    """Images in turns of classes, and the validation set behind them in reverse."""
    rows = [(grey(20 * n + 80 * kind), kind, n, False) for n in range(4) for kind in range(3)]
    rows += [(grey(level), kind, n, True) for n, (level, kind) in reversed(list(enumerate([(250, 2), (5, 0)])))]
    heads = [rows[0][0][:100], rows[0][0][:200]]
    assert all(row[0].startswith(heads[1]) and row[0].endswith(b"\xff\xd9") for row in rows)
    bodies = [row[0][len(heads[row[3]]) : -2] for row in rows]
    np.savez(
        folder / "tiny_a_travel.npz",
        data=np.frombuffer(b"".join(bodies), dtype=np.uint8),
        len=np.array([len(body) for body in bodies], dtype=np.uint16),
        hid=np.array([row[3] for row in rows], dtype=np.uint8),
        h0=np.frombuffer(heads[0], dtype=np.uint8),
        h1=np.frombuffer(heads[1], dtype=np.uint8),
        y=np.array([row[1] for row in rows], dtype=np.uint8),
        num=np.array([row[2] for row in rows], dtype=np.uint16),
        val=np.array([row[3] for row in rows]),
        wnids=np.array(KINDS),
        names=np.array(KINDS),
    )


def test_the_pack_of_tiny_imagenet_becomes_its_official_archive(packs, tmp_path):
    write_pack(packs)
    assert unpack(packs, tmp_path / "out") == [str(tmp_path / "out" / "tiny-imagenet" / "tiny-imagenet-200.zip")]
    data = load_dataset(f"tiny-imagenet(folder={tmp_path / 'out'})")
    assert data.train_y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    levels = [20 * n + 80 * kind for kind in range(3) for n in range(4)]
    assert np.abs(data.train_x[:, 0, 5, 5].astype(int) - levels).max() <= 1
    assert data.test_y.tolist() == [2, 0]
    assert np.abs(data.test_x[:, 2, 60, 3].astype(int) - [250, 5]).max() <= 1


def test_what_is_there_is_not_made_again_and_nothing_half_made_is_left(packs, tmp_path):
    write_pack(packs)
    (made,) = unpack(packs, tmp_path / "out")
    Path(made).write_bytes(b"mine")
    assert unpack(packs, tmp_path / "out") == [made]
    assert Path(made).read_bytes() == b"mine"
    assert [path.name for path in Path(made).parent.iterdir()] == ["tiny-imagenet-200.zip"]


@pytest.mark.slow
def test_the_real_packs_are_the_data_of_the_papers_runs(tmp_path):
    """Their hashes stand in the ledgers of the paper's table, and CIFAR-10 has its known statistics."""
    if not (PACKS / "tiny_a_travel.npz").is_file():
        pytest.skip(f"there are no packs of real images in {PACKS}; name their folder by SOJOURN_PACKS")
    unpack(PACKS, tmp_path / "out")
    data = load_dataset(f"cifar10(folder={tmp_path / 'out'})")
    assert data.hash == ledger_hash("cifar10")
    assert (np.bincount(data.train_y).tolist(), np.bincount(data.test_y).tolist()) == ([5000] * 10, [1000] * 10)
    for axis, (mean, std) in enumerate(zip((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), strict=True)):
        assert data.train_x[:, axis].mean() / 255 == pytest.approx(mean, abs=5e-5)
        assert data.train_x[:, axis].std() / 255 == pytest.approx(std, abs=5e-5)
    tiny = load_dataset(f"tiny-imagenet(folder={tmp_path / 'out'}, per_class=100)")
    assert tiny.hash == ledger_hash("tinyimagenet")
    assert np.bincount(tiny.test_y).tolist() == [50] * 200


def ledger_hash(name):
    """Of the data that all runs of a table had."""
    import csv

    with (LEDGERS / name / "table" / "runs.csv").open(newline="", encoding="utf-8") as file:
        (found,) = {row["dataset_hash"] for row in csv.DictReader(file)}
    return found
