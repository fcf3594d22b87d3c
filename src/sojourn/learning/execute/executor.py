"""Executors: they compute the local work of tasks, one by one or many at a time.

The timing of a run does not depend on the gradients. So when an update is needed, all dispatched tasks that are not yet
computed can be computed with it; this is a wave. Runs with other seeds or algorithms add their tasks to it.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from sojourn.learning.execute.examples import Examples
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.local import Local, Update, work
from sojourn.types import Integers

Result = TypeVar("Result")


class Job(NamedTuple):
    """The local work of one task, ready to be computed."""

    start: Tensor
    """The model to begin from."""
    stats: Tensor | None
    """Its statistics; None = it has none."""
    rows: list[Integers]
    """Examples of each local step."""
    step_size: float
    """Step size of the local steps."""
    key: int
    """Random key of the task, for augmentation and dropout."""


class Executor(Protocol):
    """Computes jobs."""

    @property
    def waves(self) -> bool:
        """Whether it wants all jobs that can be computed, not only those needed next."""

    def compute(self, jobs: Sequence[Job]) -> list[Update]:
        """Compute the jobs."""


class OneByOne:
    """Computes every job separately; its bits do not depend on other jobs."""

    waves = False

    def __init__(self, model: FlatModel, examples: Examples, local: Local) -> None:
        self._model, self._examples, self._local = model, examples, local

    def compute(self, jobs: Sequence[Job]) -> list[Update]:
        """Compute the jobs in their order."""
        self._model.prepare()
        return [self._do(job) for job in jobs]

    def _do(self, job: Job) -> Update:
        self._model.begin(job.stats)
        if self._model.random:
            torch.manual_seed(job.key)
        batches = (self._examples.batch(rows, job.key, step) for step, rows in enumerate(job.rows))
        return work(self._model, self._local, job.start, batches, job.step_size)


Course = Generator[list[Job], list[Update], Result]
"""A generator that yields jobs, receives their updates, and ends with a result."""


def run_courses(courses: Sequence[tuple[Course[Result], Executor]]) -> list[Result]:
    """Advance several runs together, those with the same executor in common waves; return their results."""
    results: dict[int, Result] = {}
    wanted: dict[int, list[Job]] = {}

    def go_on(number: int, updates: list[Update] | None) -> None:
        course = courses[number][0]
        try:
            wanted[number] = next(course) if updates is None else course.send(updates)
        except StopIteration as end:
            wanted.pop(number, None)
            results[number] = end.value

    for number in range(len(courses)):
        go_on(number, None)
    while wanted:
        executor: Any = courses[next(iter(wanted))][1]
        together = [number for number in wanted if courses[number][1] is executor]
        updates = executor.compute([job for number in together for job in wanted[number]])
        for number in together:
            mine, updates = updates[: len(wanted[number])], updates[len(wanted[number]) :]
            go_on(number, mine)
    return [results[number] for number in range(len(courses))]
