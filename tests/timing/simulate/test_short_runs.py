"""A run that is shorter than its memory is known as such: queues that have to settle, tasks that have to age."""

import numpy as np
import pytest

from sojourn import Fleet, Plan, analyze, measure
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.simulate.memory import memory_of

TWO = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))


def memory(fleet, plan, steps, **how):
    return memory_of(measure(fleet, plan, steps, **how), analyze(fleet, plan))


@pytest.mark.parametrize(
    ("fleet", "weights", "tasks", "start"),
    [
        (TWO, [1, 1], 1000, "even"),
        (Fleet.of(fast=(50, 4.0), slow=(50, 1.0)), [1, 1], 1000, "even"),
        (Fleet.of(a=(3, 4.0), b=(3, 2.0), c=(4, 1.0)), [1, 1, 1], 300, "even"),
        (Fleet.of(a=(10, 2.0), b=(10, 1.0)), [2, 1], 200, "routed"),  # equal loads: by chance alone
    ],
    ids=["two clusters", "many clients", "three groups", "equal loads"],
)
def test_queues_settle_in_about_the_steps_that_are_stated(fleet, weights, tasks, start):
    plan = Plan.weighted(fleet, np.array(weights, dtype=float), tasks)
    exact = analyze(fleet, plan)
    stated = memory(fleet, plan, 10, start=start).settling
    begin = tasks * (plan.sampling if start == "routed" else np.full(fleet.groups, 1 / fleet.clients))
    group = int(np.argmax(np.abs(begin - exact.queue)))  # that which has to change most

    def left(steps):
        """Part of the surplus that is still there after so many steps."""
        seen = measure(fleet, plan, max(20, steps // 50), start=start, warmup=steps, replications=20, seed=1)
        return (seen.queue.value[group] - exact.queue[group]) / (begin[group] - exact.queue[group])

    assert left(round(stated / 10)) > 0.6
    assert abs(left(round(1.5 * stated))) < 0.3


def test_a_stationary_start_has_nothing_to_settle():
    found = memory(TWO, Plan.uniform(TWO, 100), 1000)
    assert found.settling == 0
    assert found.staleness == pytest.approx(analyze(TWO, Plan.uniform(TWO, 100)).staleness().max(), rel=0.1)


def test_a_short_run_from_a_far_start_is_short_and_a_long_one_is_not():
    plan = Plan.uniform(TWO, 1000)
    short = memory(TWO, plan, 2000, start="even")
    assert short.short
    assert short.needed == pytest.approx(8 * (short.settling + short.staleness + 1), abs=1)
    assert not memory(TWO, plan, short.needed, start="even").short


def test_a_warm_up_that_covers_the_memory_leaves_only_the_age_of_tasks():
    plan = Plan.uniform(TWO, 1000)
    found = memory(TWO, plan, 16_000, start="even", warmup=13_000)
    assert found.needed == pytest.approx(8 * (found.staleness + 1), abs=1)
    assert not found.short
    assert memory(TWO, plan, 15_000, start="even", warmup=13_000).short


def test_every_replication_has_to_be_long_enough():
    plan = Plan.uniform(TWO, 1000)
    assert memory(TWO, plan, 8000, replications=12).short
    assert not memory(TWO, plan, 16_000, replications=12).short


def test_a_few_old_tasks_of_rare_clients_do_not_make_a_run_short():
    # 2000 clients, of whom some have sent one update that happened to be old
    fleet = Fleet.of_rates(np.linspace(1.0, 2.0, 2000))
    plan = Plan.uniform(fleet, 100)
    found = memory(fleet, plan, 5000)
    assert found.staleness == pytest.approx(analyze(fleet, plan).staleness().max())


def test_the_mean_over_all_updates_is_known_for_every_dispatcher_with_queues():
    # 999 between dispatch and application in the long run, of which 500 steps have not seen much
    fleet = Fleet.of(all=(1000, 1.0))
    plan = Plan.uniform(fleet, 1000)
    for name in ("pure", "shuffled", "idle"):
        summary = measure(fleet, plan, 500, start="one-each", scenario=Scenario(Dispatcher(name)))
        found = memory_of(summary, analyze(fleet, plan))
        assert found.short
        assert found.needed == 8000


def test_rounds_forget_everything_at_once():
    scenario = Scenario(Dispatcher("rounds"))
    summary = measure(TWO, Plan.uniform(TWO, 10), 1000, start="even", scenario=scenario)
    found = memory_of(summary, analyze(TWO, Plan.uniform(TWO, 10)))
    assert found.settling == 0
    assert not found.short
