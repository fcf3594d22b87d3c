"""Download official files into the user's cache, and check them by their published checksums."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sojourn.errors import SojournError
from sojourn.learning.data.images.source import Watch


@dataclass(frozen=True)
class Remote:
    """A published file."""

    file: str
    """Its name."""
    md5: str
    """Its published checksum."""
    homes: tuple[str, ...]
    """Addresses to try, without the name of the file."""


class Unreachable(SojournError):
    """A file could not be downloaded; the text says why, in a few words."""


def fetch(remote: Sequence[Remote], place: Path, watch: Watch) -> None:
    """Make sure that all files are intact in this folder: download missing and damaged ones."""
    for one in remote:
        path = place / one.file
        if path.is_file():
            if _md5(path) == one.md5:
                continue
            watch(f"file {path} is damaged or incomplete; it is downloaded again", 0, 0)
        _download(one, place, watch)


def _download(one: Remote, place: Path, watch: Watch) -> None:
    try:
        import pooch
    except ImportError:
        raise Unreachable("the package pooch is not installed, pip install 'sojourn[train]'") from None
    reasons = []
    log = pooch.get_logger()
    before = log.level
    log.setLevel(logging.ERROR)  # this module prints what matters
    try:
        for home in one.homes:
            try:
                getter = pooch.HTTPDownloader(progressbar=_Bar(one.file, watch), timeout=30)
                pooch.retrieve(home + one.file, f"md5:{one.md5}", fname=one.file, path=place, downloader=getter)
                return
            except Exception as error:  # errors of the network, the disk or the checksum
                reasons.append(_reason(error, home))
    finally:
        log.setLevel(before)
    raise Unreachable("; ".join(reasons))


def _reason(error: Exception, home: str) -> str:
    host = urlsplit(home).hostname
    if isinstance(error, ValueError) and "hash" in str(error):
        return f"the file from {host} does not have the published checksum"
    response = getattr(error, "response", None)
    if response is not None:
        return f"{host} answers {response.status_code}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{host} cannot be reached: {type(error).__name__}"


class _Bar:
    """Acts as a progress bar for the downloader."""

    def __init__(self, file: str, watch: Watch) -> None:
        self.total, self._done, self._file, self._watch = 0, 0, file, watch

    def update(self, more: int) -> None:
        self._done += more
        if self.total:
            self._watch(f"downloading {self._file}", min(self._done, self.total), self.total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Do nothing."""


def _md5(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
