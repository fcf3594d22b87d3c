"""Where two algorithms are one: equal models after every update, on the same trace and the same batches.

References written by hand know nothing of the trainer but which examples a task sees.
"""

from collections import Counter

import numpy as np
import pytest

from small_runs import FLEET, PROBLEM, simulated, with_law
from sojourn import Fleet
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.favano import Favano
from sojourn.learning.algorithms.fedasync import FedAsync
from sojourn.learning.algorithms.fedavg import FedAvg
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.algorithms.quafl import Quafl
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerStep

RATE = 0.15
SERVER = ServerStep(step_size=RATE)
STEADY = with_law(FLEET, "deterministic")
several = pytest.mark.parametrize("steps", [1, 3])


def local(steps=1, **options):
    return Local(steps=steps, step_size=RATE, batch_size=4, **options)


def agree(path, other):
    assert path.shape == other.shape
    assert np.abs(path[-1]).max() > 0.1  # it went somewhere
    assert np.abs(path - other).max() <= 1e-12 * np.abs(path).max()


def tasks_back(case):
    """(client, which of its tasks, step of its model) of every update, in order; client queues are first come first."""
    done = Counter()
    rows = case.trace.applied
    for client, sent in zip(case.trace.client[rows].tolist(), case.trace.dispatched_step[rows].tolist(), strict=True):
        yield client, done[client], sent
        done[client] += 1


def local_sgd(case, client, nth, start, proximal=0.0):
    """A client's model after its local steps."""
    most, w = case.setting.local.steps, start
    for rows in case.batches.of(client, nth, most, most):
        w = w - RATE * (PROBLEM.stochastic_gradient(w, rows) + proximal * (w - start))
    return w


def hand_to_hand(case):
    """Each client goes on from where the one before it ended."""
    path = [np.zeros(4)]
    for client, nth, _ in tasks_back(case):
        path.append(local_sgd(case, client, nth, path[-1]))
    return np.array(path)


def asynchronous(case, factor=lambda client: 1.0):
    """Every local change applied to the server's model as it comes, times a factor."""
    path = [np.zeros(4)]
    for client, nth, sent in tasks_back(case):
        change = local_sgd(case, client, nth, path[sent]) - path[sent]
        path.append(path[-1] + factor(client) * change)
    return np.array(path)


def in_rounds(case, size, proximal=0.0):
    """The mean of the round's models becomes the server's."""
    path, ended = [np.zeros(4)], []
    for client, nth, _ in tasks_back(case):
        ended.append(local_sgd(case, client, nth, path[-1], proximal))
        full = len(ended) == size
        path.append(np.mean(ended, axis=0) if full else path[-1])
        ended = [] if full else ended
    return np.array(path)


@several
@pytest.mark.parametrize("tasks", [1, 5, 14])
def test_generalized_asyncsgd_with_equal_probabilities_is_asyncsgd_at_random(tasks, steps):
    general = simulated(GeneralizedAsyncSGD(SERVER), local(steps), tasks=tasks)
    random = simulated(AsyncSGD(SERVER), local(steps), tasks=tasks)
    assert general.trace == random.trace
    agree(general.path(), random.path())


@several
def test_asyncsgd_with_one_task_is_sgd_over_uniformly_drawn_clients(steps):
    case = simulated(AsyncSGD(SERVER), local(steps), tasks=1)
    agree(case.path(), hand_to_hand(case))


@several
def test_generalized_asyncsgd_with_one_task_is_sgd_over_clients_drawn_by_p_and_weighted(steps):
    case = simulated(GeneralizedAsyncSGD(SERVER), local(steps), tasks=1, weights=(1.0, 2.0))
    w, path = np.zeros(4), [np.zeros(4)]
    for client, nth, _ in tasks_back(case):
        w = w + (local_sgd(case, client, nth, w) - w) / (6 * (1 / 9 if client < 3 else 2 / 9))
        path.append(w)
    agree(case.path(), np.array(path))


