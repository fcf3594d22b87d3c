"""A training run in a folder, which can be interrupted and resumed with the same result to the bit.

config.json      the configuration with everything filled in, hashes, versions
trace.parquet    the timing, task by task
metrics.csv      one row per evaluation
checkpoints/     models in flight, server and client memory: see `store`; none once the run is complete
model.safetensors, summary.json     at the end; the model by its module's own names

Callbacks are told of it while it trains (sojourn.callbacks); they may keep files of their own beside these.
"""

import math
import platform
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import save

from sojourn.callbacks.callback import KEPT, Callback, Ending, RunFacts
from sojourn.callbacks.guard import Callbacks
from sojourn.errors import InvalidInput, SojournError, UnreadableFile, UnwritableFile
from sojourn.files import no_links, read_json, tidy, write_bytes, write_json
from sojourn.folders import taken
from sojourn.interrupts import noted
from sojourn.learning.data.images.source import Watch
from sojourn.learning.execute.executor import Course, run_courses
from sojourn.learning.replay.online import Online
from sojourn.learning.replay.replay import Diverged, Replay
from sojourn.learning.run.along import check_given, check_trace, updates_of
from sojourn.learning.run.build import Built, Shares, build
from sojourn.learning.run.config import TrainConfig, keys
from sojourn.learning.run.evaluate import judge
from sojourn.learning.run.metrics import Metrics, read_metrics
from sojourn.learning.run.run_config import facts_of
from sojourn.learning.run.store import Store
from sojourn.learning.storable import check
from sojourn.trace import Trace
from sojourn.version import __version__

EVALUATIONS = 50
PATHS = (*keys(path=True), "availability")  # availability may be a file
BEGUN = ("config.json", "metrics.csv", "trace.parquet")
ENDED = ("summary.json", "model.safetensors", "diverged.json")
TUNING = "tuning"  # folder of the trials by which the step size was chosen
PIECE = 20  # updates between two checks of the clock and of Ctrl-C
TrainProgress = Callable[[int, int, dict[str, Any]], None]
Timing = Trace | Callable[[Built], Trace | Online]
"""The timing of a run, or a function that returns it; used only if the folder has no trace."""
ONLINE = "online"  # in place of a trace's hash while the timing is computed as the run goes on


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    """The folder of the run."""
    complete: bool
    """False if the run was interrupted; it can then be resumed."""
    received: int
    """Updates received."""
    metrics: dict[str, float | int]
    """The last row of metrics.csv."""
    stopped: str | None = None
    """Why a callback ended the run early; None = none did."""


