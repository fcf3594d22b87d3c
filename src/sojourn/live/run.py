"""A live run in a folder: a server that clients dial in to, which can be killed and goes on where it stopped.

config.json      the configuration with everything filled in, hashes, versions
rows.bin         the trace so far, task by task
checkpoints/     model, algorithm state, random state, tasks in flight: committed together with the rows
metrics.csv      one row per evaluation
log.jsonl        what happened, one JSON object per line
trace.parquet, model.safetensors, summary.json     at the end
"""

import copy
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from sojourn.correction import client_shares
from sojourn.errors import InvalidInput, SojournError
from sojourn.files import no_links, tidy, write_bytes, write_json
from sojourn.folders import taken
from sojourn.learning.algorithms.base import Standard
from sojourn.learning.replay.server import Server
from sojourn.learning.run.build import Built, build
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.evaluate import judge
from sojourn.learning.run.metrics import Metrics, read_metrics
from sojourn.learning.run.run_config import facts_of
from sojourn.learning.run.trainer import identity, versions
from sojourn.live.chooser import Chooser
from sojourn.live.engine import Engine, Work
from sojourn.live.journal import LEAST, Journal
from sojourn.live.log import Log
from sojourn.live.loop import Limits, Loop
from sojourn.live.patience import Patience
from sojourn.timing.expected import expected
from sojourn.timing.shares import as_dispatched, as_served, exact_shares
from sojourn.types import Floats

EVALUATIONS = 50
SIMULATED = ("trace", "availability", "server_rate", "start")  # keys that only a simulated run has
NAMES = "names"


@dataclass(frozen=True)
class Settings:
    """How a live run is run; what is trained is in the keys of a run."""

    begin_with: int | None = None
    """Clients that must be present before the first task is sent; None = one for each task in flight, or all."""
    patience: float = 30.0
    """Seconds that the server waits for an update at the least, however fast its client is."""
    strikes: int = 3
    """Refused messages in a row after which a client is expelled."""
    commit_seconds: float = LEAST
    """Seconds between two commits at the least."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and not value > 0:
                raise InvalidInput(f"{item.name} must be positive, got {getattr(self, item.name)}")


Connect = Callable[[Work, int, dict[str, int]], Engine]
"""Starts an engine, given the clients' work, the epoch of the server, and the numbers of the clients known by name."""


