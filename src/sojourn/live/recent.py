"""Recent: tasks that have ended and are remembered, so that a repeated message gets the right answer.

A client sends an update until it hears what became of it. It may hear late, or, after a crash, only from the next
server. So what has ended since the last commit is remembered, and some more tasks of each client.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sojourn.live.engine import TaskName

TASKS = 4096  # that are remembered, besides those not committed
EACH = 3, 32  # of these, per client: at least and at most; a client may hear of its updates several tasks later


class Recent:
    """What became of the last tasks of each client.

    >>> from sojourn.trace import APPLIED
    >>> recent, name = Recent(clients=2), TaskName(0, 5, 1)
    >>> recent.add(name, APPLIED)
    >>> recent.fate(name) == APPLIED, recent.fate(TaskName(1, 5, 1))
    (True, None)
    """

    def __init__(self, clients: int) -> None:
        self._each = min(max(EACH[0], TASKS // clients), EACH[1])
        self._tasks: dict[int, dict[TaskName, int]] = {}
        self._new: Counter[int] = Counter()  # tasks that ended since the last commit, by client

    def add(self, name: TaskName, fate: int) -> None:
        """Remember what became of a task; one that is known already counts as new again."""
        mine = self._tasks.setdefault(name.client, {})
        mine.pop(name, None)
        mine[name] = fate
        self._new[name.client] += 1

    def fate(self, name: TaskName) -> int | None:
        """Return what became of a task; None = it is not known."""
        return self._tasks.get(name.client, {}).get(name)

    def committed(self) -> None:
        """Forget old tasks of clients that have new ones; of others their clients may not have heard yet."""
        for client, many in self._new.items():
            mine = self._tasks[client]
            for name in list(mine)[: -self._each - many]:
                del mine[name]
        self.settle()

    def settle(self) -> None:
        """Let no task count as new."""
        self._new.clear()

    def rows(self) -> list[list[int]]:
        """Return all of it as rows: client, nth, epoch, fate."""
        return [[*name, fate] for mine in self._tasks.values() for name, fate in mine.items()]

    def restore(self, rows: Iterable[Any]) -> None:
        """Remember rows of an earlier server."""
        for client, nth, epoch, fate in rows:
            self._tasks.setdefault(client, {})[TaskName(client, nth, epoch)] = fate
