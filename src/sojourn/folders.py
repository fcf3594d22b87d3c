"""Folders of results: created when missing, used by one process at a time, filled and put in place as a whole."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from sojourn.errors import UnwritableFile
from sojourn.files import alone, claimed, writing
from sojourn.interrupts import noted


def check_folder(folder: str | Path) -> None:
    """Refuse, before any work is done, a path where no folder could be created or written to."""
    place = Path(folder).absolute()
    near = next(one for one in (place, *place.parents) if one.exists())
    if not near.is_dir():
        which = "it" if near == place else near
        raise UnwritableFile(f"cannot write to {folder}: {which} is a file; name a folder")
    with writing(folder, "to"):
        os.rmdir(mkdtemp(prefix=".sojourn-", dir=near))


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """Create a folder; if the block fails, remove the folders that were created, unless something is in them."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    with writing(folder, "to"):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for one in missing:
                one.rmdir()
        raise


@contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Use a folder from this process alone, and create it if missing; a block that fails leaves nothing new behind."""
    with made(folder), alone(folder):
        yield


@contextmanager
def filled(place: Path) -> Iterator[Path]:
    """Give a folder to fill, which is renamed to `place` at the end of the block; after an error it is removed.

    A previous folder at `place` is replaced. What a killed process left behind is removed by the next one.
    """
    lock, work, old = (place.with_name(f".{place.name}.{word}") for word in ("lock", "partial", "old"))
    busy = f"{place} is being written by another process; wait for it to end"
    with made(place.parent), ExitStack() as held:
        with writing(lock, "the lock"):
            held.enter_context(claimed(lock, busy))
        try:
            _recover(old, place)
            shutil.rmtree(work, ignore_errors=True)
            with writing(work, "to"):
                work.mkdir()
            yield work
            with writing(place, "to"):
                _put(work, place, old)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            if place.exists():
                shutil.rmtree(old, ignore_errors=True)


def _recover(old: Path, place: Path) -> None:
    """Put the previous folder back if a process was killed between the two renames."""
    if old.exists() and not place.exists():
        old.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def _put(work: Path, place: Path, old: Path) -> None:
    """Move the finished folder to its place; if that fails half-way, put the old folder back."""
    with noted(twice=False) as stop:  # Ctrl-C waits for both renames
        try:
            if place.exists():
                place.rename(old)
            work.rename(place)
        except BaseException:
            if old.exists() and not place.exists():
                old.rename(place)
            raise
    if stop.is_set():
        raise KeyboardInterrupt


def in_use(lock: Path) -> bool:
    """Whether a process holds a lock, by the system's list of locks, so that the lock is not touched; False where there
    is no such list.
    """
    try:
        inode = os.stat(lock).st_ino
        lines = Path("/proc/locks").read_text("utf-8").splitlines()
    except OSError:
        return False
    return any(words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode) for words in map(str.split, lines))
