"""A hypothesis strategy that several rooms share: small fleets with or without links."""

import numpy as np
from hypothesis import strategies as st

from sojourn import Fleet


def columns(draw, size):
    """A function from a strategy for one value to an array with a value for each group."""
    return lambda values: np.array(draw(st.lists(values, min_size=size, max_size=size)))


def linked_fleet(draw, rate, least=1, powers=False):
    """One to four groups of one to three clients, and the function for more columns."""
    size = draw(st.integers(least, 4))
    column = columns(draw, size)
    link = st.one_of(st.just(np.inf), rate) if draw(st.booleans()) else st.just(np.inf)
    names = ("power", "uplink_power", "downlink_power") if powers else ()
    fleet = Fleet(
        name=tuple("abcd"[:size]),
        count=column(st.integers(1, 3)),
        rate=column(rate),
        uplink_rate=column(link),
        downlink_rate=column(link),
        **{name: column(rate) for name in names},
    )
    return fleet, column
