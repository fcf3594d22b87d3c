"""The methods with tables, memories and adaptive servers: their steps worked out by hand on the two-client toy."""

from dataclasses import fields
from math import log, sqrt

import numpy as np
import pytest
import torch

from small_runs import by_hand, simulated
from sojourn import Fleet
from sojourn.algorithms import (
    Ace,
    AsoFed,
    AsyncSGD,
    Ca2fl,
    DelayAdaptive,
    Fadas,
    FedAsmu,
    FedProx,
    Ia2sgd,
    Local,
    Ringleader,
    ServerMemory,
    ServerStep,
)
from sojourn.learning.algorithms.aso_fed import Kept

# client 1 has gradient w - 1, client 2 has w + 3; step size 0.1 unless said
BOTH_AT_ONCE = ((1, 0), (2, 0))


def models(case):
    """The server's model after each update."""
    return case.path()[1:, 0].tolist()


def near(*values):
    return pytest.approx(values, abs=1e-9)


# delay-adaptive asynchronous SGD


@pytest.mark.parametrize(("threshold", "last"), [(2, 0.4), (4, 0.8), (5, 1.0), (None, 0.4), (float("inf"), 1.0)])
def test_a_step_at_staleness_five_is_shortened_to_the_threshold_over_five(threshold, last):
    # six gradients of client 1 at w = 0, all -1: staleness 0 to 5; two tasks in flight
    path = models(by_hand(DelayAdaptive(threshold=threshold), *[(1, 0)] * 6))
    assert path[5] - path[4] == pytest.approx(0.1 * last, abs=1e-12)


def test_a_fresh_gradient_counts_fully_however_low_the_threshold_is():
    path = models(by_hand(DelayAdaptive(threshold=0.5), (1, 0), (1, 0)))
    assert path == near(0.1, 0.1 + 0.1 * 0.5)
    assert models(by_hand(DelayAdaptive(threshold=0.5, beyond="drop"), (1, 0), (1, 0))) == near(0.1, 0.1)


def test_beyond_the_threshold_a_gradient_may_be_dropped_and_then_ages_nobody():
    case = by_hand(DelayAdaptive(threshold=1, beyond="drop"), (1, 0), (1, 0), (1, 0), (2, 1))
    assert models(case) == near(0.1, 0.2, 0.2, 0.2 - 0.1 * 3.1)


# Ringleader


def test_ringleader_makes_one_update_for_each_client_and_a_client_continues_at_its_own_model():
    # worker 1 returns twice, then worker 2: w1 = -0.1, which goes to worker 2; the third of worker 1, still at w0, is
    # folded in and leaves the mean unchanged: w2 = -0.2, which goes to worker 1; the round is over
    case = by_hand(Ringleader(), (1, 0), (1, 1), (2, 0), (1, 2), (2, 3), (1, 4))
    # then worker 2 at w1 = -0.1 (2.9) and worker 1 at w2 = -0.2 (-1.2): the table is full, mean 0.85
    assert models(case) == near(0, 0, -0.1, -0.2, -0.2, -0.2 - 0.1 * 0.85)
    assert carried(case) == near(0, 0, 0, 0, -0.1, -0.2)


def test_a_client_of_ringleader_whose_task_was_lost_goes_on_at_its_own_model_until_another_arrives():
    replay = by_hand(Ringleader(), (1, 0), (1, 0), (2, 0), (2, 2)).replay()
    for received, bits in ((1, 0), (2, 0), (3, None), (4, None)):
        replay.advance(received)
        again = replay.algorithm.send(replay.state, 0)  # sent once more, in place of a task that was lost
        assert (again.bits, again.version) == (bits, replay.state.version if bits is None else 0)
    assert replay.state.version == 1


def carried(case):
    """The models that tasks carried, in the order in which these came back."""
    replay, models = case.replay(), []
    receive = replay.receive
    replay.receive = lambda task, sent, update: (models.append(float(sent.params)), receive(task, sent, update))
    replay.advance(case.steps)
    return models


