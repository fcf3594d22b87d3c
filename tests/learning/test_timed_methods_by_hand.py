"""Methods with timing of their own, followed by hand: gradients w - 1 and w + 3, from w = 0 with steps of 0.1."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
import torch

from small_runs import TOY, by_hand, simulated, with_law
from sojourn import Fleet
from sojourn.algorithms import (
    Aafl,
    AsGrad,
    AsyncFedED,
    FedAvg,
    FedCompass,
    FedFix,
    Local,
    Malenia,
    Rennala,
    Ringmaster,
    Setting,
)
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.learning.algorithms.fedfix import windows
from sojourn.learning.wrappers import Sign, TopK
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher
from sojourn.trace import DROPPED

BOTH = ((1, 0), (2, 0))  # both with the first model, client 1 is back first


def models(case):
    """The server's model after each update."""
    return case.path()[1:, 0].tolist()


def near(*values):
    return pytest.approx(values, abs=1e-7)


def unused(case):
    replay = case.replay()
    replay.advance(case.steps)
    return replay.tally.unused


# Rennala


def test_rennala_steps_along_the_mean_of_so_many_gradients_of_its_model():
    assert models(by_hand(Rennala(size=2), *BOTH)) == near(0, -0.1)
    twice = by_hand(Rennala(size=2), (1, 0), (1, 0))  # client 1 is twice as fast: both are its
    assert models(twice) == near(0, 0.1)


def test_rennala_ignores_a_gradient_of_an_older_model():
    case = by_hand(Rennala(size=2), (1, 0), (1, 0), (2, 0), (1, 2), (2, 3))
    assert models(case) == near(0, 0.1, 0.1, 0.1, 0.1 - 0.1 * (3.1 - 0.9) / 2)
    assert unused(case) == 1


@pytest.mark.parametrize("restart", ["ignore", "stop"])
def test_what_rennala_throws_away_is_counted_whether_it_was_finished_or_not(restart):
    fleet = with_law(Fleet.of(one=(1, 1.0), two=(1, 0.4)), "deterministic")
    case = simulated(Rennala(size=2, restart=restart), Local(batch_size=1), fleet=fleet, steps=4)
    # ignore: client 2 is back at 2.5 with the first model; stop: it is cancelled at 2
    replay = case.replay()
    replay.advance(3)
    assert (replay.tally.unused, replay.tally.gradients) == (1, 3 if restart == "ignore" else 4)
    assert (case.trace.fate == DROPPED).any() == (restart == "stop")
    assert models(case)[1] == pytest.approx(0.1)


# Malenia


@pytest.mark.parametrize("tasks", [BOTH, ((1, 0), (1, 0), (2, 0)), ((1, 0), (1, 0), (1, 0), (2, 0))])
def test_malenia_counts_every_client_alike_whatever_the_speeds(tasks):
    assert models(by_hand(Malenia(), *tasks))[-1:] == near(-0.1)


def test_malenia_waits_for_the_harmonic_mean():
    slow = ((1, 0), (2, 0), (1, 0), (2, 0))
    assert models(by_hand(Malenia(size=4), *slow)) == near(0, 0, 0, -0.1)  # 2 gradients each
    assert models(by_hand(Malenia(size=2.6), *slow)) == near(0, 0, -0.1, -0.1)  # 2 / (1/2 + 1) = 4/3
    assert models(by_hand(Malenia(size=2, strict=True), *slow)) == near(0, 0, -0.1, -0.1)  # 1 is met, not exceeded
    assert models(by_hand(Malenia(size=2), *slow))[1] == pytest.approx(-0.1)


@pytest.mark.parametrize(("size", "strict"), [(None, False), (7.5, False), (12.0, False), (12.0, True), (18.0, True)])
def test_the_server_and_the_dispatcher_of_malenia_agree_when_it_is_enough(size, strict):
    case = simulated(Malenia(size=size, strict=strict, restart="stop"), Local(batch_size=4), steps=200)
    replay, version, seen = case.replay(), 0, 0
    cancelled = np.unique(case.trace.applied_at[case.trace.fate == DROPPED])
    for received in range(1, case.steps + 1):
        replay.advance(received)
        if replay.state.version > version:
            version, seen = replay.state.version, seen + (replay.time in cancelled)
    assert version == seen == cancelled.size > 3
    assert (
        unused(case) == (case.trace.fate == DROPPED).sum() - (case.trace.work[case.trace.fate == DROPPED] == 0).sum()
    )  # nothing that comes back is of an older model


