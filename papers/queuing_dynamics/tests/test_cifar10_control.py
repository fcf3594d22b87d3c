"""What the page says of weights and of waiting on CIFAR-10, held to the kept runs."""

import pytest

from queuing_dynamics.cifar10.compared import LAST_MODEL, LAST_PART, differences, worst_clients
from queuing_dynamics.cifar10.experiment import KEPT
from queuing_dynamics.cifar10.readings import IDLE, PURE, SPEED, UNWEIGHTED, Reading
from queuing_dynamics.cifar10.search import trial
from queuing_dynamics.cifar10.size import FULL
from queuing_dynamics.cifar10.stages import cells_of, ledger_of
from queuing_dynamics.tuned import trial_seeds

BOTH = [LAST_PART, LAST_MODEL]


@pytest.fixture(scope="module")
def finals(tmp_path_factory):
    """Ten seeds of each method at its best, on the test set."""
    cells = cells_of("favourable", FULL, tmp_path_factory.mktemp("work"), KEPT)
    return ledger_of("favourable", KEPT).by_method(cells)


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    """Trials of methods with so many tasks and a rate each, by method and seed."""
    search, work = ledger_of("search", KEPT), tmp_path_factory.mktemp("work")

    def runs(tasks, **rates):
        reading = Reading("periods", 1, tasks / FULL.clients)
        given = {"speed": SPEED, "unweighted": UNWEIGHTED, "finisher": PURE}
        asked = [(given[name], rate, seed) for name, rate in rates.items() for seed in trial_seeds(FULL.trial_seeds)]
        return search.by_method(trial(FULL, work, reading, *one) for one in asked)

    return runs


def apart(runs, one, other, axis="time"):
    """Difference and interval over the last part of the way, and by the last model."""
    rows = list(differences(runs, [(one, other)], [axis]))
    assert [row["measure"] for row in rows] == BOTH
    return [[round(row[key], 1) for key in ("difference", "difference_low", "difference_high")] for row in rows]


def test_leaving_out_the_weights_gains_and_not_waiting_gains_again(finals):
    assert apart(finals, UNWEIGHTED, SPEED) == [[17.4, 13.2, 21.6], [15.8, 9.4, 22.3]]
    assert apart(finals, PURE, UNWEIGHTED) == [[9.6, 7.9, 11.2], [7.9, 5.7, 10.1]]
    assert apart(finals, UNWEIGHTED, IDLE) == [[-8.2, -9.6, -6.7], [-8.6, -10.6, -6.5]]


@pytest.mark.parametrize(("tasks", "rate"), [(10, 0.1), (50, 0.03), (100, 0.03)])
def test_with_as_many_tasks_the_control_has_the_times_of_by_speed_and_learns_more(held_out, tasks, rate):
    runs = held_out(tasks, speed=0.01, unweighted=rate)
    for seed, plain in runs[UNWEIGHTED].items():
        weighted = runs[SPEED][seed]
        for key in ("received", "time", "staleness"):
            assert plain.column(key).tolist() == weighted.column(key).tolist()
        for key in ("plan_hash", "partition_hash", "fleet_hash"):
            assert plain.facts[key] == weighted.facts[key]
    low = apart(runs, UNWEIGHTED, SPEED)[0][1]
    assert low > 7


def test_an_update_is_not_seen_to_be_worth_less_for_the_waiting(held_out):
    runs = held_out(100, finisher=0.03, unweighted=0.03)
    assert apart(runs, PURE, UNWEIGHTED, "received") == [[2.8, -0.6, 6.1], [2.0, -7.7, 11.7]]
    assert apart(runs, PURE, UNWEIGHTED) == [[10.2, 6.0, 14.4], [10.0, 6.1, 13.8]]


def test_an_update_by_speed_without_weights_is_worth_one_of_asyncsgd_and_more_of_them_come(finals):
    assert apart(finals, UNWEIGHTED, "asyncsgd", "received") == [[-1.8, -4.2, 0.7], [-2.2, -6.7, 2.3]]
    assert apart(finals, UNWEIGHTED, "asyncsgd") == [[18.8, 16.2, 21.5], [17.9, 13.5, 22.3]]


def test_worst_clients_are_a_point_further_behind_without_weights_while_models_are_alike(finals):
    behind = {row["method"]: row for row in worst_clients(finals)}
    assert behind[UNWEIGHTED]["behind"] - behind[SPEED]["behind"] == pytest.approx(1.3, abs=0.05)
    assert behind[UNWEIGHTED]["behind_low"] > behind[SPEED]["behind_high"]
    others = [row["behind"] for method, row in behind.items() if method not in (UNWEIGHTED, SPEED, IDLE, PURE)]
    assert [round(value, 1) for value in (min(others), max(others))] == [11.3, 12.7]