def test_gradients_of_clients_that_had_their_update_wait_for_the_next_round():
    # the round begins with worker 2 (w1 = -0.1); worker 2 returns twice with gradients at w1 before worker 1 does
    case = by_hand(Ringleader(), (1, 0), (2, 0), (2, 2), (2, 3), (1, 1), (1, 5))
    # w2 by worker 1's third gradient at w0: mean still 1; then the later table (2.9) and worker 1 at w2 (-1.2)
    assert models(case) == near(0, -0.1, -0.1, -0.1, -0.2, -0.2 - 0.1 * (2.9 - 1.2) / 2)


def test_refreshed_clients_always_get_the_current_model():
    paper, code = (by_hand(Ringleader(refresh=one), (1, 0), (2, 0), (2, 2), (1, 1), (2, 3), (1, 4)) for one in (0, 1))
    replays = [paper.replay(), code.replay()]
    for replay in replays:
        replay.advance(4)
    # worker 2, which had its update, holds w1 = -0.1 or gets it again; then w2 = -0.2 came of worker 1
    assert [float(one.pending[1, 2].sent.params) for one in replays] == near(-0.1, -0.1)
    assert [one.pending[1, 2].sent.bits for one in replays] == [0, None]
    both = [simulated(Ringleader(refresh=one), Local(batch_size=4), steps=150) for one in (False, True)]
    assert both[0].trace == both[1].trace
    assert np.abs(both[0].path() - both[1].path()).max() > 1e-3
    down = []
    for case in both:
        replay = case.replay()
        replay.advance(150)
        down.append(replay.tally.bits_down)
    assert down[0] < 0.8 * down[1]


class Followed(Ringleader):
    """Ringleader that notes how stale the oldest gradient of the table is at each update."""

    def follow(self):
        object.__setattr__(self, "noted", [])
        object.__setattr__(self, "tables", ({}, {}))
        return self

    def apply(self, state, arrival):
        after, info = super().apply(state, arrival)
        table, later = self.tables
        entries = later if state.waiting and arrival.client not in state.waiting else table
        entries.setdefault(arrival.client, arrival.sent.version)
        if after.version > state.version:
            self.noted.append(state.version - min(table.values()))
            if not after.waiting:
                object.__setattr__(self, "tables", (later, {}))
        return after, info


@pytest.mark.parametrize("refresh", [False, True])
@pytest.mark.parametrize("speeds", [(4.0, 1.0), (50.0, 1.0), (1.0, 1.0)])
def test_no_gradient_of_ringleader_is_staler_than_two_n_minus_two_updates(speeds, refresh):
    followed = Followed(refresh=refresh).follow()
    fast, slow = speeds
    case = simulated(followed, Local(batch_size=4), fleet=Fleet.of(fast=(3, fast), slow=(3, slow)), steps=2000)
    replay = case.replay()
    replay.advance(case.steps)
    assert len(followed.noted) == replay.state.version
    assert max(followed.noted) == 2 * 6 - 2  # which is reached


# tables of latest gradients


def test_ia2sgd_steps_by_the_mean_of_the_table_once_it_is_full():
    at_once = by_hand(Ia2sgd(), *BOTH_AT_ONCE, (1, 2), (2, 2))
    # full: mean (-1 + 3) / 2 = 1; then client 1 at -0.1 (-1.1): mean 0.95; then client 2 at -0.1 (2.9): mean 0.9
    assert models(at_once) == near(0, -0.1, -0.1 - 0.095, -0.195 - 0.09)
    code = by_hand(Ia2sgd(warmup="after"), *BOTH_AT_ONCE, (1, 1), (2, 2))
    assert models(code) == near(0, 0, -0.1, -0.2)  # a first step of -0.1 * 1, with the arrival after the full table
    zero = by_hand(Ia2sgd(warmup="zero"), *BOTH_AT_ONCE)
    assert models(zero) == near(0.05, 0.05 - 0.1)


