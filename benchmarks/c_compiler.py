"""Compile a C file of this folder for this machine."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FLAGS = ("-O3", "-march=native")


class CSide:
    """A C library that advances one run and counts updates and staleness by group."""

    def __init__(self, name: str, run: ctypes.Structure, groups: NDArray[np.void], begin: str | None = None) -> None:
        made = library(name)
        self._advance, self._run, self._groups = made.advance, run, groups
        self._advance.argtypes = [ctypes.POINTER(type(run)), ctypes.c_int64]
        self._advance.restype = None
        if begin is not None:
            getattr(made, begin).restype = None
            getattr(made, begin)(ctypes.byref(run))

    def warm_up(self, steps: int) -> None:
        """Continue without counting."""
        self.advance(steps)
        self._groups["arrivals"] = self._groups["staleness"] = 0

    def advance(self, steps: int) -> int:
        """Continue for `steps` steps; return the steps done."""
        self._advance(ctypes.byref(self._run), steps)
        return steps

    def tally(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Updates and sum of their staleness by group, since the warm-up."""
        return self._groups["arrivals"].astype(np.float64), self._groups["staleness"].astype(np.float64)


def compiler() -> str | None:
    """Return the C compiler's version line; None if there is no compiler."""
    if shutil.which("gcc") is None:
        return None
    return subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def library(name: str) -> ctypes.CDLL:
    """Return the library compiled from `name`.c."""
    source = Path(__file__).with_name(f"{name}.c")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.so"
        subprocess.run(["gcc", *FLAGS, "-shared", "-fPIC", "-o", str(path), str(source), "-lm"], check=True)
        return ctypes.CDLL(str(path))
