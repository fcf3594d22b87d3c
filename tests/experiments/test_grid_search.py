"""Grids that grow where a best lies at the edge: for all algorithms alike, so often at most, and as far as is known."""

import pytest

from sojourn.experiments.grid_search import best_of, extended, search


def distance(**aims):
    """How far each value is from what an algorithm would want."""
    return lambda grids: {name: {value: abs(value - aims[name]) for value in grid} for name, grid in grids.items()}


def test_all_grids_grow_where_one_algorithm_is_at_the_edge():
    found = search({"a": (1.0, 2.0, 4.0), "b": (10.0, 20.0, 40.0)}, 3, distance(a=2.0, b=100.0))
    assert found.grids == {"a": (1.0, 2.0, 4.0, 8.0, 16.0), "b": (10.0, 20.0, 40.0, 80.0, 160.0)}
    assert (found.chosen, found.edge, found.whole) == ({"a": 2.0, "b": 80.0}, {}, True)


@pytest.mark.parametrize(("times", "last"), [(0, 2.0), (1, 4.0), (2, 8.0)])
def test_a_grid_grows_so_often_and_the_edge_is_said(times, last):
    found = search({"a": (1.0, 2.0)}, times, distance(a=1e6))
    assert (found.chosen, found.edge) == ({"a": last}, {"a": "upper"})


def test_a_grid_of_one_value_grows_on_both_sides():
    assert search({"a": (1.0,)}, 1, distance(a=1.0)).grids == {"a": (0.316228, 1.0, 3.16228)}


def test_where_not_all_is_known_the_choice_of_the_last_whole_grids_stands():
    def look(grids):
        return distance(a=100.0)(grids) if len(grids["a"]) < 4 else None

    found = search({"a": (1.0, 2.0)}, 5, look)
    assert found.grids == {"a": (1.0, 2.0, 4.0, 8.0)}
    assert (found.chosen, found.edge, found.whole) == ({"a": 4.0}, {"a": "upper"}, False)
    assert search({"a": (1.0, 2.0)}, 5, lambda grids: None).chosen == {}


def test_of_equals_the_first_is_taken_and_edges_are_those_of_the_values_in_any_order():
    assert best_of({"a": {0.1: 1.0, 0.3: 1.0, 1.0: 2.0}}) == ({"a": 0.1}, {"a": "lower"})
    assert best_of({"a": {0.3: 2.0, 1.0: 1.0, 0.5: 0.0}}) == ({"a": 0.5}, {})


def test_a_grid_does_not_grow_beyond_the_largest_that_can_be_used():
    assert extended((1e29, 9e29), {"upper"}) == (1e29, 9e29)