@several
@pytest.mark.parametrize("assignment", ["pure", "random", "shuffled"])
def test_one_rule_under_every_assignment_is_the_asgrad_family(assignment, steps):
    case = simulated(AsyncSGD(SERVER, assignment), local(steps), tasks=5)
    agree(case.path(), asynchronous(case))


def test_pure_goes_back_to_the_finisher_and_shuffled_takes_everybody_once_a_block():
    pure = simulated(AsyncSGD(SERVER, "pure"), local(), tasks=5).trace
    finisher = dict(zip(pure.applied_step.tolist(), pure.client.tolist(), strict=True))
    later = pure.dispatched_step > 0
    assert [finisher[step - 1] for step in pure.dispatched_step[later]] == pure.client[later].tolist()
    trace = simulated(AsyncSGD(SERVER, "shuffled"), local(), tasks=1).trace
    order = trace.client[np.argsort(trace.dispatched_step)][1:]  # after the first task, which nobody assigned
    assert all(sorted(block) == list(range(6)) for block in order[:60].reshape(-1, 6).tolist())


def test_generalized_asyncsgd_is_asyncsgd_with_each_update_weighted():
    case = simulated(GeneralizedAsyncSGD(SERVER), local(), tasks=9, weights=(2.0, 1.0))
    agree(case.path(), asynchronous(case, lambda client: 1 / (6 * (2 / 9 if client < 3 else 1 / 9))))


@pytest.mark.parametrize("size", [2, 3])
def test_generalized_asyncsgd_that_gathers_is_fedbuff_with_the_same_weights(size):
    case = simulated(FedBuff(size=size, dispatch="routed"), local(), tasks=9)
    agree(case.path(), case.of(GeneralizedAsyncSGD(SERVER, size=size)).path())
    uneven = simulated(GeneralizedAsyncSGD(SERVER, size=size), local(), tasks=9, weights=(2.0, 1.0))
    gathered, w = [], [np.zeros(4)]
    for client, nth, sent in tasks_back(uneven):
        change = local_sgd(uneven, client, nth, w[sent]) - w[sent]
        gathered.append(change / (6 * (2 / 9 if client < 3 else 1 / 9)))
        full = len(gathered) == size
        w.append(w[-1] + np.mean(gathered, axis=0) if full else w[-1])
        gathered = [] if full else gathered
    agree(uneven.path(), np.array(w))


def test_generalized_asyncsgd_with_adaptive_steps_is_asyncsgd_with_them():
    case = simulated(AsyncSGD(SERVER, steps="adaptive"), local(), tasks=9)
    agree(case.path(), case.of(GeneralizedAsyncSGD(SERVER, steps="adaptive")).path())
    assert np.abs(case.path() - case.of(GeneralizedAsyncSGD(SERVER)).path()).max() > 1e-3


@several
@pytest.mark.parametrize("tasks", [4, 9])
def test_fedbuff_with_a_buffer_of_one_is_asyncsgd(tasks, steps):
    buffered = simulated(FedBuff(size=1, dispatch="routed"), local(steps), tasks=tasks)
    plain = simulated(AsyncSGD(SERVER), local(steps), tasks=tasks)
    assert buffered.trace == plain.trace
    agree(buffered.path(), plain.path())


@several
def test_fedbuff_with_a_buffer_of_one_is_asyncsgd_also_over_idle_clients(steps):
    case = simulated(FedBuff(size=1), local(steps), tasks=4)
    agree(case.path(), case.of(AsyncSGD(SERVER)).path())


@several
def test_fedbuff_of_all_clients_that_start_together_is_fedavg(steps):
    case = simulated(FedAvg(), local(steps))
    agree(case.path(), case.of(FedBuff(size=6)).path())


@pytest.mark.parametrize("weights", ["objective", "equal"])
def test_fedavg_of_all_clients_with_one_step_is_gradient_descent(weights):
    case = simulated(FedAvg(weights=weights), local())
    path = [np.zeros(4)]
    for turn in range(10):
        batches = (next(case.batches.of(client, turn, 1, 1)) for client in range(6))
        gradient = np.mean([PROBLEM.stochastic_gradient(path[-1], rows) for rows in batches], axis=0)
        path.append(path[-1] - RATE * gradient)
    agree(case.path()[::6], np.array(path))


