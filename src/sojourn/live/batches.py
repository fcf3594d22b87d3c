"""Batches: updates that wait for each other, in methods that take a step for every `size` of them.

The algorithm adds every update to its batch as it arrives, but no new task is sent until the batch is full. Then all
tasks are sent that are missing, first to the clients that have returned. If so many tasks were lost that those in
flight cannot fill the batch, just the missing ones are sent before.
"""

from dataclasses import dataclass, field


@dataclass
class Batches:
    """How many updates make a batch, and who waits for the others.

    >>> batches = Batches(3)
    >>> [batches.closes(step) for step in range(4)], [batches.tasks(received, 5) for received in range(4)]
    ([False, False, True, False], [5, 2, 1, 5])
    """

    size: int = 0
    """Updates in a batch; 0 = nobody waits."""
    returned: list[int] = field(default_factory=list)
    """Clients that have returned and wait for a task, in the order of arrival."""

    def closes(self, step: int) -> bool:
        """Whether the update of this step is the last of its batch."""
        return self.size > 0 and (step + 1) % self.size == 0

    def tasks(self, received: int, concurrency: int) -> int:
        """Return how many tasks should be in flight: all, or those that the present batch still needs."""
        gathered = received % self.size if self.size else 0
        return min(concurrency, self.size - gathered) if gathered else concurrency

    def next(self) -> int | None:
        """Return the client that has waited longest; None = nobody waits."""
        return self.returned.pop(0) if self.returned else None

    def sent(self, received: int) -> None:
        """Note that all tasks are sent: only within a batch does somebody wait on."""
        if not self.size or received % self.size == 0:
            self.returned.clear()
