"""What queueing and algebra say of a run, held against the run.

The problem: clients whose losses are 1/2 (w - b_i)' H (w - b_i) with one H and centres b_i of their own. An algorithm
whose updates come from client i in the share s_i settles around the mean of the centres weighted by s_i.
"""

from itertools import combinations
from math import prod

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sojourn import Fleet, Plan, simulate
from sojourn.learning.algorithms.base import Algorithm, Setting
from sojourn.learning.algorithms.table import algorithm
from sojourn.learning.data.synthetic import Quadratic, quadratic
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.models.small import Point
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.replay import Replay
from sojourn.learning.replay.server_step import ServerStep
from sojourn.scenario import Scenario
from sojourn.trace import Trace

FLEET = Fleet.of(fast=(2, 8.0), medium=(1, 3.0), slow=(3, 1.0))
RATES = FLEET.rate[FLEET.group_of_client]
CENTRES = quadratic(dimension=3, clients=6, examples=1, noise=0.0, condition=2.0, heterogeneity=3.0, seed=4)
STEPS, RATE = 30_000, 0.02


def _replay(chosen: Algorithm, plan: Plan, steps: int, weights: NDArray[np.float64], seed: int = 1) -> Replay:
    local = Local(step_size=RATE, batch_size=1)
    plan, scenario = chosen.timing(FLEET, plan, local)
    model = FlatModel(Point(CENTRES).double())
    federation = Federation(model, CENTRES.dataset, CENTRES.partition, local, seed)
    return Replay(chosen, federation, _trace(plan, scenario, steps, seed), Setting(FLEET, plan, weights, local))


def _trace(plan: Plan, scenario: Scenario, steps: int, seed: int) -> Trace:
    return simulate(FLEET, plan, steps, start="even", seed=seed, scenario=scenario, engine="events")


