"""The five methods as keys of a run, and the settings that each is tried with.

The paper states a learning rate of 0.001 and no optimiser; nor does it state how many tasks are in flight, nor the
local steps of the methods that have some. So each method has a grid of step sizes that suits it: larger ones if the
server steps by a mean of many gradients, smaller ones if every gradient is a step. FedAvg and FAVANO also have a grid
of local steps, and a wider one of step sizes, since few local steps need a larger step size. The server's interaction
time counts if it acts at fixed times (FAVANO) or in rounds (FedAvg); the other methods run as a network of queues.
"""

from pathlib import Path
from typing import Any

from queuing_dynamics.fleets import INTERACTION, SLOW_FAVOURED, WAITING
from queuing_dynamics.tinyimagenet.size import Size

TITLES = {
    "fedavg": "FedAvg",
    "fedbuff": "FedBuff",
    "favano": "FAVANO",
    "asyncsgd": "AsyncSGD",
    "generalized": "Generalized AsyncSGD",
}
"""The methods, with the paper's names."""
METHODS = tuple(TITLES)
RATES = {
    "fedavg": (0.01, 0.03, 0.1, 0.3, 1.0),
    "fedbuff": (0.03, 0.1, 0.3, 1.0),
    "favano": (0.03, 0.1, 0.3, 1.0, 3.0),
    "asyncsgd": (0.003, 0.01, 0.03, 0.1),
    "generalized": (0.003, 0.01, 0.03, 0.1),
}


LOCAL = ("fedavg", "favano")
"""Methods whose tasks have local steps."""


def local_steps(size: Size, method: str) -> tuple[int, ...]:
    """Return the numbers of local steps that a method is tried with."""
    return size.local_steps if method in LOCAL else (1,)


def keys(size: Size, folder: Path, method: str, steps: int) -> dict[str, Any]:
    """Return the keys of a run of a method with this many local steps, without its step size and seed."""
    return {
        **algorithm(size, method),
        "local_steps": steps,
        "fleet": size.saved_fleet(folder),
        "data": size.data,
        "partition": "iid",
        "model": size.model,
        "time": size.time,
        "batch_size": size.batch_size,
        "augment": size.augment,
        "precision": size.precision,
    }


def algorithm(size: Size, method: str) -> dict[str, Any]:
    """Return a method with its tasks in flight; with FAVANO every client has one."""
    calls = f"contacts={size.contacts}, waiting={WAITING:g}, interaction={INTERACTION:g}"
    known: dict[str, dict[str, Any]] = {
        "fedavg": {"algorithm": f"fedavg(interaction={INTERACTION:g})", "concurrency": size.round},
        "fedbuff": {"algorithm": f"fedbuff(size={size.buffer}, dispatch=routed)", "concurrency": size.tasks},
        "favano": {"algorithm": f"favano({calls})"},
        "asyncsgd": {"algorithm": "asyncsgd", "concurrency": size.tasks},
        "generalized": {
            "algorithm": "generalized-asyncsgd",
            "concurrency": size.tasks,
            "sampling": size.sampling(SLOW_FAVOURED),
        },
    }
    return known[method]
