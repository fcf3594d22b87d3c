"""Compiling a C file of this folder, here and now, for this machine."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = ("-O3", "-march=native")


def compiler() -> str | None:
    """The C compiler's version line, None where there is none."""
    if shutil.which("gcc") is None:
        return None
    return subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def library(name: str) -> ctypes.CDLL:
    """The library made of `name`.c."""
    source = Path(__file__).with_name(f"{name}.c")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.so"
        subprocess.run(["gcc", *FLAGS, "-shared", "-fPIC", "-o", str(path), str(source), "-lm"], check=True)
        return ctypes.CDLL(str(path))