def test_ia2sgd_that_steps_once_for_two_arrivals_takes_the_latest_of_everybody():
    case = by_hand(Ia2sgd(size=2), *BOTH_AT_ONCE, (1, 2), (1, 3))
    assert models(case) == near(0, -0.1, -0.1, -0.1 - 0.095)
    replay = case.replay()
    replay.advance(4)
    assert replay.tally.unused == 1  # client 1 came twice, and its earlier gradient was in no step


def test_ace_is_the_table_and_aced_leaves_out_what_is_too_old():
    tasks = (*BOTH_AT_ONCE, (1, 2), (1, 3), (1, 4))
    assert models(by_hand(Ace(), *tasks)) == models(by_hand(Ia2sgd(), *tasks))
    path = models(by_hand(Ace(most=1), *tasks))
    # the entry of client 2 was taken at version 0; at version 2 it is too old, and client 1 counts alone
    assert path[:3] == near(0, -0.1, -0.195)
    assert path[3] == pytest.approx(-0.195 - 0.1 * (-0.195 - 1), abs=1e-12)


def test_a_gradient_that_is_itself_too_old_is_kept_and_not_used():
    case = by_hand(Ace(most=0), *BOTH_AT_ONCE, (1, 0))
    replay = case.replay()
    replay.advance(3)
    assert models(case) == near(0, -0.1, -0.1)
    assert (replay.tally.unused, replay.state.version, len(replay.state.table)) == (1, 1, 2)


# CA2FL


def test_ca2fl_calibrates_by_the_last_update_of_every_client():
    case = by_hand(Ca2fl(size=1), (1, 0), (2, 0), (1, 1))
    assert models(case) == near(0.1, -0.15, -0.26)


def test_a_client_twice_in_a_buffer_is_calibrated_by_what_was_cached_before_it():
    case = by_hand(Ca2fl(size=2), (1, 0), (1, 0), (1, 2), (2, 2))
    # 0 + (0.1 + 0.1) / 2; cache 0.1, mean 0.05; then 0.05 + ((0.09 - 0.1) + (-0.31)) / 2
    assert models(case) == near(0, 0.1, 0.1, 0.1 + 0.05 - 0.16)
    replay = case.replay()
    replay.advance(4)
    assert float(replay.state.mean) == pytest.approx((0.09 - 0.31) / 2, abs=1e-12)


# FADAS


@pytest.mark.parametrize("corrected", [False, True])
def test_the_first_step_of_fadas_moves_every_coordinate_by_its_step_size(corrected):
    fleet = Fleet.of(fast=(3, 4.0), slow=(3, 1.0))
    algorithm = Fadas(size=4, server_step_size=0.3, epsilon=1e-12, bias_correction=corrected)
    path = simulated(algorithm, Local(batch_size=4), fleet=fleet, steps=4).path()
    assert np.abs(path[-1]) == pytest.approx(np.full(4, 0.3), rel=1e-6)


def test_fadas_remembers_the_largest_square_and_shrinks_for_stale_buffers():
    rule = Fadas(size=1, server_step_size=0.1, beta1=0.5, beta2=0.5, epsilon=1e-12)
    # updates -0.3 (client 2), then 0.1 (client 1, one change old: tau_c = 1 still holds), then 0.1 (two changes old)
    case = by_hand(rule, (2, 0), (1, 0), (1, 0))
    square = (0.045, 0.0275, 0.01875)
    mean = (-0.15, -0.025, 0.0375)
    largest = np.maximum.accumulate(square)
    steps = np.array([0.1, 0.1, 0.05]) * mean / np.sqrt(largest)
    assert models(case) == pytest.approx(np.cumsum(steps), rel=1e-9)
    always = by_hand(Fadas(size=1, server_step_size=0.1, beta1=0.5, beta2=0.5, adaptive=False), (2, 0), (1, 0), (1, 0))
    assert models(always) == pytest.approx(np.cumsum(steps * [1, 1, 2]), rel=1e-6)
    assert [Fadas(server_step_size=1.0, threshold=3).step_size(tau, 0.1) for tau in (0, 3, 4)] == [1.0, 1.0, 0.25]
    assert [Fadas(server_step_size=0, threshold=3).step_size(tau, 0.1) for tau in (0, 4)] == [0.1, 0.025]


