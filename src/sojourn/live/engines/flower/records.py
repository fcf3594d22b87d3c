"""What travels: the records of a Flower message, as the server and its clients write and read them.

A task is what Flower's own strategies send: the model as `arrays`, a PyTorch state dict, and `config` with the step
size as `lr`. So a training function that was written for Flower understands it. A third record, `sojourn`, has the name
of the task and the work of every client. A reply has the trained model as `arrays`, or, from a client of sojourn, a
gradient or a difference of models. Records hold numbers and texts, never code.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.local import Local, Update
from sojourn.live.engine import Offer, Work
from sojourn.live.engines.flower.words import (
    ARRAYS,
    CONFIG,
    DELTA,
    GRADIENT,
    METRICS,
    MODEL,
    OURS,
    PROTOCOL,
    UPDATE,
)
from sojourn.live.worker import Task

STATS = "statistics {}"  # names of statistics in a reply
LOSSES = ("train_loss", "train-loss", "loss")  # metrics that are taken as the loss of a task
MOST_STEPS = 2**31  # local steps of an update
_LOCAL = [item.name for item in fields(Local) if item.name != "schedule"]


class Carried:
    """A model as it travels: flat vectors become a state dict, and the other way round.

    It works on a copy of the module, so it may be used beside training and evaluation.
    """

    def __init__(self, model: FlatModel | torch.nn.Module) -> None:
        module = model.module if isinstance(model, FlatModel) else model
        self._flat = FlatModel(copy.deepcopy(module))
        self._last: tuple[Tensor, Tensor | None, ArrayRecord] | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of parameters and of statistics."""
        return self._flat.params.numel(), self._flat.stats.numel()

    def arrays(self, params: Tensor, stats: Tensor | None) -> ArrayRecord:
        """Return the record of a model; tasks of one step share it."""
        if self._last is None or self._last[0] is not params or self._last[1] is not stats:
            state = self._flat.at(params, stats).state_dict()
            self._last = params, stats, ArrayRecord({key: value.clone() for key, value in state.items()})
        return self._last[2]

    def flat(self, record: ArrayRecord) -> tuple[Tensor, Tensor | None]:
        """Return parameters and statistics of a model's record; refuse one that is not this model."""
        try:
            self._flat.module.load_state_dict(record.to_torch_state_dict())
        except Exception as error:  # whatever others send
            what = str(error).splitlines()[-1].strip() if str(error) else type(error).__name__
            raise InvalidInput(f"the arrays are not those of the model: {what}; train the model that came") from None
        stats = self._flat.stats.clone() if self._flat.stats.numel() else None
        return self._flat.params.clone(), stats

    def pieces(self, vector: Tensor, stats: Tensor | None) -> ArrayRecord:
        """Return the record of a gradient or a difference of models, by the names of the parameters."""
        found = dict(zip(self._flat.names, self._flat.parts(vector), strict=True))
        if stats is not None:
            found |= {STATS.format(place): one for place, one in enumerate(self._flat.stat_parts(stats))}
        return ArrayRecord({key: one.detach().cpu().contiguous() for key, one in found.items()})

    def whole(self, record: ArrayRecord) -> tuple[Tensor, Tensor | None]:
        """Return the vector and the statistics of a record that `pieces` has made; refuse one of another form."""
        flat = self._flat
        vector = flat.flatten(
            [_array(record, name, like) for name, like in zip(flat.names, flat.parts(flat.params), strict=True)]
        )
        stats = [_array(record, STATS.format(place), one) for place, one in enumerate(flat.stat_parts(flat.stats))]
        return vector, torch.cat([one.reshape(-1) for one in stats]) if flat.stats.numel() else None


def _array(record: ArrayRecord, name: str, like: Tensor) -> Tensor:
    """Return one array of a record; refuse one of another shape or type."""
    try:
        found = torch.from_numpy(record[name].numpy())
    except Exception as error:  # whatever others send
        raise InvalidInput(f"the array '{name}' of an update cannot be read: {type(error).__name__}") from None
    if found.shape != like.shape or found.dtype != like.dtype:
        raise InvalidInput(
            f"the array '{name}' of an update must have the shape {tuple(like.shape)} and the type {like.dtype}, got "
            f"{tuple(found.shape)} and {found.dtype}"
        )
    return found.to(like.device)


