"""Each algorithm followed by hand: two clients with gradients w - 1 and w + 3, from w = 0 with steps of 0.1."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from small_runs import TOY, by_hand, simulated
from sojourn import Fleet
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.base import Arrival, Sent
from sojourn.learning.algorithms.favano import Favano
from sojourn.learning.algorithms.fedasync import FedAsync
from sojourn.learning.algorithms.fedavg import FedAvg
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.algorithms.quafl import Quafl
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.quantiser import Lattice
from sojourn.learning.replay.server_step import ServerStep

NOW_AND_THEN = ((1, 0), (2, 1))  # client 1 first, then client 2 with the model that came of it
BOTH_AT_ONCE = ((1, 0), (2, 0))  # both with the first model, client 1 is back first


def models(case):
    """The server's model after each update."""
    return case.path()[1:, 0].tolist()


def near(*values):
    return pytest.approx(values, abs=1e-7)


# the steps that all algorithms are made of


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 0.19),  # gradients -1 and -0.9
        ({"momentum": 0.5}, 0.1 + 0.1 * 1.4),  # 0.9 + 0.5 * 1
        ({"weight_decay": 0.2}, 0.1 + 0.1 * 0.88),  # 0.9 - 0.2 * 0.1
        ({"proximal": 2.0}, 0.1 + 0.1 * 0.7),  # 0.9 - 2 * 0.1; nothing at first
        ({"clip": 0.95}, 0.095 + 0.1 * 0.905),  # the first one is shortened to 0.95
    ],
)
def test_two_local_steps_with_every_option(options, expected):
    case = by_hand(FedAsync(alpha=1.0, staleness="constant"), (1, 0), steps=2, **options)
    assert models(case) == near(expected)


def test_the_server_moves_by_velocity_or_by_adam_where_asked():
    # gradients -1 and 3
    momentum = by_hand(AsyncSGD(ServerStep("momentum", step_size=0.1, momentum=0.9)), *BOTH_AT_ONCE)
    assert models(momentum) == near(0.1, 0.1 - 0.1 * (3 - 0.9))
    adam = by_hand(AsyncSGD(ServerStep("adam", step_size=0.1, momentum=0.9, second=0.99)), *BOTH_AT_ONCE)
    mean, square = (0.1 * 3 - 0.9 * 0.1) / (1 - 0.9**2), (0.01 * 9 + 0.99 * 0.01) / (1 - 0.99**2)
    assert models(adam) == near(0.1, 0.1 - 0.1 * mean / square**0.5)


# Generalized AsyncSGD


def test_generalized_asyncsgd_divides_by_n_times_the_probability_of_who_comes_back():
    case = by_hand(GeneralizedAsyncSGD(), *NOW_AND_THEN, sampling=(0.25, 0.75), concurrency=1)
    assert models(case) == near(0.2, -0.0133333)  # 0.2 - 0.1 (2/3) 3.2


@pytest.mark.parametrize("sampling", [(0.5, 0.5), (0.25, 0.75), (0.9, 0.1)])
def test_generalized_asyncsgd_is_unbiased_whatever_the_sampling(sampling):
    # mean over p of (w - step), from a first model 0 and from the model that came of it
    for before in ((), ((2, 0),)):
        moved = []
        for client in (1, 2):
            case = by_hand(GeneralizedAsyncSGD(), *before, (client, len(before)), sampling=sampling, concurrency=1)
            path = case.path()[:, 0]
            moved.append(path[-1] - path[-2])
        assert np.dot(sampling, moved) == pytest.approx(-0.1 * (path[-2] + 1), rel=1e-12)


@pytest.mark.parametrize("tasks", [1, 4, 6, 15])
def test_as_many_tasks_as_planned_are_outstanding_at_all_times(tasks):
    case = simulated(GeneralizedAsyncSGD(), Local(batch_size=2), weights=(1.0, 3.0), tasks=tasks, steps=60)
    replay = case.replay()
    for received in range(61):
        replay.advance(received)
        assert len(replay.pending) == tasks