# Ringmaster


def test_ringmaster_ignores_what_is_too_old():
    assert models(by_hand(Ringmaster(threshold=1), *BOTH)) == near(0.1, 0.1)
    assert models(by_hand(Ringmaster(threshold=inf), *BOTH)) == near(0.1, -0.2)
    late = by_hand(Ringmaster(threshold=2), *[(1, 0)] * 4)
    assert models(late) == near(0.1, 0.2, 0.2, 0.2)  # what is ignored does not age the others
    assert unused(late) == 2


def test_ringmaster_without_a_threshold_takes_the_number_of_clients():
    assert models(by_hand(Ringmaster(), *[(1, 0)] * 3)) == near(0.1, 0.2, 0.2)


# AsGrad


@pytest.mark.parametrize(("wait", "expected"), [(1, (0.1, -0.2)), (2, (0, -0.1))])
def test_asgrad_steps_along_the_mean_of_those_it_waited_for(wait, expected):
    assert models(by_hand(AsGrad(wait=wait), *BOTH)) == near(*expected)


# AAFL


def test_aafl_leaves_the_weight_of_the_absent_on_its_own_model_or_does_not():
    assert models(by_hand(Aafl(alpha=1.0), *BOTH)) == near(0, -0.1)
    assert models(by_hand(Aafl(alpha=0.5), (1, 0))) == near(0.05)
    assert models(by_hand(Aafl(alpha=0.5, form="mean"), (1, 0))) == near(0.1)
    weighed = by_hand(Aafl(alpha=1.0, form="mean"), *BOTH)
    object.__setattr__(weighed.setting, "weights", np.array([0.8, 0.2]))
    assert models(weighed) == near(0, 0.8 * 0.1 - 0.2 * 0.3)


@pytest.mark.parametrize(("alpha", "clients", "wait"), [(0.1, 30, 3), (0.5, 3, 2), (0.01, 5, 1), (1.0, 7, 7)])
def test_an_epoch_of_aafl_ends_with_the_least_number_of_clients_that_is_the_fraction(alpha, clients, wait):
    assert Aafl(alpha=alpha).wait(clients) == wait


# FedFix

UNEVEN = with_law(Fleet.of(one=(1, 1.0), two=(1, 0.4)), "deterministic")  # tau = (1, 2.5)


def parts(algorithm, fleet=UNEVEN, steps=1):
    setting = Setting(
        fleet, Plan.uniform(fleet, fleet.clients), np.full(fleet.clients, 1 / fleet.clients), Local(steps)
    )
    return algorithm.init(torch.zeros(1), setting).part


def test_fedfix_weighs_by_the_windows_that_a_client_takes():
    assert [0.5 * part for part in parts(FedFix(dt=1.0))] == [0.5, 1.5]
    assert [0.5 * part for part in parts(FedFix(dt=2.5))] == [0.5, 0.5]
    assert parts(FedFix(dt=1.0), steps=2) == (2.0, 5.0)
    # over three windows client 1 is there three times and client 2 once, with 1.5 in all each
    case = simulated(FedFix(dt=1.0), Local(batch_size=1, step_size=0.1), fleet=UNEVEN, steps=4)
    assert case.trace.client[case.trace.applied].tolist() == [0, 0, 1, 0]
    first = 0.1 * 0.5
    second = first + 0.5 * 0.1 * (1 - first)
    third = second + 1.5 * -0.3 + 0.5 * 0.1 * (1 - second)
    assert models(case) == near(first, second, second, third)


def test_fedfix_with_all_weights_alike_takes_the_mean_of_who_is_there():
    case = simulated(FedFix(dt=1.0, weights="identical"), Local(batch_size=1), fleet=UNEVEN, steps=4)
    assert models(case)[:2] == near(0.1, 0.19)
    assert models(case)[3] == pytest.approx(0.19 + (-0.3 + 0.1 * (1 - 0.19)) / 2)


