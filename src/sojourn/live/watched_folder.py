"""The folder of a live run as a page watches it: running, stopped, killed or ended. Nothing is written or locked."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.experiments.observe import policy_of
from sojourn.experiments.watching import described, promised
from sojourn.files import no_links
from sojourn.learning.run.run_config import facts_of
from sojourn.live.folder_view import PAUSE, TRIES, Manifest, state_of
from sojourn.live.journal import CHECKPOINTS, ROW, ROWS
from sojourn.live.log_state import LogState
from sojourn.live.speeds import Speeds as Learnt
from sojourn.tails import LogTail, MetricsTail, RowTail, RunTails
from sojourn.trace import scan
from sojourn.types import Flags
from sojourn.watched import ENDED, PAUSED, RUNNING, Look, Promise, Speeds

NOTHING = np.zeros(0, np.int64)


class WatchedFolder:
    """A live run by its folder."""

    controls = None

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        no_links(self.folder)
        if not (self.folder / "config.json").exists() or not (self.folder / ROWS).exists():
            raise InvalidInput(f"{folder} holds no live run; name the folder of one, as sojourn live makes it")
        metrics, log = MetricsTail(self.folder / "metrics.csv"), LogTail(self.folder / "log.jsonl")
        self._files = RunTails(RowTail(self.folder / ROWS, ROW), metrics, log)
        self._last: Mapping[str, Any] = {}  # the last entry of the log
        self._now = LogState()
        self._end: dict[str, Any] = {}  # what is known of a run that has ended
        policy, config = policy_of(self.folder), facts_of(self.folder).get("config") or {}
        self.described = described(self.folder, True, config, policy, self._facts()["clients"])
        self._first = promised(policy.given, policy.plan, policy.scenario)

    def look(self) -> Look:
        """Look at the folder; a file that the server replaces meanwhile is read again."""
        facts = self._facts()
        with self._files.new() as (rows, metrics, log, anew):
            for entry in log:
                self._now.take(entry)
                self._last = entry
            state = self._state(facts)
            flying = facts["flying"] if state != ENDED else NOTHING
            return Look(
                state,
                max(facts["time"], float(rows["applied_at"].max(initial=0.0))),
                rows,
                flying,
                np.ones(len(flying), np.bool_),
                metrics,
                log,
                [Promise.of(one) for one in facts["plans"]] or self._first,
                self._there(state),
                {int(number): str(name) for name, number in facts["names"].items()},
                self._speeds(facts.get("speeds")),
                facts["faults"],
                anew,
                self._files.more,
            )

    def _facts(self) -> dict[str, Any]:
        """Return what the last commit says, or the trace of a run that has ended."""
        for left in reversed(range(TRIES)):
            try:
                trace = self.folder / "trace.parquet"
                return self._ended(trace) if (self.folder / "summary.json").exists() else self._going()
            except (OSError, ValueError, LookupError, TypeError, UnreadableFile) as error:
                if not left:
                    raise UnreadableFile(
                        f"the live run in {self.folder} cannot be read ({type(error).__name__}: {error}); is it whole?"
                    ) from None
                time.sleep(PAUSE)
        raise AssertionError

    def _ended(self, trace: Path) -> dict[str, Any]:
        if not self._end:
            known = dict(next(scan(trace, 1)).metadata)
            plain = {key: dict(known.get(key) or {}) for key in ("names", "faults")}
            self._end = {
                "time": float(known["recorded_until"]),
                "plans": known.get("plans") or (),
                "clients": int(known["clients"]),
                "speeds": None,
                **plain,
            }
        return self._end

    def _going(self) -> dict[str, Any]:
        tree = Manifest.last(self.folder / CHECKPOINTS)
        plain = {key: tree[key] if key in tree.values else {} for key in ("names", "faults")}
        return {
            "time": float(tree["time"]),
            "plans": tree["plans"] if "plans" in tree.values else (),
            "clients": len(tree.array("sent")),
            "flying": tree.array("flying")[:, 0].astype(np.int64),
            "speeds": tree.arrays("following", "speeds"),
            **plain,
        }

    def _state(self, facts: Mapping[str, Any]) -> str:
        if "flying" not in facts:
            return ENDED
        state = state_of(self.folder, self._last)
        return PAUSED if state == RUNNING and self._now.paused else state

    def _there(self, state: str) -> Flags:
        there = np.zeros(self.described.group.size, np.bool_)
        if state in (RUNNING, PAUSED):
            there[[one for one in self._now.present if one < there.size]] = True
        return there

    def _speeds(self, state: Mapping[str, Any] | None) -> Speeds | None:
        if state is None:
            return None
        learnt = Learnt(self.described.group.size)
        learnt.take(state)
        known = learnt.known
        return Speeds(known.turnaround, *known.interval(), known.tasks)
