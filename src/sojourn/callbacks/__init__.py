"""Callbacks: what is told of a run while it trains, simulated or live.

    sojourn.train(fleet, callbacks=[sojourn.callbacks.EarlyStop("accuracy", 0.9), "mlflow"])

A callback of your own is a class that inherits from `Callback` and defines the methods that it needs.
"""

from sojourn.callbacks.callback import Callback, Ending, RunFacts
from sojourn.callbacks.checkpoints import Checkpoints
from sojourn.callbacks.early_stop import EarlyStop
from sojourn.callbacks.event_files import TensorBoard
from sojourn.callbacks.mlflow_run import MLflow
from sojourn.callbacks.table import CALLBACKS, callback, callbacks
from sojourn.callbacks.wandb_run import WandB

__all__ = [
    "CALLBACKS",
    "Callback",
    "Checkpoints",
    "EarlyStop",
    "Ending",
    "MLflow",
    "RunFacts",
    "TensorBoard",
    "WandB",
    "callback",
    "callbacks",
]
