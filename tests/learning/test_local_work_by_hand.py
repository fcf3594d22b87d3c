"""Local work followed by hand, one by one and in waves, and the statistics of BatchNorm on their way to the server.

The loss is half the squared distance to an example, so that a gradient is w - x. All examples and models lie on the ray
through (3, 4), which is 5 long, and `ray` tells a place on it: only lengths have to be followed.
"""

from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from small_runs import by_hand
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.synthetic import Quadratic
from sojourn.learning.execute.examples import Examples
from sojourn.learning.execute.executor import Job, OneByOne
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.execute.waves import Waves, vectorised
from sojourn.learning.models.small import Point
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.replay import Replay, Tally
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.schedule import Schedule

FAR, NEAR = 0, 1  # the examples (3, 4) and (0.375, 0.5), 0.625 long
RAY = Quadratic(Dataset("ray", [[3.0, 4.0], [0.375, 0.5]], [0, 0], [[0.0, 0.0]], [0], owner=[0, 0]), np.ones(2))


def ray(length):
    return torch.tensor([0.6, 0.8], dtype=torch.float64) * length


def close(found, length):
    torch.testing.assert_close(found, ray(length), rtol=1e-12, atol=1e-14)


def one_by_one(model, examples, local):
    return OneByOne(model, examples, local)


def in_waves(model, examples, local):
    return Waves(vectorised(model), examples, local, most=8)


both = pytest.mark.parametrize("executor", [one_by_one, in_waves])


def updates(executor, *tasks, step_size=0.1, **options):
    """The updates of tasks (where they begin, the examples of their steps[, their step size])."""
    most = max(len(steps) for _, steps, *_ in tasks)
    local = Local(**{"steps": most, "batch_size": 1, "step_size": step_size, **options})
    model = FlatModel(Point(RAY).double())
    examples = Examples(RAY.dataset, torch.float64)
    jobs = [
        Job(ray(begin), None, [np.array([row]) for row in rows], own[0] if own else step_size, key)
        for key, (begin, rows, *own) in enumerate(tasks)
    ]
    return executor(model, examples, local).compute(jobs)


@both
def test_a_gradient_longer_than_the_clip_is_shortened_to_it_and_a_shorter_one_is_left(executor):
    far, near, other = updates(executor, (0.0, [FAR]), (0.0, [NEAR]), (9.0, [FAR]), clip=2.0)
    close(far.gradient, -2.0)  # was -5
    close(near.gradient, -0.625)
    close(other.gradient, 2.0)  # was 4


@both
def test_weight_decay_is_added_to_what_is_left_of_a_clipped_gradient(executor):
    (one,) = updates(executor, (10.0, [FAR]), clip=1.0, weight_decay=0.5)
    close(one.gradient, 1.0 + 0.5 * 10.0)


@both
def test_weight_decay_pulls_at_the_model_of_each_local_step(executor):
    (one,) = updates(executor, (10.0, [FAR, FAR]), weight_decay=0.5)
    # gradients 5 + 5 at 10, then 4 + 4.5 at 9
    close(one.delta, -0.1 * (10.0 + 8.5))


@both
def test_the_proximal_term_pulls_back_to_where_the_task_began_and_is_not_clipped(executor):
    (one,) = updates(executor, (0.0, [FAR, FAR, FAR]), clip=1.0, proximal=2.0)
    # -1 at 0, -1 + 0.2 at 0.1, -1 + 0.36 at 0.18
    close(one.delta, 0.1 * (1.0 + 0.8 + 0.64))


@both
def test_momentum_keeps_a_share_of_the_velocity_and_begins_anew_with_every_task(executor):
    tasks = (0.0, [FAR, FAR, FAR]), (0.0, [FAR, FAR, FAR])
    # gradients -5, -4.5 at 0.5, -3.8 at 1.2; velocities -5, -7, -7.3
    for one in updates(executor, *tasks, momentum=0.5):
        close(one.delta, 0.1 * (5.0 + 7.0 + 7.3))


@both
def test_all_options_at_once(executor):
    (one,) = updates(executor, (1.0, [FAR, NEAR]), clip=1.0, weight_decay=0.5, proximal=2.0, momentum=0.5)
    first = -1.0 + 0.5 * 1.0  # -4 shortened, and the decay
    at = 1.0 - 0.1 * first
    second = at - 0.625 + 0.5 * at + 2.0 * (at - 1.0) + 0.5 * first  # 0.425 is not shortened
    close(one.delta, -0.1 * (first + second))


@both
def test_tasks_of_one_wave_keep_their_own_lengths_step_sizes_and_losses(executor):
    long, short, none = updates(executor, (0.0, [FAR, NEAR], 0.125), (0.0, [FAR], 0.2), (1.0, []))
    close(long.delta, 0.125 * 5.0)  # at 0.625, where the near example is
    close(short.delta, 0.2 * 5.0)
    close(none.delta, 0.0)
    assert [one.steps for one in (long, short, none)] == [2, 1, 0]
    assert [one.step_size for one in (long, short)] == [0.125, 0.2]
    # 5^2 / 2 and 0; 5^2 / 2; nothing
    assert [one.loss.item() for one in (long, short, none)] == pytest.approx([6.25, 12.5, 0.0], abs=1e-12)


@both
def test_an_update_is_the_same_as_gradient_and_as_delta(executor):
    (sent,) = updates(executor, (0.0, [FAR]))
    close(sent.as_gradient(), -5.0)
    close(sent.as_delta(), 0.5)
    (gone,) = updates(executor, (0.0, [FAR, FAR]))
    close(gone.as_delta(), 0.95)
    close(gone.as_gradient(), -9.5)