def _settled(replay: Replay) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean of the server's model after the first fifth of the run, and its standard error by means of 20 batches."""
    replay.advance(STEPS // 5)
    batch = (STEPS - replay.received) // 20
    means = []
    for _ in range(20):
        total = torch.zeros(3, dtype=torch.float64)
        for _ in range(batch):
            replay.advance(replay.received + 1)
            total += replay.params
        means.append((total / batch).numpy())
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(20)


def _shares_of_idle_dispatch(step_sizes: NDArray[np.float64], tasks: int) -> NDArray[np.float64]:
    """Share of each client's updates when the next task goes to an idle client, uniformly.

    The set of busy clients has probability proportional to the product of their mean service times (the chain is
    reversible), so client i finishes at a step size proportional to the sum over the sets of tasks - 1 other clients.
    """
    clients = range(step_sizes.size)
    share = [
        sum(
            prod(1 / step_sizes[j] for j in others)
            for others in combinations([j for j in clients if j != i], tasks - 1)
        )
        for i in clients
    ]
    return np.array(share) / sum(share)


def _agrees(found: tuple[NDArray[np.float64], NDArray[np.float64]], expected: NDArray[np.float64]) -> bool:
    mean, error = found
    return bool((np.abs(mean - expected) < 5 * error).all())


EQUAL = np.full(6, 1 / 6)
TO_DATA = np.array([0.3, 0.1, 0.2, 0.1, 0.25, 0.05])


@pytest.mark.parametrize(
    "weights", [EQUAL, pytest.param(TO_DATA, marks=pytest.mark.slow)], ids=["equal weights", "weights by data"]
)
@pytest.mark.slow
def test_generalized_asyncsgd_finds_the_optimum_of_the_weighted_objective_under_skewed_sampling(weights) -> None:
    plan = Plan.of(FLEET, {"fast": 0.25, "medium": 0.2, "slow": 0.1}, 6)
    chosen = algorithm("generalized-asyncsgd", ServerStep(step_size=RATE))
    found = _settled(_replay(chosen, plan, STEPS, weights))
    assert _agrees(found, CENTRES.optimum(weights))


@pytest.mark.parametrize(
    ("text", "tasks", "shares"),
    [
        ("asyncsgd(assignment=pure)", 6, RATES / RATES.sum()),
        pytest.param("fedbuff(size=3)", 4, _shares_of_idle_dispatch(RATES, 4), marks=pytest.mark.slow),
        pytest.param("fedbuff(size=3)", 2, _shares_of_idle_dispatch(RATES, 2), marks=pytest.mark.slow),
    ],
    ids=["pure assignment", "FedBuff, 4 idle tasks", "FedBuff, 2 idle tasks"],
)
@pytest.mark.slow
def test_who_serves_the_finisher_or_the_idle_is_off_by_what_the_shares_say(text, tasks, shares) -> None:
    chosen = algorithm(text, ServerStep(step_size=RATE if text.startswith("async") else 1.0))
    found = _settled(_replay(chosen, Plan.uniform(FLEET, tasks), STEPS, EQUAL))
    expected, optimum = shares @ CENTRES.means, CENTRES.optimum()
    assert _agrees(found, expected)
    assert np.linalg.norm(found[0] - optimum) > 10 * np.linalg.norm(found[1])  # and that is not the optimum
    assert np.linalg.norm(found[0] - optimum) == pytest.approx(np.linalg.norm(expected - optimum), rel=0.1)


@pytest.mark.slow
def test_fedbuff_routed_uniformly_is_not_off() -> None:
    chosen = algorithm("fedbuff(size=3, dispatch=routed)", ServerStep())
    assert _agrees(_settled(_replay(chosen, Plan.uniform(FLEET, 4), STEPS, EQUAL)), CENTRES.optimum())


@pytest.mark.parametrize("tasks", [1, 4, 12])
def test_staleness_of_a_run_sums_to_c_minus_1_a_step_with_the_age_of_what_is_in_flight(tasks) -> None:
    chosen = algorithm("generalized-asyncsgd", ServerStep(step_size=RATE))
    replay = _replay(chosen, Plan.uniform(FLEET, tasks), 3000, EQUAL)
    replay.advance(3000)
    ages = sum(3000 - pinned.sent.version for pinned in replay.pending.values())
    assert int(replay.staleness.sum()) + ages == 3000 * (tasks - 1)
    assert replay.staleness.sum() / 3000 == pytest.approx(tasks - 1, abs=ages / 3000 + 1e-12)


def test_the_virtual_iterate_is_ahead_of_the_model_by_the_gradients_in_flight_at_every_step() -> None:
    """Virtual iterate: every gradient counts at dispatch. It is ahead by those of the C - 1 tasks in flight."""
    plan = Plan.of(FLEET, {"fast": 0.25, "medium": 0.2, "slow": 0.1}, 9)
    prob = plan.sampling[FLEET.group_of_client]
    replay = _replay(algorithm("generalized-asyncsgd", ServerStep(step_size=RATE)), plan, 400, EQUAL)
    gradient = _weighted_gradients(CENTRES, prob)
    replay.advance(0)
    before = set(replay.pending)
    virtual = replay.params.numpy() - RATE * sum(gradient(name[0], replay.pending[name]) for name in before)
    for step in range(1, 401):
        replay.advance(step)
        (new,) = set(replay.pending) - before
        others = [name for name in replay.pending if name != new]
        assert len(others) == 8
        ahead = -RATE * sum(gradient(name[0], replay.pending[name]) for name in others)
        np.testing.assert_allclose(replay.params.numpy() + ahead, virtual, rtol=0, atol=1e-12)
        virtual = virtual - RATE * gradient(new[0], replay.pending[new])
        before = set(replay.pending)


def _weighted_gradients(problem: Quadratic, prob: NDArray[np.float64]):
    """Gradient of a client at the model that a task carries, over n p."""

    def gradient(client, pinned):
        at = pinned.sent.params.numpy()
        return problem.curvature * (at - problem.means[client]) / (prob.size * prob[client])

    return gradient