def test_the_virtual_iterate_is_ahead_by_the_gradients_of_the_tasks_in_flight():
    # all weighted gradients of tasks dispatched so far, come back or not, against those applied: C - 1 are on the way
    step_size, tasks, problem = 0.1, 3, TOY
    fleet = Fleet.of(one=(1, 2.0), two=(1, 1.0))
    case = simulated(GeneralizedAsyncSGD(), Local(batch_size=1), fleet=fleet, weights=(1.0, 2.0), tasks=tasks, steps=40)
    path, trace = case.path(), case.trace
    weight = 1 / (2 * trace.prob)
    for step in range(1, 41):
        sent = np.flatnonzero(trace.dispatched_step < step)
        gradient = np.array(
            [problem.client_gradient(trace.client[row], path[trace.dispatched_step[row]])[0] for row in sent]
        )
        virtual = path[0, 0] - step_size * (weight[sent] * gradient).sum()
        away = ~(trace.applied[sent] & (trace.applied_step[sent] < step))
        assert away.sum() == tasks - 1
        assert virtual - path[step, 0] == pytest.approx(-step_size * (weight[sent] * gradient)[away].sum(), abs=1e-12)


# AsyncSGD


def test_asyncsgd_applies_every_gradient_as_it_comes():
    assert models(by_hand(AsyncSGD(), *BOTH_AT_ONCE)) == near(0.1, -0.2)


def test_asyncsgd_shortens_or_drops_what_is_staler_than_the_tasks_in_flight():
    # six gradients of client 1 at w = 0, all -1; two tasks in flight; staleness 0 to 5
    late = [(1, 0)] * 6
    steps = {name: np.diff([0, *models(by_hand(AsyncSGD(steps=name), *late))]) for name in ("adaptive", "drop")}
    assert steps["adaptive"] == near(0.1, 0.1, 0.1, 0.1 * 2 / 3, 0.1 * 2 / 4, 0.04)  # 0.4 of the step at 5
    assert steps["drop"] == near(0.1, 0.1, 0.1, 0, 0, 0)


def test_staleness_counts_changes_of_the_model_and_not_gradients_that_were_dropped():
    # one task in flight: the third is dropped, so that the fourth, sent after the first, is one change old
    case = by_hand(AsyncSGD(steps="drop"), (1, 0), (1, 0), (1, 0), (2, 1), concurrency=1)
    assert models(case) == near(0.1, 0.2, 0.2, 0.2 - 0.1 * 3.1)


# FedAvg


@pytest.mark.parametrize(("steps", "expected"), [(1, -0.1), (2, -0.19)])
def test_fedavg_averages_the_models_of_a_round(steps, expected):
    case = by_hand(FedAvg(), *BOTH_AT_ONCE, dispatcher="rounds", together=2, steps=steps)
    assert models(case) == near(0, expected)


def test_fedavg_weighs_by_data_or_equally():
    for weights, expected in (("equal", -0.1), ("objective", 0.8 * 0.1 - 0.2 * 0.3)):
        case = by_hand(FedAvg(weights=weights), *BOTH_AT_ONCE, dispatcher="rounds", together=2)
        object.__setattr__(case.setting, "weights", np.array([0.8, 0.2]))
        assert models(case) == near(0, expected)


# FedBuff


@pytest.mark.parametrize(("size", "expected"), [(2, (0, -0.1)), (1, (0.1, -0.2))])
def test_fedbuff_moves_by_the_mean_of_a_full_buffer(size, expected):
    assert models(by_hand(FedBuff(size=size), *BOTH_AT_ONCE)) == near(*expected)


def test_fedbuff_divides_by_the_root_of_one_plus_staleness_where_asked():
    assert models(by_hand(FedBuff(size=1, staleness="root"), *BOTH_AT_ONCE)) == near(0.1, 0.1 - 0.3 / 2**0.5)
    # staleness counts changes of the model: two arrivals of one buffer leave it where it was
    together = by_hand(FedBuff(size=2, staleness="root"), *BOTH_AT_ONCE, (1, 0), (2, 0))
    assert models(together)[1::2] == near(-0.1, -0.1 - 0.1 / 2**0.5)


def test_fedbuff_takes_a_client_once_a_buffer_where_asked():
    case = by_hand(FedBuff(size=2, distinct=True), (1, 0), (1, 0), (2, 0))
    assert models(case) == near(0, 0, -0.1)


# FAVANO


def called(algorithm, *tasks, **options):
    return by_hand(algorithm, *tasks, dispatcher="periodic", together=2, **options)


@pytest.mark.parametrize("reweighting", ["stochastic", "deterministic"])
def test_favano_averages_models_that_are_reweighted_by_their_steps(reweighting):
    algorithm = Favano(contacts=2, reweighting=reweighting)
    assert models(called(algorithm, *BOTH_AT_ONCE))[-1:] == near(-0.0666667)  # (0 + 0.1 - 0.3) / 3
    twice = called(algorithm, (1, 0, 2), (2, 0, 1), steps=5)
    assert models(twice)[-1:] == near(-0.0683333)  # (0 + 0.19 / 2 - 0.3) / 3


