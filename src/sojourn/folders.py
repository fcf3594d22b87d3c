"""Folders of results: made where they are missing, taken by one process, filled and put in place as a whole."""

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
    """Refuse, before any work is done, a place where a folder could not be made or written to."""
    place = Path(folder).absolute()
    near = next(one for one in (place, *place.parents) if one.exists())
    if not near.is_dir():
        which = "it" if near == place else near
        raise UnwritableFile(f"cannot write to {folder}: {which} is a file; name a folder")
    with writing(folder, "to"):
        os.rmdir(mkdtemp(prefix=".sojourn-", dir=near))


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """Make a folder; where the block fails, the folders that were made go away again, unless something is in them."""
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
    """Have a folder for this process alone, made where there is none; a block that fails leaves nothing new behind."""
    with made(folder), alone(folder):
        yield


@contextmanager
def filled(place: Path) -> Iterator[Path]:
    """A folder to fill in place of `place`, which it becomes at the end of the block; after an error it is removed.

    What was there is replaced. What a killed process left behind is cleared away by the next.
    """
    lock, work, old = (place.with_name(f".{place.name}.{word}") for word in ("lock", "partial", "old"))
    busy = f"{place} is being made by another process; wait for it to end"
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
    """Where a process was killed between the two renames, what was there before has its place again."""
    if old.exists() and not place.exists():
        old.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def _put(work: Path, place: Path, old: Path) -> None:
    """Let the finished folder take its place; where that fails in the middle, the old one has its place again."""
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
