"""Frameworks that train, each in its own virtual environment, because they need different versions of packages.

Every script trains the same CNN in its framework's style and prints rows; the plain loop runs in turns with it.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
HOME = HERE.parent / ".bench-peers"
PEERS = ("pfl", "appfl", "flower")
HEAD = "| peer | version | an update | a gradient of the plain loop | slowdown |\n|---|---|---|---|---|"


def run() -> None:
    """Print the rows of all peers, or why a peer has none."""
    print(HEAD, flush=True)
    for name in PEERS:
        reason = install(name)
        if reason is None:
            with TemporaryDirectory() as folder:
                environment = {**os.environ, "PYTHONPATH": str(HERE)}
                told = _call(_python(name), str(HERE / f"train_{name}.py"), cwd=folder, env=environment)
            rows = [line for line in told.stdout.splitlines() if line.startswith("| ")]
            print(*rows, sep="\n", end="\n" if rows else "", flush=True)
            reason = f"stopped: {_last(told)}" if told.returncode else None
        if reason is not None:
            print(f"| {name} | | {reason} | | |", flush=True)


def install(name: str) -> str | None:
    """Make the environment of a peer if it is missing; return pip's message if that fails."""
    wanted = HERE / "peers" / f"{name}.txt"
    ready = HOME / name / "installed.txt"
    if ready.exists() and ready.read_text() == wanted.read_text():
        return None
    _call(sys.executable, "-m", "venv", "--clear", str(HOME / name)).check_returncode()
    told = _call(_python(name), "-m", "pip", "install", "--quiet", "--requirement", str(wanted))
    if told.returncode:
        return f"did not install: {_last(told)}"
    ready.write_text(wanted.read_text())
    return None


def _python(name: str) -> str:
    return str(HOME / name / "bin" / "python")


def _call(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def _last(told: subprocess.CompletedProcess[str]) -> str:
    return ([line for line in told.stderr.splitlines() if line.strip()] or ["no reason given"])[-1]