class Trainer:
    """A run and its folder, which no other process can use until it is closed; `go` and `together` close it at the end.

    Checking and beginning are separate, so that several runs can be checked before any of them begins: with begin=False
    nothing is written until `begin` is called.
    """

    def __init__(
        self,
        config: TrainConfig,
        folder: str | Path,
        timing: Timing,
        resume: bool = False,
        watch: Watch | None = None,
        like: Built | None = None,
        begin: bool = True,
        overwrite: bool = False,
        shares: Shares | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """With `overwrite`, a run in the folder is replaced when this one begins."""
        self.folder, self._timing, self._watch, self.closed = Path(folder), timing, watch, False
        self.callbacks = Callbacks(callbacks, self._warn)
        self._overwrite = overwrite
        given = timing if isinstance(timing, Trace) else None
        if given is not None and config.trace is None:
            config = config.resolved(trace=str(self.folder / "trace.parquet"))
        self.built: Built = build(config, watch, like, shares)
        self.notes = [] if given is None else check_given(self.built, given)
        self._identity = identity(self.built, given)
        self._recognised(resume)  # refuses the folder before anything in it is changed
        with ExitStack() as held:
            held.enter_context(taken(self.folder))
            self._resumed = self._recognised(resume)
            found, built = self._trace(self._resumed), self.built
            self._online = found if isinstance(found, Online) else None
            self.trace: Trace | None = found if isinstance(found, Trace) else None
            self._trace_hash = found.hash if isinstance(found, Trace) else ONLINE
            self.total = updates_of(built, found) if isinstance(found, Trace) else found.expected
            timed = isinstance(found, Online) and found.timed
            self._last = math.inf if timed else self.total  # updates to receive
            self.replay = Replay(
                built.algorithm, built.federation, found, built.setting, built.executor, total=self._last
            )
            self.metrics = Metrics(
                self.folder / "metrics.csv",
                self.built.setting.fleet.name,
                (*(one.name for one in built.federation.metrics), *self.replay.columns),
            )
            self.store = Store(self.folder / "checkpoints", str(built.federation.model.params.device))
            self.every = self.built.config.evaluate_every or max(1, self.total // EVALUATIONS)
            self.callbacks.check(self.metrics.columns)
            self.store.check(self.replay.state)
            self.complete = self._resumed and self._ended()
            self._went_on = False
            self._held = held.pop_all()
        if begin:
            self.begin()

    @property
    def received(self) -> int:
        """Number of updates received so far."""
        return int(self.metrics.last["received"]) if self.complete else self.replay.received

    def begin(self) -> None:
        """Write the configuration and evaluate the first model; or go back to the last checkpoint."""
        try:
            if self._overwrite and not self._resumed:
                judge(
                    self.built.federation, self.replay.params, self.replay.stats
                )  # errors occur before the old run is removed
                self._clear()
            self._take()
            tidy(self.folder)
            if self.complete:
                self.metrics.begin(self.metrics.path.stat().st_size)
                self.store.forget()  # left over from a killed process
            elif self._resumed and self.store.steps():
                self._restore()
                self._went_on = True
            else:
                self.metrics.begin(None)
                self._evaluate()
        except BaseException:
            self.abandon()
            self.__exit__(*sys.exc_info())
            raise

    def _clear(self) -> None:
        """Remove the run in the folder; the configuration first, because it marks the folder."""
        for name in (*BEGUN, *ENDED):
            (self.folder / name).unlink(missing_ok=True)
        self._forget()

    def _forget(self) -> None:
        """Remove the checkpoints, and what callbacks have written."""
        self.store.forget()
        for name in KEPT:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def abandon(self) -> None:
        """Undo what was begun, if nothing of it is worth keeping, so that the folder can be used again."""
        if not (self._resumed or self.complete or self.store.steps()):
            for name in BEGUN:  # the configuration first, because it marks the folder
                (self.folder / name).unlink(missing_ok=True)
            self._forget()

    def close(self) -> None:
        """Release the folder for other processes."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; after an error, remove a folder in which nothing was begun."""
        self.closed = True
        self._held.__exit__(kind, error, traceback)

    def _recognised(self, resume: bool) -> bool:
        """Whether the folder holds this run; refuse a folder that holds another run, or links."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidInput(f"a run needs a folder, {self.folder} is a file; name another one")
        found = self._is_it(resume)
        no_links(self.folder)
        return found

    def _is_it(self, resume: bool) -> bool:
        path = self.folder / "config.json"
        if not path.exists():
            if self.folder.exists() and any(not _ours(one) for one in self.folder.iterdir()):
                raise InvalidInput(f"the folder {self.folder} holds other files, not a run; name an empty or a new one")
            return False
        if not resume and self._overwrite:
            return False
        if not resume:
            ended = any((self.folder / name).exists() for name in ENDED)
            state = "is finished; " if ended else "is not finished; continue it with --resume (resume=True in Python), "
            raise InvalidInput(
                f"the folder {self.folder} already holds a run, which {state}"
                "replace it with --overwrite (overwrite=True), or name another folder"
            )
        found = facts_of(self.folder)
        for key, value in self._identity.items():
            if _compared(found.get(key)) != _compared(value):
                raise InvalidInput(
                    f"the folder {self.folder} holds another run: its {key} is {_short(found.get(key), value)}; "
                    "name another folder, or give the same configuration"
                )
        return True

    def _trace(self, resumed: bool) -> Trace | Online:
        path = self.folder / "trace.parquet"
        if resumed and path.exists():
            trace = Trace.load(path)
            check_trace(self.built, trace, str(path))
            return trace
        return self._timing if isinstance(self._timing, Trace) else self._timing(self.built)

    def _ended(self) -> bool:
        """Whether the run is finished: the summary is written last; an incomplete copy is not finished."""
        path = self.folder / "summary.json"
        try:
            told, rows = read_json(path, "summary"), read_metrics(self.folder)
            ended = bool(rows) and (told["trace_hash"], told["received"]) == (self._trace_hash, rows[-1]["received"])
        except (UnreadableFile, KeyError, TypeError):
            return False
        if ended and not (self.folder / "model.safetensors").exists():
            raise UnreadableFile(
                f"the run in {self.folder} is complete, but model.safetensors is missing; restore it, or remove "
                f"{path} to train it again"
            )
        return ended

    def _take(self) -> None:
        """Write the files that describe the run, if they are not there yet; the configuration last, since it marks the
        folder.
        """
        config, trace = self.folder / "config.json", self.folder / "trace.parquet"
        if config.exists() and (trace.exists() or self.trace is None):
            return
        if self.trace is not None:
            self.trace.save(trace)
        facts = {**self._identity, "versions": versions(), "unused": self.built.unused}
        facts["examples"] = examples_of(self.built)
        write_json(config, facts, "configuration")

    def go(
        self,
        checkpoint_seconds: float = 60.0,
        checkpoint_every: int | None = None,
        progress: TrainProgress | None = None,
        stop: threading.Event | None = None,
    ) -> Outcome:
        """Train to the end; `stop`, or without it Ctrl-C, or an update that is not finite, ends the run early with a
        checkpoint.
        """
        return together([self], checkpoint_seconds, checkpoint_every, progress, stop)[0]

    def course(
        self,
        stop: threading.Event,
        checkpoint_seconds: float,
        checkpoint_every: int | None,
        progress: TrainProgress | None,
    ) -> Course[Outcome]:
        """Do the same, but yield the jobs to the caller."""
        replay, written = self.replay, time.monotonic()
        if self.complete:
            return self.outcome
        with self._watched():
            while replay.received < self._last and not (replay.over or stop.is_set() or self.callbacks.stop):
                yield from self._advance(checkpoint_every)
                due = checkpoint_every is not None and replay.received % checkpoint_every == 0
                if due or time.monotonic() - written > checkpoint_seconds:
                    self.checkpoint()
                    written = time.monotonic()
                if progress is not None:
                    progress(replay.received, self.total, self.metrics.last)
            if self.callbacks.stop is not None and self.metrics.last["received"] != replay.received:
                self._evaluate()
            self.checkpoint()
            if replay.received >= self._last or replay.over or self.callbacks.stop is not None:
                self._finish()
        return self.outcome

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Tell the callbacks that the run begins, and how it ends."""
        received, rows = self.replay.received, read_metrics(self.folder) if self.callbacks else []
        new = not self._went_on
        facts = RunFacts(
            self.folder, asdict(self.built.config), False, 0 if new else received, () if new else tuple(rows)
        )
        reason = "it was interrupted"
        self.callbacks.begin(facts)
        if new:
            self.callbacks.evaluated(self.metrics.last, self._model)
        try:
            yield
            reason = (self.callbacks.stop or "") if self.complete else reason
        except Exception as error:
            reason = str(error)
            raise
        finally:
            self.callbacks.end(Ending(self.complete, reason, self.replay.received))

    def _model(self) -> dict[str, torch.Tensor]:
        """Return the model of now, by the names of its module."""
        return self.built.federation.model.state(self.replay.params, self.replay.stats)

    @property
    def outcome(self) -> Outcome:
        """Return the state of the run."""
        stopped = _stopped(self.folder) if self.complete else None
        return Outcome(self.folder, self.complete, self.received, self.metrics.last, stopped)

    def _advance(self, checkpoint_every: int | None) -> Course[None]:
        """Continue to the next evaluation or checkpoint, by a few updates at most."""
        replay = self.replay
        done = replay.received
        ends = [self._last, done + PIECE] + [(done // n + 1) * n for n in (self.every, checkpoint_every) if n]
        try:
            yield from replay.course(int(min(*ends, self.callbacks.due(done))))
        except Diverged as error:
            if not replay.spoilt:
                self.checkpoint()
            kept = "as it was before" if not replay.spoilt else "as in its last checkpoint"
            raise Diverged(str(error), f"the run is kept {kept}, in {self.folder}") from None
        if replay.over:
            self.total = replay.received
        new = replay.received > self.metrics.last["received"]
        if new and (replay.received % self.every == 0 or replay.received == self._last or replay.over):
            self._evaluate()
            self.callbacks.evaluated(self.metrics.last, self._model)
        self.callbacks.updated(replay.received, self._model)

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        self._check()
        length, losses = self.metrics.settled()
        facts = {"metrics": length, "losses": losses, "trace_hash": self._trace_hash}
        tree = {"replay": self.replay.snapshot(), **facts}
        self.store.save(self.replay.received, tree)

    def _restore(self) -> None:
        step, tree = self.store.load()
        for sentence in self.store.refused.values():
            self._warn(f"{sentence}; the previous one is used, and the run continues from update {step}")
        try:
            check(tree, {"trace_hash": str, "metrics": int, "losses": tuple[int, float], "replay": dict[str, Any]})
            self._go_to(tree)
        except SojournError:
            raise
        except Exception as error:  # a tree that was tampered with may cause any error
            raise UnreadableFile(
                f"the last checkpoint in {self.store.folder} does not belong to this run ({type(error).__name__}: "
                f"{error}); "
                "remove it to use the one before"
            ) from None

    def _go_to(self, tree: Any) -> None:
        if tree["trace_hash"] != self._trace_hash:
            raise UnreadableFile(
                f"trace.parquet in {self.folder} is not the trace of its checkpoints: hash {self._trace_hash}, "
                f"they have {tree['trace_hash']}; restore the right file"
            )
        self.replay.restore(tree["replay"])
        self.metrics.begin(int(tree["metrics"]), tuple(tree["losses"]))

    def _warn(self, sentence: str) -> None:
        if self._watch is not None:
            self._watch(sentence, 0, 0)
        else:
            warnings.warn(sentence, stacklevel=2)

    def _check(self) -> None:
        """Raise an error if the model is not finite, so that it is never evaluated or kept."""
        try:
            self.replay.settle()
        except Diverged as error:
            raise Diverged(str(error), f"the last checkpoint is kept, in {self.folder}") from None
        if not bool(torch.isfinite(self.replay.params).all()):
            raise Diverged(
                f"the server's model is not finite after {self.replay.received} updates; lower the step sizes",
                f"the last checkpoint is kept, in {self.folder}",
            )

    def _evaluate(self) -> None:
        self._check()
        self.metrics.append(self.replay, judge(self.built.federation, self.replay.params, self.replay.stats))

    def _finish(self) -> None:
        if self._online is not None:
            self.trace = self._online.trace()
            self.trace.save(self.folder / "trace.parquet")
            self._trace_hash = self.trace.hash
        write_bytes(self.folder / "model.safetensors", save(self._model()), "model")
        early = (
            {}
            if self.callbacks.stop is None or self.replay.received >= self._last
            else {"stopped": self.callbacks.stop}
        )
        facts = {"complete": True, "trace_hash": self._trace_hash, **early, **_json(self.metrics.last)}
        write_json(self.folder / "summary.json", facts, "summary")
        self.complete = True
        self.store.forget()


def together(
    runs: Sequence[Trainer],
    checkpoint_seconds: float = 60.0,
    checkpoint_every: int | None = None,
    progress: TrainProgress | None = None,
    stop: threading.Event | None = None,
    diverged: Callable[[Trainer, Diverged], None] | None = None,
) -> list[Outcome]:
    """Train several runs to their ends, with their tasks in common waves; `progress` reports on all of them together.

    `stop` ends them early, with checkpoints; without it Ctrl-C does. A run that diverges ends all runs, unless
    `diverged` is given: then that function is called and the others continue.
    """
    done = {id(run): run.received for run in runs}
    total = sum(run.total for run in runs)

    def report(run: Trainer) -> TrainProgress | None:
        def sum_up(received: int, _: int, facts: dict[str, Any]) -> None:
            done[id(run)] = received
            if progress is not None:
                progress(sum(done.values()), total, facts)

        return None if progress is None else sum_up

    def course(run: Trainer, halt: threading.Event) -> Course[Outcome]:
        try:
            return (yield from run.course(halt, checkpoint_seconds, checkpoint_every, report(run)))
        except Diverged as error:
            if diverged is None:
                raise
            diverged(run, error)
            return run.outcome

    closed = next((run for run in runs if run.closed), None)
    if closed is not None:
        raise InvalidInput(f"the run in {closed.folder} was closed; open it again, with resume")
    with ExitStack() as held:
        for run in runs:
            held.push(run)  # closed with the error, so that no empty folder is left
        halt = stop or held.enter_context(noted(twice=True))
        try:
            return run_courses([(course(run, halt), run.built.executor) for run in runs])
        except (Diverged, UnwritableFile):
            raise
        except Exception:  # most likely in the user's own model
            for run in runs:
                run.abandon()
            raise


def identity(built: Built, given: Trace | None) -> dict[str, Any]:
    """Return what identifies a run; for a simulated timing the configuration decides."""
    federation, setting = built.federation, built.setting
    return {
        "config": asdict(built.config),
        "fleet_hash": setting.fleet.hash,
        "plan_hash": setting.plan.hash,
        "dataset_hash": federation.dataset.hash,
        "partition_hash": federation.partition.hash,
        "parameters": federation.model.size,
        "availability_hash": built.scenario.availability_hash,
        "trace_hash": None if given is None else given.hash,
    }


def examples_of(built: Built) -> list[int]:
    """Return the number of examples that the clients of each group hold together."""
    return [
        int(one) for one in np.add.reduceat(np.diff(built.federation.partition.start), built.setting.fleet.first_client)
    ]


def versions() -> dict[str, str]:
    """Return the versions of what computes."""
    return {
        "sojourn": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def _stopped(folder: Path) -> str | None:
    """Return why a callback ended a complete run early; None = it reached its end."""
    found = read_json(folder / "summary.json", "summary").get("stopped")
    return None if found is None else str(found)


def _json(facts: dict[str, float | int]) -> dict[str, float | int | None]:
    """Return the values with null in place of NaN and infinity, which JSON does not have."""
    return {key: value if math.isfinite(value) else None for key, value in facts.items()}


def _ours(path: Path) -> bool:
    """Whether a file may have been written before the configuration: by a killed run, or by its tuning."""
    return path.suffix == ".partial" or path.name in ("trace.parquet", "lock", TUNING)


def _compared(value: Any) -> Any:
    """Return a value for comparison: paths may change, since their contents have their own hashes; None may be left
    out.
    """
    if not isinstance(value, dict):
        return value
    return {key: one for key, one in value.items() if key not in PATHS and one is not None}


def _short(found: Any, wanted: Any) -> str:
    """Return how two values differ; for long values only the parts that differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        differing = [key for key in wanted if key not in PATHS and found.get(key) != wanted[key]]
        other = [f"{key} = {found.get(key)!r} (now {wanted[key]!r})" for key in differing]
        return ", ".join(other) or "another"
    return f"{found!r} (now {wanted!r})"
