"""The one door to numba: hot loops are plain functions under `@compiled`, cached on disk, free of the GIL.

numba's own cache watches the file of the compiled function only, not the files of the functions inlined into it. Ours
lives in a folder named after the source of the whole package, so a changed or upgraded package never runs old code.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered (so that they run in vector registers), but NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}


def _cache_folder() -> str:
    package = Path(__file__).parent
    sources = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        sources.update(path.read_bytes())
    folder = package / "__pycache__" / f"kernels-{sources.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # an installation that may not be written to: numba falls back to the user's cache folder
        return str(numba.config.CACHE_DIR)
    for old in folder.parent.glob("kernels-*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return str(folder)


_FOLDER = _cache_folder()


def _compile(function: Function, **options: Any) -> Function:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _FOLDER
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function))
    finally:
        numba.config.CACHE_DIR = before


def compiled(function: Function) -> Function:
    """Compile `function` with strict floating point."""
    return _compile(function)


def compiled_sum(function: Function) -> Function:
    """Compile `function`, letting the compiler reorder sums."""
    return _compile(function, fastmath=REORDER)


def inlined(function: Function) -> Function:
    """Compile `function` as a piece that is copied into each compiled caller."""
    return cast(Function, numba.njit(inline="always", nogil=True, error_model="numpy")(function))
