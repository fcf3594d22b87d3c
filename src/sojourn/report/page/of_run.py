"""The part of a page about a training run, simulated or live: what it learnt, its timing, where it comes from."""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.errors import SojournError
from sojourn.experiments.results import Run
from sojourn.own_code import OBJECT
from sojourn.report.page import drawings, of_theory, of_trace
from sojourn.report.page.made_by import say_command
from sojourn.report.page.parts import Part, Section, Shown, called, duration, number, plural, table, were
from sojourn.report.page.timing import Timing, timing_of
from sojourn.trace import Trace
from sojourn.values import WrongKind

OVER = {"received": "updates received", "time": "time (seconds)", "gradients": "gradients computed"}
BAD = ("left", "lost", "dropped", "refused", "expelled", "callback", "no plan", "plan", "plan kept", "early stop")
"""Events of a log that a reader wants to know of."""
LENGTH = ("steps", "time", "trace")  # one of these keys says how long a run is
MOST_REASONS = 10_000  # kinds of events that are told apart; clients choose some of the words
OTHER = "other reasons"


def part_of_run(
    folder: Path, name: str | None = None, fleet: Any = None, plan: Any = None, trace: Trace | None = None
) -> Part:
    """Return the part about the run in a folder; `trace` is its trace so far, if the folder has none yet."""
    run = Run(folder)
    live = (folder / "rows.bin").exists()
    part = Part(name or str(folder), "live run" if live else "run", [])
    rows = run.metrics if (folder / "metrics.csv").is_file() else []
    part.rows = rows
    learnt = _learnt(run, rows)
    timing = _timing(folder, fleet, plan, trace, run.facts)
    events = _events(folder)
    if isinstance(timing, Timing):
        told = of_trace.facts(timing)
        part.facts = [(value, "updates in its trace" if what == "updates" else what) for value, what in told]
        part.compared = of_trace.compared(timing)
        part.sections = of_trace.sections(timing, [learnt, *events])
        second = of_theory.verdict(timing.observed)
    else:
        learnt.notes.append(timing)
        part.sections = [learnt, *events]
        second = "Its timing cannot be shown, so nothing can be said about what was promised."
    part.answer = [_sentence(run, rows, live), second]
    if isinstance(timing, Timing) and not live:
        part.answer += _beforehand(folder, rows, timing.updates, run.complete)
    if rows:
        part.facts[:0] = _judged(rows[-1], "at the end" if run.complete else "so far")
        part.compared = {**_last(rows[-1]), **part.compared}
    part.sections.append(_provenance(run, folder, live))
    return part


def _timing(folder: Path, fleet: Any, plan: Any, trace: Trace | None, facts: Mapping[str, Any]) -> Any:
    """Return the timing of a run, or a sentence that says why there is none."""
    if trace is None and not (folder / "trace.parquet").is_file():
        return "The run has no trace yet: it is written when the run ends."
    if trace is None:
        timing = timing_of(folder, fleet, plan)
    else:
        timing = timing_of(trace, fleet, plan, folder=folder)
    examples = facts.get("examples")
    if (
        isinstance(examples, list)
        and len(examples) == timing.fleet.groups
        and not np.isfinite(timing.fleet.data_size).all()
    ):
        try:
            each = np.array(examples, dtype=float) / timing.fleet.count
            timing.grouped.fleet = replace(timing.fleet, data_size=each)
        except (SojournError, TypeError, ValueError):
            pass
    return timing


def _sentence(run: Run, rows: Sequence[Mapping[str, float]], live: bool) -> str:
    data = str(run.config.get("data")).removeprefix(OBJECT)
    what = f"{called(run._name)} on {called(data)}"
    if not rows:
        return f"A run of {what} has no evaluation yet."
    last = rows[-1]
    clock = "" if live else " of virtual time"
    worth = f"test loss {number(last['test_loss'], 4)}"
    if np.isfinite(last["accuracy"]):
        worth = f"accuracy {number(last['accuracy'], 4)}, {worth}"
    state = "" if run.complete else ", and is not complete"
    early = f", ended early: {run.stopped}" if run.complete and run.stopped else ""
    return (
        f"{'A live run' if live else 'A run'} of {what} reached {worth} after {plural(last['received'], 'update')} in "
        f"{duration(last['time'])}{clock}{state}{early}."
    )


def _beforehand(folder: Path, rows: Sequence[Mapping[str, float]], whole: int, complete: bool) -> list[str]:
    """Return a sentence where the trace of a simulated run has more updates than were trained."""
    counts = [int(row["received"]) for row in rows if np.isfinite(row["received"])]
    counts += [int(one.stem) for one in (folder / "checkpoints").glob("*.json") if one.stem.isdecimal()]
    done = max(counts, default=0)
    if done >= whole or (complete and not (rows and np.isfinite(rows[-1]["received"]))):
        return []
    state = "" if complete else " so far"
    return [
        f"{done:,} of {plural(whole, 'update')} {were(done)} trained{state}: what is said of the timing is about all "
        "of them, as it was known before the training began."
    ]


def _judged(last: Mapping[str, float], when: str) -> list[tuple[str, str]]:
    found = [(number(last["test_loss"], 4), f"test loss {when}")]
    if np.isfinite(last["accuracy"]):
        found.insert(0, (number(last["accuracy"], 4), f"test accuracy {when}"))
    if np.isfinite(last["client_worst"]):
        found.append((number(last["client_worst"], 4), "accuracy of the worst client"))
    return found