# What the server writes.


def task_content(offer: Offer, work: Work, model: Carried, more: Mapping[str, Any]) -> RecordDict:
    """Return the content of a task; `more` are values for the training function, beside `lr` and `server-round`."""
    facts = {**offer.name._asdict(), "step": offer.step, "step_size": offer.step_size, "steps": offer.steps}
    ours = {"ask": UPDATE, "protocol": PROTOCOL, **facts, "work": work_text(work)}
    config = {**more, "lr": offer.step_size, "server-round": offer.step}
    arrays = model.arrays(offer.params, offer.stats)
    return RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord(config), OURS: ConfigRecord(ours)})


def work_text(work: Work) -> str:
    """Return the work of every client as a text; the schedule of the step size is the server's.

    >>> work = Work(10, 0, Local(steps=3, clip=0.5), 7, "shuffled", False)
    >>> work_of_text(work_text(work)) == work
    True
    """
    return json.dumps({**work._asdict(), "local": {key: getattr(work.local, key) for key in _LOCAL}})


def work_of_text(text: str) -> Work:
    """Return the work that a text describes."""
    found = json.loads(text)
    return Work(**{**found, "local": Local(**found["local"])})


# What clients read and write.


def task_of(message: Message, facts: Mapping[str, Any], model: Carried) -> tuple[Task, Work]:
    """Return the task and the work of a message."""
    params, stats = model.flat(message.content[ARRAYS])
    numbers = {key: int(facts[key]) for key in ("client", "nth", "step", "steps")}
    task = Task(params=params, stats=stats, step_size=float(facts["step_size"]), **numbers)
    return task, work_of_text(str(facts["work"]))


def update_content(update: Update, examples: int, model: Carried) -> RecordDict:
    """Return the content of a reply with an update."""
    vector = update.delta if update.gradient is None else update.gradient
    assert vector is not None
    ours = {"kind": DELTA if update.gradient is None else GRADIENT, "steps": update.steps}
    metrics = {"train_loss": 0.0 if update.loss is None else float(update.loss), "num-examples": examples}
    arrays = model.pieces(vector, update.stats)
    return RecordDict({ARRAYS: arrays, METRICS: MetricRecord(metrics), OURS: ConfigRecord(ours)})


# What the server reads.


def update_of(content: RecordDict, offer: Offer, model: Carried) -> Update:
    """Return the update of a reply; refuse one that breaks a rule."""
    if ARRAYS not in content.array_records:
        raise InvalidInput(f"a reply must have a record '{ARRAYS}', got {', '.join(content) or 'none'}")
    facts, arrays = content.config_records.get(OURS, {}), content.array_records[ARRAYS]
    steps, loss = facts.get("steps", max(1, offer.steps)), _loss(content)
    if not (isinstance(steps, int) and 0 <= steps < MOST_STEPS):
        raise InvalidInput(f"the steps of an update must be a number below {MOST_STEPS}, got {steps!r}")
    kind = facts.get("kind", MODEL)
    vector, stats = model.flat(arrays) if kind == MODEL else model.whole(arrays)
    if kind == MODEL:
        vector = vector - offer.params
    if not all(bool(torch.isfinite(one).all()) for one in (vector, stats) if one is not None):
        raise InvalidInput("an update must have finite numbers only")
    plain, value = kind == GRADIENT, torch.full((), loss, dtype=vector.dtype, device=vector.device)
    return Update(vector if plain else None, None if plain else vector, offer.step_size, steps, value, stats)


def _loss(content: RecordDict) -> float:
    """Return the loss that a reply tells; 0 = it tells none."""
    for record in content.metric_records.values():
        for key in LOSSES:
            value = record.get(key)
            if isinstance(value, int | float):
                if not isfinite(value):
                    raise InvalidInput(f"the loss must be finite, got {value}")
                return float(value)
    return 0.0
