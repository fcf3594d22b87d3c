"""The search for a policy by the model of training, and the advice that is made of it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from sojourn import Fleet
from sojourn.errors import InvalidInput
from sojourn.landscape import Landscape
from sojourn.planning.by_twin import _chosen, advise_by_twin, advise_for_loss, ranking
from sojourn.planning.choices import Aim, Choice, energy
from sojourn.planning.policy import Policy, Wishes, robust
from sojourn.planning.search import FLOOR, TIE, TRACES, TRANSFER, Searched, search
from sojourn.planning.twin import predict
from sojourn.scenario import Scenario
from sojourn.timing.expected import expected

FLEET = Fleet.of(fast=(10, 8.0), slow=(10, 1.0))
TIME = 3.0
LAND = Landscape((4.0, 2.0, 1.0, 0.3), loss=2.0, noise=5.0, heterogeneity=5.0, source="generic")
MEASURED = replace(LAND, source="measured")
POWERED = replace(FLEET, power=np.array([1.0, 1.0]))


@cache
def found(**wishes: float) -> Searched:
    return search(FLEET, TIME, LAND, Aim(wishes=Wishes(**wishes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fleet",
    [FLEET, Fleet.of(fast=(19, 20.0), slow=(1, 1.0)), Fleet.of_rates(np.exp(np.linspace(-2, 2, 20)))],
    ids=["two speeds", "one very slow", "all differ"],
)
def test_on_uneven_fleets_nobody_waits_and_nobody_is_idle(fleet: Fleet) -> None:
    taken = search(fleet, 900 / float((fleet.count * fleet.rate).sum()), LAND).choice
    assert (taken.cap, taken.tasks, taken.weights) == (1, 20, ())


@pytest.mark.slow
def test_what_is_tried_is_in_the_order_of_its_loss_and_belongs_to_its_choice() -> None:
    seen = found()
    losses = [one.loss for one in seen.tried]
    assert losses == sorted(losses)
    assert len(set(seen.choices)) == len(seen.choices) == len(seen.tried) > 40
    assert all(one.said(FLEET) == told.policy.name for one, told in zip(seen.choices, seen.tried, strict=True))
    assert seen.best is seen.tried[0]
    assert {one.buffer for one in seen.choices} == {1, 3, 10}
    assert {one.correction for one in seen.choices} == {0, 0.5, 1}
    assert {one.cap for one in seen.choices} == {1, 2, None}
    assert {one.adaptive for one in seen.choices} == {True, False}


def test_of_those_that_tie_the_one_nearest_to_the_robust_policy_is_taken() -> None:
    seen = found()
    of_policy = dict(zip((one.policy.name for one in seen.tried), seen.choices, strict=True))
    assert seen.tied
    for one in seen.tied:
        noise = 2 * np.hypot(one.error, seen.best.error)
        assert one.loss <= seen.best.loss * (1 + TIE) + noise
        assert of_policy[one.policy.name].departures(FLEET) >= seen.choice.departures(FLEET)
    assert seen.predicted not in seen.tied


def test_ties_are_named_in_the_advice() -> None:
    said = " ".join(advise_by_twin(FLEET, TIME, replace(LAND, source="own")).why)
    seen = found()
    assert f"{len(seen.tied)} others are within the accuracy of the model" in said
    assert f"; the lowest is {seen.best.policy.name}, and the simplest is chosen" in said


def test_a_choice_that_is_itself_the_lowest_is_not_named_among_the_others() -> None:
    seen = found()
    routed = replace(seen.best, policy=replace(seen.best.policy, name="uniform", algorithm="asyncsgd"))
    said = " ".join(_chosen(replace(seen, predicted=seen.best), [routed], Aim(), LAND))
    assert "; of them this one is the lowest and the simplest." in said
    assert said.count(seen.best.policy.name) == 1


@pytest.mark.slow
def test_at_the_floor_of_the_loss_all_tie_and_it_is_reported() -> None:
    seen = search(FLEET, 50.0, replace(LAND, lowest=0.5))
    assert seen.best.loss - 0.5 < FLOOR * LAND.loss
    assert (seen.choice.tasks, seen.choice.correction, seen.choice.buffer) == (20, 0.5, 1)
    assert len(seen.tied) > 20
    for lowest in (0.0, 0.5):
        said = " ".join(advise_by_twin(FLEET, 50.0, replace(LAND, source="own", lowest=lowest)).why)
        assert "practically zero" in said


def test_policies_are_ranked_by_generic_constants_also_where_others_were_measured() -> None:
    assert ranking(LAND) is LAND
    assert ranking(MEASURED).content() == Landscape.generic().content()
    skewed = Landscape.generic().skewed().content()
    assert ranking(MEASURED.skewed()).content() == skewed
    assert ranking(replace(MEASURED, between=0.4, intervals={"between": (0.2, 0.6)})).content() == skewed
    doubtful = replace(MEASURED, between=0.4, intervals={"between": (0.0, 0.9)})
    assert ranking(doubtful).content() == Landscape.generic().content()
    own = replace(LAND, source="own")
    assert ranking(own) is own


def test_departures_count_the_ways_in_which_a_policy_is_not_the_robust_one() -> None:
    plain = Choice(20)
    assert plain.departures(FLEET) == (0, 0)
    for other in (
        Choice(10),
        Choice(20, 2),
        Choice(20, None),
        Choice(20, 1, (1.0, 0.5)),
        Choice(20, 1, (), 0.0),
        Choice(20, buffer=3),
        Choice(20, adaptive=True),
    ):
        assert other.departures(FLEET)[0] == 1
    assert Choice(20, 1, (1.0, 1.0)).departures(FLEET) == (0, 0)
    assert Choice(5).departures(FLEET) > Choice(10).departures(FLEET)
    assert plain.policy(FLEET).plan.hash == robust(FLEET).hash


@pytest.mark.parametrize("weights", [(), (1.0, 0.5), (8.0, 1.0)])
def test_where_tasks_queue_weights_become_probabilities(weights: tuple[float, ...]) -> None:
    plan = Choice(30, None, weights).policy(FLEET).plan
    assert (plan.count * plan.sampling).sum() == pytest.approx(1)
    assert plan.sampling[0] / plan.sampling[1] == pytest.approx(weights[0] / weights[1] if weights else 1)


def test_a_wish_for_tasks_is_kept_even_beyond_one_per_client() -> None:
    assert {one.tasks for one in found(concurrency=7).choices} == {7}
    many = found(concurrency=30)
    assert {one.tasks for one in many.choices} == {30}
    assert {one.cap for one in many.choices} == {2, None}


def test_a_wish_for_a_correction_is_kept() -> None:
    assert {one.correction for one in found(correction=0.25).choices} == {0.25}


@pytest.mark.parametrize(
    ("cap", "held"),
    [(None, None), (1, 1), (2, 2), ([1, 1], 1), ([None, None], None), ([3, None], (3.0, None)), (np.inf, None)],
)
def test_a_wish_for_a_cap_is_kept(cap: object, held: object) -> None:
    seen = search(FLEET, 2.0, LAND, Aim(wishes=Wishes(cap=cap)))  # type: ignore[arg-type]
    assert {one.cap for one in seen.choices} == {held}
    assert len({one.tasks for one in seen.choices}) > 2


def test_without_a_wish_the_cap_is_the_planners_and_the_robust_one_is_one_each() -> None:
    assert Wishes().cap == "open"
    assert robust(FLEET, Wishes()).one_each
    assert robust(FLEET).hash == robust(FLEET, Wishes(cap=1)).hash


def test_more_tasks_than_the_cap_holds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="concurrency must be at most the 20 tasks"):
        search(FLEET, TIME, LAND, Aim(wishes=Wishes(concurrency=30, cap=1)))


@pytest.mark.parametrize("most", [1, 3, 15, 10**6])
def test_no_more_tasks_are_in_flight_than_allowed(most: int) -> None:
    seen = found(most_tasks=most)
    assert max(one.tasks for one in seen.choices) == min(most, 20) or most > 20
    assert seen.choice.tasks == min(most, 20)


@pytest.mark.parametrize("most", [0.0, 2.0, 40.0])
def test_nobody_is_staler_than_allowed(most: float) -> None:
    seen = found(most_staleness=most)
    for one in seen.tried:
        assert expected(FLEET, one.policy.plan, Scenario()).staleness().max() <= most
    assert seen.choice.tasks >= robust(FLEET, Wishes(most_staleness=most)).concurrency


def test_nobody_sends_and_receives_more_bytes_than_allowed() -> None:
    free = expected(FLEET, robust(FLEET), Scenario())
    all_of_it = 2 * 100 * float(free.share.max()) * free.throughput * TIME
    assert all_of_it == pytest.approx(2 * 100 * 8 * TIME)
    seen = search(FLEET, TIME, LAND, Aim(most_bytes=all_of_it / 10, model_bytes=100))
    for one in seen.tried:
        shares = expected(FLEET, one.policy.plan, Scenario())
        assert 200 * float(shares.share.max()) * shares.throughput * TIME <= all_of_it / 10
    assert seen.choice.tasks < 20


@pytest.mark.parametrize(
    ("aim", "said"),
    [
        (Aim(most_bytes=10, model_bytes=100), "no policy keeps the limits: at most 10 bytes per client; allow more"),
        (
            Aim(wishes=Wishes(concurrency=20, most_staleness=3)),
            "no policy keeps the limits with 20 tasks in flight: a staleness of at most 3; allow more",
        ),
        (
            Aim(wishes=Wishes(concurrency=20, most_tasks=3)),
            "no policy keeps the limits with 20 tasks in flight: at most 3 tasks in flight; allow more",
        ),
    ],
)
def test_limits_that_nothing_keeps_are_refused(aim: Aim, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        search(FLEET, TIME, LAND, aim)


def test_an_aim_that_means_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a limit of 1000 bytes needs the bytes of a model, got 0"):
        Aim(most_bytes=1000)
    with pytest.raises(InvalidInput, match=r"worst must be a weight from 0 .* got 2"):
        Aim(worst=2)


@pytest.mark.slow
def test_the_worst_group_alone_may_be_what_counts() -> None:
    """Few slow clients hold what the others lack: in the mean they hardly count."""
    fleet, skewed = Fleet.of(fast=(18, 8.0), slow=(2, 1.0)), LAND.skewed()
    mean, worst = (search(fleet, 3.0, skewed, Aim(worst=one)) for one in (0.0, 1.0))
    safe = predict(fleet, [Policy("safe", robust(fleet))], 3.0, skewed, traces=TRACES)[0]
    assert worst.best.worst == min(one.worst for one in worst.tried) < safe.worst
    assert worst.predicted.worst <= safe.worst
    assert worst.predicted.worst < mean.predicted.worst


@pytest.mark.slow
def test_the_worst_is_reported() -> None:
    advice = advise_by_twin(FLEET, TIME, replace(MEASURED.skewed(), source="measured"), Aim(worst=1))
    assert "The worst speed group counts 1 of the objective" in " ".join(advice.why)


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    once, again, other = (search(FLEET, 1.0, LAND, seed=one) for one in (4, 4, 5))
    assert once.choices == again.choices
    assert [one.loss for one in once.tried] == [one.loss for one in again.tried]
    assert [one.loss for one in once.tried] != [one.loss for one in other.tried]


def test_progress_is_recognised_by_stages() -> None:
    told: list[tuple[int, int]] = []
    search(FLEET, 2.0, LAND, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_generic_constants_say_how_much_the_choice_depends_on_them_and_promise_no_step() -> None:
    advice = advise_by_twin(FLEET, TIME)
    sentence = next(one for one in advice.why if "The constants are generic" in one)
    factor = float(sentence.partition("within a factor of ")[2].split()[0])
    assert 1 <= factor < 10
    assert advice.plan.step_size is None
    assert "step_size" not in advice.plan.promises
    assert "The step size is left open" in " ".join(advice.why)


def test_where_constants_were_measured_the_step_is_the_models_times_the_factor() -> None:
    advice = advise_by_twin(FLEET, TIME, MEASURED)
    seen = predict(FLEET, [Policy("taken", advice.plan)], TIME, MEASURED, traces=TRACES)[0]
    assert TRANSFER == 1.23
    assert advice.plan.step_size == pytest.approx(TRANSFER * seen.step_size)
    assert advice.plan.promises["step_size"] == advice.plan.step_size
    assert advice.plan.promises["loss"] == seen.loss
    assert "generic" not in " ".join(advice.why)


def test_the_advice_has_the_loss_of_every_usual_policy_beside_it() -> None:
    advice = advise_by_twin(FLEET, TIME, MEASURED)
    losses = [row.loss for row in advice.rows]
    assert len(losses) >= 6
    assert all(one is not None and np.isfinite(one) for one in losses)
    routed = next(row.loss for row in advice.rows if row.policy.algorithm == "asyncsgd")
    assert losses[0] is not None
    assert routed is not None
    assert losses[0] < routed
    assert f"({routed:.3g} with uniform AsyncSGD)" in advice.why[0]


@pytest.mark.slow
@pytest.mark.parametrize("target", [1.8, 0.2])
def test_the_time_to_a_loss_is_about_the_least(target: float) -> None:
    advice = advise_for_loss(FLEET, target, LAND)
    policy = Policy("taken", advice.plan)
    now, before = (predict(FLEET, [policy], part * advice.time, LAND, traces=TRACES)[0].loss for part in (1.0, 0.8))
    assert now <= target < before
    assert advice.plan.promises["loss"] == now
    assert advice.plan.promises["time"] == advice.time


@pytest.mark.slow
def test_lower_losses_take_longer() -> None:
    times = [advise_for_loss(FLEET, one, LAND).time for one in (1.0, 0.3)]
    assert times[0] < times[1]


@pytest.mark.slow
def test_the_least_energy_to_a_loss_costs_less_and_takes_longer() -> None:
    soon, thrifty = (advise_for_loss(POWERED, 0.2, LAND, least=one) for one in ("time", "energy"))
    spent = [energy(POWERED, Policy("", one.plan), one.time) for one in (soon, thrifty)]
    assert spent[1] < spent[0]
    assert thrifty.time > soon.time
    assert thrifty.plan.concurrency < soon.plan.concurrency
    assert thrifty.rows[0].loss == thrifty.plan.promises["loss"] <= 0.2


def test_energy_needs_powers() -> None:
    with pytest.raises(InvalidInput, match="least energy needs the power of every group, one lacks it"):
        advise_for_loss(FLEET, 0.5, LAND, least="energy")


@pytest.mark.parametrize(
    ("loss", "least", "said"),
    [
        (3.0, "time", "loss must lie between the lowest, 0, and that of the first model, 2, got 3"),
        (0.0, "time", "got 0"),
        (0.5, "bytes", "least must be time or energy, got 'bytes'"),
    ],
)
def test_what_cannot_be_reached_is_refused(loss: float, least: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        advise_for_loss(FLEET, loss, LAND, least=least)


@pytest.mark.slow
def test_a_loss_below_the_noise_is_never_reached() -> None:
    tiny = Fleet.of(two=(2, 1.0))
    rough = Landscape((1.0,), loss=1.0, noise=0.0, heterogeneity=0.0, noise_floor=1e9)
    with pytest.raises(InvalidInput, match=r"loss 1e-05 is not reached in .*; give a higher loss"):
        advise_for_loss(tiny, 1e-5, rough)


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_small_fleets_are_searched_too(clients: int) -> None:
    advice = advise_by_twin(Fleet.of(few=(clients, 1.0)), 20.0, MEASURED)
    assert advice.plan.concurrency <= 2 * clients


@pytest.mark.slow
def test_a_thousand_clients_of_distinct_speeds() -> None:
    fleet = Fleet.of_rates(np.exp(np.random.default_rng(0).normal(0, 1, 1000)))
    taken = search(fleet, 1.0, LAND).choice
    assert (taken.cap, taken.tasks) == (1, 1000)


@pytest.mark.slow
def test_a_million_clients_in_two_groups() -> None:
    fleet = Fleet.of(fast=(900_000, 1.0), slow=(100_000, 0.1))
    taken = search(fleet, 1.0, LAND).choice
    assert (taken.cap, taken.tasks) == (1, 1_000_000)
