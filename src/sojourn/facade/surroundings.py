"""What a call works in: a folder, and one thread of PyTorch."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp


@contextmanager
def place_for(folder: str | Path | None) -> Iterator[tuple[Path, bool]]:
    """Give a folder to work in, and whether it is temporary; a temporary folder is also removed after an error."""
    place = Path(mkdtemp(prefix="sojourn-") if folder is None else folder)
    try:
        yield place, folder is None
    except BaseException:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        raise


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread, so that sums have the same order on any number of cores; then as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
