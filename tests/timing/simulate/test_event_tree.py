"""The tournament of events gives them back by time, equal times in the order of setting, without those cleared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.timing.simulate.event_tree import FACTS, NO_SEAT, clear, empty, id_of, kind_of, pop, push

ANY = settings(max_examples=200)


class Tree:
    """A tree and what it needs, with a sorted list beside it that must agree."""

    def __init__(self, events):
        tree, seats, number = empty(events)
        world = np.zeros(1, np.dtype(FACTS))
        world["seats"] = world["free"] = number
        world["hole"] = NO_SEAT
        self._parts = (world, tree, seats)
        self._order = 0
        self.expected = []

    def push(self, time):
        seat = int(push(*self._parts, time, self._order, self._order % 5))
        self.expected.append((time, self._order, seat))
        self._order += 1

    def clear(self, index):
        time, _, seat = self.expected.pop(index)
        assert clear(*self._parts, seat) == time

    def pop(self):
        time, event = pop(*self._parts)
        if not self.expected:
            assert time == np.inf
            return
        first = min(self.expected)
        self.expected.remove(first)
        assert (time, id_of(event), kind_of(event)) == (first[0], first[1], first[1] % 5)


@ANY
@given(
    room=st.integers(1, 40),
    moves=st.lists(st.tuples(st.sampled_from("pppoc"), st.integers(0, 5), st.integers(0, 39)), max_size=150),
)
def test_events_come_by_time_and_equal_times_in_the_order_of_setting(room, moves):
    tree = Tree(room)
    for move, time, which in moves:  # few different times: many are equal
        if move == "p" and len(tree.expected) < room:
            tree.push(time / 2)
        elif move == "c" and tree.expected:
            tree.clear(which % len(tree.expected))
        elif move == "o":
            tree.pop()
    for _ in range(len(tree.expected) + 2):
        tree.pop()


@pytest.mark.parametrize("room", [1, 2, 3, 64, 65])
def test_a_tree_that_is_full_gives_everything_back(room):
    tree = Tree(room)
    rng = np.random.default_rng(1)
    for time in rng.exponential(size=room):
        tree.push(time)
    for _ in range(3 * room):  # take one, set one: the seat of the one taken is filled again
        tree.pop()
        tree.push(float(rng.exponential(2.0)))
    for _ in range(room + 1):
        tree.pop()
