"""A real federation: a server that keeps tasks in flight, clients that dial in, and a run that survives crashes.

    import sojourn.live

    sojourn.live.client("fl.example.org:7733", model=MyNet(), data=(x, y), name="oslo", keys="keys/oslo")

The server is `sojourn live server server.toml`, or `sojourn.serve` in Python.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


def client(
    address: str,
    model: Any,
    data: Any = None,
    *,
    fit: Callable[..., Any] | None = None,
    name: str | None = None,
    keys: str | Path | None = None,
    loss: Callable[..., Any] | None = None,
    give_up: float | None = None,
    stop: threading.Event | None = None,
) -> dict[str, int]:
    """Take part in a federation until its run ends; return how many tasks were computed, pushed and acknowledged.

    `address` is HOST:PORT of the server, and `model` an nn.Module like the server's. Give `data`, a pair of arrays
    (x, y), a Dataset or a map-style PyTorch dataset, and the local work is done as the server asks. Or give `fit`, a
    training loop of your own: `fit(module, task)` trains the module in place and returns its loss. `name` is the
    client's name (default: that of its certificate), `keys` the folder of its keys, `loss` a function of
    (module, x, y), `give_up` the seconds without reaching the server after which an error is raised (default: never).
    """
    from sojourn.live.joining import join_as

    return join_as(address, model, data, fit, name, keys, loss, give_up, stop)