def _last(last: Mapping[str, float]) -> dict[str, Any]:
    keys = ("accuracy", "test_loss", "client_worst", "time", "gradients")
    return {key.replace("_", " "): last[key] for key in keys}


def _learnt(run: Run, rows: Sequence[Mapping[str, float]]) -> Section:
    """Return the section with the curves of a run."""
    section = Section("What it learnt")
    if not rows:
        section.said.append("There is no evaluation yet.")
        return section
    section.figures += curves({run._name: rows})
    last = rows[-1]
    section.tables.append(
        table("The last evaluation", ["what", "value"], [[key, value] for key, value in last.items()])
    )
    return section


def curves(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Shown]:
    """Return accuracy or loss over updates, time and gradients, one figure each."""
    classes = all(np.isfinite(row["accuracy"]) for rows in runs.values() for row in rows)
    keys = ("accuracy", "test_loss") if classes else ("test_loss",)
    found = []
    for key in keys:
        label = {"accuracy": "test accuracy", "test_loss": "test loss"}[key]
        for axis, over in OVER.items():
            if key == "test_loss" and classes and axis != "received":
                continue
            lines = [
                (name, np.array([row[axis] for row in rows]), np.array([row[key] for row in rows]))
                for name, rows in runs.items()
            ]
            ends = [
                f"{called(name)} ends at {number(value[-1], 4)} after {number(at[-1], 5)}" for name, at, value in lines
            ]
            found.append(
                Shown(
                    f"{key.replace('_', '-')}-{axis}",
                    drawings.lines(lines, (over, label), key == "accuracy"),
                    f"{label.capitalize()} over {over}: {'; '.join(ends[:6])}.",
                    f"{label.capitalize()} over {over}: {'; '.join(ends[:6])}.",
                )
            )
    return found


def _events(folder: Path) -> list[Section]:
    """Return what the log of a live run says: what happened how often, and why."""
    logs = [folder / "log.jsonl.1", folder / "log.jsonl"]
    counts, since = count_events([path for path in logs if path.is_file() and not path.is_symlink()])
    if not counts:
        return []
    rows = [[what, reason, f"{many:,}"] for (what, reason), many in counts.most_common(40)]
    caption = "Events of the log" + (f" since {since}" if since else "")  # it is turned over when it grows large
    return [Section("What happened meanwhile", tables=[table(caption, ["event", "reason", "times"], rows)])]


def count_events(logs: Iterable[Path]) -> tuple[Counter[tuple[str, str]], str]:
    """Return how often each event happened for each reason, in all lines of these files, and when they begin."""
    counts: Counter[tuple[str, str]] = Counter()
    since = None
    for path in logs:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found = _event(line)
                if found is not None:
                    what = str(found["what"])
                    reason = str(found.get("reason", "")) if what in BAD else ""
                    many = len(counts) >= MOST_REASONS and (what, reason) not in counts
                    counts[what, OTHER if many else reason] += 1
                    since = found.get("at") if since is None else since
    return counts, _minute(since)


def _event(line: str) -> dict[str, Any] | None:
    """Return what happened; None for a line that was written in part."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "what" in found else None


def _provenance(run: Run, folder: Path, live: bool) -> Section:
    section = Section("Where it comes from")
    try:
        config = {key: value for key, value in run.config.items() if value is not None}
    except WrongKind:
        config = {}
    facts = {
        key: value
        for key, value in run.facts.items()
        if key not in ("config", "versions", "made_by") and value not in (None, [])
    }
    versions = run.facts.get("versions")
    told = [[key, value] for key, value in facts.items() if isinstance(value, str | int | float)]
    told += [[f"version of {key}", value] for key, value in versions.items()] if isinstance(versions, dict) else []
    told += [
        [f"{name} written", _date(folder / name)]
        for name in ("config.json", "summary.json")
        if (folder / name).exists()
    ]
    section.tables.append(table("Hashes, versions and dates", ["what", "value"], [["folder", str(folder)], *told]))
    section.tables.append(
        table("Configuration", ["key", "value"], [[key, str(value)] for key, value in config.items()], 80)
    )
    if live:
        say_command(section, run.facts)
    elif any(str(value).startswith(OBJECT) for value in config.values()):
        section.said.append("It was trained in Python, by a call of sojourn.train with objects that no command names.")
    elif not any(config.get(key) for key in LENGTH):
        section.said.append("It was trained along a trace that was handed over, as by sojourn replay.")
    else:
        section.said.append("The command that trains it again:")
        section.code.append(command(config))
    return section


def _date(path: Path) -> str:
    return _minute(path.stat().st_mtime)


def _minute(at: Any) -> str:
    """Return a time to the minute, or nothing if it is none."""
    try:
        return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M %Z")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def command(config: Mapping[str, Any]) -> str:
    """Return the command line of a run, without what is the default anyway."""
    from sojourn.learning.run.config import TrainConfig

    usual = {one.name: one.default for one in fields(TrainConfig) if one.default is not MISSING}
    words = ["sojourn", "train", str(config.get("fleet", "fleet.csv"))]
    for key, value in config.items():
        if key != "fleet" and value is not None and value != usual.get(key):
            words += [f"--{key.replace('_', '-')}", str(value)]
    return shlex.join(words)
