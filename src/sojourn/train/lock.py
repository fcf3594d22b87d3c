"""One process at a time in the folder of a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sojourn.errors import InvalidInput


class Busy(InvalidInput):
    """Another process is there."""


def busy(folder: str | Path) -> bool:
    """Whether another process is training in a folder."""
    if not (Path(folder) / "lock").exists():
        return False
    try:
        with alone(Path(folder)):
            return False
    except Busy:
        return True


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes from training in the same folder."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(f"another process is training in {folder}; wait for it, or name another folder") from None
        yield
