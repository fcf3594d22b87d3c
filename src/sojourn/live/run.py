"""A live run in a folder: a server that clients dial in to, which can be killed and goes on where it stopped.

config.json      the configuration with everything filled in, hashes, versions
rows.bin         the trace so far, task by task
checkpoints/     model, algorithm state, random state, tasks in flight: committed together with the rows
metrics.csv      one row per evaluation
log.jsonl        what happened, one JSON object per line
plans/0, 1, ...  every plan so far, if the run follows its fleet: plan.json, fleet.csv, change.json
trace.parquet, model.safetensors, summary.json     at the end
"""

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from sojourn.callbacks.callback import Callback, Ending, Model, RunFacts
from sojourn.callbacks.guard import QueuedCallbacks
from sojourn.correction import client_shares
from sojourn.errors import InvalidInput, SojournError
from sojourn.files import no_links, tidy, write_bytes, write_json
from sojourn.folders import taken
from sojourn.landscape import Landscape
from sojourn.learning.algorithms.base import Algorithm
from sojourn.learning.replay.server import Server
from sojourn.learning.run.build import Built, build
from sojourn.learning.run.config import TrainConfig, unknown_speeds
from sojourn.learning.run.evaluate import judge
from sojourn.learning.run.metrics import Metrics, read_metrics
from sojourn.learning.run.trainer import examples_of, identity, versions
from sojourn.learning.wrappers.wrapped import columns_of, wrappers_of
from sojourn.live.batches import Batches
from sojourn.live.believed import Told
from sojourn.live.chooser import Chooser
from sojourn.live.engine import Engine, Work
from sojourn.live.follower import Follower
from sojourn.live.journal import LEAST, Journal
from sojourn.live.log import Log
from sojourn.live.loop import Limits, Loop
from sojourn.live.loop_state import restore
from sojourn.live.old_run import left_of_run, remove_old_run
from sojourn.live.patience import Patience
from sojourn.live.plan_folder import PlanFolder
from sojourn.live.planner import Planner, Said
from sojourn.live.remembering import client_side
from sojourn.live.same_run import check_same
from sojourn.live.server import LiveServer
from sojourn.live.sound import doable
from sojourn.live.worker import Task
from sojourn.plan import Plan
from sojourn.scenario import Scenario
from sojourn.timing.expected import expected
from sojourn.timing.shares import as_dispatched, as_served, exact_shares
from sojourn.types import Floats

