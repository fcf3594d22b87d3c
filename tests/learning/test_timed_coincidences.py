"""Where methods with timing of their own are others: equal models after every update, on the same trace and batches."""

from math import inf

import numpy as np
import pytest
from test_coincidences import agree, asynchronous, hand_to_hand, in_rounds, local_sgd

from small_runs import FLEET, PROBLEM, simulated, with_law
from sojourn import Fleet
from sojourn.algorithms import (
    Aafl,
    AsGrad,
    AsyncFedED,
    AsyncSGD,
    FedAsync,
    FedAvg,
    FedBuff,
    FedCompass,
    FedFix,
    Local,
    Malenia,
    Rennala,
    Ringmaster,
    ServerStep,
)
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.synthetic import Quadratic
from sojourn.learning.replay.timeline import _nth, closing

RATE = 0.15
SERVER = ServerStep(step_size=RATE)
STEADY = with_law(FLEET, "deterministic")
several = pytest.mark.parametrize("steps", [1, 3])


def local(steps=1, **options):
    return Local(steps=steps, step_size=RATE, batch_size=4, **options)


@several
def test_rennala_with_a_batch_of_one_is_sgd_where_one_task_is_in_flight(steps):
    case = simulated(AsyncSGD(SERVER), local(steps), tasks=1)
    agree(case.of(Rennala(SERVER, size=1)).path(), hand_to_hand(case))


@several
def test_rennala_that_stops_others_and_takes_one_is_sgd_on_whoever_is_first(steps):
    case = simulated(Rennala(SERVER, size=1, restart="stop"), local(steps))
    assert (case.trace.staleness == 0).all()
    agree(case.path(), case.of(AsyncSGD(SERVER)).path())


@pytest.mark.parametrize("size", [1, 4])
def test_rennala_that_stops_others_is_rennala_that_ignores_them_on_the_same_tasks(size):
    case = simulated(Rennala(SERVER, size=size, restart="stop"), local())
    agree(case.path(), case.of(Rennala(SERVER, size=size)).path())
    agree(case.path(), case.of(FedBuff(size=size)).path())  # no gradient is stale, so that it is a buffer


@several
def test_malenia_with_one_gradient_of_each_client_is_fedavg_of_all(steps):
    case = simulated(FedAvg(weights="equal"), local(steps))
    agree(case.path(), case.of(Malenia(SERVER)).path())


def test_malenia_that_stops_equal_clients_is_gradient_descent():
    alike = with_law(Fleet.of(all=(6, 1.0)), "deterministic")
    whole = Local(step_size=RATE, batch_size=10)
    case = simulated(Malenia(SERVER, restart="stop"), whole, fleet=alike, weights=(1.0,))
    path = [np.zeros(4)]
    for _ in range(10):
        path.append(path[-1] - RATE * PROBLEM.gradient(path[-1]))
    agree(case.path()[::6], np.array(path))


@several
@pytest.mark.parametrize("stops", [False, True])
def test_ringmaster_without_a_limit_is_asyncsgd_with_pure_assignment(stops, steps):
    case = simulated(Ringmaster(SERVER, inf, stops), local(steps))
    pure = simulated(AsyncSGD(SERVER, "pure"), local(steps))
    assert case.trace == pure.trace
    agree(case.path(), pure.path())


def test_ringmaster_that_stops_uses_every_gradient_that_comes_back():
    case = simulated(Ringmaster(SERVER, 3, stops=True), local())
    assert case.trace.staleness.max() == 2
    agree(case.path(), case.of(AsyncSGD(SERVER)).path())


def test_ringmaster_with_the_limit_one_takes_fresh_gradients_only():
    case = simulated(Ringmaster(SERVER, 1), local())
    path, version, sent = [np.zeros(4)], 0, {0: 0}  # the version that a step's model had
    applied = case.trace.applied
    nth = _nth(case.trace)[applied]
    for row, (client, step) in enumerate(
        zip(case.trace.client[applied].tolist(), case.trace.dispatched_step[applied].tolist(), strict=True)
    ):
        fresh = sent[step] == version
        path.append(local_sgd(case, client, nth[row], path[-1]) if fresh else path[-1])
        version += fresh
        sent[row + 1] = version
    agree(case.path(), np.array(path))


@several
@pytest.mark.parametrize(("assignment", "tasks"), [("pure", 6), ("random", 8), ("shuffled", 8)])
def test_asgrad_that_does_not_wait_is_asyncsgd_with_that_assignment(assignment, tasks, steps):
    case = simulated(AsGrad(SERVER, assignment), local(steps), tasks=tasks)
    plain = simulated(AsyncSGD(SERVER, assignment), local(steps), tasks=tasks)
    assert case.trace == plain.trace
    agree(case.path(), plain.path())


@several
def test_asgrad_that_waits_for_all_is_fedavg_of_all_at_the_same_times(steps):
    case = simulated(AsGrad(SERVER, "pure", wait=6), local(steps))
    rounds = simulated(FedAvg(weights="equal"), local(steps))
    assert np.array_equal(case.trace.applied_at[case.trace.applied], rounds.trace.applied_at)
    agree(case.path(), case.of(FedAvg(weights="equal")).path())
    agree(case.path(), in_rounds(case, 6))


