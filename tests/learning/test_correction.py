"""How much updates count by their clients' shares: by hand, its mean, what algorithms make of it, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from small_runs import by_hand, simulated
from sojourn import InvalidInput
from sojourn.correction import Correction, correction_of
from sojourn.learning.algorithms import AsyncSGD, FedAsync, FedAvg, FedBuff, GeneralizedAsyncSGD, Local, ServerStep
from sojourn.schedule import Schedule

EQUAL = np.array([0.25, 0.25, 0.25, 0.25])
SHARE = np.array([0.4, 0.3, 0.2, 0.1])


def test_by_hand_the_factors_of_four_clients():
    half = Correction(0.5, EQUAL, SHARE)
    mean = sum(s * (0.25 / s) ** 0.5 for s in SHARE)  # sum of sqrt(q s)
    assert mean == pytest.approx(0.5 * (0.4**0.5 + 0.3**0.5 + 0.2**0.5 + 0.1**0.5))
    assert half.factor(3, 0.1) == pytest.approx(2.5**0.5 / mean)
    assert Correction(1.0, EQUAL, SHARE).factor(3, 0.1) == 0.25 / 0.1
    assert Correction(0.0, EQUAL, SHARE).factor(3, 0.1) == 1.0


@given(
    st.lists(st.floats(0.01, 1), min_size=2, max_size=6),
    st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
    st.floats(0, 2),
)
def test_the_mean_factor_of_all_updates_is_one_under_every_correction(shares, weights, exponent):
    s = np.array(shares) / sum(shares)
    q = np.array(weights[: s.size]) / sum(weights[: s.size])
    found = Correction(exponent, q, s)
    assert sum(s[i] * found.factor(i, s[i]) for i in range(s.size)) == pytest.approx(1)


def test_where_shares_are_not_known_the_mean_is_that_of_the_updates_so_far():
    found = Correction(0.5, EQUAL)
    assert found.factor(0, 0.4) == 1.0
    first, second = (0.25 / 0.4) ** 0.5, (0.25 / 0.1) ** 0.5
    assert found.factor(3, 0.1) == pytest.approx(second / ((first + second) / 2))
    assert found.seen == (2, pytest.approx(first + second))


@pytest.mark.parametrize("share", [float("nan"), 0.0, -0.1, float("inf")])
def test_a_share_that_is_not_one_is_refused_with_the_way_out(share):
    with pytest.raises(InvalidInput, match=r"correction 1 needs the share of client 2, .*; use correction 0"):
        Correction(1.0, EQUAL).factor(2, share)
    assert Correction(0.0, EQUAL).factor(2, share) == 1.0


def test_a_plan_that_names_a_correction_wins_over_the_algorithms_own():
    plan = by_hand(GeneralizedAsyncSGD(), (1, 0)).setting.plan
    assert [correction_of(one(), plan) for one in (GeneralizedAsyncSGD, AsyncSGD, FedBuff, FedAsync)] == [1, 0, 0, 0]
    named = replace(plan, correction=0.5)
    assert [correction_of(one(), named) for one in (GeneralizedAsyncSGD, AsyncSGD, FedBuff, FedAsync)] == [0.5] * 4
    assert correction_of(FedAvg(), named) == 0.0  # a round has weights of its own


def moved(algorithm, correction, prob=(0.8, 0.2), **local):
    """Where one update of the second client takes the model from 0; its gradient there is 3."""
    case = by_hand(algorithm, (2, 0), sampling=prob, **local)
    share = np.array(prob)
    setting = replace(case.setting, plan=replace(case.setting.plan, correction=correction), share=share)
    replay = replace(case, setting=setting).replay()
    replay.advance(1)
    return float(replay.params[0])


def test_by_hand_every_algorithm_moves_by_the_factor():
    server = ServerStep(step_size=0.1)
    root = (0.5 / 0.2) ** 0.5 / (0.5**0.5 * (0.8**0.5 + 0.2**0.5))
    for correction, factor in ((1.0, 2.5), (0.0, 1.0), (0.5, root)):
        assert moved(GeneralizedAsyncSGD(server), correction) == pytest.approx(-0.3 * factor)
        assert moved(FedBuff(server, size=1), correction) == pytest.approx(-0.3 * factor)
    assert moved(AsyncSGD(server), 0.5) == pytest.approx(-0.3 * root)
    assert moved(FedAsync(alpha=0.5), 0.5) == pytest.approx(-0.3 * min(1, 0.5 * root))
    assert moved(FedAsync(alpha=0.5), 1.0) == pytest.approx(-0.3)  # no more than the whole model
    assert moved(GeneralizedAsyncSGD(server), None) == moved(GeneralizedAsyncSGD(server), 1.0)
    assert moved(FedBuff(server, size=1), None) == moved(FedBuff(server, size=1), 0.0)


def test_a_run_taken_up_again_knows_the_mean_that_it_had():
    case = simulated(GeneralizedAsyncSGD(ServerStep(step_size=0.05)), Local(batch_size=4), weights=(1.0, 2.0))
    unknown = replace(case.setting, plan=replace(case.setting.plan, correction=0.5))
    case = replace(case, setting=unknown)
    whole, begun, after = (case.replay() for _ in range(3))
    whole.advance(60)
    begun.advance(25)
    after.restore(begun.snapshot())
    after.advance(60)
    assert torch.equal(after.params, whole.params)


def test_a_linear_schedule_ends_at_the_budget_in_steps_or_in_time():
    assert [Schedule.parse("linear(end=10)").factor(step, 0.0) for step in (0, 5, 10, 12)] == [1, 0.5, 0, 0]
    assert Schedule.parse("linear(end=10, least=0.2)").factor(5, 0.0) == pytest.approx(0.6)
    assert Schedule.parse("linear(end=budget)", steps=100) == Schedule.parse("linear(end=100)")
    assert Schedule.parse("linear(end=budget)", time=8.0) == Schedule.parse("linear(end=8.0, over=time)")
    assert Schedule.parse("cosine(end=budget, least=0.1)", steps=5) == Schedule.parse("cosine(end=5, least=0.1)")
    with pytest.raises(InvalidInput, match="end=budget needs a run with steps or a time, got neither"):
        Schedule.parse("linear(end=budget)")
    with pytest.raises(InvalidInput, match=r"schedule linear needs end; write for example linear\(end=100\)"):
        Schedule.parse("linear")
