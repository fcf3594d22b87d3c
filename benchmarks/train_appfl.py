"""APPFL: FedAsync on its virtual clock, one local step per client, without validation and logging."""

# ruff: noqa: E402
import logging
import sys
from pathlib import Path
from types import ModuleType

# APPFL's reports on image quality need a torchvision with the same build as torch; nothing here uses them
sys.modules["piq"] = ModuleType("piq")

import numpy as np
import torch
from appfl.agent.sim_client import SimClientAgent
from appfl.agent.sim_server import SimServerAgent
from appfl.vsim import AsyncSimDriver, ClientProfile
from torch.utils.data import TensorDataset
from train_plain import BATCH, CLIENTS, HELD, RATE, beside, cnn, examples

IN_FLIGHT = 10  # each is trained before the first comes back, which takes long with the default option
MODEL = {"model_path": str(Path(__file__).parent / "train_plain.py"), "model_name": "cnn"}


def accuracy(true: np.ndarray, output: np.ndarray) -> float:
    """Return the share of a batch that is correct; APPFL needs a metric."""
    return float((output.argmax(1) == true).mean())


def driver(saving: bool) -> AsyncSimDriver:
    """Return server, clients and clock; `saving` is APPFL's option to save memory, which is on by default."""
    memory = {} if saving else {"optimize_memory": False}
    train = {
        "trainer": "VanillaTrainer",
        "mode": "step",
        "num_local_steps": 1,
        "train_batch_size": BATCH,
        "optim": "SGD",
        "optim_args": {"lr": RATE},
        "loss_fn": "CrossEntropyLoss",
        "metric_path": __file__,
        "metric_name": "accuracy",
        "logging_output_filename": "",
        **memory,
    }
    serve = {
        "num_clients": CLIENTS,
        "num_global_epochs": 0,
        "scheduler": "AsyncScheduler",
        "scheduler_kwargs": memory,
        "aggregator": "FedAsyncAggregator",
        "aggregator_kwargs": {"alpha": 0.9, **memory},
        **memory,
    }
    server = SimServerAgent(
        {"client_configs": {"model_configs": MODEL, "train_configs": train}, "server_configs": serve}
    )
    x, y = examples()
    parts = zip(x.split(HELD), y.split(HELD), strict=True)
    clients = [
        SimClientAgent({"model_configs": MODEL, "train_configs": train, **memory}, str(i), TensorDataset(*part))
        for i, part in enumerate(parts)
    ]
    speeds = {str(i): ClientProfile(compute_factor=1.0 + i / CLIENTS, bandwidth=0.0) for i in range(CLIENTS)}
    return AsyncSimDriver(server, clients, speeds, IN_FLIGHT, logging.getLogger("quiet"), base_step_time=1.0)


def main() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    for saving in (False, True):
        run = driver(saving)

        def advance(updates: int, run: AsyncSimDriver = run) -> None:
            run.server.server_agent_config.server_configs.num_global_epochs += updates
            run.run()  # continues where it stopped

        name = "memory saving " + ("on (its default)" if saving else "off")
        rounds, updates = (3, 5) if saving else (10, 50)
        beside(f"APPFL, FedAsync on its virtual clock, {name}", "appfl", advance, rounds, updates)
        pairs = zip(cnn().parameters(), run.server.model.parameters(), strict=True)
        assert not any(torch.equal(first, last) for first, last in pairs), "the clients have not trained"


if __name__ == "__main__":
    main()