EVALUATIONS = 50
SIMULATED = ("trace", "availability", "server_rate", "start")  # keys that only a simulated run has
NAMES = "names"
UNKNOWN = 180.0  # seconds that tasks of an unknown client take, as a guess; the first ones may take an hour


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
    durable: bool = True
    """Whether the run survives a kill; False = it is on the disk only when it is stopped."""
    replan: float | None = None
    """Seconds after which the plan is worked out again at the latest; None = the plan never changes."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and not isinstance(value, bool) and not value > 0:
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
        overwrite: bool = False,
        callbacks: Sequence[Callback] = (),
        said: Said | None = None,
        landscape: Landscape | None = None,
        pool: Executor | None = None,
        made_by: str | None = None,
    ) -> None:
        """`said` is what the user has decided of the policy, by default what the configuration says; `landscape` lets
        the model of training choose policies; `pool` works out plans, by default a thread; `made_by` is the command
        that began the run, for its report.
        """
        self._following = said or Said.of(config), landscape, pool
        self.folder, self.settings = Path(folder), settings or Settings()
        self.built = built_for(config)
        self._told = report
        self.stopped: str | None = None
        """Why a callback ended the run early; None = none did."""
        own = columns_of(self.built.algorithm, self.built.setting)
        columns = (*(one.name for one in self.built.federation.metrics), *own)
        self.metrics = Metrics(self.folder / "metrics.csv", self.built.setting.fleet.name, columns)
        self.callbacks = QueuedCallbacks(callbacks, self._warn)
        self.callbacks.check(self.metrics.columns)
        with ExitStack() as held:
            held.enter_context(taken(self.folder))
            resumed = self._recognised(resume, overwrite)
            tidy(self.folder)
            if not resumed:  # before all other files, for it marks the folder as a run's
                self._write_identity(made_by)
            self.log = held.enter_context(Log(self.folder / "log.jsonl"))
            self.journal = Journal(self.folder, least=self.settings.commit_seconds, durable=self.settings.durable)
            held.callback(self.journal.close)
            try:
                self._begin(connect, self.journal.open(), held)
            except BaseException:  # an address in use, keys that cannot be read
                if not resumed:
                    remove_old_run(self.folder)
                raise
            held.callback(self._close)
            self._held = held.pop_all()

    def _write_identity(self, made_by: str | None) -> None:
        facts = {**identity(self.built, None), "versions": versions(), "unused": self.built.unused}
        facts["examples"] = examples_of(self.built)
        facts["advised"] = self._following[0].nothing
        facts |= {} if made_by is None else {"made_by": made_by}
        write_json(self.folder / "config.json", facts, "configuration")

    def _begin(self, connect: Connect, tree: dict[str, Any] | None, held: ExitStack) -> None:
        built, epoch = self.built, 1 if tree is None else tree["epoch"] + 1
        federation, setting = built.federation, built.setting
        self.server = LiveServer(built.algorithm, federation.first, federation.first_stats, setting)
        names = {} if tree is None else dict(tree[NAMES])
        follower = self._follower()
        if follower is not None:
            held.callback(follower.close)
        self.engine = connect(work_of(built), epoch, names)
        held.callback(self.engine.stop, False)  # it listens already, and what follows may fail
        chooser = chooser_of(built)
        limits = Limits(
            built.config.steps or np.inf,
            built.config.time or np.inf,
            self.settings.begin_with or min(setting.clients, setting.plan.concurrency),
            self.settings.strikes,
        )
        times = mean_times(built) if told_of(built).known else np.full(setting.clients, UNKNOWN)
        patience = Patience(times.tolist(), self.settings.patience)
        self.loop = Loop(
            self.server,
            federation.local,
            self.engine,
            chooser,
            self.journal,
            limits,
            patience,
            epoch,
            self.note,
            follower,
            Batches(batch_of(built)),
        )
        self.loop.doable = self._doable
        if follower is not None:
            self.loop.plans = [PlanFolder(self.folder).first(built, self.server.correction, follower.planner.first())]
        if tree is not None:
            restore(self.loop, tree)
            PlanFolder(self.folder).forget(len(self.loop.plans))
            if getattr(self.engine, "forgets", False):
                self.loop.drop_all("its client has ended with the server that sent it")
        self.loop.commit()  # so that no other server ever has this epoch
        self._begin_metrics(tree is not None)
        self._judging = ThreadPoolExecutor(1, "evaluation")
        self._judged: Future[None] | None = None
        self._problem: str | None = None
        self.every = built.config.evaluate_every or max(1, int((built.config.steps or 1000) // EVALUATIONS))
        self._next = self.server.received // self.every * self.every + (self.every if tree is not None else 0)
        self.note("resumed" if tree is not None else "started", {"epoch": epoch, "received": self.server.received})
        rows = () if tree is None else tuple(read_metrics(self.folder))
        self.callbacks.begin(RunFacts(self.folder, asdict(built.config), True, self.server.received, rows))
        self._due = self.callbacks.due(self.server.received)

    def _follower(self) -> Follower | None:
        """Return what follows the fleet, if the run is to be planned again; it is closed with the run."""
        if self.settings.replan is None:
            return None
        if not self.built.scenario.dispatcher.queued:
            raise InvalidInput(
                f"replan needs a method whose tasks queue, in {self.built.algorithm.name} updates wait for each other; "
                "leave replan out"
            )
        said, landscape, pool = self._following
        made = Follower(Planner(self.built, told_of(self.built), said, landscape), self.settings.replan, pool)
        made.keep = PlanFolder(self.folder).keep
        made.kept = lambda what, reason: self.note(what, {"step": self.server.received, "reason": reason})
        return made

    def run(
        self,
        stop: threading.Event,
        watch: Callable[["LiveRun"], None] | None = None,
        seconds_to_drain: float = 0.0,
    ) -> bool:
        """Run to the end, or until `stop` is set and so many seconds have passed in which tasks in flight may come
        back; return whether the end was reached.
        """

        def look() -> None:
            self._look_at_keys()
            if self.server.received >= self._next:
                self._next = (self.server.received // self.every + 1) * self.every
                self._evaluate()
            if self.server.received >= self._due:
                self.callbacks.updated(self.server.received, self._model(self.server))
                self._due = self.callbacks.due(self.server.received)
            if self.callbacks.stop is not None and self.stopped is None:
                self._stop_early(self.callbacks.stop)
            if watch is not None:
                watch(self)

        complete = self.loop.run(stop, look, seconds_to_drain)
        self._evaluate(wait=True)
        if complete:
            self._finish()
        self.note("ended" if complete else "stopped", {"received": self.server.received})
        self.engine.stop(complete)
        self._end_callbacks(complete, (self.stopped or "") if complete else "it was stopped")
        return complete

    def _look_at_keys(self) -> None:
        """Note when the file of those who may join can no longer be read, so that a revocation would have no effect."""
        problem = getattr(self.engine, "problem", None)
        if problem != self._problem:
            self._problem = problem
            self.note("keys", {"reason": problem or "the file of those who may join can be read again"})

    def _stop_early(self, reason: str) -> None:
        """Let the run be complete with the updates that it has."""
        self.stopped = reason
        self.loop.limits.updates = self.server.received
        self.note("early stop", {"received": self.server.received, "reason": reason})

    def _end_callbacks(self, complete: bool, reason: str) -> None:
        if not self.callbacks.end(Ending(complete, reason, self.server.received)):
            self._warn("callbacks have not ended in time, and are left alone; the run is not affected")

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
        self._end_callbacks(False, "an error ended it")

    def _recognised(self, resume: bool, overwrite: bool) -> bool:
        """Whether the folder holds this run; refuse one that holds another."""
        path = self.folder / "config.json"
        no_links(self.folder)
        if not path.exists():
            self._check_rest(overwrite and not resume)
            return False
        if overwrite and not resume:
            remove_old_run(self.folder)
            return False
        if not resume:
            finished = (self.folder / "summary.json").exists()
            way = "which is finished; " if finished else "continue it with --resume (resume=True in Python), "
            raise InvalidInput(
                f"the folder {self.folder} already holds a run{', ' if finished else '; '}{way}"
                "replace it with --overwrite (overwrite=True), or name another folder"
            )
        if (self.folder / "summary.json").exists():
            raise InvalidInput(
                f"the run in {self.folder} is finished; replace it with --overwrite, or name another folder"
            )
        check_same(self.folder, self.built)
        return True

    def _check_rest(self, overwrite: bool) -> None:
        """Refuse a folder that is not empty and holds no run; what is left of one may be overwritten."""
        if left_of_run(self.folder):
            if not overwrite:
                raise InvalidInput(
                    f"the folder {self.folder} holds what is left of a run that was killed as it began or was removed; "
                    "replace it with --overwrite (overwrite=True), or name another folder"
                )
            remove_old_run(self.folder)
        elif any(one.name != "lock" and one.suffix != ".partial" for one in self.folder.iterdir()):
            raise InvalidInput(f"the folder {self.folder} holds other files, not a run; name an empty or a new one")

    def _begin_metrics(self, resumed: bool) -> None:
        """Begin metrics.csv, or cut off the rows of what was undone by a crash."""
        if not resumed or not self.metrics.path.exists():
            self.metrics.begin(None)
            return
        whole = self.metrics.path.read_bytes()
        lines = whole[: whole.rfind(b"\n") + 1].splitlines(keepends=True)  # a full disk may have torn the last row
        if not lines:
            self.metrics.begin(None)
            return
        self.metrics.begin(sum(map(len, lines)))
        kept = [row["received"] for row in read_metrics(self.folder) if row["received"] <= self.server.received]
        lines = lines[: len(kept) + 1]
        tally = self.server.tally
        self.metrics.begin(sum(map(len, lines)), (tally.worked, tally.loss))

    def _evaluate(self, wait: bool = False) -> None:
        """Evaluate the present model in a thread of its own; skip it if the last evaluation is still running."""
        self.loop.check_model()
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
        self.callbacks.evaluated(self.metrics.last, self._model(seen))

    def _doable(self, task: Task) -> bool:
        """Whether a task that the server does itself gives an update of use; in the thread that has the module."""
        return self._judging.submit(doable, self.built.federation, task).result()

    def _model(self, seen: Server) -> Model:
        """Return what gives a copy of the model of now, by the names of its module, whenever it is called."""
        model, params, stats = self.built.federation.model, seen.params, seen.stats
        return lambda: model.state(params, stats)

    def _warn(self, sentence: str) -> None:
        """Report what is wrong with a callback; called in their thread."""
        with suppress(Warning):  # where warnings are errors, the log has it
            self.note("callback", {"reason": sentence})

    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        """Write what happened into the log, and tell whoever started the run."""
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
            "turned_away": faults.turned_away,
            "names": dict(self.loop.names),
            **self.server.facts,
            **({"batch": batch_of(built)} if batch_of(built) else {}),
            **({"plans": self.loop.plans} if self.loop.plans else {}),
        }

    def _finish(self) -> None:
        federation = self.built.federation
        self.journal.trace(self.facts(), self.loop.in_flight()).save(self.folder / "trace.parquet")
        tensors = federation.model.state(self.server.params, self.server.stats)
        write_bytes(self.folder / "model.safetensors", save(tensors), "model")
        last = {key: value if np.isfinite(value) else None for key, value in self.metrics.last.items()}
        early = {} if self.stopped is None else {"stopped": self.stopped}
        facts = {"complete": True, "live": True, "received": self.server.received, **early, **last}
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
    built = build(config.resolved(execution="one-by-one"), shares=exact_shares, portable=True)
    check_algorithm(built)
    built.config = built.config.resolved(start=None)
    return built


def check_algorithm(built: Built) -> None:
    """Refuse an algorithm that cannot run live, and say why."""
    reason = why_not_live(built.algorithm, built.scenario)
    if reason is not None:
        raise InvalidInput(f"{built.algorithm.name} {reason}; use another method, or train it by sojourn train")
    for one in wrappers_of(built.algorithm):
        one.check_live()


def why_not_live(algorithm: Algorithm, scenario: Scenario) -> str | None:
    """Return why an algorithm cannot run live under this scenario, as words after its name; None = it can."""
    if algorithm.must_remember:
        return "breaks if a client forgets, and live clients that are started again do"
    return scenario.dispatcher.kind.not_live or None


def batch_of(built: Built) -> int:
    """Return how many updates wait for each other; 0 = none do."""
    return built.scenario.dispatcher.kind.batch(built.setting.plan.concurrency)


def chooser_of(built: Built) -> Chooser:
    """Return the chooser of a run, with the shares that theory expects as its prior."""
    setting, scenario = built.setting, built.scenario
    plan, policy = as_dispatched(setting.plan, scenario), scenario.dispatcher.kind.policy
    share = setting.share
    if not scenario.dispatcher.queued:
        share = np.full(setting.clients, 1 / setting.clients)
        plan = plan if policy == "routed" else Plan.uniform(setting.fleet, plan.concurrency)  # all others draw evenly
    if share is None:
        try:
            share = client_shares(setting.fleet.count, expected(setting.fleet, plan, scenario).share)
        except SojournError:
            share = np.full(setting.clients, 1 / setting.clients)
    return Chooser(plan, setting.weights, share, policy, built.config.seed)


def work_of(built: Built) -> Work:
    """Return what clients are told about their work."""
    federation, plan = built.federation, built.setting.plan
    prefetch = built.scenario.dispatcher.kind.policy != "idle" and float(plan.cap.max()) >= 2
    return Work(
        federation.model.params.numel(),
        federation.model.stats.numel(),
        federation.local,
        federation.seed,
        federation.order,
        prefetch,
        client_side(built.config, federation.model)[1],
    )


def told_of(built: Built) -> Told:
    """Return what a run is told of its clients: the times of their tasks, as its fleet says."""
    fleet = as_served(built.setting.fleet, built.scenario)
    service, travel = (np.repeat(one, fleet.count) for one in (1 / fleet.rate, fleet.link_time))
    return Told(service, travel, fleet.group_of_client, unknown_speeds(built.config.fleet) is None)


def mean_times(built: Built) -> Floats:
    """Return the mean time of each client's tasks in seconds, as the fleet says."""
    fleet = as_served(built.setting.fleet, built.scenario)
    return np.repeat(1 / fleet.rate + fleet.link_time, fleet.count)