# FedASMU


def test_fedasmu_mixes_half_of_a_first_model():
    assert FedAsmu().share(0, 0) == 0.5  # t = o = 1: xi = 1
    assert models(by_hand(FedAsmu(refresh=False), (1, 0))) == near(0.05)
    xi = 1 / (2 * 3) + 0.1  # t = 4, o = 2
    assert FedAsmu(mu=2, sigma=1, iota=0.1).share(3, 1) == pytest.approx(2 * xi / (1 + 2 * xi), abs=1e-15)


def test_a_client_of_fedasmu_mixes_in_the_newest_model_in_the_middle_of_its_training():
    case = by_hand(FedAsmu(), (1, 0), (2, 0), (1, 1), (2, 3))
    # client 1: half 0.1, nothing new to mix in (the model is the same), second half 0.1 + 0.09 = 0.19; alpha = 1/2
    # client 2: half -0.3; t = 2, o = 1: phi = (1 - 1/sqrt(2)) / sqrt(2) = beta / (1 - beta), then a second half
    phi = (1 - 1 / sqrt(2)) / sqrt(2)
    beta = phi / (1 + phi)
    middle = -0.3 + beta * (0.095 + 0.3)
    model = middle - 0.1 * (middle + 3)
    xi = 1 / (sqrt(2) * sqrt(2))  # t = 2, o = 1
    share = xi / (1 + xi)
    assert models(case) == near(0, 0, 0.095, 0.095 + share * (model - 0.095))
    replay = case.replay()
    replay.advance(4)
    assert (replay.tally.bits_up, replay.tally.bits_down) == (2 * 32, 4 * 32)  # a check-in sends nothing up
    assert replay.tally.gradients == 4


def test_a_client_whose_second_half_is_lost_does_it_again():
    algorithm = FedAsmu()
    replay = by_hand(algorithm, (1, 0), (2, 0), (1, 1)).replay()
    replay.advance(1)
    kept = replay.kept[0]
    assert (float(kept.model), kept.version) == (pytest.approx(0.1), 0)
    again = algorithm.start(kept, algorithm.send(replay.state, 0))
    assert float(again[0]) == pytest.approx(0.1)
    replay.advance(3)
    assert replay.kept[0].model is None


# ASO-Fed


def test_asofed_adds_a_first_update_by_the_weight_of_its_client():
    case = by_hand(AsoFed(lam=0), (1, 0))
    assert models(case) == near(0.05)


def test_the_memory_of_asofed_takes_over_where_the_gradient_is_constant():
    # client 1 always at w0 with gradient -1: Z = -1, then 0 (h = 0), then -(1 - beta)
    case = by_hand(AsoFed(lam=0, beta=0.25, dynamic=False), (1, 0), (1, 0), (1, 0), (1, 0))
    # h: 0, 0, -0.75, 0.25 * -0.75 - 0.75
    assert np.diff([0, *models(case)]) == near(0.05, 0, 0.05 * 0.75, 0.05 * 0.9375)


def test_asofed_steps_further_where_the_delay_is_long():
    nothing = torch.zeros(1)
    assert AsoFed().stretch(Kept(nothing, nothing, 0, 0, 0)) == 1
    assert AsoFed().stretch(Kept(nothing, nothing, 0, 4, 2)) == 1  # log 2 < 1
    assert AsoFed().stretch(Kept(nothing, nothing, 0, 40, 4)) == pytest.approx(log(10))
    assert AsoFed(dynamic=False).stretch(Kept(nothing, nothing, 0, 40, 4)) == 1
    # client 1 at versions 0 and 20: a delay of 20 after one contact
    late = by_hand(AsoFed(lam=0), (1, 0), *[(2, 0)] * 20, (1, 21))
    path = models(late)
    gradient = path[20] - 1
    expected = -0.05 * log(21) * (gradient + 1)  # Z = G - v + h with v = -1, h = 0
    assert path[21] - path[20] == pytest.approx(expected, rel=1e-12)