def test_fedavg_of_all_clients_with_whole_batches_is_full_gradient_descent():
    case = simulated(FedAvg(), Local(step_size=RATE, batch_size=10))
    path = [np.zeros(4)]
    for _ in range(10):
        path.append(path[-1] - RATE * PROBLEM.gradient(path[-1]))
    agree(case.path()[::6], np.array(path))


@several
def test_fedprox_without_its_term_is_fedavg(steps):
    case = simulated(FedAvg(), local(steps, proximal=0.0), tasks=4)
    agree(case.path(), in_rounds(case, 4))


def test_fedprox_changes_every_local_step_but_the_first():
    plain, bent = (simulated(FedAvg(), local(3, proximal=mu), tasks=4) for mu in (0.0, 2.0))
    agree(bent.path(), in_rounds(bent, 4, proximal=2.0))
    assert np.abs(bent.path() - plain.path()).max() > 0.01
    one, other = (simulated(FedAvg(), local(1, proximal=mu), tasks=4) for mu in (0.0, 2.0))
    assert (one.path() == other.path()).all()


@several
@pytest.mark.parametrize("dispatch", ["idle", "pure", "routed"])
def test_fedasync_that_overwrites_the_model_is_local_sgd_from_hand_to_hand(dispatch, steps):
    algorithm = FedAsync(alpha=1.0, staleness="constant", dispatch=dispatch)
    case = simulated(algorithm, local(steps), tasks=1)
    agree(case.path(), hand_to_hand(case))


@several
@pytest.mark.parametrize("tasks", [3, 6])
def test_quafl_that_neither_quantises_nor_mixes_is_fedavg(tasks, steps):
    case = simulated(FedAvg(), local(steps), tasks=tasks)
    bare = Quafl(contacts=tasks, bits=32, rescale=False, server_average=False, client_average=False)
    agree(case.path(), case.of(bare).path())


@several
def test_quafl_by_the_clock_is_fedavg_where_everybody_is_called_and_has_finished(steps):
    bare = Quafl(6, waiting=2.0, interaction=2.0, bits=32, rescale=False, server_average=False, client_average=False)
    case = simulated(bare, local(steps), fleet=STEADY)
    assert (case.trace.work[case.trace.applied] == steps).all()
    agree(case.path(), in_rounds(case, 6))
    agree(case.path(), case.of(FedAvg()).path())


@pytest.mark.parametrize("tasks", [3, 6])
def test_favano_of_one_step_that_keeps_nothing_is_fedavg(tasks):
    case = simulated(FedAvg(weights="equal"), local(), fleet=STEADY, tasks=tasks)
    agree(case.path(), case.of(Favano(contacts=tasks, keep=0.0)).path())


def test_favano_by_the_clock_is_fedavg_where_everybody_is_called_and_has_done_its_step():
    case = simulated(Favano(6, waiting=1.0, interaction=1.0, keep=0.0), local(), fleet=STEADY)
    agree(case.path(), in_rounds(case, 6))


@several
@pytest.mark.parametrize("rule", ["adaptive", "drop"])
def test_delay_adaptive_steps_are_plain_ones_while_no_delay_exceeds_the_tasks_in_flight(rule, steps):
    alike = with_law(Fleet.of(all=(6, 1.0)), "deterministic")
    case = simulated(AsyncSGD(SERVER, "pure"), local(steps), fleet=alike, weights=(1.0,), tasks=4)
    assert case.trace.staleness.max() == 3
    agree(case.path(), case.of(AsyncSGD(SERVER, "pure", rule)).path())
    wild = simulated(AsyncSGD(SERVER, "pure"), local(steps), tasks=4)
    assert wild.trace.staleness.max() > 4
    assert np.abs(wild.path() - wild.of(AsyncSGD(SERVER, "pure", rule)).path()).max() > 0.01
