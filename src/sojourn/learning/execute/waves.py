"""Waves: the local work of many tasks at once, as arithmetic on stacked models.

A wave is split if it has more than `most` tasks, or batches of different sizes. Each row of a stack is one task's
model; tasks with fewer local steps than others are at the end of the stack and stop earlier. If stacks cost more than
they save, as short ones do on a CPU, their tasks are computed one by one.
"""

from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from sojourn.learning.execute.examples import Examples
from sojourn.learning.execute.executor import Executor, Job
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.replay.local import Local, Update

Gradients = Callable[[Tensor, Tensor | None, Tensor, Tensor], tuple[Tensor, Tensor, Tensor | None]]
"""A function from stacked models [tasks, size], their statistics and batches [tasks, examples, ...] to stacked
gradients, losses [tasks] and updated statistics.
"""


class Waves:
    """Computes many jobs at a time; models must not use random numbers."""

    waves = True

    def __init__(
        self,
        gradients: Gradients,
        examples: Examples,
        local: Local,
        most: int,
        least: int = 1,
        single: Executor | None = None,
    ) -> None:
        self._gradients, self._examples, self._local = gradients, examples, local
        self.most, self.least, self._single = most, least, single

    def compute(self, jobs: Sequence[Job]) -> list[Update]:
        """Compute the jobs, those with batches of one size together, longer ones first."""
        order = sorted(range(len(jobs)), key=lambda i: (_batch_size(jobs[i]), -len(jobs[i].rows), i))
        updates: dict[int, Update] = {}
        for _, group in groupby(order, key=lambda i: _batch_size(jobs[i])):
            numbers = list(group)
            for begin in range(0, len(numbers), self.most):
                part = numbers[begin : begin + self.most]
                updates.update(zip(part, self._part([jobs[i] for i in part]), strict=True))
        return [updates[i] for i in range(len(jobs))]

    def _part(self, jobs: list[Job]) -> list[Update]:
        if self._single is not None and len(jobs) < self.least:
            return self._single.compute(jobs)
        return self._work(jobs)

    def _work(self, jobs: list[Job]) -> list[Update]:
        start = torch.stack([job.start for job in jobs])
        stats = None if jobs[0].stats is None else torch.stack([_given(job.stats) for job in jobs])
        if self._local.plain and jobs[0].rows:
            gradient, losses, moved = self._step(jobs, start, start, stats, 0)
            deltas: Sequence[Tensor | None] = [None] * len(jobs)
            return _updates(jobs, gradient.unbind(), deltas, losses, moved)
        step_sizes = _sent([[job.step_size] for job in jobs], start)
        params, velocity, total = start.clone(), torch.zeros_like(start), start.new_zeros(len(jobs))
        for step in range(len(jobs[0].rows)):
            busy = sum(len(job.rows) > step for job in jobs)
            mine = None if stats is None else stats[:busy]
            gradient, losses, moved = self._step(jobs[:busy], params[:busy], start[:busy], mine, step)
            total[:busy] += losses
            velocity[:busy].mul_(self._local.momentum).add_(gradient)
            params[:busy].addcmul_(velocity[:busy], step_sizes[:busy], value=-1.0)
            if stats is not None and moved is not None:
                stats[:busy] = moved
        steps = _sent([max(1, len(job.rows)) for job in jobs], start)
        return _updates(jobs, [None] * len(jobs), (params - start).unbind(), total / steps, stats)

    def _step(
        self, jobs: list[Job], params: Tensor, start: Tensor, stats: Tensor | None, step: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        x, y = self._examples.stack([job.rows[step] for job in jobs], [job.key for job in jobs], step)
        gradient, losses, moved = self._gradients(params, stats, x, y)
        return _regularised(gradient, self._local, params, start), losses, moved


def _updates(
    jobs: list[Job],
    gradients: Sequence[Tensor | None],
    deltas: Sequence[Tensor | None],
    losses: Tensor,
    stats: Tensor | None,
) -> list[Update]:
    """Return each update with its own memory, so that the stack can be freed before the last of them is used."""
    moved: Sequence[Tensor | None] = [None] * len(jobs) if stats is None else stats.unbind()
    rows = zip(jobs, gradients, deltas, losses.unbind(), moved, strict=True)
    return [
        Update(_own(gradient), _own(delta), job.step_size, len(job.rows), loss, _own(one))
        for job, gradient, delta, loss, one in rows
    ]


def _own(row: Tensor | None) -> Tensor | None:
    return None if row is None else row.clone()


def _sent(numbers: Sequence[object], like: Tensor) -> Tensor:
    """Copy numbers to a tensor's device without waiting for it."""
    here = torch.tensor(numbers, dtype=like.dtype)
    return here.pin_memory().to(like.device, non_blocking=True) if like.is_cuda else here


def _given(stats: Tensor | None) -> Tensor:
    assert stats is not None
    return stats


def _batch_size(job: Job) -> int:
    return job.rows[0].size if job.rows else 0


def _regularised(gradient: Tensor, local: Local, params: Tensor, start: Tensor) -> Tensor:
    if local.clip is not None:
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        gradient = gradient * torch.where(norm > local.clip, local.clip / norm, torch.ones_like(norm))
    if local.weight_decay:
        gradient = torch.add(gradient, params, alpha=local.weight_decay)
    if local.proximal and params is not start:
        gradient = torch.add(gradient, params - start, alpha=local.proximal)
    return gradient


class Lossy(nn.Module):
    """A module from a batch to its loss."""

    def __init__(self, model: FlatModel) -> None:
        super().__init__()
        self.module = model.module
        self._loss = model.loss

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The mean loss."""
        return self._loss(self.module, x, y)


def vectorised(model: FlatModel) -> Gradients:
    """Gradients of stacked models, by PyTorch's vmap; for models without statistics."""
    lossy = Lossy(model)
    names = [f"module.{name}" for name in model.names]

    def loss(flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
        value = functional_call(lossy, dict(zip(names, model.parts(flat), strict=True)), (x, y))
        assert isinstance(value, Tensor)
        return value

    slopes = vmap(grad_and_value(loss))

    def gradients(params: Tensor, stats: Tensor | None, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        gradient, losses = slopes(params, x, y)
        return gradient, losses, None

    return gradients