def test_fedfix_async_weighs_by_the_time_that_a_client_takes():
    # (1/1 + 1/2.5) tau_i p_i = 1.4 * (0.5, 1.25)
    case = simulated(FedFix(form="async"), Local(batch_size=1, step_size=0.1), fleet=UNEVEN, steps=3)
    assert case.trace.client[case.trace.applied].tolist() == [0, 0, 1]
    first = 0.7 * 0.1
    second = first + 0.7 * 0.1 * (1 - first)
    assert models(case) == near(first, second, second - 1.75 * 0.3)
    elsewhere = by_hand(FedFix(form="async"), (2, 0), sampling=(0.8, 0.2))  # shares that the times do not tell
    assert models(elsewhere) == near(-0.3 * 0.5 / 0.2)


LAWS = ["exponential", "gamma(shape=3)", "lognormal(sigma=1)", "hyperexponential(scv=4)", "empirical(0.5 0.8 0.9 1.8)"]


@pytest.mark.parametrize("law", LAWS)
def test_the_windows_of_a_random_time_are_those_of_its_draws(law):
    kind = Law.parse(law)
    rng = np.random.default_rng(5)
    drawn = np.ceil(kind.kind.draw(rng, 200_000) / 0.7)
    assert windows(kind, 1, 0.7) == pytest.approx(drawn.mean(), abs=5 * drawn.std() / 200_000**0.5)
    steps = windows(kind, 3, 0.7)
    assert (steps is None) == (law != "exponential")
    if steps is not None:
        assert steps == pytest.approx(np.ceil(rng.gamma(3, size=200_000) / 0.7).mean(), abs=0.02)


@pytest.mark.parametrize("steps", [1, 3])
def test_windows_far_shorter_than_a_task_are_counted_to_the_end(steps):
    for reach in (1e-3, 1e-5, 1e-7):  # the mean of the next whole number above T / reach, T a sum of exponentials
        assert windows(EXPONENTIAL, steps, reach) == pytest.approx(steps / reach + 0.5, rel=1e-11, abs=reach)


@pytest.mark.parametrize("law", ["lognormal(sigma=3)", "hyperexponential(scv=50)", "weibull(shape=0.3)"])
@pytest.mark.parametrize("reach", [0.5, 0.01, 1e-4])
def test_a_task_takes_its_time_over_dt_in_windows_and_less_than_one_more(law, reach):
    mean = windows(Law.parse(law), 1, reach)
    assert 1 / reach < mean < 1 / reach + 1


@pytest.mark.parametrize("reach", [4.0, 0.5, 1e-4])
def test_the_windows_of_measured_durations_are_the_mean_of_theirs(reach):
    durations = [0.5, 0.8, 0.9, 1.8]
    found = windows(Law.empirical(durations), 1, reach)
    assert found == pytest.approx(np.mean(np.ceil(np.array(durations) / reach - 1e-9)), abs=0.5 * (reach < 0.01))


def test_where_the_windows_are_not_known_they_are_counted():
    fleet = replace(UNEVEN, uplink_rate=np.array([10.0, 10.0]))
    assert parts(FedFix(dt=1.0), fleet) == ()
    case = simulated(FedFix(dt=1.5), Local(batch_size=1), fleet=fleet, steps=400)
    replay = case.replay()
    replay.advance(400)
    share = [replay.time / 1.5 / replay.state.seen[client] for client in (0, 1)]
    assert share == pytest.approx([1.0, 2.0], abs=0.15)  # one uplink in a while takes longer than half a second


# FedCompass


def test_fedcompass_mixes_the_models_of_a_group():
    one = by_hand(FedCompass(), (1, 0), dispatcher="groups")
    assert models(one) == near(0.45 * 0.1)
    both = by_hand(FedCompass(), *BOTH, dispatcher="groups", together=2)
    assert models(both) == near(0, 0.45 * (0.1 - 0.3))
    constant = by_hand(FedCompass(alpha=1.0, staleness="constant"), *BOTH, dispatcher="groups", together=2)
    assert models(constant) == near(0, -0.1)


def test_a_staler_model_counts_less_in_fedcompass():
    case = by_hand(FedCompass(), *BOTH, dispatcher="groups")
    first, share = 0.45 * 0.1, 0.45 / 2**0.5
    assert models(case) == near(first, (1 - share) * first - share * 0.3)


