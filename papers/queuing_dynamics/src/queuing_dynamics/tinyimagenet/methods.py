"""The five methods as keys of a run, and what each is tried at.

The paper states a learning rate of 0.001 and no optimiser; nor does it state how many tasks are in flight, nor the
local steps of the methods that have some. So each method has a grid of rates that suits it: larger where the server
moves by a mean of many gradients, smaller where every single one is a step. FedAvg and FAVANO have a grid of local
steps as well, and a wider one of rates, since few steps want a larger rate. The server's interaction time is charged
where it acts by the clock (FAVANO) or in rounds (FedAvg); the others run as a network of queues.
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
"""The methods, as the paper calls them."""
METHODS = tuple(TITLES)
RATES = {
    "fedavg": (0.01, 0.03, 0.1, 0.3, 1.0),
    "fedbuff": (0.03, 0.1, 0.3, 1.0),
    "favano": (0.03, 0.1, 0.3, 1.0, 3.0),
    "asyncsgd": (0.003, 0.01, 0.03, 0.1),
    "generalized": (0.003, 0.01, 0.03, 0.1),
}


LOCAL = ("fedavg", "favano")
"""Those whose tasks have local steps."""


def local_steps(size: Size, method: str) -> tuple[int, ...]:
    """That a method is tried at."""
    return size.local_steps if method in LOCAL else (1,)


def keys(size: Size, folder: Path, method: str, steps: int) -> dict[str, Any]:
    """Of a run of a method with so many local steps, but for its rate and its seed."""
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
    """A method, with its tasks in flight; with FAVANO every client has one."""
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
