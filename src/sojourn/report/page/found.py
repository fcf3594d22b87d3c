"""Find out what a path is, by its files."""

from pathlib import Path
from typing import Any, NamedTuple

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import read_json

KINDS = (
    "the folder of a run, of a comparison, of a sweep or of a tuning, the folder of `simulate --out`, a trace "
    "(.parquet), a plan (.json) or a summary (.json)"
)
SIMULATION, RUN, SEEDS, COMPARISON, SWEEP, TUNING, TRACE, PLAN, SUMMARY = (
    *("simulation", "run", "seeds", "comparison", "sweep", "tuning", "trace", "plan", "summary"),
)


class Found(NamedTuple):
    """A path, and what it is."""

    path: Path
    kind: str


def found(given: str | Path) -> Found:
    """Return what a path is; refuse what cannot be reported."""
    path = Path(given)
    if not path.exists():
        raise UnreadableFile(f"{path} does not exist; name {KINDS}")
    kind = _folder(path) if path.is_dir() else _file(path)
    if kind is None:
        empty = path.is_dir() and not any(path.iterdir())
        said = f"the folder {path} is empty" if empty else f"{path} is nothing that can be reported"
        raise InvalidInput(f"{said}; name {KINDS}")
    return Found(path, kind)


def _folder(path: Path) -> str | None:
    def has(*names: str) -> bool:
        return all((path / name).is_file() for name in names)

    if has("config.json"):
        return RUN
    if has("seeds.json"):
        return SEEDS
    if (path / "cells").is_dir():
        if has("summary.json"):
            return COMPARISON
        return SWEEP if has("runs.csv") else TUNING if has("tuning.csv") else None
    if has("trace.parquet"):
        return SIMULATION if has("summary.json") else TRACE
    return None


def _file(path: Path) -> str | None:
    if not path.is_file():
        return None  # a pipe or a device may never end
    if _begins(path) == b"PAR1":
        return TRACE
    if path.suffix != ".json":
        return None
    content: Any = read_json(path, "file")
    if isinstance(content, dict) and "sojourn_plan" in content:
        return PLAN
    return SUMMARY if isinstance(content, dict) and content.get("command") == "simulate" else None


def _begins(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}; check its permissions") from None
