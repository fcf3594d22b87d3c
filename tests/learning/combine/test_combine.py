"""Robust combinations: hand values, and a run with clients that lie."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from small_runs import PROBLEM, simulated
from sojourn import InvalidInput
from sojourn.learning.algorithms.asgrad import AsGrad
from sojourn.learning.algorithms.base import Arrival
from sojourn.learning.algorithms.ca2fl import Ca2fl
from sojourn.learning.algorithms.fadas import Fadas
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.table import algorithm
from sojourn.learning.combine.table import combination
from sojourn.learning.replay.local import Local
from sojourn.learning.wrappers import Wrapper
from sojourn.testing import check_algorithm

LOCAL = Local(step_size=0.2, batch_size=4)
ROUTED = {"size": 6, "dispatch": "routed"}


def of(text, updates, last=None, factors=None):
    rule, held = combination(text), None
    for number, update in enumerate(updates):
        held = rule.add(held, torch.tensor(update, dtype=torch.float64), 1.0 if factors is None else factors[number])
    vector, share = rule.combined(held, len(updates), last)
    return (vector * share).tolist()


FIVE = [[1.0, 5.0], [2.0, 4.0], [3.0, 3.0], [4.0, 2.0], [100.0, -100.0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mean", [22.0, -17.2]),
        ("median", [3.0, 3.0]),
        ("trimmed(share=0.2)", [3.0, 3.0]),
        ("trimmed(share=0.4)", [3.0, 3.0]),
        ("trimmed(share=0)", [22.0, -17.2]),
        ("clipping(radius=1e9)", [22.0, -17.2]),
    ],
)
def test_combinations_by_hand(text, expected):
    assert of(text, FIVE) == pytest.approx(expected)


def test_28_percent_of_25_numbers_are_seven_at_either_end():
    numbers = [[float(number**2)] for number in range(25)]
    assert of("trimmed(share=0.28)", numbers) == pytest.approx([sum(n**2 for n in range(7, 18)) / 11])


def test_the_median_of_an_even_number_and_the_trimming_of_few():
    assert of("median", FIVE[:4]) == [2.5, 3.5]
    assert of("trimmed(share=0.25)", FIVE[:4]) == [2.5, 3.5]
    assert of("trimmed(share=0.4)", FIVE[:2]) == [1.5, 4.5]
    assert of("median", FIVE[:1]) == [1.0, 5.0]
    assert of("median", [[1.0], [3.0], [5.0]], factors=[1.0, 2.0, 0.5]) == [2.5]  # of the weighted updates


def test_clipping_pulls_updates_towards_the_last_result():
    updates = [[3.0, 4.0], [0.0, 0.5]]
    assert of("clipping(radius=1)", updates) == pytest.approx([(0.6 + 0.0) / 2, (0.8 + 0.5) / 2])
    last = torch.tensor([3.0, 4.0], dtype=torch.float64)
    away = np.array([-3.0, -3.5]) / np.hypot(3.0, 3.5)
    assert of("clipping(radius=1)", updates, last) == pytest.approx((np.array([3.0, 4.0]) + away / 2).tolist())
    twice = of("clipping(radius=1, rounds=2)", updates)
    once = torch.tensor(of("clipping(radius=1)", updates), dtype=torch.float64)
    assert twice == pytest.approx(of("clipping(radius=1)", updates, once))


@dataclass(frozen=True)
class Lying(Wrapper):
    """Some clients send a large multiple of the opposite."""

    liars: tuple[int, ...]
    name = "lying"

    def arrive(self, memory: None, arrival: Arrival) -> tuple[None, Arrival]:
        update = arrival.update
        lie = update.with_vector(update.vector * (-50.0 if arrival.client in self.liars else 1.0))
        return memory, arrival._replace(update=lie)


def gap(combine, liars, method=FedBuff, **options):
    case = simulated(Lying(liars)(method(combine=combine, **(options or ROUTED))), LOCAL, steps=180)
    run = case.replay()
    run.advance(case.steps)
    return float(PROBLEM.gap(run.params.numpy()))


OTHERS = {
    "fadas": (Fadas, {"size": 6, "dispatch": "routed", "server_step_size": 0.05}),
    "asgrad": (AsGrad, {"wait": 6, "assignment": "random"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_the_other_buffered_methods_withstand_a_liar_too(name):
    method, options = OTHERS[name]
    first = float(PROBLEM.gap(np.zeros(4)))
    misled = gap("mean", (1,), method, **options)
    for robust in ("median", "trimmed(share=0.4)"):
        assert gap(robust, (1,), method, **options) < min(0.3 * first, 0.3 * misled), robust


def test_a_liar_enters_ca2fl_by_its_cache_alone():
    """Its cached update counts by 1/n, while in the mean of a buffer it counts by 1/Z and more."""
    options = {"size": 6, "dispatch": "routed"}
    misled = gap("mean", (1,), Ca2fl, **options)
    assert gap("median", (1,), Ca2fl, **options) < 0.5 * misled


def test_one_liar_destroys_the_mean_and_not_the_robust_combinations():
    first = float(PROBLEM.gap(np.zeros(4)))
    assert gap("mean", (1,)) > 100 * first
    for robust in ("median", "trimmed(share=0.4)", "clipping(radius=0.5)"):
        assert gap(robust, (1,)) < 0.2 * first, robust
        assert gap(robust, ()) < 0.1 * first, robust


@pytest.mark.parametrize("combine", ["median", "trimmed(share=0.3)", "clipping(radius=1, rounds=2)"])
def test_a_buffered_method_with_a_combination_has_all_properties_of_an_algorithm(combine):
    check_algorithm(FedBuff(size=3, combine=combine))


@pytest.mark.slow
@pytest.mark.parametrize("combine", ["median", "clipping(radius=1, rounds=2)"])
@pytest.mark.parametrize(
    "made", [Fadas(size=3, server_step_size=0.1), Ca2fl(size=3), AsGrad(wait=3)], ids=lambda one: one.name
)
def test_the_others_have_them_too(made, combine):
    check_algorithm(replace(made, combine=combine))


def test_without_trimming_it_is_the_mean():
    for method in (FedBuff(size=3), Fadas(size=3), Ca2fl(size=3), AsGrad(wait=3)):
        case = simulated(method, LOCAL)
        for same in ("trimmed(share=0)", "clipping(radius=inf)"):
            assert case.of(replace(method, combine=same)).path() == pytest.approx(case.path(), abs=1e-9), method.name


def test_the_memory_is_one_model_for_the_mean_and_the_whole_buffer_for_the_others():
    for combine, most in (("mean", 1), ("median", 4)):
        case = simulated(FedBuff(size=5, combine=combine), LOCAL)
        run = case.replay()
        run.advance(4)
        held = run.state.held
        assert sum(one.numel() for one in (held if isinstance(held, tuple) else (held,))) == most * 4


def test_the_text_of_a_combination_is_an_option_of_the_algorithm():
    made = algorithm("fedbuff(size=4, combine=trimmed(share=0.2))")
    assert made == FedBuff(size=4, combine="trimmed(share=0.2)")
    for text, said in (
        ("fedbuff(combine=middle)", "combination must be one of mean, median, trimmed, clipping"),
        ("fedbuff(combine=trimmed(share=0.5))", r"share must lie in \[0, 0.5\)"),
        ("fedbuff(combine=clipping(radius=0))", "radius must be positive"),
        ("fedbuff(combine=clipping(rounds=0))", "rounds must be at least 1"),
        ("fedbuff(combine=fractions:Fraction)", "Fraction must define follows"),
    ):
        with pytest.raises(InvalidInput, match=said):
            algorithm(text)