@several
@pytest.mark.parametrize("assignment", ["pure", "random", "shuffled"])
def test_asgrad_that_waits_is_a_buffer_for_which_clients_wait(assignment, steps):
    case = simulated(AsGrad(SERVER, assignment, wait=3), local(steps), tasks=6)
    agree(case.path(), case.of(FedBuff(size=3)).path())


@several
@pytest.mark.parametrize("form", ["keep", "mean"])
def test_aafl_that_waits_for_all_is_fedavg_of_all_at_the_same_times(form, steps):
    case = simulated(Aafl(alpha=1.0, form=form), local(steps))
    rounds = simulated(FedAvg(), local(steps))
    assert np.array_equal(case.trace.applied_at[case.trace.applied], rounds.trace.applied_at)
    agree(case.path(), in_rounds(case, 6))
    agree(case.path(), case.of(FedAvg()).path())


@several
def test_aafl_that_waits_for_one_is_fedasync_with_a_constant_share(steps):
    case = simulated(Aafl(alpha=0.1), local(steps))
    agree(case.path(), case.of(FedAsync(alpha=1 / 6, staleness="constant")).path())


@several
def test_fedfix_with_windows_longer_than_any_task_is_fedavg_of_all(steps):
    case = simulated(FedFix(dt=float(steps)), local(steps), fleet=STEADY)
    assert np.unique(case.trace.applied_at[case.trace.applied]).size == 10
    agree(case.path(), in_rounds(case, 6))
    agree(case.path(), case.of(FedAvg()).path())


@several
def test_fedfix_async_is_asyncsgd_with_updates_weighted_by_the_time_that_they_take(steps):
    case = simulated(FedFix(form="async", server_step_size=0.5), local(steps))
    agree(case.path(), asynchronous(case, lambda client: 0.5 / 6 * (15 / 4 if client < 3 else 15)))


@several
def test_fedfix_buffered_with_identical_weights_is_fedbuff(steps):
    case = simulated(FedFix(form="buffered", size=4, weights="identical"), local(steps))
    agree(case.path(), case.of(FedBuff(size=4)).path())


def in_groups(case, share):
    """The rule of FedCompass, group by group; `share` of a model at a staleness."""
    trace, path, batch = case.trace, [np.zeros(4)], []
    version = [0]  # of the model after so many updates
    nth, closes, most = _nth(trace), closing(trace), case.setting.local.steps
    for row in np.flatnonzero(trace.applied):
        client, sent = int(trace.client[row]), int(trace.dispatched_step[row])
        w = path[sent]
        for rows in case.batches.of(client, int(nth[row]), int(trace.work[row]), most):
            w = w - RATE * PROBLEM.stochastic_gradient(w, rows)
        batch.append((share(version[-1] - version[sent]), w))
        mixed = (1 - sum(a for a, _ in batch)) * path[-1] + sum(a * one for a, one in batch)
        path.append(mixed if closes[row] else path[-1])
        version.append(version[-1] + int(closes[row]))
        batch = [] if closes[row] else batch
    return np.array(path)


@pytest.mark.parametrize("slack", [1.1, 2.0])
def test_fedcompass_mixes_groups_and_late_updates_by_its_rule(slack):
    case = simulated(FedCompass(slack=slack), local(6))
    assert np.unique(case.trace.work[case.trace.applied]).size > 3
    agree(case.path(), in_groups(case, lambda tau: 0.9 / 6 * (1 + tau) ** -0.5))


@pytest.mark.parametrize("staleness", ["constant", "polynomial"])
def test_fedcompass_of_one_client_and_one_step_is_fedasync(staleness):
    alone = Quadratic(Dataset("one", [[1.0]], [0], [[0.0]], [0], owner=[0]), np.ones(1))
    fleet = with_law(Fleet.of(all=(1, 1.0)), "deterministic")
    method = FedCompass(alpha=0.7, staleness=staleness)
    case = simulated(method, Local(batch_size=1, step_size=RATE), fleet=fleet, weights=(1.0,), steps=20, problem=alone)
    assert set(case.trace.work[case.trace.applied].tolist()) == {1}
    agree(case.path(), case.of(FedAsync(alpha=0.7, staleness=staleness)).path())


def test_fedcompass_of_equally_fast_clients_is_fedavg_of_all_once_it_knows_their_speeds():
    alike = with_law(Fleet.of(all=(6, 1.0)), "deterministic")
    case = simulated(FedCompass(alpha=1.0, staleness="constant"), local(3), fleet=alike, weights=(1.0,))
    times, sizes = np.unique(case.trace.applied_at[case.trace.applied], return_counts=True)
    assert (np.diff(times) == 3).all()
    assert set(sizes.tolist()) == {6}
    assert closing(case.trace)[case.trace.applied][6:].tolist() == [False] * 5 + [True] + ([False] * 5 + [True]) * 8
    path = case.path()
    w = path[12]
    ended = [local_sgd(case, client, 2, w) for client in case.trace.client[case.trace.applied][12:18]]
    assert path[18] == pytest.approx(np.mean(ended, axis=0), rel=1e-12)


@several
def test_asyncfeded_with_one_task_in_flight_is_local_sgd_with_a_server_step(steps):
    case = simulated(FedBuff(size=1, server_step_size=0.4, dispatch="routed"), local(steps), tasks=1)
    agree(case.path(), case.of(AsyncFedED(gain=0.6, epsilon=1.5)).path())
