"""What a call works in: a folder, and one thread of PyTorch."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock, local


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


class _OneThread(local):
    """How deep this thread is in calls that compute on one thread. PyTorch's number of threads is set per thread, and
    a new thread begins with the number that was set last by any.
    """

    depth = 0
    lock = Lock()
    inside = 0  # threads that are in such a call now
    before = 1  # the number of threads before the first of them was

    def enter(self) -> None:
        import torch

        self.depth += 1
        if self.depth > 1:
            return
        with _OneThread.lock:
            many = torch.get_num_threads()  # a thread that never asked would later take the number that others set
            if _OneThread.inside == 0:
                _OneThread.before = many
            _OneThread.inside += 1
            torch.set_num_threads(1)

    def leave(self) -> None:
        import torch

        self.depth -= 1
        if self.depth > 0:
            return
        with _OneThread.lock:
            _OneThread.inside -= 1
            torch.set_num_threads(_OneThread.before)


_ONE_THREAD = _OneThread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread, so that sums have the same order on any number of cores; then as many as before.

    Calls may overlap, such as `serve` in a thread beside `train`, or be made within each other.
    """
    _ONE_THREAD.enter()
    try:
        yield
    finally:
        _ONE_THREAD.leave()
