"""Where the methods with tables, memories and adaptive servers are others: equal models after every update."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_coincidences import local_sgd, tasks_back

from small_runs import simulated, with_law
from sojourn import Fleet
from sojourn.algorithms import (
    Ace,
    AsoFed,
    AsyncSGD,
    Ca2fl,
    DelayAdaptive,
    Fadas,
    FedAsmu,
    FedAsync,
    FedAvg,
    FedBuff,
    FedProx,
    Ia2sgd,
    Local,
    Ringleader,
    ServerStep,
)
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.synthetic import Quadratic

RATE = 0.15
SERVER = ServerStep(step_size=RATE)
ALONE = Fleet.of(all=(1, 1.0))
several = pytest.mark.parametrize("steps", [1, 3])


def local(steps=1, **options):
    return Local(steps=steps, step_size=RATE, batch_size=4, **options)


def agree(path, other):
    assert path.shape == other.shape
    assert np.abs(path[-1]).max() > 0.1  # it went somewhere
    assert np.abs(path - other).max() <= 1e-12 * np.abs(path).max()


@several
@pytest.mark.parametrize("method", [Ia2sgd(SERVER), Ia2sgd(SERVER, warmup="zero"), Ace(SERVER), Ringleader(SERVER)])
def test_a_table_of_one_client_is_sgd(method, steps):
    one = with_law(ALONE, "deterministic")
    case = alone(simulated(method, local(steps), fleet=one, weights=(1.0,), steps=20))
    agree(case.path(), case.of(AsyncSGD(SERVER)).path())


def alone(case):
    """The same with the first of the toy's two clients only."""
    return replace(case, problem=Quadratic(Dataset("one", [[1.0]], [0], [[0.0]], [0], owner=[0]), np.ones(1)))


@several
def test_ace_is_ia2sgd_and_so_is_aced_while_nothing_is_too_old(steps):
    case = simulated(Ia2sgd(SERVER), local(steps))
    agree(case.path(), case.of(Ace(SERVER)).path())
    agree(case.path(), case.of(Ace(SERVER, most=10_000)).path())
    assert np.abs(case.path() - case.of(Ace(SERVER, most=6)).path()).max() > 1e-3


@several
def test_a_table_that_waits_for_everybody_is_fedavg(steps):
    # one step for six arrivals that come from six clients: the mean of their changes at the same model
    case = simulated(FedAvg(weights="equal"), local(steps))
    agree(case.path(), case.of(Ia2sgd(SERVER, size=6)).path())


@several
def test_ca2fl_with_every_client_once_in_a_buffer_is_fedbuff(steps):
    case = simulated(FedAvg(), local(steps))
    agree(case.path(), case.of(FedBuff(size=6)).path())
    agree(case.of(Ca2fl(size=6)).path(), case.of(FedBuff(size=6)).path())


@several
def test_ca2fl_whose_caches_stay_empty_is_fedbuff(steps):
    case = simulated(FedBuff(size=3), local(steps), tasks=5)
    replay, path = case.replay(Ca2fl(size=3)), [np.zeros(4)]
    for received in range(1, case.steps + 1):
        replay.advance(received)
        replay.state = replay.state._replace(cached={}, mean=torch.zeros(4, dtype=torch.float64))
        path.append(replay.params.numpy())
    agree(case.path(), np.array(path))
    assert np.abs(case.path() - case.of(Ca2fl(size=3)).path()).max() > 1e-3


@several
def test_fadas_without_moments_is_fedbuff(steps):
    # with a very large epsilon the denominator is the epsilon; divided by as large a step size it is one
    case = simulated(FedBuff(size=3), local(steps), tasks=5)
    agree(case.path(), case.of(Fadas(1e15, beta1=0.0, epsilon=1e15, size=3, adaptive=False)).path())


@several
@pytest.mark.parametrize("beyond", ["shrink", "drop"])
def test_delay_adaptive_steps_are_those_of_asyncsgd_up_to_the_threshold(beyond, steps):
    case = simulated(AsyncSGD(SERVER, "pure"), local(steps), tasks=4)
    largest = int(case.trace.staleness.max())
    assert largest > 4
    agree(case.path(), case.of(DelayAdaptive(SERVER, threshold=largest, beyond=beyond)).path())
    rule = {"shrink": "adaptive", "drop": "drop"}[beyond]
    agree(case.of(AsyncSGD(SERVER, "pure", rule)).path(), case.of(DelayAdaptive(SERVER, beyond=beyond)).path())
    assert np.abs(case.path() - case.of(DelayAdaptive(SERVER, beyond=beyond)).path()).max() > 0.01


@several
def test_fedasmu_with_a_constant_share_and_no_refresh_is_fedasync(steps):
    case = simulated(FedAsync(alpha=0.6, staleness="constant", dispatch="pure"), local(steps))
    agree(case.path(), case.of(FedAsmu(lam=0.0, iota=1.5, refresh=False)).path())


def test_fedasmu_that_refreshes_nothing_is_fedasync_with_twice_the_steps():
    # tasks of three steps, two of which are a training; the clock of six steps is that of one task
    halves = simulated(FedAsmu(lam=0.0, iota=1.5, nu=0.0), local(3), tasks=6, steps=120)
    path, ends, seen, models = halves.path(), [0], {}, [np.zeros(4)]
    for step, (client, nth, version) in enumerate(tasks_back(halves), start=1):
        begin = seen.pop(client, None)
        if begin is None:
            seen[client] = local_sgd(halves, client, nth, path[version])
            continue
        end = local_sgd(halves, client, nth, begin)
        models.append(0.4 * models[-1] + 0.6 * end)
        ends.append(step)
    agree(path[ends], np.array(models))


@several
def test_fedprox_without_its_term_is_fedavg(steps):
    prox, plain = (simulated(one, local(steps), tasks=4) for one in (FedProx(mu=0.0), FedAvg()))
    assert prox.trace == plain.trace
    agree(prox.path(), plain.path())


def test_fedprox_is_fedavg_with_the_term_in_its_local_work():
    prox, plain = simulated(FedProx(mu=2.0), local(3), tasks=4), simulated(FedAvg(), local(3, proximal=2.0), tasks=4)
    agree(prox.path(), plain.path())


def test_fedprox_whose_deadline_everybody_meets_is_fedavg():
    steady = with_law(Fleet.of(fast=(3, 4.0), slow=(3, 1.0)), "deterministic")
    prox = simulated(FedProx(mu=0.0, deadline=2.5), local(2), fleet=steady)
    assert (prox.trace.work[prox.trace.applied] == 2).all()
    agree(prox.path(), prox.of(FedAvg()).path())


@several
def test_the_first_updates_of_asofed_are_those_of_asyncsgd_times_the_weight(steps):
    case = simulated(AsoFed(lam=0.0), local(steps), steps=60)
    arrived = case.trace.client[case.trace.applied].tolist()
    plain = next(step for step in range(60) if arrived[step] in arrived[:step])  # until somebody is back again
    assert plain >= 2
    other = case.of(AsyncSGD(ServerStep(step_size=RATE / 6))).path()
    assert np.abs(case.path() - other)[: plain + 1].max() <= 1e-12
    assert np.abs(case.path() - other)[-1].max() > 0.01
