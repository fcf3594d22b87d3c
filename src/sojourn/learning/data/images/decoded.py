"""Decoded images, kept in the user's cache so that they are decoded once and mapped into memory from then on."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from sojourn.learning.data.images.source import Images, Source, Watch


def cache_folder() -> Path:
    """The user's cache: $XDG_CACHE_HOME/sojourn or ~/.cache/sojourn."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sojourn"


def kept(name: str, source: Source) -> Images | None:
    """Return the arrays of exactly these files if they were decoded before; damaged ones are removed."""
    place = _place(name, source)
    if not place.is_dir():
        return None
    try:
        found = Images(*(np.asarray(np.load(place / f"{key}.npy", mmap_mode="r")) for key in Images._fields))
        if found.train_x.dtype == np.uint8 and len(found.train_x) == len(found.train_y):
            return found
    except (OSError, ValueError, EOFError):
        pass
    shutil.rmtree(place, ignore_errors=True)
    return None


def decoded(name: str, source: Source, watch: Watch) -> Images:
    """Return the arrays of a source, from the cache or by decoding; if the cache cannot be written,
    they are not kept.
    """
    found = kept(name, source)
    if found is not None:
        return found
    images = Images(*(np.ascontiguousarray(array) for array in source.read(watch)))
    try:
        _keep(_place(name, source), images)
    except OSError as error:
        watch(f"decoded images cannot be cached: {error.strerror or error}", 0, 0)
    return images


def _place(name: str, source: Source) -> Path:
    return cache_folder() / "decoded" / f"{name}-{source.fingerprint}"


def _keep(place: Path, images: Images) -> None:
    """Write everything, then rename the folder, so that no process sees half of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=place.parent, prefix=f"{place.name}.partial-"))
    try:
        for key, array in images._asdict().items():
            np.save(partial / f"{key}.npy", array)
        if not place.exists():  # another process may have been faster
            os.replace(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