# FedProx


def test_fedprox_pulls_every_step_but_the_first_back_to_the_model_received():
    def rounds(**options):
        return models(by_hand(FedProx(**options), *BOTH_AT_ONCE, dispatcher="rounds", together=2, steps=2))

    # client 1: 0.1, then 0.1 + 0.1 (0.9 - 2 * 0.1) = 0.17; client 2: -0.3, then -0.3 - 0.1 (2.7 - 0.6) = -0.51
    assert rounds(mu=2) == near(0, (0.17 - 0.51) / 2)
    assert rounds(mu=0) == near(0, -0.19)


def test_a_deadline_takes_partial_work_and_leaves_out_who_has_done_nothing():
    def until(*work):
        tasks = [(1, 0, work[0]), (2, 0, work[1])]
        return models(by_hand(FedProx(mu=0, deadline=1.0), *tasks, dispatcher="periodic", together=2, steps=3))[-1]

    assert until(2, 1) == pytest.approx((0.19 - 0.3) / 2, abs=1e-12)
    assert until(3, 0) == pytest.approx(1 - 0.9**3, abs=1e-12)
    assert until(0, 0) == 0
    case = simulated(FedProx(deadline=0.5), Local(steps=4, batch_size=4), steps=60)
    rows = case.trace.applied
    assert set(case.trace.work[rows].tolist()) >= {0, 1, 2}
    assert case.trace.applied_at[rows][::6] == pytest.approx(0.5 * np.arange(1, 11))


# Yogi


def test_yogi_moves_its_mean_square_by_steps_that_do_not_depend_on_the_distance():
    # gradients -1 and 3: v = 0.01, then 0.01 + 0.01 * 9; adam would have 0.0999
    case = by_hand(AsyncSGD(ServerStep("yogi", step_size=0.1, momentum=0.9, second=0.99)), *BOTH_AT_ONCE)
    mean, square = (0.1 * 3 - 0.9 * 0.1) / (1 - 0.9**2), 0.1 / (1 - 0.99**2)
    assert models(case) == near(0.1, 0.1 - 0.1 * mean / square**0.5)
    # from a large square a small gradient takes off 1 % of its own square, not 1 % of the distance
    rule, zero = ServerStep("yogi", second=0.99), torch.zeros(1, dtype=torch.float64)
    memory, _ = rule.step(ServerMemory(5, zero, zero + 4.0), zero, zero + 1.0, 1.0)
    assert float(memory.square) == pytest.approx(4.0 - 0.01)
    memory, _ = ServerStep("adam", second=0.99).step(ServerMemory(5, zero, zero + 4.0), zero, zero + 1.0, 1.0)
    assert float(memory.square) == pytest.approx(4.0 - 0.03)


# what is taken where nothing is said


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (DelayAdaptive, {"threshold": None, "beyond": "shrink", "assignment": "pure"}),
        (Ringleader, {"refresh": False}),
        (Ia2sgd, {"warmup": "full", "size": 1, "assignment": "pure"}),
        (Ace, {"most": None}),
        (Ca2fl, {"server_step_size": 1.0, "size": 10, "dispatch": "idle", "combine": "mean"}),
        (AsoFed, {"server_step_size": 1.0, "lam": 1.0, "beta": 0.001, "dynamic": True}),
        (
            FedProx,
            {"mu": 0.1, "deadline": None, "server_step_size": 1.0, "weights": "objective", "interaction": 0.0},
        ),
    ],
)
def test_options_that_are_left_out(algorithm, expected):
    assert {one.name: getattr(algorithm(), one.name) for one in fields(algorithm) if one.name != "server"} == expected
