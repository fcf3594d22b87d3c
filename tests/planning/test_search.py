"""The search: families, concurrency, constraints, bins."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Constants, Fleet, InvalidInput, Plan, goal, make_plan
from sojourn.planning.bound import search
from sojourn.planning.bound.binning import into_bins
from sojourn.planning.bound.concurrency import best_concurrency
from sojourn.planning.bound.family import ByPower, equal_clients, grid_around_uniform, speed_clusters
from sojourn.planning.bound.goal import mixed_goal
from sojourn.planning.bound.search import Limits

ANY = settings(max_examples=60)
SMALL = Fleet.of(fast=(6, 8.0), medium=(3, 2.0), slow=(4, 1.0))
TIME = goal(time=200)


def test_the_optimum_lets_no_probability_move_with_profit():
    # at a minimum over the simplex the gradient by p is the same for every client
    planned = make_plan(SMALL, TIME)
    gradient = TIME.predict(SMALL, replace(planned.plan, step_size=None), gradient=True).gradient
    assert np.ptp(gradient) < 1e-8 * planned.prediction.value / planned.plan.sampling.min()


def test_the_families_lie_inside_each_other():
    values = {search: make_plan(SMALL, TIME, 10, search).prediction.value for search in ("simplex", "power")}
    values |= {
        clusters: make_plan(SMALL, TIME, 10, "clusters", clusters=clusters).prediction.value for clusters in (1, 2, 3)
    }
    values["grid"] = make_plan(SMALL, TIME, 10, "grid").prediction.value
    uniform = TIME.predict(SMALL, Plan.uniform(SMALL, 10)).value
    assert values[1] == pytest.approx(uniform, rel=1e-12)
    assert values[3] == pytest.approx(values["simplex"], rel=1e-10)
    assert values["simplex"] < values[2] < values["grid"] < uniform
    assert values["simplex"] < values["power"] < uniform


def test_without_staleness_the_best_sampling_is_the_weights():
    # C = 1: G depends on p through S1 = sum q_i^2 / p_i alone, least at p = q
    fleet = Fleet(("a", "b", "c"), [2, 1, 3], [5.0, 1.0, 0.2], data_size=[10.0, 40.0, 5.0])
    planned = make_plan(fleet, goal(steps=1000, weights="data"), 1)
    assert planned.plan.sampling == pytest.approx(np.array([10, 40, 5]) / 75, rel=1e-6)


def test_more_data_on_slow_clients_means_that_they_are_sampled_more():
    rich = Fleet(("fast", "slow"), [5, 5], [8.0, 1.0], data_size=[10.0, 100.0])
    by_data, equal = (make_plan(rich, goal(time=500, weights=weights)).plan for weights in ("data", "equal"))
    assert by_data.sampling[1] > 2 * equal.sampling[1]


def test_equal_clients_in_groups_of_two_names_get_equal_probabilities():
    fleet = Fleet.of(fast=(3, 8.0), quick=(2, 8.0), slow=(4, 1.0))
    sampling = make_plan(fleet, TIME).plan.sampling
    assert sampling[0] == sampling[1] != sampling[2]
    merged = make_plan(Fleet.of(fast=(5, 8.0), slow=(4, 1.0)), TIME)
    assert sampling[0] == pytest.approx(merged.plan.sampling[0], rel=1e-6)


def test_labels_of_equal_clients_see_links_and_weights():
    fleet = Fleet(("a", "b", "c", "d"), [1, 1, 1, 1], [1.0, 1.0, 1.0, 1.0], uplink_rate=[2.0, 2.0, 3.0, 2.0])
    labels = equal_clients(fleet, np.array([0.2, 0.2, 0.2, 0.4]))
    assert labels[0] == labels[1]
    assert len({labels[0], labels[2], labels[3]}) == 3


def test_speed_clusters_are_cut_between_unlike_speeds():
    fleet = Fleet.of_rates([1.0, 10.0, 1.1, 9.0, 100.0])
    assert speed_clusters(fleet, 3).tolist() == [2, 1, 2, 1, 0]
    assert speed_clusters(fleet, 1).tolist() == [0] * 5
    with pytest.raises(InvalidInput, match="clusters must lie between 1 and the 5 distinct rates of the fleet, got 6"):
        speed_clusters(fleet, 6)


def test_a_power_of_speed_is_found_again():
    family = ByPower(np.log(SMALL.rate))
    assert family.nearest(family.logs(np.array([0.7])) + 3.0, np.ones(3)) == pytest.approx([0.7])


def test_the_grid_has_fifty_points_around_uniform():
    points = np.exp(grid_around_uniform(Fleet.of(fast=(50, 2.0), slow=(50, 1.0)), 50))
    assert points.shape == (50, 2)
    assert points[:, 0].min() == pytest.approx(0.02 / 51)
    assert points[:, 0].max() == pytest.approx(0.02 * 50 / 51)
    assert 50 * points.sum(axis=1) == pytest.approx(np.ones(50))


@ANY
@given(st.integers(1, 400), st.integers(1, 400), st.floats(0.1, 4), st.integers(1, 400))
def test_the_best_concurrency_of_a_valley_is_found(lowest, most, steepness, first):
    def valley(tasks):
        return abs(np.log(tasks / lowest)) ** steepness

    best = best_concurrency(valley, most, first)
    assert valley(best) == min(valley(tasks) for tasks in range(1, most + 1))


@pytest.mark.slow
def test_the_joint_search_agrees_with_trying_every_concurrency():
    planned = make_plan(SMALL, TIME)
    values = {tasks: make_plan(SMALL, TIME, tasks).prediction.value for tasks in range(1, 16)}
    assert planned.plan.concurrency == min(values, key=values.get)
    assert planned.prediction.value == pytest.approx(min(values.values()), rel=1e-10)


def test_few_concurrencies_are_looked_at():
    planned = make_plan(Fleet.of(fast=(50_000, 8.0), slow=(50_000, 1.0)), goal(time=1000))
    assert planned.plan.concurrency > 50
    assert len(planned.searched) < 40


def test_a_cap_on_tasks_binds():
    assert make_plan(SMALL, TIME, limits=Limits(most_tasks=2)).plan.concurrency == 2


@pytest.mark.parametrize("tasks", [5, 8])
def test_a_cap_on_staleness_is_met_exactly_where_it_binds(tasks):
    free = make_plan(SMALL, TIME, tasks)
    cap = 0.7 * free.prediction.analysis.staleness().max() + 0.3 * (tasks - 1)
    capped = make_plan(SMALL, TIME, tasks, limits=Limits(most_staleness=cap))
    assert capped.prediction.analysis.staleness().max() == pytest.approx(cap, rel=1e-4)
    assert capped.prediction.value > free.prediction.value
    # no sampling on a fine grid around does better within the cap
    rng = np.random.default_rng(0)
    for _ in range(300):
        weights = capped.plan.sampling * np.exp(rng.normal(0, 0.05, 3))
        other = TIME.predict(SMALL, Plan.weighted(SMALL, weights, tasks))
        within = other.analysis.staleness().max() <= cap
        assert not within or other.value > capped.prediction.value * (1 - 1e-5)


@pytest.mark.slow
def test_a_cap_on_staleness_may_lower_the_concurrency():
    cap = 4.0
    planned = make_plan(SMALL, TIME, limits=Limits(most_staleness=cap))
    assert planned.prediction.analysis.staleness().max() <= cap * (1 + 1e-5)
    assert planned.plan.concurrency < make_plan(SMALL, TIME).plan.concurrency


def test_a_server_and_links_change_the_plan_and_are_promised():
    fleet = replace(SMALL, uplink_rate=np.array([5.0, 5.0, 5.0]))
    planned = make_plan(fleet, goal(time=200, server_rate=20.0))
    assert planned.plan.promises["server_rate"] == 20.0
    assert planned.prediction.analysis.server_utilisation > 0
    plain = make_plan(SMALL, TIME)
    assert planned.prediction.value > plain.prediction.value
    assert planned.plan.concurrency > plain.plan.concurrency  # tasks on links keep no client busy


@pytest.mark.slow
def test_a_mix_lies_between_least_time_and_least_energy():
    fleet = replace(SMALL, power=np.array([30.0, 5.0, 1.0]))
    time, energy = goal(epsilon=1.0), goal(epsilon=1.0, least="energy")
    fastest, thriftiest = make_plan(fleet, time), make_plan(fleet, energy)
    mix = make_plan(fleet, mixed_goal(fleet, time, 0.5))
    assert fastest.prediction.scored.time < mix.prediction.scored.time < thriftiest.prediction.scored.time
    assert fastest.prediction.scored.energy > mix.prediction.scored.energy > thriftiest.prediction.scored.energy
    for share, end in ((0.0, fastest), (1.0, thriftiest)):
        pure = make_plan(fleet, mixed_goal(fleet, time, share))
        assert pure.plan.concurrency == end.plan.concurrency
        assert pure.plan.sampling == pytest.approx(end.plan.sampling, rel=1e-3)


def test_a_mix_needs_epsilon_and_a_share():
    with pytest.raises(InvalidInput, match="a mix of time and energy needs epsilon"):
        mixed_goal(SMALL, TIME, 0.5)
    with pytest.raises(InvalidInput, match="share of energy must lie between 0 and 1, got 2"):
        mixed_goal(SMALL, goal(epsilon=1), 2)


@pytest.mark.slow
def test_bins_come_close_and_refining_comes_closer(monkeypatch):
    fleet = Fleet.of_rates(np.exp(np.random.default_rng(0).normal(0, 1, 300)))
    full = make_plan(fleet, goal(time=300))
    monkeypatch.setattr(search, "MOST_FREE", 100)
    monkeypatch.setattr(search, "BINS", 20)
    through = make_plan(fleet, goal(time=300))
    assert full.binning is None
    assert through.binning.bins == 20
    assert 1 < through.binning.width < 4
    assert through.binning.error < 0.01
    assert through.binning.refined_value <= through.binning.true_value
    assert through.prediction.value == through.binning.refined_value
    assert through.prediction.value == pytest.approx(full.prediction.value, rel=1e-4)
    assert through.plan.concurrency == pytest.approx(full.plan.concurrency, abs=1)


@pytest.mark.slow
def test_bins_keep_links_weights_and_powers_apart(monkeypatch):
    rng = np.random.default_rng(1)
    size = 200
    fleet = replace(
        Fleet.of_rates(rng.uniform(0.5, 4, size)),
        uplink_rate=np.where(rng.random(size) < 0.5, 1.0, np.inf),
        data_size=rng.choice([10.0, 50.0], size),
        power=rng.choice([1.0, 5.0], size),
        uplink_power=np.ones(size),
        downlink_power=np.ones(size),
    )
    objective = goal(epsilon=1.0, least="energy", weights="data")
    full = make_plan(fleet, objective, 10)
    monkeypatch.setattr(search, "MOST_FREE", 100)
    monkeypatch.setattr(search, "BINS", 60)
    through = make_plan(fleet, objective, 10)
    assert through.binning.error < 0.02
    assert through.prediction.value == pytest.approx(full.prediction.value, rel=1e-3)


@pytest.mark.slow
def test_a_hundred_thousand_distinct_clients():
    fleet = Fleet.of_rates(np.exp(np.random.default_rng(0).normal(0, 1, 100_000)))
    planned = make_plan(fleet, goal(time=1000))
    assert planned.binning.error < 1e-4
    uniform = Plan.uniform(fleet, planned.plan.concurrency)
    slack = {}
    for plan in (replace(planned.plan, step_size=None), uniform):
        found = goal(time=1000).predict(fleet, plan, gradient=True)
        off = found.gradient - plan.sampling @ found.gradient  # 0 for every client at the optimum
        slack[found.value] = np.abs(plan.sampling * off).sum() / found.value
    assert min(slack) == planned.prediction.value
    assert min(slack.values()) == slack[planned.prediction.value] < 0.02 * max(slack.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limits": Limits(floor=0.2)}, r"floor must lie between 0 and 1/n = 0.0769231, got 0.2; 13 clients cannot"),
        ({"limits": Limits(floor=-1)}, "floor must lie between 0 and"),
        ({"limits": Limits(most_staleness=-1)}, "most_staleness must not be negative, got -1"),
        ({"limits": Limits(most_staleness=2.0), "concurrency": 9}, "the cap of 2 on staleness cannot be met"),
        ({"limits": Limits(most_tasks=3), "concurrency": 9}, "concurrency must not exceed the cap of 3 tasks, got 9"),
        ({"limits": Limits(most_tasks=0)}, "most_tasks must be a whole number from 1"),
        ({"concurrency": 10**12}, "concurrency must be a whole number from 1"),
        ({"seed": -1}, "seed must not be negative, got -1"),
        ({"search": "best"}, "search must be simplex, clusters, grid or power, got 'best'"),
        ({"search": "clusters", "clusters": 4}, "clusters must lie between 1 and the 3 distinct rates"),
        ({"search": "clusters", "concurrency": 9, "limits": Limits(most_staleness=10)}, "no sampling of this family"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused_in_one_sentence(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        make_plan(SMALL, TIME, **arguments)


def test_a_fleet_too_large_for_unequal_probabilities_is_refused_at_once():
    with pytest.raises(InvalidInput, match="for at most 1,000,000 clients, got 2,000,000,000"):
        make_plan(Fleet.of(a=(10**9, 1.0), b=(10**9, 2.0)), TIME, equal=False)


def test_one_client_needs_no_plan():
    with pytest.raises(InvalidInput, match="a plan needs at least two clients, got 1"):
        make_plan(Fleet.of(only=(1, 1.0)), TIME)


def test_a_predictor_that_is_not_a_bound_can_be_planned_with():
    """Anything with `name` and `predict` is an objective: here the inner one with another value."""

    class Twice:
        name = "twice the bound"

        def predict(self, fleet, plan, gradient=False):
            found = TIME.predict(fleet, plan, gradient)
            scored = replace(found.scored, value=2 * found.scored.value)
            slope = None if found.gradient is None else 2 * found.gradient
            return replace(found, scored=scored, gradient=slope)

    twice, once = make_plan(SMALL, Twice()), make_plan(SMALL, TIME)
    assert twice.prediction.value == pytest.approx(2 * once.prediction.value, rel=1e-9)
    assert twice.plan.sampling == pytest.approx(once.plan.sampling, rel=1e-5)


def test_constants_of_another_scale_scale_the_step():
    # A / eta, eta L and B enter: with A and eta halved and L doubled nothing changes
    one = make_plan(SMALL, goal(time=200, constants=Constants(A=10, L=1, B=2)))
    two = make_plan(SMALL, goal(time=200, constants=Constants(A=5, L=2, B=2)))
    assert two.plan.concurrency == one.plan.concurrency
    assert two.plan.step_size == pytest.approx(one.plan.step_size / 2, rel=1e-6)


def test_speed_clusters_of_many_distinct_rates_have_many_clients_each():
    fleet = Fleet.of_rates(np.exp(np.random.default_rng(0).normal(0, 1, 5000)))
    label = speed_clusters(fleet, 2)
    assert 0.3 < label.mean() < 0.7
    assert fleet.rate[label == 0].min() > fleet.rate[label == 1].max()


def test_speed_clusters_are_the_best_cut_of_all():
    rng = np.random.default_rng(1)
    rates, count = rng.lognormal(size=9), rng.integers(1, 20, 9)
    fleet = Fleet(tuple("abcdefghi"), count, rates)
    order, logs = np.argsort(-rates), np.log(rates)

    def squares(label):
        parts = [(logs[label == one], count[label == one]) for one in np.unique(label)]
        return sum((n * (x - (n @ x) / n.sum()) ** 2).sum() for x, n in parts)

    tried = []
    for first in range(1, 8):
        for second in range(first + 1, 9):
            label = np.zeros(9, dtype=int)
            label[order[first:]], label[order[second:]] = 1, 2
            tried.append(squares(label))
    assert squares(speed_clusters(fleet, 3)) == pytest.approx(min(tried), rel=1e-9)


@pytest.mark.slow
def test_a_cap_on_staleness_is_kept_through_bins(monkeypatch):
    fleet = Fleet.of_rates(np.exp(np.random.default_rng(0).normal(0, 1, 150)))
    monkeypatch.setattr(search, "MOST_FREE", 100)
    monkeypatch.setattr(search, "BINS", 20)
    free = make_plan(fleet, goal(time=300), 12)
    cap = 0.6 * free.prediction.analysis.staleness().max()
    capped = make_plan(fleet, goal(time=300), 12, limits=Limits(most_staleness=cap))
    assert capped.prediction.analysis.staleness().max() <= cap * (1 + 1e-5)
    assert capped.prediction.value > free.prediction.value
    assert Limits(most_staleness=cap).kept(capped.prediction)
    assert not Limits(most_staleness=cap).kept(free.prediction)


def test_rates_of_any_scale_are_planned_for():
    one, other = (make_plan(Fleet.of(a=(3, 8.0 * x), b=(3, 1.0 * x)), goal(time=100 / x)) for x in (1.0, 1e200))
    assert one.plan.concurrency == other.plan.concurrency
    assert one.plan.sampling == pytest.approx(other.plan.sampling, rel=1e-6)


def test_bins_part_clients_of_one_speed_by_their_links():
    fleet = Fleet(("a", "b", "c", "d"), [1] * 4, [1.0] * 4, uplink_rate=[1.0, 0.01, 1.0, 0.01])
    bins = into_bins(fleet, goal(time=100), 2)
    assert bins[0] == bins[2] != bins[1] == bins[3]