class Normed(nn.Module):
    """BatchNorm and nothing else."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(1)

    def loss(self, x, y):
        return self.norm(x).square().mean()


# client 1 holds 0 and 2: mean 1, variance 2; client 2 holds 0 and 4: mean 2, variance 8
SPREAD = Quadratic(
    Dataset("spread", [[0.0], [2.0], [0.0], [4.0]], [0] * 4, [[0.0]], [0], owner=[0, 0, 1, 1]), np.ones(1)
)


def statistics(*tasks, steps=1):
    """The server's mean and variance after each update."""
    case = by_hand(AsyncSGD(), *tasks, batch_size=2, steps=steps)
    model = FlatModel(Normed().double())
    federation = Federation(model, SPREAD.dataset, SPREAD.partition, case.setting.local)
    replay = Replay(case.algorithm, federation, case.trace, case.setting)
    found = []
    for received in range(1, len(tasks) + 1):
        replay.advance(received)
        found.append(replay.stats.tolist())
    return found


near = partial(pytest.approx, rel=1e-12)


def test_the_servers_statistics_move_by_a_tenth_towards_those_that_a_client_sends():
    # a client moves its own by a tenth too, as PyTorch has it: from (0, 1) to (0.1, 1.1)
    ((mean, variance),) = statistics((1, 0))
    assert mean == near(0.1 * 0.1)
    assert variance == near(0.9 * 1 + 0.1 * 1.1)


def test_a_client_begins_with_the_statistics_that_its_task_carried():
    first, fresh = statistics((1, 0), (2, 1))
    assert first == near([0.01, 1.01])
    assert fresh == near([0.9 * 0.01 + 0.1 * (0.9 * 0.01 + 0.1 * 2), 0.9 * 1.01 + 0.1 * (0.9 * 1.01 + 0.1 * 8)])
    _, stale = statistics((1, 0), (2, 0))
    assert stale == near([0.9 * 0.01 + 0.1 * (0.1 * 2), 0.9 * 1.01 + 0.1 * (0.9 + 0.1 * 8)])


def test_a_clients_statistics_move_with_each_of_its_local_steps():
    ((mean, variance),) = statistics((1, 0), steps=3)
    assert mean == near(0.1 * (1 - 0.9**3))
    assert variance == near(0.9 + 0.1 * (2 - 0.9**3))


def test_what_a_run_has_cost_is_counted_from_nothing():
    case = by_hand(AsyncSGD(), (1, 0, 2), (2, 0, 3), (1, 1, 0), steps=3)
    replay = case.replay()
    assert asdict(replay.tally) == dict.fromkeys(asdict(replay.tally), 0)
    replay.advance(3)
    down, up = case.algorithm.bits_each_way(1)
    assert (down, up) == (32, 32)
    # client 1 at 0 and 0.1: (1 + 0.81) / 2 of half a square each; client 2 at 0, -0.3, -0.57
    losses = (0.5 + 0.405) / 2, (4.5 + 2.7**2 / 2 + 2.43**2 / 2) / 3
    assert replay.tally.loss == pytest.approx(sum(losses), rel=1e-12)
    counts = replace(replay.tally, loss=0.0)
    assert counts == Tally(received=3, gradients=5, unused=0, lost=0, bits_up=96, bits_down=96, worked=2)


def test_what_nobody_asked_for_is_one_plain_step_of_a_tenth_on_32_examples():
    plain = {"momentum": 0.0, "weight_decay": 0.0, "proximal": 0.0, "clip": None, "schedule": Schedule("constant")}
    assert Local() == Local(steps=1, epochs=None, batch_size=32, step_size=0.1, **plain)
    assert Local().plain
    assert ServerStep() == ServerStep("sgd", step_size=0.1, momentum=0.9, second=0.99, epsilon=1e-8)


def test_a_gradient_as_small_as_adams_epsilon_is_followed_half_as_far():
    start, small = torch.zeros(1, dtype=torch.float64), torch.full((1,), 1e-8, dtype=torch.float64)
    memory, moved = ServerStep("adam", step_size=0.1).step(ServerMemory(), start, small, factor=1.0)
    assert moved.item() == pytest.approx(-0.1 / 2, rel=1e-9)
    assert memory.taken == 1


@pytest.mark.parametrize("kind", ["sgd", "momentum"])
def test_the_server_follows_the_factor_times_the_gradient_by_the_step_size_of_the_moment(kind):
    start, slope = torch.ones(1, dtype=torch.float64), torch.full((1,), 2.0, dtype=torch.float64)
    _, moved = ServerStep(kind, step_size=0.1).step(ServerMemory(), start, slope, factor=3.0)
    assert moved.item() == pytest.approx(1 - 0.1 * 3 * 2)
    _, moved = ServerStep(kind, step_size=0.1).step(ServerMemory(), start, slope, factor=3.0, step_size=0.05)
    assert moved.item() == pytest.approx(1 - 0.05 * 3 * 2)


@pytest.mark.parametrize(("steps", "moved"), [(1, [1.0, 11.0, 21.0]), (2, [2.0, 11.0, 20.0])])
def test_in_a_wave_each_task_carries_on_its_own_statistics_while_it_has_steps_to_do(steps, moved):
    def counted(params, stats, x, y):
        return torch.zeros_like(params), params.new_zeros(len(params)), stats + 1

    rows = [np.array([FAR])]
    lengths = (1, 1, 1) if steps == 1 else (2, 1, 0)
    jobs = [Job(ray(0.0), torch.tensor([10.0 * k]), rows * length, 0.1, k) for k, length in enumerate(lengths)]
    local = Local(steps=steps, batch_size=1)
    found = Waves(counted, Examples(RAY.dataset, torch.float64), local, most=8).compute(jobs)
    assert [one.stats.item() for one in found] == moved
