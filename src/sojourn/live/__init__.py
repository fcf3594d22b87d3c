"""A real federation: a server that keeps tasks in flight, clients that dial in, and a run that survives crashes.

    import sojourn.live

    sojourn.live.client("fl.example.org:7733", model=MyNet(), data=(x, y), name="oslo", keys="keys/oslo")

The server is `sojourn live server server.toml`, or `sojourn.serve` in Python.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

GIVE_UP = 7 * 86400.0  # seconds that a client waits for a server that does not come back


def client(
    address: str,
    model: Any,
    data: Any = None,
    *,
    fit: Callable[..., Any] | None = None,
    name: str | None = None,
    keys: str | Path | None = None,
    insecure: bool = False,
    loss: Callable[..., Any] | None = None,
    give_up: float | None = GIVE_UP,
    stop: threading.Event | None = None,
    algorithm: Any = "generalized-asyncsgd",
    wrap: Any = None,
) -> dict[str, int]:
    """Take part in a federation until its run ends; return how many tasks were computed, pushed and acknowledged.

    `address` is HOST:PORT of the server, and `model` an nn.Module like the server's. Give `data`, a pair of arrays
    (x, y), a Dataset or a map-style PyTorch dataset, and the local work is done as the server asks. Or give `fit`, a
    training loop of your own: `fit(module, task)` trains the module in place and returns its loss. `name` is the
    client's name (default: that of its certificate), `keys` the folder of its keys, `insecure` whether to dial a
    server beyond this machine without keys, `loss` a function of (module, x, y), `give_up` the seconds without reaching
    the server after which an error is raised (default: a week; None = never).
    `algorithm` and `wrap` are the server's, as objects or texts; they matter where clients do something with an update
    before they send it.
    """
    from sojourn.live.joining import join_as

    return join_as(address, model, data, fit, name, keys, insecure, loss, give_up, stop, algorithm, wrap)


def attach(place: str | Path | int) -> Any:
    """Attach to a live run, read-only, and return what there is to see of it.

    `place` is the folder of the run, whether it is running, stopped, killed or ended. No lock is taken and nothing is
    written. Where the folder is out of reach, `place` is the address of the server's metrics, `"127.0.0.1:9100"` or
    `9100`; then there are numbers alone.

    The object has `state`, `time`, `updates`, `throughput`, `staleness`, `faults`, `metrics` (a pandas DataFrame),
    `plot()`, `refresh()` and `watch()`; of a folder also `trace`, `clients`, `present`, `in_flight`, `refusals` and
    `log`.
    """
    from sojourn.live.attached import attached

    return attached(place)
