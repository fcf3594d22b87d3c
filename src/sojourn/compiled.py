"""The one door to numba: hot loops are plain functions under `@compiled`, cached on disk, free of the GIL.

numba's own cache watches the file of the compiled function only, not the files of the functions inlined into it. Ours
lives in a folder named after the source of all files with compiled code, so a changed package never runs old code.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core.options import DefaultOptions
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered (so that they run in vector registers), but NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}
_UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}  # see `bare`


def _cache_folder() -> str:
    package = Path(__file__).parent
    sources = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"sojourn.compiled" in text:  # only files with compiled code
            sources.update(text)
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


def cold(name: str) -> bool:
    """Whether the compiled function of this name has still to be compiled (some seconds, once)."""
    return not any(Path(_FOLDER).rglob(f"*{name}*.nbi"))


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


def bare(function: Function) -> Function:
    """Compile `function` without reference counts: it may not make arrays, and calls of it cost next to nothing.

    Counting references to every array in the tuples that are passed makes a call of a compiled function cost too
    much, which a simulator that calls ten of them a step cannot pay: an event of 100 clients takes 71 ns so, and 345
    ns with references counted. numba has no public option for it. A numba without this one counts, and is right too.
    """
    return _compile(function, **_UNCOUNTED)


def hot(function: Function) -> Function:
    """The same, merged into its compiled callers: for the few functions that every step goes through."""
    return _compile(function, **_UNCOUNTED, forceinline=True)


@intrinsic  # type: ignore[untyped-decorator]
def lesser(_: Any, high: Any, low: Any, other_high: Any, other_low: Any) -> Any:
    """The lesser of two pairs of non-negative integers, in the order of tuples, without a branch.

    Written as two comparisons, the compiler makes a branch of it, which is dear where the outcome is random; as one
    comparison of 128-bit numbers it does not.
    """
    wide, half = ir.IntType(128), ir.IntType(64)

    def generate(context: Any, build: Any, signature: Any, words: Any) -> Any:
        shift = ir.Constant(wide, 64)
        pairs = [
            build.or_(build.shl(build.zext(first, wide), shift), build.zext(second, wide))
            for first, second in (words[:2], words[2:])
        ]
        found = build.select(build.icmp_unsigned("<", *pairs), *pairs)
        parts = [build.trunc(build.lshr(found, shift), half), build.trunc(found, half)]
        return context.make_tuple(build, signature.return_type, parts)

    integer = numba.types.int64
    return numba.types.UniTuple(integer, 2)(integer, integer, integer, integer), generate
