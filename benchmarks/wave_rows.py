"""Compare the time of an update computed in waves with the same run computed one by one, on a CPU."""

import tempfile
from pathlib import Path
from time import process_time

import torch
from figure import Figure

from sojourn.experiments.training import simulated
from sojourn.learning.replay.replay import Replay
from sojourn.learning.run.build import build
from sojourn.learning.run.config import TrainConfig

CASES = (  # model, clients and tasks, batch
    ("mlp", 10, 16),
    ("cnn", 10, 16),
    ("mlp", 100, 8),
    ("cnn", 100, 8),
    ("resnet20(width=4)", 100, 8),
    ("mlp", 1000, 1),
    ("cnn", 1000, 1),
)
TURNS = 5
PIECES = {
    "mlp": 400,
    "cnn": 120,
    "resnet20(width=4)": 40,
}  # updates per turn: several waves, even of a thousand clients


def rows(model: str, clients: int, batch: int) -> list[Figure]:
    """Time one by one first, then waves; both must end near the same model."""
    torch.set_num_threads(1)
    piece = PIECES[model] * (4 if clients == 1000 else 1)
    with tempfile.TemporaryDirectory() as folder:
        fleet = Path(folder) / "fleet.csv"
        fleet.write_text(f"name,count,rate\nfast,{clients // 2},4\nslow,{clients // 2},1\n")
        steps = clients + TURNS * piece  # the first waves, of all tasks that begin together, are not counted
        config = TrainConfig(str(fleet), model=model, batch_size=batch, steps=steps, step_size=0.01)
        sides = [_replay(config.resolved(execution=kind)) for kind in ("one-by-one", "waves")]
    figures = [Figure("sojourn, one by one", []), Figure("sojourn, waves", [], most=1.1)]
    for side in sides:
        side.advance(clients)
    for _ in range(TURNS):
        for figure, side in zip(figures, sides, strict=True):
            began = process_time()
            side.advance(side.received + piece)
            figure.seconds.append((process_time() - began) / piece)
    off = float((sides[0].params - sides[1].params).norm() / sides[0].params.norm())
    if not off <= 0.05:  # rounding, which a few hundred steps of a residual network amplify
        raise SystemExit(f"{model}: one by one and waves end {off:g} apart")
    return figures


def _replay(config: TrainConfig) -> Replay:
    built = build(config)
    return Replay(built.algorithm, built.federation, simulated(built), built.setting, built.executor)
