"""The twin: exact second moments against samples, by hand, and against closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.laws.law import Law
from sojourn.plan import Plan
from sojourn.planning.policy import Policy, robust, usual
from sojourn.planning.twin import predict
from sojourn.planning.twin.moments import Part, exact, one_pass
from sojourn.planning.twin.runs import Runs
from sojourn.planning.twin.server import Server
from sojourn.planning.twin.thinning import thinned
from sojourn.planning.twin.updates import Updates
from sojourn.planning.twin.windows import long
from sojourn.schedule import Schedule
from twin_sampler import CROWD, FALLING, FLEET, FREE, LONG, RULES, SMALL, run_of, sampled


@pytest.mark.parametrize("name", RULES)
def test_the_moments_are_those_of_samples(name: str) -> None:
    run, eta = run_of(name)
    assert len(run.updates) > 20
    found = exact(run, SMALL).at(eta).curve[-1]
    drawn = sampled(run, SMALL, eta, 200, seed=5)
    assert abs(found - drawn.mean()) < 2 * drawn.std(ddof=1) / np.sqrt(drawn.size)
    assert drawn.mean() < SMALL.loss


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_the_moments_are_those_of_many_samples_within_a_percent(name: str) -> None:
    run, eta = run_of(name)
    drawn = sampled(run, SMALL, eta, 20_000, seed=11)
    assert exact(run, SMALL).at(eta).curve[-1] == pytest.approx(drawn.mean(), rel=0.01)


@pytest.mark.parametrize("name", ["plain", "buffered", "rounds", "calibrated", "table", "dropped", "mixed"])
@pytest.mark.parametrize("sharper", [1.0, 0.0])
def test_a_direction_that_one_group_informs_is_that_of_samples(name: str, sharper: float) -> None:
    run, eta = run_of(name)
    alone = replace(SMALL, between=1.0, sharper=sharper)
    still = replace(alone, noise=0.0, heterogeneity=0.0, noise_floor=0.5, heterogeneity_floor=0.5)
    drawn = [sampled(run, still, eta, 200, seed=6 + group, group=group) for group in (0, 1)]
    mixed = drawn[0] * 4 / 6 + drawn[1] * 2 / 6
    found = exact(run, still).at(eta)
    assert abs(found.curve[-1] - mixed.mean()) < 2 * mixed.std(ddof=1) / np.sqrt(mixed.size)
    assert found.worst == pytest.approx(max(one.mean() for one in drawn), rel=0.15)


def three_steps(algorithm: str) -> tuple[float, list[float], float]:
    """a, b and the sum of c^2 after client 0, 1, 0 have sent gradients of models 0, 0, 1; step size 0.1, h = 1."""
    server = Server.parse(algorithm)
    ones, halves = np.ones(3), np.array([0.5, 0.5])
    sent = np.array([0, 0, 0 if server.rule.rounds else 1])
    updates = Updates(np.array([0, 1, 0]), sent, np.arange(3) - sent, np.arange(3.0), ones, ones, ones, 1.0, 3, halves)
    part = Part(server.rows(updates), np.ones(1), np.ones(2), halves, 1.0, -1)
    a, b, square = one_pass(part, np.array([0, part.rows.changes]), 0.1, np.ones(1), np.ones(1))
    return float(a[0]), b[:, 0].tolist(), float(square[0])


@pytest.mark.parametrize(
    ("algorithm", "a", "b", "square"),
    [
        ("generalized-asyncsgd", 0.71, [-0.19, -0.1], 0.09**2 + 2 * 0.1**2),
        ("asyncsgd(steps=adaptive)", 0.71, [-0.19, -0.1], 0.09**2 + 2 * 0.1**2),  # no update is stale
        ("fedbuff(size=3)", 0.9, [-2 / 30, -1 / 30], 3 / 900),
        ("fedbuff(size=2)", 0.9, [-0.05, -0.05], 2 * 0.05**2),  # the third waits for ever
        ("fedavg", 0.9, [-2 / 30, -1 / 30], 3 / 900),
        ("ia2sgd(warmup=false)", 0.7525, [-0.1475, -0.1], 0.0975**2 + 0.1**2 + 0.05**2),
        ("ia2sgd", 0.8, [-0.1, -0.1], 0.05**2 + 0.1**2 + 0.05**2),
        ("ca2fl(size=1)", 0.66, [-0.19, -0.15], 0.09**2 + 0.15**2 + 0.1**2),
        ("fedasync(alpha=0.5, staleness=constant)", 0.89, [-0.085, -0.025], 0.035**2 + 0.025**2 + 0.05**2),
    ],
)
def test_three_steps_by_hand(algorithm: str, a: float, b: list[float], square: float) -> None:
    found = three_steps(algorithm)
    assert found[0] == pytest.approx(a, rel=1e-12)
    assert found[1] == pytest.approx(b, rel=1e-12)
    assert found[2] == pytest.approx(square, rel=1e-12)


@pytest.mark.parametrize("schedule", [None, FALLING, "cosine(end=budget)", "inverse(half=5, over=time)"])
def test_one_task_in_flight_is_sgd_on_a_quadratic(schedule: str | None) -> None:
    """Without heterogeneity and with constant noise the second moment of SGD is a product and a sum."""
    still = Landscape((3.0, 1.0, 0.2), loss=1.5, noise=0.0, heterogeneity=0.0, noise_floor=0.8)
    fleet, eta = Fleet.of(all=(5, 2.0)), 0.1
    policy = Policy("sgd", replace(Plan.uniform(fleet, 1), schedule=schedule), "generalized-asyncsgd")
    run = Runs(fleet, 20.0, traces=1).of(policy)[0]
    falling = Schedule.parse(schedule or "constant", time=20.0)
    steps = np.array([eta * falling.factor(k, t) for k, t in enumerate(run.updates.time.tolist())])
    expected = 0.0
    for h in still.curvature:
        second = 2 * still.loss / still.h.sum()
        for step in steps:
            second = (1 - step * h) ** 2 * second + step**2 * still.noise_floor * h / still.h.sum()
        expected += h / 2 * second
    assert len(run.updates) > 20
    assert exact(run, still).at(eta).curve[-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["half weighted, falling", "buffered", "calibrated", "table", "rounds"])
def test_steeper_problems_take_smaller_steps_and_end_the_same(name: str) -> None:
    run, eta = run_of(name)
    steeper = SMALL.scaled(
        **dict.fromkeys(("curvature", "noise", "heterogeneity", "noise_floor", "heterogeneity_floor"), 3.0)
    )
    assert exact(run, steeper).at(eta / 3).curve == pytest.approx(exact(run, SMALL).at(eta).curve, rel=1e-9)


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("between", [0.0, 0.4])
def test_windows_stand_for_a_long_run(name: str, between: float) -> None:
    plan, algorithm, eta, error = LONG[name]
    landscape = replace(SMALL, between=between)
    runs = Runs(CROWD, 100.0, traces=4, seed=1).of(Policy(name, plan, algorithm))
    whole = np.mean([exact(run, landscape).at(eta).curve[-4:] for run in runs])
    windows = np.mean([long(run, landscape).at(eta).curve[-4:] for run in runs])
    assert windows == pytest.approx(whole, rel=error)


@pytest.mark.parametrize(
    ("algorithm", "eta"), [("generalized-asyncsgd", 5e-4), ("fedbuff(size=8)", 4e-3), ("ca2fl(size=8)", 3e-3)]
)
def test_a_tenth_of_the_clients_stands_for_all(algorithm: str, eta: float) -> None:
    fleet = Fleet.of(fast=(450, 4.0), slow=(150, 1.0))
    policy = Policy("all", replace(Plan.uniform(fleet, 600, cap=1), correction=0.5), algorithm)
    found = []
    for most in (600, 60):
        runs = Runs(fleet, 12.0, traces=3, most=most).of(policy)
        assert runs[0].small.fleet.clients == most
        found.append(np.mean([exact(run, SMALL).at(eta).curve for run in runs], axis=0))
    assert found[1][-3:] == pytest.approx(found[0][-3:], rel=0.15)


def test_rounds_keep_their_size_in_a_thinned_fleet() -> None:
    """The slowest of a round takes longer the more there are."""
    fleet = Fleet.of(fast=(4500, 4.0), slow=(1500, 1.0))
    run = Runs(fleet, 12.0, traces=1).of(Policy("rounds", Plan.uniform(fleet, 80), "fedavg"))[0]
    assert run.small.fleet.clients == 1000
    assert run.updates.concurrency == 80
    assert run.updates.many == pytest.approx(1)


def test_a_thinned_fleet_keeps_the_weight_of_a_small_group() -> None:
    fleet = Fleet.of(fast=(9970, 4.0), slow=(30, 1.0))
    small = thinned(fleet, Plan.uniform(fleet, 10_000, cap=1), 200)
    slow = small.fleet.group_of_client == 1
    assert slow.sum() == 10
    assert small.share.sum() == pytest.approx(1)
    assert small.share[slow].sum() == pytest.approx(0.003)
    assert (small.counts * np.repeat(small.fleet.rate, small.fleet.count)).sum() == pytest.approx(
        float((fleet.count * fleet.rate).sum())
    )


def test_a_million_clients_and_a_million_updates_are_predicted() -> None:
    fleet = Fleet.of_rates(np.exp(np.random.default_rng(0).normal(0, 1, 100_000)))
    policy = Policy("free", replace(Plan.uniform(fleet, 100_000, cap=1), correction=0.5), "generalized-asyncsgd")
    landscape = replace(Landscape.generic(), noise_floor=1.0)
    short = predict(fleet, [policy], 5.0, landscape, traces=1, step_sizes=[1e-6, 1e-5, 1e-4])[0]
    lengthy = predict(fleet, [policy], 100.0, landscape, traces=1, step_sizes=[1e-6, 1e-5, 1e-4])[0]
    assert short.updates == pytest.approx(5 * fleet.rate.sum(), rel=0.1)
    assert lengthy.updates == pytest.approx(100 * fleet.rate.sum(), rel=0.1)
    assert lengthy.loss < short.loss < landscape.loss


def test_the_step_size_is_searched_and_the_search_is_a_matter_of_scale() -> None:
    policy = Policy("free", RULES["plain"][0], "generalized-asyncsgd")
    found = predict(FLEET, [policy], 12.0, SMALL)[0]
    tried = predict(FLEET, [policy], 12.0, SMALL, step_sizes=[found.step_size * one for one in (0.7, 1.0, 1.4)])[0]
    assert tried.step_size == found.step_size
    assert tried.loss == found.loss
    factors = dict.fromkeys(("curvature", "noise", "heterogeneity", "noise_floor", "heterogeneity_floor"), 3.0)
    steeper = predict(FLEET, [policy], 12.0, SMALL.scaled(**factors))[0]
    assert steeper.step_size == pytest.approx(found.step_size / 3, rel=1e-6)


def test_a_policy_that_only_diverges_says_so() -> None:
    policy = Policy("free", RULES["plain"][0], "generalized-asyncsgd")
    assert predict(FLEET, [policy], 12.0, SMALL, step_sizes=[50.0])[0].diverges
    assert not predict(FLEET, [policy], 12.0, SMALL)[0].diverges


def test_the_curve_tells_when_a_loss_is_reached() -> None:
    policy = Policy("free", RULES["plain"][0], "generalized-asyncsgd")
    found = predict(FLEET, [policy], 12.0, replace(SMALL, lowest=0.1))[0]
    assert found.curve[0] == pytest.approx(2.1)
    assert found.curve[-1] == found.loss
    assert found.time_to(2.1) == 0
    assert found.time_to(float(found.curve[3])) == pytest.approx(4.5)
    assert 0 < found.time_to((found.curve[0] * found.curve[1]) ** 0.5) < 1.5
    assert found.time_to(0.05) == np.inf


def test_the_worst_group_is_the_slow_one_unless_its_updates_count_more() -> None:
    policies_ = [Policy(str(one), replace(FREE, correction=one), "generalized-asyncsgd") for one in (0.0, 1.0)]
    plain, unbiased = predict(FLEET, policies_, 60.0, replace(SMALL, heterogeneity_floor=2.0, between=0.3))
    assert plain.worst > 1.2 * plain.loss
    assert unbiased.worst / unbiased.loss < plain.worst / plain.loss


@pytest.mark.parametrize("algorithm", ["generalized-asyncsgd", "fedbuff(size=3)", "fedavg", "ca2fl", "ia2sgd"])
@pytest.mark.parametrize("law", ["exponential", "deterministic"])
def test_a_time_without_updates_teaches_nothing(algorithm: str, law: str) -> None:
    fleet = replace(FLEET, law=(Law.parse(law),) * 2)
    plan = replace(Plan.uniform(fleet, 6, cap=2), correction=0.5)
    found = predict(fleet, [Policy("none", plan, algorithm)], 1e-6, SMALL)[0]
    assert found.updates == 0
    assert found.loss == SMALL.loss
    assert found.diverges


def test_a_group_that_never_comes_learns_nothing() -> None:
    """With one task that stays where it is, one client does all, however long."""
    policy = Policy("one", Plan.uniform(FLEET, 1), "asyncsgd(assignment=pure)")
    found = predict(FLEET, [policy], 30_000.0, replace(SMALL, between=1.0), traces=1)[0]
    assert SMALL.loss * 0.3 < found.loss < SMALL.loss
    assert found.worst == pytest.approx(SMALL.loss)


def test_policies_of_one_timing_share_their_traces() -> None:
    runs = Runs(FLEET, 12.0)
    first, second, third = (
        runs.of(Policy("one", replace(FREE, correction=one), "generalized-asyncsgd"))[0] for one in (0.0, 1.0, None)
    )
    other = runs.of(Policy("two", replace(FREE, step_size=0.3), "fedbuff(size=3)"))[0]
    assert first.updates.time is not None
    for run in (second, third, other):
        assert np.array_equal(run.updates.client, first.updates.client)
        assert run.small is first.small
    assert np.array_equal(second.updates.counts, third.updates.counts)


def test_the_factors_of_a_schedule_are_the_same_one_by_one_and_at_once() -> None:
    times = np.linspace(0, 15, 31)
    for text in (
        "constant",
        "linear(end=10, least=0.1)",
        "cosine(end=10, over=time)",
        "drops(at=3/7, by=0.5)",
        "warmup(length=4)",
        "warmup(length=4, over=time)",
        "inverse(half=3)",
    ):
        schedule = Schedule.parse(text)
        one_by_one = [schedule.factor(k, t) for k, t in enumerate(times.tolist())]
        assert schedule.factors(np.arange(31.0), times) == pytest.approx(one_by_one, rel=1e-12)


def test_unknown_algorithms_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"the twin has the linear rules of .*, got 'favano'"):
        predict(FLEET, [Policy("no", FREE, "favano")], 1.0)


def test_every_usual_policy_is_predicted_and_the_free_ones_win() -> None:
    fleet = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
    asked = [Policy("robust: nobody waits", robust(fleet)), *usual(fleet, 2000 / 730)]
    found = {one.policy.name: one for one in predict(fleet, asked, 2000 / 730)}
    assert found["robust: nobody waits"].loss < 0.75 * found["AsyncSGD, uniform"].loss
    assert found["robust: nobody waits"].updates == pytest.approx(2000, rel=0.05)
