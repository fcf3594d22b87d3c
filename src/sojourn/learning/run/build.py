"""Build the parts of a run from its configuration: fleet, plan, federation, algorithm."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from sojourn.correction import client_shares
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.base import Algorithm, Setting, local_work_of
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.algorithms.table import algorithm
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.images.source import Watch
from sojourn.learning.data.load import load_dataset
from sojourn.learning.data.partition import Partition, partition
from sojourn.learning.execute.augment import Augment
from sojourn.learning.execute.examples import Examples
from sojourn.learning.execute.executor import Executor, OneByOne
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.execute.losses import loss_of, metrics_of, usual_loss
from sojourn.learning.execute.waves import Waves, vectorised
from sojourn.learning.models.load import load_model
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerStep
from sojourn.learning.run.config import TrainConfig, unknown_speeds, values
from sojourn.learning.wrappers.table import wrappers
from sojourn.learning.wrappers.wrapped import fitted, module_of, wrapped, wrappers_of
from sojourn.own_code import names_code, object_or
from sojourn.plan import Plan
from sojourn.plan_text import plan_of
from sojourn.scenario import Scenario
from sojourn.scenario_text import filled, override
from sojourn.schedule import Schedule
from sojourn.types import Floats

STEPS = 1000
STEP_SIZE = 0.1
MOST = 64  # most tasks in one stack
LEAST = 8  # on a CPU shorter stacks cost more than they save
_CHOSEN = re.compile(r"[(,\s](dispatch|assignment)\s*=")  # options of algorithms that name a dispatcher
_SIZED, _STEPS = (re.compile(rf"[(,\s]{key}\s*=") for key in ("size", "steps"))
CACHED = 4096  # on a CPU stacks of batches with more values than this do not fit into its cache


Shares = Callable[[Fleet, Plan, Scenario], Floats | None]
"""Share of one client of each group in all updates, if it is known; timing computes it and passes it to learning."""


@dataclass(eq=False)
class Built:
    """Everything that a run needs."""

    config: TrainConfig
    """The configuration, with what was left open filled in."""
    algorithm: Algorithm
    """The algorithm."""
    federation: Federation
    """Model, data, local work."""
    setting: Setting
    """Fleet, plan, weights."""
    scenario: Scenario
    """The timing that the algorithm needs."""
    executor: Executor
    """Who computes."""
    unused: list[str]
    """Keys that were given but have no effect on this algorithm."""


def build(
    config: TrainConfig,
    watch: Watch | None = None,
    like: Built | None = None,
    shares: Shares | None = None,
    portable: bool = False,
) -> Built:
    """Build everything that a run needs, and decide what the configuration leaves open.

    `watch` reports the loading of images. With `like`, a run on the same data, the images are shared with it, and so is
    the executor if model and local work are the same. `portable` is for live runs: their models travel.
    """
    fleet, given = fleet_and_plan(config)
    same = like is not None and values(like.config, part="data") == values(config, part="data")
    dataset = like.federation.dataset if like and same else _dataset(config, watch)
    dealt = config.partition or ("iid" if dataset.owner is None else "natural")
    held = partition(dealt, dataset.train_y, fleet.clients, config.seed, dataset.owner)
    step_size = config.step_size or given.step_size or STEP_SIZE
    config = config.resolved(schedule=config.schedule or given.schedule or "constant")
    chosen, local = _work(config, step_size, given)
    plan, scenario = _timing(config, chosen, fleet, given, local)
    model, device, loss = model_for(config, dataset, portable)
    chosen = fitted(chosen, model.layout)
    config = config.resolved(device=device.type, partition=dealt, loss=loss)
    placed = like is not None and values(like.config, part="arithmetic") == values(config, part="arithmetic")
    shared = like.federation.examples if like and same and placed else None
    augment = Augment.parse(config.augment)
    examples = shared or Examples(dataset, model.params.dtype, device, augment, integers=names_code(config.model))
    metrics = metrics_of(config.metrics, loss, dataset)
    federation = Federation(model, dataset, held, local, config.seed, config.order, examples, metrics)
    resolved = config.resolved(
        step_size=step_size,
        local_step_size=local.step_size,
        concurrency=plan.concurrency,
        start=None if config.trace else config.start or _start(scenario, plan.concurrency, fleet.clients),
        steps=STEPS if config.steps is None and config.time is None and config.trace is None else config.steps,
        execution=execution(config, model, dataset),
    )
    alike = like is not None and shared is not None and _alike(like, resolved, local)
    executor = like.executor if like and alike else _executor(resolved, federation)
    share = _shares(fleet, plan, scenario, shares)
    setting = Setting(fleet, plan, client_weights(config.weights, held), local, share)
    unused = _unused(config, chosen, local, given)
    if dataset.owner is not None and dealt != "natural":
        unused.append("owners")
    routed = scenario.dispatcher.name == "routed" and bool(np.array_equal(plan.sampling, given.sampling))
    if not routed and not np.allclose(given.sampling, 1 / fleet.clients, rtol=1e-9):
        unused.append("sampling")
    if plan.concurrency != given.concurrency and (config.concurrency or config.plan):
        unused.append("concurrency")
    return Built(resolved, chosen, federation, setting, scenario, executor, unused)


def _shares(fleet: Fleet, plan: Plan, scenario: Scenario, shares: Shares | None) -> Floats | None:
    """Return every client's share of all updates: its sampling if tasks are routed and queue,
    otherwise from `shares`.
    """
    if scenario.dispatcher.name == "routed" and not plan.capped and not scenario.availability:
        return client_shares(fleet.count, plan.sampling)
    found = None if shares is None else shares(fleet, plan, scenario)
    return None if found is None else client_shares(fleet.count, found)


def check(config: TrainConfig) -> list[str]:
    """Check what needs no data: fleet, plan, algorithm, local work, timing; return the keys that have no effect."""
    fleet, given = fleet_and_plan(config)
    config = config.resolved(schedule=config.schedule or given.schedule)
    chosen, local = _work(config, config.step_size or given.step_size or STEP_SIZE, given)
    _timing(config, chosen, fleet, given, local)
    return _unused(config, chosen, local, given)


def timing_of(config: TrainConfig) -> tuple[Fleet, Plan, Scenario]:
    """The timing of a run: its fleet, and the plan and scenario that its algorithm makes of what is given."""
    fleet, given = fleet_and_plan(config)
    config = config.resolved(schedule=config.schedule or given.schedule)
    chosen, local = _work(config, config.step_size or given.step_size or STEP_SIZE, given)
    return fleet, *_timing(config, chosen, fleet, given, local)


def fleet_and_plan(config: TrainConfig) -> tuple[Fleet, Plan]:
    """Return the fleet, with the laws and links of the configuration, and the plan for it."""
    many = unknown_speeds(config.fleet)
    fleet: Fleet = object_or(config.fleet, Fleet.load) if many is None else Fleet.of(all=(many, 1.0))
    plan = plan_of(fleet, config.sampling, config.plan, config.concurrency, config.cap, config.correction)
    return override(fleet, plan, config.law, config.uplink, config.downlink)


def _timing(config: TrainConfig, chosen: Algorithm, fleet: Fleet, given: Plan, local: Local) -> tuple[Plan, Scenario]:
    """Return the plan and scenario that the algorithm needs; the configuration fills in what it leaves open."""
    plan, needed = chosen.timing(fleet, given, local)
    scenario = filled(needed, chosen.name, config.dispatcher, config.server_rate, config.availability)
    if scenario.dispatcher.name != needed.dispatcher.name and _CHOSEN.search(config.algorithm):
        raise InvalidInput(
            f"{config.algorithm} sets the dispatcher {needed.dispatcher.name}, but the dispatcher given is "
            f"{scenario.dispatcher.name}; give one of them"
        )
    for one in wrappers_of(chosen):
        one.check_timing(chosen.name, scenario.dispatcher)
    return plan, scenario


def _dataset(config: TrainConfig, watch: Watch | None) -> Dataset:
    """Return the examples without those held out; these do not depend on the seed, so that runs with any seed share
    them.
    """
    dataset = load_dataset(config.data, watch)
    if config.holdout == 0:
        return dataset
    split = dataset.validation if config.judged_on == "holdout" else dataset.reduced
    return split(config.holdout, seed=0)


def _unused(config: TrainConfig, chosen: Algorithm, local: Local, given: Plan) -> list[str]:
    """Return the settings that this algorithm, with this local work, does not use."""
    plain = local.plain and chosen.sends == "gradient"
    idle = {
        "server": config.server != "sgd" and not hasattr(chosen, "server"),
        "weights": config.weights != "equal" and not chosen.weighs,
        "local_step_size": plain and config.local_step_size not in (None, config.step_size),
        "momentum": local.plain and config.momentum > 0,
        "proximal": config.proximal not in (0, local.proximal),
        "correction": config.correction is not None and not chosen.corrects,
        "buffer": given.buffer is not None and getattr(chosen, "size", 1) != given.buffer,
        "adaptive": bool(given.adaptive) and getattr(chosen, "steps", "constant") != "adaptive",
    }
    return [key for key, yes in idle.items() if yes]


def _as_planned(chosen: Algorithm, text: str, plan: Plan) -> Algorithm:
    """Return the algorithm with the plan's buffer and smaller steps for stale updates, if its text
    does not set them.
    """
    changes: dict[str, Any] = {}
    if plan.buffer is not None and isinstance(chosen, FedBuff | GeneralizedAsyncSGD) and not _SIZED.search(text):
        changes["size"] = plan.buffer
    if plan.adaptive is not None and isinstance(chosen, AsyncSGD | GeneralizedAsyncSGD) and not _STEPS.search(text):
        changes["steps"] = "adaptive" if plan.adaptive else "constant"
    return replace(cast(Any, chosen), **changes) if changes else chosen


def _work(config: TrainConfig, step_size: float, given: Plan) -> tuple[Algorithm, Local]:
    """Return the algorithm and the local work; the schedule belongs to the server's step size or to the clients'."""
    steps = STEPS if config.steps is None and config.time is None else config.steps
    schedule = Schedule.parse(config.schedule or "constant", steps, config.time)
    chosen = algorithm(config.algorithm, ServerStep(config.server))
    gradients = chosen.sends == "gradient"
    if gradients:
        chosen = algorithm(config.algorithm, ServerStep(config.server, step_size, schedule=schedule))
    chosen = wrapped(_as_planned(chosen, config.algorithm, given), wrappers(config.wrap))
    local = Local(
        steps=config.local_steps,
        epochs=config.local_epochs,
        batch_size=config.batch_size,
        step_size=config.local_step_size or step_size,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        proximal=config.proximal,
        clip=config.clip,
        schedule=Schedule() if gradients else schedule,
    )
    return chosen, local_work_of(chosen, local)


def model_for(config: TrainConfig, dataset: Dataset, portable: bool = False) -> tuple[FlatModel, torch.device, str]:
    """Return the first model of a run, its device, and the text of its loss; `portable` = its vector is the same on any
    device, for it travels.
    """
    there = torch.cuda.is_available()
    device = torch.device(("cuda" if there else "cpu") if config.device == "auto" else config.device)
    if device.type == "cuda" and not there:
        raise InvalidInput("device cuda needs a GPU that PyTorch can use, but there is none; use device cpu")
    if device.type == "cpu" and config.precision == "tf32":
        raise InvalidInput("precision tf32 is a format of GPUs; on a CPU use fp32")
    if config.dtype == "float64" and config.precision != "fp32":
        raise InvalidInput(f"precision {config.precision} is for dtype float32, got float64; leave one of them out")
    torch.backends.cudnn.benchmark = True
    module = load_model(config.model, dataset, config.data, config.seed, getattr(torch, config.dtype))
    module = module_of(module, wrappers(config.wrap), config.seed)
    chance = True if names_code(config.model) else None  # a user's model may use random numbers anywhere
    loss = config.loss or usual_loss(module, dataset)
    last = device.type == "cuda" and not portable
    made = FlatModel(module.to(device), loss_of(loss, module), chance, config.precision, last)
    return made, device, loss


def execution(config: TrainConfig, model: FlatModel, dataset: Dataset) -> str:
    """Return how to compute: in waves if the model allows them and they are known to be faster
    (docs/performance.md).
    """
    on_device = model.params.is_cuda
    strange = names_code(str(config.loss))  # a user's own loss may do what stacks cannot
    possible = not model.random and not strange and (on_device or not (model.stats.numel() or model.half))
    if config.execution == "waves" and not possible:
        raise InvalidInput(
            "waves need a model and loss of this package, no dropout and, on a CPU, no BatchNorm and fp32; "
            "use one-by-one"
        )
    if config.execution != "auto":
        return config.execution
    small = config.batch_size * dataset.train_x[0].size <= CACHED
    return "waves" if possible and (on_device or small) else "one-by-one"


def _executor(config: TrainConfig, federation: Federation) -> Executor:
    model, examples, local = federation.model, federation.examples, federation.local
    if config.execution == "one-by-one":
        return OneByOne(model, examples, local)
    if not model.params.is_cuda:
        return Waves(vectorised(model), examples, local, MOST, LEAST, OneByOne(model, examples, local))
    from sojourn.learning.execute.graphs import Graphs

    return Waves(Graphs(model, torch.bfloat16 if model.half else model.params.dtype), examples, local, MOST)


def _alike(like: Built, config: TrainConfig, local: Local) -> bool:
    """Whether two runs' tasks can be computed together in waves; step sizes may differ, since they
    belong to the job.
    """
    if not (like.executor.waves and like.federation.model.whole):  # frozen parameters belong to one run
        return False
    before = replace(like.federation.local, step_size=local.step_size, schedule=local.schedule)
    words = ("model", "loss", "execution")
    same = all(getattr(like.config, key) == getattr(config, key) for key in words)
    return same and before == local


def client_weights(kind: str, held: Partition) -> Any:
    """Return the weight q of every client: 1/n, or its share of the examples."""
    if kind == "equal":
        return np.full(held.clients, 1 / held.clients)
    return held.sizes / held.sizes.sum()


def _start(scenario: Scenario, tasks: int, clients: int) -> str:
    if not scenario.dispatcher.queued:
        return "even"
    return "one-each" if tasks <= clients else "even"
