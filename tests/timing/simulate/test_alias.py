"""The alias table holds its weights exactly."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.timing.simulate.alias import alias_table

WEIGHTS = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=200).map(np.array)


def probabilities(keep, other):
    """Column i is drawn with 1/m; it stays with keep[i], else goes to other[i]."""
    found = keep.copy()
    np.add.at(found, other, 1 - keep)
    return found / keep.size


@settings(max_examples=300)
@given(WEIGHTS)
def test_the_table_reproduces_its_weights_to_rounding(weights):
    keep, other = alias_table(weights)
    assert np.allclose(probabilities(keep, other), weights / weights.sum(), rtol=0, atol=1e-15 * weights.size)


@settings(max_examples=300)
@given(WEIGHTS)
def test_every_column_is_a_legal_choice_of_two(weights):
    keep, other = alias_table(weights)
    assert ((keep >= 0) & (keep <= 1)).all()
    assert ((other >= 0) & (other < weights.size)).all()


@settings(max_examples=100)
@given(WEIGHTS)
def test_building_a_table_leaves_the_weights_alone(weights):
    before = weights.copy()
    alias_table(weights)
    assert np.array_equal(weights, before)


def test_equal_weights_never_need_the_other_choice():
    keep, other = alias_table(np.full(8, 0.125))
    assert keep.tolist() == [1.0] * 8
    assert other.tolist() == list(range(8))


def test_a_table_by_hand():
    # weights 1, 2, 5 of 8 scaled by 3/8: .375, .75, 1.875; the third fills up both others (.625 + .25) and keeps 1
    keep, other = alias_table(np.array([1.0, 2.0, 5.0]))
    assert keep.tolist() == [0.375, 0.75, 1.0]
    assert other.tolist() == [2, 2, 2]


def test_a_hundred_thousand_uneven_weights_are_reproduced():
    weights = np.random.default_rng(0).lognormal(0, 3, 100_000)
    keep, other = alias_table(weights)
    assert np.abs(probabilities(keep, other) - weights / weights.sum()).max() < 1e-13