def test_who_has_done_nothing_returns_the_model_it_was_given():
    case = called(Favano(contacts=2), (1, 0, 1), (2, 0, 1), (1, 2, 0), (2, 2, 0), steps=5)
    first, second = models(case)[1::2]
    assert second == pytest.approx(first, rel=1e-15)


@pytest.mark.parametrize("contacts", [1, 2, 5])
def test_the_reweighting_of_favano_makes_every_client_count_as_one_step(contacts):
    # mean steps over E[min(E, K)], and share of calls with work over P(E > 0): both 1, whatever the speed
    algorithm = Favano(contacts=contacts, waiting=0.3, interaction=0.1)
    fleet = Fleet.of(fast=(1, 4.0), medium=(3, 1.0), slow=(2, 0.2))
    local = Local(steps=3)
    case = simulated(algorithm, local, fleet=fleet, weights=(1.0, 1.0, 1.0), steps=60_000)
    state = algorithm.init(torch.zeros(1), case.setting)
    work, client = case.trace.work[case.trace.applied], case.trace.client[case.trace.applied]
    for one in range(6):
        mine = work[client == one]
        assert mine.mean() / state.mean[one] == pytest.approx(1, abs=0.06)
        assert (mine > 0).mean() / state.chance[one] == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("reweighting", ["stochastic", "deterministic"])
def test_favano_settles_at_the_optimum_where_a_plain_average_goes_to_the_fast(reweighting):
    # client 1 nearly always does both steps of a period, client 2 mostly none; a plain average settles near 0
    fleet = Fleet.of(one=(1, 5.0), two=(1, 0.1))
    algorithm = Favano(contacts=2, waiting=4.0, interaction=3.0, reweighting=reweighting)
    case = simulated(algorithm, Local(steps=2, step_size=0.05, batch_size=1), fleet=fleet, steps=3000)
    assert case.path()[400::2].mean() == pytest.approx(-1, abs=0.1)
    w, plain = 0.0, []
    for first, second in zip(case.trace.client[:3000:2], case.trace.work[:3000].reshape(-1, 2), strict=True):
        one, two = second if first == 0 else second[::-1]
        w = (w + 1 + (w - 1) * 0.95**one - 3 + (w + 3) * 0.95**two) / 3
        plain.append(w)
    assert np.mean(plain[200:]) == pytest.approx(0, abs=0.2)


# QuAFL


def test_quafl_mixes_on_both_sides():
    algorithm = Quafl(contacts=2, bits=32, rescale=False)
    replay = called(algorithm, *BOTH_AT_ONCE, (1, 2, 0), (2, 2, 0)).replay()
    replay.advance(2)
    assert replay.params.tolist() == near(-0.0666667)
    assert [replay.kept[client].item() for client in (0, 1)] == near(0.1, -0.3)
    replay.advance(4)  # no more steps: what the clients hold is what they mixed
    assert [replay.kept[client].item() for client in (0, 1)] == near(0.0666667, -0.2)


def test_quafl_with_a_rescaled_rate_is_gradient_descent_in_its_first_step():
    assert models(called(Quafl(contacts=2, bits=32), *BOTH_AT_ONCE))[-1:] == near(-0.1)


def test_quafl_through_its_lattice_is_off_by_half_a_side_at_most():
    exact, coarse = (models(called(Quafl(contacts=2, bits=bits, side=1e-2), *BOTH_AT_ONCE))[-1] for bits in (32, 8))
    assert abs(exact - coarse) <= 2 / 3 * 0.5e-2


def test_the_key_of_the_lattice_is_what_the_receiver_has_itself():
    algorithm = Quafl(contacts=1, bits=6, side=0.01)  # reaches 0.315 and wraps beyond
    zero, one, nearly = torch.zeros(1), torch.ones(1), torch.full((1,), 0.9)
    update = Update(gradient=None, delta=nearly, step_size=0.1, steps=1, loss=zero)
    server = algorithm.init(one, by_hand(algorithm, (1, 0)).setting)
    state, _ = algorithm.apply(server, Arrival(0, 5, 0, 1.0, 0.5, 0.5, Sent(zero, 0), update))
    assert state.total.tolist() == near(0.9)  # near the server's model, far from the one that was sent
    starts = []
    starts.append(algorithm.start(one, Sent(nearly, 0))[0])
    assert starts[0].tolist() == near(0.95)