def test_tasks_of_fedcompass_do_the_steps_that_the_server_set():
    case = by_hand(FedCompass(alpha=1.0), (1, 0, 2), (2, 0, 1), dispatcher="groups", together=2, steps=5)
    assert models(case)[-1:] == near((0.19 - 0.3) / 2)


@pytest.mark.parametrize("wrapper", [None, TopK(share=0.5), Sign()])
def test_an_update_of_fedcompass_that_came_and_was_replaced_took_its_bits(wrapper):
    fleet = with_law(Fleet.of(fast=(3, 1.0), slow=(3, 0.3)), "lognormal(sigma=0.8)")
    case = simulated(FedCompass(slack=1.1), Local(10, batch_size=4, step_size=0.05), fleet=fleet, steps=200)
    each = {None: 4 * 32, "topk": 2 * 32 + 4, "sign": 4 + 32}[wrapper and wrapper.name]
    replay = case.replay(case.algorithm if wrapper is None else wrapper(case.algorithm))
    replay.advance(100)
    after = case.replay(replay.algorithm)
    after.restore(replay.snapshot())
    after.advance(200)
    assert after.tally.lost > 10
    assert after.tally.bits_up == (200 + after.tally.lost) * each


def test_an_update_that_was_still_on_its_way_when_the_server_gave_it_up_takes_no_bits():
    fleet = replace(with_law(Fleet.of(all=(6, 1.0)), "exponential"), uplink_rate=np.array([1.0]))
    local, rounds = Local(batch_size=4), Dispatcher("rounds", wait=3)
    case = simulated(FedAvg(), local, fleet=fleet, weights=(1.0,), steps=30, dispatcher=rounds)
    given_up = case.trace.fate == DROPPED
    assert (given_up & ~np.isnan(case.trace.finished_at)).any()
    replay = case.replay()
    replay.advance(30)
    assert replay.tally.lost > 20
    assert replay.tally.bits_up == 30 * 4 * 32


# AsyncFedED


def test_asyncfeded_steps_by_the_distance_that_the_model_moved():
    case = by_hand(AsyncFedED(first=1), (1, 0, 1), (2, 0, 1), steps=10)
    assert models(case) == near(0.1, -0.125)  # gamma = 0.1 / 0.3, so 3/4 of -0.3
    replay = case.replay()
    replay.advance(2)
    assert replay.state.steps == {0: 1 + 3, 1: 1 + 2}  # floor(3 - 0), floor(3 - 1/3)


def test_a_client_that_is_too_stale_gets_fewer_steps_but_one_at_least():
    algorithm = AsyncFedED(first=4, target=0.0)
    state = algorithm.init(torch.zeros(1), by_hand(algorithm, (1, 0), steps=8).setting)
    case = by_hand(algorithm, (1, 0, 4), (2, 0, 1), (2, 0, 1), (2, 0, 1), steps=8)
    assert algorithm.local_steps(state, 0) == 4
    replay = case.replay()
    replay.advance(2)
    assert replay.state.steps[0] == 4  # floor(0)
    moved = 1 - 0.9**4
    assert replay.state.steps[1] == max(1, 4 + int(np.floor(-moved / 0.3)))  # floor rounds down
    replay.advance(4)
    assert replay.state.steps[1] >= 1


def test_local_steps_of_asyncfeded_never_exceed_those_of_the_run():
    case = by_hand(AsyncFedED(first=5, target=100.0), (1, 0, 1), (1, 1, 1), steps=7)
    replay = case.replay()
    replay.advance(2)
    assert replay.state.steps[0] == 7


def test_an_update_that_is_zero_changes_nothing():
    settled = by_hand(AsyncFedED(first=1), (1, 0, 1), steps=3)
    replay = settled.replay()
    replay.state = replay.state._replace(params=torch.ones(1, dtype=torch.float64))  # the optimum of client 1
    replay.advance(1)
    assert replay.params.tolist() == [1.0]
    assert (replay.state.steps, replay.state.version, replay.tally.unused) == ({}, 0, 1)
    assert TOY.client_gradient(0, np.ones(1)).tolist() == [0.0]
