"""What a live client does with an update before it sends it, and what it keeps for its next one.

The client builds the algorithm and its wrappers from its own keys; the server never sends the name of code. It sends a
fingerprint, by which a client with another algorithm, other options or other frozen parameters is recognised.

The memory lives as long as the process. A client that is started again begins with none, which the server sees from the
mark of the memory, a number that follows from the tasks it knows of: the trace says so, and its replay forgets at the
same moment. If an update
is refused or comes too late, the memory goes back to what it was before, unless a later task has been computed since.
"""

import hashlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.base import Algorithm, Sent, Standard
from sojourn.learning.algorithms.table import algorithm
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.local import Update
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.wrappers.table import wrappers
from sojourn.learning.wrappers.wrapped import bare, fitted, wrapped, wrappers_of
from sojourn.live.engine import Work
from sojourn.live.worker import Task, Worker

UNDONE = 4  # tasks of a client that can be undone
FACTOR = 6364136223846793005  # spreads marks over their range
LEFT_OUT = ("server", "layout")  # fields that are not the client's business


class RememberingWorker:
    """A worker whose updates pass through what clients of an algorithm do, with a memory for each client."""

    def __init__(
        self, inner: Worker, algorithm: Algorithm, mark: str, key: Callable[[int, int], int] | None = None
    ) -> None:
        """`mark` is the fingerprint of the algorithm; `key` returns the random key of a client's nth task, as a replay
        has it; None = nobody else needs to know it.
        """
        self._inner, self._algorithm, self._mark = inner, algorithm, mark
        self._key = None if draws_in_secret(algorithm) else key
        self._kept: dict[int, tuple[int, Any]] = {}  # by client: the mark of the memory, and the memory
        self._before: dict[int, list[tuple[int, tuple[int, Any]]]] = {}
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    @property
    def examples(self) -> int:
        """Number of examples that the client holds."""
        return self._inner.examples

    def begin(self, client: int, work: Work) -> None:
        """Check that the server's algorithm is the client's."""
        if work.algorithm != self._mark:
            raise InvalidInput(
                f"the client's algorithm is {self._algorithm}, with fingerprint {self._mark}, the server's is another, "
                f"with {work.algorithm or 'none'}; give both the same keys algorithm, wrap, model and seed"
            )
        self._inner.begin(client, work._replace(algorithm=""))

    def compute(self, task: Task) -> Update:
        """Do the local work between start and finish."""
        client, task = task.client, task.on(getattr(self._inner, "device", task.params.device))
        with self._lock:
            before = self._kept.get(client, (0, None))
        mark, kept = before
        sent = Sent(task.params, task.version)
        start, scale = self._algorithm.start(kept, sent)
        update = self._inner.compute(task._replace(params=start, step_size=task.step_size * scale))
        key = secrets.randbits(63) if self._key is None else self._key(client, task.nth)
        after, update = self._algorithm.finish(kept, sent, start, update._replace(key=key))
        with self._lock:
            undone = self._before.setdefault(client, [])
            undone.append((task.nth, before))
            del undone[:-UNDONE]
            self._kept[client] = (mark_after(mark, task.nth), kept if after is None else after)
        return update._replace(remembered=mark if self._algorithm.remembers else None)

    def undo(self, client: int, nth: int) -> None:
        """Forget a client's last task, whose update is not used."""
        with self._lock:
            undone = self._before.get(client, [])
            if undone and undone[-1][0] == nth:
                self._kept[client] = undone.pop()[1]

    def service(self, client: int, nth: int) -> float:
        """Return how long the service of a task lasts at least."""
        return self._inner.service(client, nth)


def mark_after(mark: int, nth: int) -> int:
    """Return the mark of a memory that had another mark and now knows of a client's nth task as well; 0 = of none.

    >>> mark_after(mark_after(0, 0), 2) == mark_after(mark_after(0, 1), 2)
    False
    """
    return (mark * FACTOR + nth + 1) % 2**63


def client_side(config: TrainConfig, model: FlatModel) -> tuple[Algorithm, str]:
    """Return the algorithm as its clients know it, and its fingerprint."""
    made = wrapped(algorithm(config.algorithm), wrappers(config.wrap))
    return fitted(made, model.layout), fingerprint(made, model)


def remembering(worker: Worker, made: tuple[Algorithm, str], key: Callable[[int, int], int] | None = None) -> Worker:
    """Return the worker with what clients of the algorithm do; the same worker if they send updates as they are."""
    return RememberingWorker(worker, *made, key) if made[1] else worker


def fingerprint(made: Algorithm, model: FlatModel) -> str:
    """Return a text that differs where clients do something else; empty = they send updates as they are."""
    around, plain = wrappers_of(made), bare(made)
    own = [name for name in ("start", "finish") if getattr(type(plain), name, None) is not getattr(Standard, name)]
    if not around and not own:
        return ""
    digest = hashlib.sha256(" ".join(_said(one) for one in (plain, *around)).encode())
    for name, one in model.module.named_parameters():
        if not one.requires_grad and around:
            digest.update(name.encode() + one.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def draws_in_secret(made: Algorithm) -> bool:
    """Whether nobody may know what is drawn on the way."""
    return any(one.secret for one in wrappers_of(made))


def _said(one: Any) -> str:
    kind = f"{type(one).__module__}:{type(one).__qualname__}"
    if not is_dataclass(one):
        return kind
    options = {item.name: getattr(one, item.name) for item in fields(one) if item.name not in LEFT_OUT}
    return f"{kind}{options!r}"
