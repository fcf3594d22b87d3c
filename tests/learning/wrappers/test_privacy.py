"""Clipping, noise and epsilon: no norm exceeds the clip, and epsilon is the library's own and the closed form's."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm

from small_runs import FLEET, simulated, with_law
from sojourn import InvalidInput
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.fedcompass import FedCompass
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.timeline import superseded
from sojourn.learning.run.build import check
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.wrappers import Gaussian, TopK
from sojourn.learning.wrappers import epsilon as accounting
from sojourn.learning.wrappers.epsilon import epsilon_of, most_updates

LOCAL = Local(step_size=0.1, batch_size=4)


def through(one, vector, key=1):
    return one.leave(None, Update(None, vector, 0.1, 1, torch.zeros(()), key=key))[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_clipped_norm_never_exceeds_the_clip(dtype):
    random, one = torch.Generator().manual_seed(0), Gaussian(clip=0.7, noise=0, delta=0)
    for number in range(200):
        vector = torch.randn(1000, generator=random, dtype=dtype) * 10.0 ** (number % 7 - 3)
        cut = through(one, vector)
        assert float(torch.linalg.vector_norm(cut.vector.double())) <= 0.7
        if float(torch.linalg.vector_norm(vector.double())) <= 0.7:
            assert torch.equal(cut.vector, vector)
            assert float(cut.clipped) == 0
        else:
            assert float(cut.clipped) == 1
            assert torch.allclose(cut.vector / cut.vector[0], vector / vector[0], rtol=1e-4)
    assert torch.equal(through(one, torch.zeros(3)).vector, torch.zeros(3))


def test_noise_has_the_stated_spread_and_depends_on_the_task_alone():
    one, many = Gaussian(clip=2.0, noise=1.5, delta=0), 40_000
    drawn = through(one, torch.zeros(many, dtype=torch.float64)).vector
    spread = 3.0 / math.sqrt(2 * many)  # standard error of a standard deviation
    assert abs(float(drawn.std()) - 3.0) < 5 * spread
    assert abs(float(drawn.mean())) < 5 * 3.0 / math.sqrt(many)
    zero = torch.zeros(10)
    assert torch.equal(through(one, zero).vector, through(one, zero).vector)
    assert not torch.equal(through(one, zero, key=1).vector, through(one, zero, key=2).vector)
    assert through(one, zero).loss is None  # a loss would tell about the data


def closed_form(sigma, delta):
    """Balle and Wang, Theorem 8: delta(eps) = Phi(1/(2s) - eps s) - e^eps Phi(-1/(2s) - eps s)."""

    def gap(eps):
        return norm.cdf(0.5 / sigma - eps * sigma) - math.exp(eps) * norm.cdf(-0.5 / sigma - eps * sigma) - delta

    return brentq(gap, 0, 50, xtol=1e-12)


@pytest.mark.parametrize(("noise", "updates"), [(1.0, 1), (2.0, 7), (5.0, 100)])
def test_epsilon_is_that_of_the_closed_form_and_of_the_library_composing(noise, updates):
    library = pytest.importorskip("dp_accounting")
    found = epsilon_of(noise, updates, 1e-5)
    assert found == pytest.approx(closed_form(noise / math.sqrt(updates), 1e-5), rel=1e-8)
    renyi = library.rdp.RdpAccountant()
    renyi.compose(library.GaussianDpEvent(noise), updates)
    assert found < renyi.get_epsilon(1e-5) < 1.2 * found  # a bound, which is not sharp


# numbers that the tests of dp-accounting 0.6 have for epsilon 1: noise over sensitivity, releases, delta
ITS_EXAMPLES = [(math.sqrt(3), 3, 0.126936), (1 / 3, 1, 0.78760074), (10 / 6, 25, 0.78760074)]


@pytest.mark.parametrize(("noise", "updates", "delta"), ITS_EXAMPLES)
def test_epsilon_is_that_of_the_library_s_own_examples(noise, updates, delta):
    library = pytest.importorskip("dp_accounting")
    assert epsilon_of(noise, updates, delta) == pytest.approx(1, abs=1e-5)
    losses = library.pld.PLDAccountant().compose(library.GaussianDpEvent(noise), updates)
    assert losses.get_epsilon(delta) == pytest.approx(1, abs=1e-3)
    assert Gaussian(noise=2 * noise, delta=delta, budget=1.0001).most == updates


def test_epsilon_is_below_the_library_s_own_example_of_a_bound_by_renyi_divergence():
    library = pytest.importorskip("dp_accounting")
    orders = [1 + 0.001 * number for number in range(1, 30_000)]
    renyi = library.rdp.RdpAccountant(orders).compose(library.GaussianDpEvent(4.530877117))
    assert renyi.get_epsilon(1e-6) == pytest.approx(1, abs=1e-5)
    assert 0.8 < epsilon_of(4.530877117, 1, 1e-6) < 1


@pytest.mark.parametrize("updates", [1, 40])
def test_both_accountants_of_the_library_give_no_less_and_privacy_loss_distributions_hardly_more(updates):
    library = pytest.importorskip("dp_accounting")
    found = epsilon_of(5.0, updates, 1e-5)
    losses, renyi = library.pld.PLDAccountant(), library.rdp.RdpAccountant()
    for accountant in (losses, renyi):
        accountant.compose(library.GaussianDpEvent(5.0), updates)
    assert found <= losses.get_epsilon(1e-5) < 1.001 * found < renyi.get_epsilon(1e-5)
    assert library.get_sigma_gaussian(found, 1e-5) == pytest.approx(5 / math.sqrt(updates), rel=1e-6)


def test_a_budget_ends_just_before_it_is_exceeded():
    pytest.importorskip("dp_accounting")
    many = most_updates(2.0, 1e-5, 8.0)
    assert epsilon_of(2.0, many, 1e-5) <= 8.0 < epsilon_of(2.0, many + 1, 1e-5)
    assert most_updates(0.1, 1e-5, 1.0) == 0
    assert epsilon_of(0.0, 3, 1e-5) == math.inf
    assert epsilon_of(0.0, 0, 1e-5) == 0


@pytest.mark.parametrize("at", ["client", "server"])
def test_epsilon_of_a_run_is_over_each_client_s_own_updates(at):
    pytest.importorskip("dp_accounting")
    one = Gaussian(clip=1.0, noise=4.0, at=at)
    case = simulated(one(FedBuff(size=3)), LOCAL)
    run = case.replay()
    run.advance(case.steps)
    numbers = dict(zip(run.columns, run.measures, strict=True))
    sent = {client: int((case.trace.client[case.trace.applied] == client).sum()) for client in range(6)}
    fast, slow = (max(sent[client] for client in group) for group in ((0, 1, 2), (3, 4, 5)))
    assert numbers["epsilon_fast"] == pytest.approx(closed_form(2.0 / math.sqrt(fast), 1e-5), rel=1e-8)
    assert numbers["epsilon_slow"] == pytest.approx(closed_form(2.0 / math.sqrt(slow), 1e-5), rel=1e-8)
    assert numbers["epsilon"] == max(numbers["epsilon_fast"], numbers["epsilon_slow"])
    assert 0 < numbers["clipped"] <= 1
    near = Gaussian(clip=1.0, noise=4.0, at=at, neighbours="zero")
    assert near.measures(run.state.memory, case.setting)[2] < numbers["epsilon"]


@pytest.mark.parametrize("at", ["client", "server"])
def test_updates_that_were_replaced_before_they_were_used_count_where_the_adversary_has_seen_them(at):
    pytest.importorskip("dp_accounting")
    one = Gaussian(clip=1.0, noise=4.0, at=at)
    fleet = with_law(FLEET, "lognormal(sigma=1.5)")
    case = simulated(one(FedCompass(slack=1.1)), Local(step_size=0.1, steps=6), fleet=fleet, steps=120)
    counts = case.trace.applied | (superseded(case.trace) if at == "client" else False)
    most = int(np.bincount(case.trace.client[counts]).max())
    assert superseded(case.trace).sum() > 10
    run, resumed = case.replay(), case.replay()
    run.advance(case.steps // 2)
    resumed.restore(run.snapshot())
    resumed.advance(case.steps)
    epsilon = dict(zip(resumed.columns, resumed.measures, strict=True))["epsilon"]
    assert epsilon == pytest.approx(closed_form(2.0 / math.sqrt(most), 1e-5), rel=1e-8)


@pytest.mark.parametrize("at", ["client", "server"])
def test_replaced_updates_leave_the_share_of_clipped_ones_among_the_others_as_it_is(at):
    fleet = with_law(FLEET, "lognormal(sigma=1.5)")
    for clip, share in ((1e-6, 1.0), (1e6, 0.0)):
        one = Gaussian(clip=clip, noise=0, at=at, delta=0)
        case = simulated(one(FedCompass(slack=1.1)), Local(step_size=0.1, steps=6), fleet=fleet, steps=120)
        run = case.replay()
        run.advance(case.steps)
        assert run.tally.lost > 10
        assert dict(zip(run.columns, run.measures, strict=True))["clipped"] == share


def test_the_share_of_clipped_updates_is_not_known_where_no_update_says_so():
    setting = simulated(FedBuff(), LOCAL).setting
    one = Gaussian(delta=0, noise=0)
    memory = one.missed(one.missed(one.begin(setting), 0), 1)
    assert one.measures(one.begin(setting), setting)[0] == 0
    assert math.isnan(one.measures(memory, setting)[0])
    for flag in (1.0, 0.0):
        memory = memory.counted(1, torch.tensor(flag))
    assert one.measures(one.missed(memory, 1), setting)[0] == 0.5


@pytest.mark.parametrize("at", ["client", "server"])
def test_updates_beyond_the_budget_are_refused_and_tell_nothing(at):
    pytest.importorskip("dp_accounting")
    one = Gaussian(clip=1.0, noise=4.0, at=at, budget=6.0)
    case = simulated(one(FedBuff(size=3)), LOCAL)
    run = case.replay()
    run.advance(case.steps)
    numbers = dict(zip(run.columns, run.measures, strict=True))
    within = sum(min(int((case.trace.client[case.trace.applied] == client).sum()), one.most) for client in range(6))
    assert 0 < within < case.steps
    assert numbers["refused"] == case.steps - within == run.tally.unused
    assert numbers["epsilon"] <= 6.0
    whole = 32 * 4
    assert run.tally.bits_up == whole * (within if at == "client" else case.steps)


@pytest.mark.parametrize("at", ["client", "server"])
def test_without_noise_and_clip_the_run_is_the_same_to_the_bit(at):
    plain = simulated(FedBuff(size=3), LOCAL)
    same = plain.of(Gaussian(clip=math.inf, noise=0, at=at, delta=0)(FedBuff(size=3)))
    assert (plain.path() == same.path()).all()
    assert not (plain.path() == plain.of(Gaussian(clip=1, noise=0.1, at=at, delta=0)(FedBuff(size=3))).path()).all()


def test_noise_before_compression_is_what_is_compressed():
    vector = torch.randn(50, generator=torch.Generator().manual_seed(1))
    noisy = through(Gaussian(clip=1.0, noise=0.5, delta=0), vector).vector
    both = TopK(share=0.2)(Gaussian(clip=1.0, noise=0.5, delta=0)(FedBuff()))
    update = Update(None, vector, 0.1, 1, torch.zeros(()), key=1)
    _, sent = both.finish(None, None, vector, update)
    assert torch.equal(sent.vector, TopK(share=0.2).compressed(noisy))


def test_a_model_with_statistics_is_refused():
    update = Update(None, torch.ones(3), 0.1, 1, torch.zeros(()), stats=torch.ones(2))
    with pytest.raises(InvalidInput, match="which tell about data; use norm=group"):
        Gaussian(delta=0).leave(None, update)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clip": 0.0}, "clip must be positive"),
        ({"clip": math.inf}, "finite where there is noise"),
        ({"noise": -1.0}, "noise must be non-negative"),
        ({"at": "home"}, "at must be client or server, got 'home'"),
        ({"delta": 1.0}, r"delta must lie in \[0, 1\)"),
        ({"neighbours": "far"}, "neighbours must be replace or zero"),
        ({"budget": 1.0, "noise": 0.0}, "a budget must be positive and needs noise and delta"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    with pytest.raises(InvalidInput, match=said):
        Gaussian(**{"delta": 0.0, **options})


def test_without_the_library_an_epsilon_is_refused_and_training_is_not(monkeypatch):
    monkeypatch.setattr(accounting, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"pip install 'sojourn\[privacy\]', or write delta=0"):
        Gaussian()
    assert Gaussian(delta=0).columns(simulated(FedBuff(), LOCAL).setting) == ("clipped", "refused")


def test_a_budget_of_clients_cannot_be_kept_live():
    pytest.importorskip("dp_accounting")
    with pytest.raises(InvalidInput, match="forgets its budget"):
        Gaussian(noise=4.0, budget=3.0).check_live()
    Gaussian(noise=4.0, budget=3.0, at="server").check_live()


COUNTING = [
    "asgrad(assignment=pure, wait=3)",
    "aafl",
    "fedfix(form=buffered, size=3)",
    "rennala(size=3, restart=stop)",
    "malenia(restart=stop)",
    "ringmaster(stops=true)",
]
OTHERS = ["asgrad", "fedbuff(size=3)", "fedavg", "fedfix", "rennala(size=3)", "favano"]


def tried(tmp_path, algorithm, wrap):
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("name,count,rate\nfast,3,4\nslow,3,1\n")
    return check(TrainConfig(str(fleet), algorithm=algorithm, wrap=wrap, steps=10))


@pytest.mark.parametrize("at", ["client", "server"])
@pytest.mark.parametrize("algorithm", COUNTING)
def test_a_budget_is_refused_where_the_dispatcher_counts_updates(tmp_path, algorithm, at):
    pytest.importorskip("dp_accounting")
    said = rf"got budget 6 with {algorithm.partition('(')[0]}, whose dispatcher is (held|restarting); leave budget out"
    with pytest.raises(InvalidInput, match=said):
        tried(tmp_path, algorithm, f"topk(share=0.5); gaussian(noise=4, budget=6, at={at})")
    tried(tmp_path, algorithm, f"topk(share=0.5); gaussian(noise=4, at={at})")


@pytest.mark.parametrize("algorithm", OTHERS)
def test_a_budget_is_taken_where_the_method_acts_by_itself_or_when_time_is_up(tmp_path, algorithm):
    pytest.importorskip("dp_accounting")
    tried(tmp_path, algorithm, "gaussian(noise=4, budget=6)")


def test_a_budget_is_refused_where_clients_spend_on_updates_that_are_replaced(tmp_path):
    pytest.importorskip("dp_accounting")
    with pytest.raises(InvalidInput, match="got budget 6 with fedcompass, whose dispatcher is groups; leave budget"):
        tried(tmp_path, "fedcompass", "gaussian(noise=4, budget=6)")
    tried(tmp_path, "fedcompass", "gaussian(noise=4, budget=6, at=server)")
    tried(tmp_path, "fedcompass", "gaussian(noise=4)")


def test_a_budget_that_allows_no_update_is_refused_with_the_epsilon_of_one_and_enough_noise():
    pytest.importorskip("dp_accounting")
    said = "must allow one update of a client, whose epsilon is 10 here, got 0.5; raise it, or raise noise to 14.07"
    with pytest.raises(InvalidInput, match=said):
        Gaussian(clip=1, noise=1, budget=0.5)
    assert Gaussian(clip=1, noise=14.07, budget=0.5).most == 1
    with pytest.raises(InvalidInput, match=r"raise noise to 7\.04"):
        Gaussian(noise=7.0, budget=0.5, neighbours="zero")
    assert Gaussian(noise=7.04, budget=0.5, neighbours="zero").most == 1
