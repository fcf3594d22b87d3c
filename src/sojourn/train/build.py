"""From a configuration to the nouns of a run: fleet, plan, trace, federation, algorithm."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sojourn.data.load import load_dataset
from sojourn.data.partition import Partition, partition
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.plan_text import plan_of
from sojourn.simulation.runners import runner
from sojourn.simulation.scenario import QUEUED, Scenario
from sojourn.trace import COLUMNS, Trace
from sojourn.train.algorithms.base import Algorithm, Setting
from sojourn.train.algorithms.table import algorithm
from sojourn.train.config import TrainConfig
from sojourn.train.federation import Federation
from sojourn.train.flat_model import FlatModel
from sojourn.train.local import Local
from sojourn.train.models.load import load_model
from sojourn.train.schedule import Schedule
from sojourn.train.server_step import ServerStep

STEPS = 1000
RATE = 0.1
PIECE = 10_000


@dataclass(eq=False)
class Built:
    """Everything that a run needs."""

    config: TrainConfig
    """The configuration, with what was left open filled in."""
    algorithm: Algorithm
    """The method."""
    federation: Federation
    """Model, data, local work."""
    setting: Setting
    """Fleet, plan, weights."""
    scenario: Scenario
    """The timing that the method needs."""
    unused: list[str]
    """What was given and has no effect on this method."""

    def simulate(self) -> Trace:
        """The trace of the run; where it ends by time, the trace goes on a little longer."""
        config, fleet, plan = self.config, self.setting.fleet, self.setting.plan
        run = runner(fleet, plan, start=str(config.start), seed=config.seed, scenario=self.scenario, engine="events")
        pieces: list[Any] = []
        while not _enough(pieces, run.steps, config):
            left = PIECE if config.steps is None else config.steps - run.steps
            pieces.append(run.rows(min(PIECE, left)))
        pieces.append(run.in_flight())
        columns = {key: np.concatenate([piece[key] for piece in pieces]) for key in COLUMNS}
        facts = {"origin": "simulated", "dispatcher": self.scenario.dispatcher.name, "seed": config.seed}
        facts |= {"steps": run.steps, "clients": fleet.clients, "concurrency": plan.concurrency}
        return Trace(**columns, metadata={**facts, "fleet_hash": fleet.hash, "plan_hash": plan.hash})


def _enough(pieces: list[Any], steps: int, config: TrainConfig) -> bool:
    if config.steps is not None:
        return steps >= config.steps
    assert config.time is not None
    return bool(pieces) and float(np.nanmax(pieces[-1]["applied_at"])) > config.time


def build(config: TrainConfig) -> Built:
    """Make everything; what the configuration leaves open is decided here."""
    fleet = Fleet.load(config.fleet)
    dataset = load_dataset(config.data)
    held = partition(config.partition, dataset.train_y, fleet.clients, config.seed, dataset.owner)
    given = plan_of(fleet, config.sampling, config.plan, config.concurrency)
    rate = config.rate or given.step_size or RATE
    method = algorithm(config.algorithm)
    schedule = Schedule.parse(config.schedule)
    if method.sends == "gradient":
        method = algorithm(config.algorithm, ServerStep(config.server, rate, schedule=schedule))
    else:
        method = algorithm(config.algorithm, ServerStep(config.server))
    local = Local(
        steps=config.local_steps,
        epochs=config.local_epochs,
        batch_size=config.batch_size,
        rate=config.local_rate or rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        proximal=config.proximal,
        clip=config.clip,
        schedule=Schedule() if method.sends == "gradient" else schedule,
    )
    plan, scenario = method.timing(fleet, given, local)
    module = load_model(config.model, dataset, config.data, config.seed, getattr(torch, config.dtype))
    model = FlatModel(module, chance=":" in config.model or None)
    federation = Federation(model, dataset, held, local, config.seed, config.order)
    resolved = config.resolved(
        rate=rate,
        local_rate=local.rate,
        concurrency=plan.concurrency,
        start=config.start or _start(scenario, plan.concurrency, fleet.clients),
        steps=STEPS if config.steps is None and config.time is None else config.steps,
    )
    weights = client_weights(config.weights, held)
    unused = _unused(config, method, local)
    routed = scenario.dispatcher.name == "routed" and bool(np.array_equal(plan.sampling, given.sampling))
    if not routed and not np.allclose(given.sampling, 1 / fleet.clients, rtol=1e-9):
        unused.append("sampling")
    if plan.concurrency != given.concurrency and (config.concurrency or config.plan):
        unused.append("concurrency")
    return Built(resolved, method, federation, Setting(fleet, plan, weights, local), scenario, unused)


def _unused(config: TrainConfig, method: Algorithm, local: Local) -> list[str]:
    """Settings that this method, with this local work, does not look at."""
    plain = local.plain and method.sends == "gradient"
    idle = {
        "server": config.server != "sgd" and not hasattr(method, "server"),
        "weights": config.weights != "equal" and not method.weighs,
        "local_rate": plain and config.local_rate is not None,
        "momentum": local.plain and config.momentum > 0,
    }
    return [key for key, yes in idle.items() if yes]


def client_weights(kind: str, held: Partition) -> Any:
    """Weight q of every client: 1/n, or its share of the examples."""
    if kind == "equal":
        return np.full(held.clients, 1 / held.clients)
    return held.sizes / held.sizes.sum()


def _start(scenario: Scenario, tasks: int, clients: int) -> str:
    if scenario.dispatcher.name not in QUEUED:
        return "even"
    return "one-each" if tasks <= clients else "even"


def check_time(built: Built, trace: Trace) -> int:
    """Updates to receive: all of the trace, or those within the time of the configuration."""
    if built.config.time is None:
        return int(trace.applied.sum())
    within = int((trace.applied_at[trace.applied] <= built.config.time).sum())
    if within == 0:
        raise InvalidInput(f"no update comes back within time {built.config.time}; give it more time")
    return within