def test_the_lattice_is_exact_to_half_its_side_within_reach():
    lattice, rng = Lattice(side=1e-4, bits=14), np.random.default_rng(7)
    assert lattice.reach == pytest.approx(0.81915)
    key = torch.from_numpy(rng.uniform(-3, 3, 10_000))
    x = key + torch.from_numpy(rng.uniform(-0.8, 0.8, 10_000))
    assert float((lattice.through(x, key) - x).abs().max()) <= 0.5e-4 * (1 + 1e-9)
    assert int(lattice.encode(x).min()) >= 0
    assert int(lattice.encode(x).max()) < 2**14
    fine = Lattice(side=1e-9, bits=31)  # more digits than single precision has
    assert float((fine.through(x, key) - x).abs().max()) <= 0.5e-9 * (1 + 1e-5)


def test_the_lattice_is_wrong_without_notice_beyond_its_reach():
    lattice = Lattice(side=1e-4, bits=14)
    key = torch.linspace(-3, 3, 101, dtype=torch.float64)
    wrong = lattice.through(key + lattice.reach + 2e-4, key) - key
    assert float(wrong.max()) < 0  # it wraps to the other side


# FedAsync


def test_fedasync_mixes_less_of_a_staler_model():
    assert models(by_hand(FedAsync(), *BOTH_AT_ONCE)) == near(0.06, -0.0927351)


def test_the_three_staleness_functions_of_fedasync():
    constant = FedAsync(alpha=0.6, staleness="constant")
    power = FedAsync(alpha=0.6, staleness="polynomial", a=0.5)
    hinge = FedAsync(alpha=0.6, staleness="hinge", a=10.0, b=4.0)
    assert [constant.share(tau) for tau in (0, 1, 100)] == near(0.6, 0.6, 0.6)
    assert [power.share(tau) for tau in (0, 1, 3)] == near(0.6, 0.4242641, 0.3)
    assert [hinge.share(tau) for tau in (0, 4, 5, 6)] == near(0.6, 0.6, 0.6 / 11, 0.6 / 21)


def test_fedasync_that_keeps_nothing_has_the_last_clients_model():
    case = by_hand(FedAsync(alpha=1.0, staleness="constant"), *BOTH_AT_ONCE, (1, 2), steps=2)
    assert models(case) == near(0.19, -0.57, 1 + 0.81 * (-0.57 - 1))


def test_fedasync_drops_what_is_too_stale():
    case = by_hand(FedAsync(alpha=1.0, staleness="constant", most=1), (1, 0), (2, 0), (1, 0), (2, 0))
    assert models(case) == near(0.1, -0.3, -0.3, -0.3)


# what is taken where nothing is said


@pytest.mark.parametrize(
    ("algorithm", "expected", "weighs"),
    [
        (AsyncSGD, {"server": ServerStep(), "assignment": "random", "steps": "constant"}, False),
        (GeneralizedAsyncSGD, {"server": ServerStep(), "size": 1, "steps": "constant"}, True),
        (FedAvg, {"server": ServerStep(), "server_step_size": 1.0, "weights": "objective", "interaction": 0.0}, True),
        (
            FedBuff,
            {
                "server": ServerStep(),
                "server_step_size": 1.0,
                "size": 10,
                "staleness": "none",
                "distinct": False,
                "dispatch": "idle",
                "combine": "mean",
            },
            False,
        ),
        (
            FedAsync,
            {"alpha": 0.6, "staleness": "polynomial", "a": 0.5, "b": 4.0, "most": None, "dispatch": "idle"},
            False,
        ),
        (
            Favano,
            {"contacts": 20, "waiting": 4.0, "interaction": 3.0, "reweighting": "stochastic", "keep": 1.0},
            False,
        ),
        (
            Quafl,
            {
                "contacts": 20,
                "waiting": 4.0,
                "interaction": 3.0,
                "bits": 14,
                "side": 1e-4,
                "rescale": True,
                "server_average": True,
                "client_average": True,
            },
            False,
        ),
    ],
)
def test_options_that_are_left_out_and_who_looks_at_the_weights_of_clients(algorithm, expected, weighs):
    assert {one.name: getattr(algorithm(), one.name) for one in fields(algorithm)} == expected
    assert algorithm.weighs is weighs
