"""Attach to a live run, read-only: by its folder, or by the port of its metrics where the folder is out of reach."""

import csv
import io
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.live.attached_numbers import AttachedNumbers
from sojourn.live.folder_view import FolderView, view
from sojourn.live.log_state import LogState
from sojourn.live.seen import RECENT, Seen, frame
from sojourn.shown import quoted
from sojourn.trace import APPLIED, FATES, IN_FLIGHT, Trace
from sojourn.types import Flags
from sojourn.watched import ENDED, RUNNING


class Attached(Seen):
    """A live run, as its folder shows it: running, stopped, killed or ended. Nothing is written, and no lock is taken.

    Everything is as of the last `refresh`, and the trace as of the last commit before it, which is at most a moment
    earlier (0.1 seconds with a small model).
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._view: FolderView
        self._rows: list[dict[str, float]] = []
        self.refresh()

    def refresh(self) -> "Attached":
        """Read the folder again, and return this object."""
        self._view, self._rows = view(self.folder), _metrics(self.folder / "metrics.csv")
        return self

    @property
    def state(self) -> str:
        """`running`, `stopped` (it can be resumed), `killed` (the same, after a crash), or `ended`."""
        return self._view.state

    @property
    def time(self) -> float:
        """Seconds that the run has been going."""
        return self._view.time

    @property
    def trace(self) -> Trace:
        """The trace so far: the tasks that have ended, then those in flight."""
        return self._view.trace

    @property
    def updates(self) -> int:
        """Updates applied."""
        return int(self.trace.applied.sum())

    @property
    def throughput(self) -> float:
        """Updates per second, over the last 30 seconds of the run."""
        span = min(RECENT, self.time)
        recent = self.trace.applied & (self.trace.applied_at > self.time - span)
        return float(recent.sum() / span) if span > 0 else 0.0

    @property
    def staleness(self) -> float:
        """Mean staleness of all updates."""
        found = self.trace.staleness
        return float(found.mean()) if found.size else 0.0

    @property
    def faults(self) -> dict[str, int]:
        """What went wrong so far, by kind: lost, dropped, refused, late, timeouts, expelled."""
        return {str(key): int(value) for key, value in dict(self._view.facts.get("faults", {})).items()}

    @property
    def refusals(self) -> list[dict[str, Any]]:
        """Refused messages: time, client, nth, reason."""
        return [dict(one) for one in self._view.facts.get("refusals", ())]

    @property
    def log(self) -> list[dict[str, Any]]:
        """What happened, one entry per line of log.jsonl."""
        return [dict(one) for one in self._view.log]

    @property
    def names(self) -> dict[str, int]:
        """Numbers of the clients, by name."""
        return dict(self._view.facts.get("names", {}))

    @property
    def present(self) -> list[int]:
        """Numbers of the clients that are connected, by the log; none unless the run is running."""
        now = LogState()
        for entry in self._view.log:
            now.take(entry)
        return sorted(now.present) if self.state == RUNNING else []

    @property
    def metrics(self) -> Any:
        """The evaluations, as a pandas DataFrame."""
        return frame(self._rows)

    @property
    def in_flight(self) -> Any:
        """The tasks in flight, as a pandas DataFrame: client, when sent, with what model. None once the run has ended;
        the trace has those of its last moment.
        """
        mine = self._in_flight
        columns = {key: getattr(self.trace, key)[mine] for key in ("client", "dispatched_at", "dispatched_step")}
        return frame({**columns, "age": self.time - columns["dispatched_at"]})

    @property
    def clients(self) -> Any:
        """One row per client, as a pandas DataFrame: name, presence, what became of its tasks, its staleness."""
        trace, by_number = self.trace, {number: name for name, number in self.names.items()}
        many = max([int(trace.client.max(initial=-1)), *self.present, *by_number]) + 1 if len(trace) or by_number else 0
        counts = {
            fate: np.bincount(trace.client[trace.fate == place], minlength=many) for place, fate in enumerate(FATES)
        }
        counts[FATES[IN_FLIGHT]] = np.bincount(trace.client[self._in_flight], minlength=many)
        stale = np.bincount(trace.client[trace.applied], trace.staleness, many) / np.maximum(counts[FATES[APPLIED]], 1)
        names = [by_number.get(number, "") for number in range(many)]
        there = np.isin(np.arange(many), self.present)
        return frame({"name": names, "present": there, **counts, "staleness": stale})

    def curves(self) -> dict[str, tuple[Any, Any]]:
        """Return the curves of the picture: times and values, by what they are."""
        key = "accuracy" if self._rows and self._rows[-1]["accuracy"] == self._rows[-1]["accuracy"] else "test_loss"
        judged = np.array([[row["time"], row[key]] for row in self._rows]).reshape(-1, 2)
        edges = np.linspace(0.0, max(self.time, 1e-9), 41)
        at = self.trace.applied_at[self.trace.applied]
        number, middle = np.histogram(at, edges)[0], (edges[1:] + edges[:-1]) / 2
        stale = np.histogram(at, edges, weights=self.trace.staleness)[0]
        return {
            key: (judged[:, 0], judged[:, 1]),
            "updates per second": (middle, number / np.diff(edges)),
            "staleness": (middle[number > 0], stale[number > 0] / number[number > 0]),
        }

    def _faults(self) -> Mapping[str, float]:
        return self.faults

    def _accuracy(self) -> float:
        return self._rows[-1]["accuracy"] if self._rows else float("nan")

    def _there(self) -> int:
        return len(self.present)

    def _flying(self) -> int:
        return int(self._in_flight.sum())

    @property
    def _in_flight(self) -> Flags:
        """Which tasks of the trace are in flight: none once the run has ended."""
        return np.asarray((self.trace.fate == IN_FLIGHT) & (self.state != ENDED))


def attached(place: str | Path | int) -> Attached | AttachedNumbers:
    """Attach to a run by its folder, or by the address or the port of its metrics."""
    if isinstance(place, bool) or not isinstance(place, str | Path | int):
        raise InvalidInput(f"a live run is a folder or the address of its metrics, got {quoted(place)}; name one")
    text = str(place)
    if Path(text).is_dir():
        return Attached(text)
    address = f"127.0.0.1:{text}" if text.isdecimal() else text.removeprefix("http://").removesuffix("/metrics")
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdecimal()):
        raise InvalidInput(f"there is no folder {text}; name the folder of a live run, or the port of its metrics")
    if not _here(host):
        raise InvalidInput(
            f"metrics are read on this machine alone, got {text}; forward the port, as with "
            f"ssh -L {port}:127.0.0.1:{port}, and name 127.0.0.1:{port}"
        )
    return AttachedNumbers(address)


def _here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _metrics(path: Path) -> list[dict[str, float]]:
    """Return the rows of metrics.csv that are whole."""
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0].decode()
    return [{key: float(cell) for key, cell in row.items()} for row in csv.DictReader(io.StringIO(whole))]
