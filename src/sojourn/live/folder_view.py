"""What the folder of a live run says at one moment, read without its lock and without writing a byte.

The last manifest of its checkpoints says how many rows of the trace belong to it, so both are read together. The server
replaces manifests while they are read; it keeps the last two, and a reader that comes too late reads again.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import LOCK, no_links, read_bytes, read_json
from sojourn.folders import in_use
from sojourn.live.journal import CHECKPOINTS, ROW, ROWS
from sojourn.trace import COLUMNS, IN_FLIGHT, Trace
from sojourn.watched import ENDED, KILLED, RUNNING, STOPPED

TRIES = 20
PAUSE = 0.05  # seconds between two tries
RECENT = 10.0  # seconds since a file was written within which a server counts as running
MOST_LOG = 2**28  # bytes


@dataclass(frozen=True)
class FolderView:
    """A live run as its folder showed it at one moment."""

    state: str
    """`running`, `stopped` (it can be resumed), `killed` (the same, after a crash), or `ended`."""
    time: float
    """Seconds that the run had been going at its last commit."""
    trace: Trace
    """The tasks that have ended, then those in flight."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the last commit says besides: epoch, names, faults, refusals, expelled, plans."""
    log: tuple[Mapping[str, Any], ...] = ()
    """What happened, one entry per line of the log."""


def view(folder: Path) -> FolderView:
    """Read the folder of a live run."""
    no_links(folder)
    if not (folder / "config.json").exists() or not (folder / ROWS).exists():
        raise InvalidInput(f"{folder} holds no live run; name the folder of one, as sojourn live makes it")
    for left in reversed(range(TRIES)):
        try:
            return _ended(folder) if (folder / "summary.json").exists() else _going(folder)
        except (OSError, ValueError, LookupError, TypeError, UnreadableFile) as error:
            if not left:
                raise UnreadableFile(
                    f"the live run in {folder} cannot be read ({type(error).__name__}: {error}); is it whole?"
                ) from None
            time.sleep(PAUSE)  # the server has replaced a file meanwhile
    raise AssertionError


def _ended(folder: Path) -> FolderView:
    trace = Trace.load(folder / "trace.parquet")
    return FolderView(ENDED, float(trace.metadata["recorded_until"]), trace, dict(trace.metadata), _log(folder))


def _going(folder: Path) -> FolderView:
    tree = Manifest.last(folder / CHECKPOINTS)
    rows = _rows(folder / ROWS, int(tree["rows"]))
    flying = _flying(tree.array("flying"), tree.array("flying_at"))
    table = np.concatenate([rows, flying])
    names = ("epoch", "names", "faults", "refusals", "expelled", "resumes", "plans")
    facts = {name: tree[name] for name in names if name in tree.values}
    told: dict[str, Any] = {name: facts[name] for name in ("names", "plans", "faults", "refusals") if name in facts}
    known: dict[str, Any] = {"origin": "live", "prob": "estimated", "recorded_until": tree["time"], "names": {}}
    metadata = {**known, **told}
    trace = Trace(**{key: np.ascontiguousarray(table[key]) for key in COLUMNS}, metadata=metadata)
    log = _log(folder)
    return FolderView(state_of(folder, log[-1] if log else {}), float(tree["time"]), trace, facts, log)


def _rows(path: Path, many: int) -> np.ndarray[Any, Any]:
    found = np.fromfile(path, ROW, many)
    if len(found) < many:
        raise ValueError(f"{path.name} has {len(found):,} rows, its checkpoint says {many:,}")
    return found


def _flying(tasks: Any, times: Any) -> np.ndarray[Any, Any]:
    """Return the tasks in flight as rows of the trace: client, nth, epoch, version and step; time and share."""
    rows = np.zeros(len(tasks), ROW)
    rows["client"], rows["dispatched_step"], rows["applied_step"] = tasks[:, 0], tasks[:, 4], -1
    rows["dispatched_at"], rows["prob"] = times[:, 0], times[:, 1]
    for key in ("started_at", "finished_at", "applied_at"):
        rows[key] = np.nan
    rows["fate"] = IN_FLIGHT
    return rows


class Manifest:
    """The tree of a manifest, of which a few small parts are read; models are not."""

    def __init__(self, folder: Path, plain: Any) -> None:
        self.folder, self.values = folder, dict(plain["map"])

    @classmethod
    def last(cls, folder: Path) -> "Manifest":
        """Return the last one in a folder of checkpoints."""
        manifests = sorted(folder.glob("*.json"))
        return cls(folder, read_json(manifests[-1], "manifest")["tree"])

    def __getitem__(self, key: str) -> Any:
        return _plain(self.values[key])

    def array(self, key: str) -> Any:
        """Return a tensor as an array."""
        return self._array(self.values[key])

    def arrays(self, *path: str) -> dict[str, Any] | None:
        """Return the tensors below a path of keys, by name; None = there is nothing."""
        found: Any = {"map": list(self.values.items())}
        for key in path:
            found = None if found is None else dict(found["map"]).get(key)
        return None if found is None else {key: self._array(value) for key, value in found["map"]}

    def _array(self, value: Any) -> Any:
        from safetensors import safe_open

        file, name = value["tensor"]
        if Path(file).name != file:
            raise ValueError(f"it names the file {file!r}, which does not belong to a checkpoint")
        with safe_open(self.folder / file, framework="np") as tensors:
            return tensors.get_tensor(name)


def _plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "map" in value:
        return {_plain(key): _plain(one) for key, one in value["map"]}
    return tuple(_plain(one) for one in value["list"])


def _log(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """Return the entries of the log, the part that was turned over first; a line that is being written is left out."""
    found: list[Mapping[str, Any]] = []
    for name in ("log.jsonl.1", "log.jsonl"):
        path = folder / name
        if path.exists():
            text = read_bytes(path, "log", MOST_LOG).decode("utf-8", "replace")
            found += [json.loads(line) for line in text.split("\n")[:-1] if line.endswith("}")]
    return tuple(found)


def state_of(folder: Path, last: Mapping[str, Any]) -> str:
    """Return whether the server runs, without touching its lock; `last` is the last entry of its log."""
    if last.get("what") == "stopped":
        return STOPPED
    files = [folder / ROWS, folder / "log.jsonl", folder / CHECKPOINTS]
    newest = max(path.stat().st_mtime for path in files if path.exists())
    return RUNNING if in_use(folder / LOCK) or time.time() - newest < RECENT else KILLED
