"""Compare the time of a gradient of a training run with a plain PyTorch loop that computes exactly
the same gradients.
"""

from time import process_time

import numpy as np
import torch
import train_plain
from figure import Figure
from torch import nn
from train_plain import BATCH, CLIENTS, HELD, STEP_SIZE, Plain, Task

from sojourn import Fleet, Plan, Trace, simulate
from sojourn.learning.algorithms.base import Setting
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.partition import Partition
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.replay import Replay
from sojourn.learning.replay.server_step import ServerStep
from sojourn.learning.replay.timeline import Recorded

FLEET = Fleet.of(fast=(CLIENTS // 2, 4.0), slow=(CLIENTS // 2, 1.0))
PLAN = Plan.weighted(FLEET, [1.0, 2.0], concurrency=CLIENTS)
WARMUP = 20
PIECES = {"CNN": 5, "MLP": 20}  # gradients per turn; few, so that some turns are not disturbed
MODELS = {"CNN": train_plain.cnn, "MLP": train_plain.mlp}


def rows(model: str, rounds: int) -> list[Figure]:
    """The plain loop first, then ours; both must end with the same model."""
    torch.set_num_threads(1)
    piece, turns = PIECES[model], 5 * rounds
    trace = simulate(FLEET, PLAN, WARMUP + turns * piece, start="one-each", seed=1)
    replay = Replay(
        GeneralizedAsyncSGD(ServerStep(step_size=STEP_SIZE)),
        federation(MODELS[model]()),
        trace,
        Setting(FLEET, PLAN, np.full(CLIENTS, 1 / CLIENTS), Local(batch_size=BATCH)),
    )
    plain = Plain(MODELS[model](), tasks(trace, replay.federation))

    def ours(updates: int) -> None:
        replay.advance(replay.received + updates)

    figures = Figure(Plain.name, []), Figure("sojourn, Replay", [], most=1.1)
    for advance in (plain.advance, ours):
        advance(WARMUP)
    for _ in range(turns):
        for figure, advance in zip(figures, (plain.advance, ours), strict=True):
            began = process_time()
            advance(piece)
            figure.seconds.append((process_time() - began) / piece)
    theirs = torch.cat([weights.reshape(-1) for weights in plain.server])
    off = float((theirs - replay.params).norm() / theirs.norm())
    if replay.received != plain.done or not off <= 1e-5:
        raise SystemExit(f"{model}: the plain loop and sojourn end {off:g} apart")
    return list(figures)


def federation(module: nn.Module) -> Federation:
    """The same examples and clients as on every other side."""
    x, y = (tensor.numpy() for tensor in train_plain.examples())
    held = Partition.by_owner(np.arange(len(y)) // HELD)
    return Federation(
        FlatModel(module), Dataset("noise", x, y, x[:1], y[:1], classes=10), held, Local(batch_size=BATCH)
    )


def tasks(trace: Trace, work: Federation) -> list[Task]:
    """Return everything that the plain loop needs to know of a trace."""
    timeline, made = Recorded(trace), []
    place_of = {name: place for place, name in enumerate(timeline.leaving())}
    while (task := timeline.next()) is not None:
        place, (client, nth) = place_of.pop(task.name), task.name
        (batch,) = work.batches.of(client, nth, 1, 1)
        made.append(Task(place, torch.from_numpy(batch.copy()), STEP_SIZE / (CLIENTS * task.prob)))
        place_of |= dict.fromkeys(timeline.leaving(), place)
    return made