class LiveRun:
    """The server of a live run, and its folder, which no other process can use until it is closed."""

    def __init__(
        self,
        config: TrainConfig,
        folder: str | Path,
        connect: Connect,
        settings: Settings | None = None,
        resume: bool = False,
        report: Callable[[str, Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.folder, self.settings = Path(folder), settings or Settings()
        self.built = built_for(config)
        self._told = report
        with ExitStack() as held:
            held.enter_context(taken(self.folder))
            resumed = self._recognised(resume)
            tidy(self.folder)
            self.log = held.enter_context(Log(self.folder / "log.jsonl"))
            self.journal = Journal(self.folder, least=self.settings.commit_seconds)
            held.callback(self.journal.close)
            if not resumed:
                facts = {**identity(self.built, None), "versions": versions(), "unused": self.built.unused}
                write_json(self.folder / "config.json", facts, "configuration")
            tree = self.journal.open()
            self._begin(connect, tree)
            held.callback(self._close)
            self._held = held.pop_all()

    def _begin(self, connect: Connect, tree: dict[str, Any] | None) -> None:
        built, epoch = self.built, 1 if tree is None else tree["epoch"] + 1
        federation, setting = built.federation, built.setting
        self.server = Server(built.algorithm, federation.first, federation.first_stats, setting)
        names = {} if tree is None else dict(tree[NAMES])
        self.engine = connect(work_of(built), epoch, names)
        chooser = chooser_of(built)
        limits = Limits(
            built.config.steps or np.inf,
            built.config.time or np.inf,
            self.settings.begin_with or min(setting.clients, setting.plan.concurrency),
            self.settings.strikes,
        )
        patience = Patience(mean_times(built).tolist(), self.settings.patience)
        self.loop = Loop(
            self.server,
            federation.local,
            self.engine,
            chooser,
            self.journal,
            limits,
            patience,
            epoch,
            self._note,
        )
        self.metrics = Metrics(
            self.folder / "metrics.csv", setting.fleet.name, tuple(one.name for one in federation.metrics)
        )
        if tree is not None:
            self.loop.restore(tree)
        self.loop.commit()  # so that no other server ever has this epoch
        self._begin_metrics(tree is not None)
        self._judging = ThreadPoolExecutor(1, "evaluation")
        self._judged: Future[None] | None = None
        self.every = built.config.evaluate_every or max(1, int((built.config.steps or 1000) // EVALUATIONS))
        self._next = self.server.received // self.every * self.every + (self.every if tree is not None else 0)
        self._note("resumed" if tree is not None else "started", {"epoch": epoch, "received": self.server.received})

    def run(self, stop: threading.Event, watch: Callable[["LiveRun"], None] | None = None) -> bool:
        """Run to the end, or until `stop` is set; return whether the end was reached."""

        def look() -> None:
            if self.server.received >= self._next:
                self._next = (self.server.received // self.every + 1) * self.every
                self._evaluate()
            if watch is not None:
                watch(self)

        complete = self.loop.run(stop, look)
        self._evaluate(wait=True)
        if complete:
            self._finish()
        self._note("ended" if complete else "stopped", {"received": self.server.received})
        self.engine.stop(complete)
        return complete

    def close(self) -> None:
        """Release the folder."""
        self._held.close()

    def __enter__(self) -> "LiveRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close(self) -> None:
        self.engine.stop(False)
        self._judging.shutdown(wait=True)

    def _recognised(self, resume: bool) -> bool:
        """Whether the folder holds this run; refuse one that holds another."""
        path = self.folder / "config.json"
        no_links(self.folder)
        if not path.exists():
            if any(one.name != "lock" and one.suffix != ".partial" for one in self.folder.iterdir()):
                raise InvalidInput(f"the folder {self.folder} holds other files, not a run; name an empty or a new one")
            return False
        if not resume:
            raise InvalidInput(
                f"the folder {self.folder} already holds a run; continue it with --resume (resume=True in Python), "
                "or name another folder"
            )
        if (self.folder / "summary.json").exists():
            raise InvalidInput(f"the run in {self.folder} is finished; name another folder for a new one")
        found = facts_of(self.folder)
        for key, value in identity(self.built, None).items():
            if key != "config" and found.get(key) != value:
                raise InvalidInput(
                    f"the folder {self.folder} holds another run: its {key} is {found.get(key)!r} (now {value!r}); "
                    "name another folder, or give the same configuration"
                )
        return True

    def _begin_metrics(self, resumed: bool) -> None:
        """Begin metrics.csv, or cut off the rows of what was undone by a crash."""
        if not resumed or not self.metrics.path.exists():
            self.metrics.begin(None)
            return
        kept = [row["received"] for row in read_metrics(self.folder) if row["received"] <= self.server.received]
        lines = self.metrics.path.read_bytes().splitlines(keepends=True)[: len(kept) + 1]
        tally = self.server.tally
        self.metrics.begin(sum(map(len, lines)), (tally.worked, tally.loss))

    def _evaluate(self, wait: bool = False) -> None:
        """Evaluate the present model in a thread of its own; skip it if the last evaluation is still running."""
        if self._judged is not None and (wait or self._judged.done()):
            self._judged.result()
            self._judged = None
        if self._judged is not None or (wait and self.metrics.last.get("received") == self.server.received):
            return
        seen = copy.copy(self.server)
        seen.tally, seen.staleness = replace(self.server.tally), self.server.staleness.copy()
        seen.between, seen.arrivals = self.server.between.copy(), self.server.arrivals.copy()
        self._judged = self._judging.submit(self._judge, seen)
        if wait:
            self._judged.result()
            self._judged = None

    def _judge(self, seen: Server) -> None:
        torch.set_num_threads(1)
        self.metrics.append(seen, judge(self.built.federation, seen.params, seen.stats))

    def _note(self, what: str, facts: Mapping[str, Any]) -> None:
        self.log.write(what, facts)
        if self._told is not None:
            self._told(what, facts)

    def facts(self) -> dict[str, Any]:
        """Return what the trace says about the whole."""
        built, faults = self.built, self.loop.faults
        return {
            "origin": "live",
            "seed": built.config.seed,
            "clients": built.setting.clients,
            "concurrency": built.setting.plan.concurrency,
            "fleet_hash": built.setting.fleet.hash,
            "plan_hash": built.setting.plan.timing_hash,
            **built.scenario.facts,
            "prob": "estimated",
            "recorded_until": self.loop.now,
            "resumes": self.loop.resumes,
            "faults": dict(faults.counts),
            "refusals": faults.refusals,
            "names": dict(self.loop.names),
        }

    def _finish(self) -> None:
        federation = self.built.federation
        self.journal.trace(self.facts(), self.loop.in_flight()).save(self.folder / "trace.parquet")
        module = federation.model.at(self.server.params, self.server.stats)
        tensors = {name: tensor.contiguous().clone() for name, tensor in module.state_dict().items()}
        write_bytes(self.folder / "model.safetensors", save(tensors), "model")
        last = {key: value if np.isfinite(value) else None for key, value in self.metrics.last.items()}
        facts = {"complete": True, "live": True, "received": self.server.received, **last}
        write_json(self.folder / "summary.json", facts, "summary")
        self.journal.store.forget()


def built_for(config: TrainConfig) -> Built:
    """Build what a live server needs, and refuse what cannot run live."""
    for key in SIMULATED:
        if getattr(config, key) is not None:
            raise InvalidInput(f"{key} belongs to simulated runs, a live run has its own timing; leave {key} out")
    if config.time is None and config.steps is None:
        raise InvalidInput("a live run needs an end, got neither time nor steps; give time = '1h' or steps = 10000")
    torch.set_num_threads(1)
    built = build(config.resolved(execution="one-by-one"), shares=exact_shares)
    check_algorithm(built)
    built.config = built.config.resolved(start=None)
    return built


def check_algorithm(built: Built) -> None:
    """Refuse an algorithm that cannot run live, and say why."""
    algorithm = built.algorithm
    kind, name = type(algorithm), algorithm.name
    if not built.scenario.dispatcher.queued:
        raise InvalidInput(f"{name} works in rounds or periods of the server, which live runs do not have; use another")
    if algorithm.remembers:
        raise InvalidInput(f"{name} keeps a memory at every client, which live runs do not have; use another")
    own = [step for step in ("start", "finish") if getattr(kind, step, None) is not getattr(Standard, step)]
    if own:
        raise InvalidInput(f"{name} changes what clients do ({', '.join(own)}), which live clients do not know yet")


def chooser_of(built: Built) -> Chooser:
    """Return the chooser of a run, with the shares that theory expects as its prior."""
    setting, scenario = built.setting, built.scenario
    plan = as_dispatched(setting.plan, scenario)
    share = setting.share
    if share is None:
        try:
            share = client_shares(setting.fleet.count, expected(setting.fleet, plan, scenario).share)
        except SojournError:
            share = np.full(setting.clients, 1 / setting.clients)
    return Chooser(plan, setting.weights, share, scenario.dispatcher.name, built.config.seed)


def work_of(built: Built) -> Work:
    """Return what clients are told about their work."""
    federation, plan = built.federation, built.setting.plan
    prefetch = built.scenario.dispatcher.name != "idle" and float(plan.cap.max()) >= 2
    return Work(
        federation.model.params.numel(),
        federation.model.stats.numel(),
        federation.local,
        federation.seed,
        federation.order,
        prefetch,
    )


def mean_times(built: Built) -> Floats:
    """Return the mean time of each client's tasks in seconds, as the fleet says."""
    fleet = as_served(built.setting.fleet, built.scenario)
    return np.repeat(1 / fleet.rate + fleet.link_time, fleet.count)
