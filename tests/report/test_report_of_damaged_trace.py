"""Traces with rows that cannot be: refused in a sentence, or shown without what is not known; nothing is warned of."""

import warnings

import numpy as np
import pytest

from sojourn import InvalidInput, Trace, fit, observe
from sojourn.report.page.digest import MOST_STEPS
from sojourn.report.page.write import parts_of
from sojourn.timing.fit.ends import MOST_UNTOLD

TIMES = ("dispatched_at", "started_at", "finished_at", "applied_at")
FACTS = {"clients": 3, "concurrency": 2}


def traced(facts=None, rows=40, **changed):
    at = np.arange(rows)
    times = dict(zip(TIMES, (at, at, at + 1.0, at + 1.0), strict=True))
    steps = {"dispatched_step": at, "applied_step": at}
    rest = {"client": at % 3, "prob": np.full(rows, 1 / 3), "work": np.ones(rows), "fate": np.zeros(rows)}
    return Trace(**{**times, **steps, **rest, **changed}, metadata=facts or {})


def last(rows, value):
    return np.where(np.arange(rows) == rows - 1, value, 0)


@pytest.mark.parametrize("look", [parts_of, fit, observe])
def test_a_client_with_a_number_beyond_all_bounds_is_refused(look):
    clients = last(40, MOST_UNTOLD)
    facts = FACTS if look is observe else {}
    with pytest.raises(InvalidInput, match=r"from 0 to 999999, got 1000000 in row 39; give the fleet with which"):
        look(traced(facts, client=clients))
    if look is parts_of:  # a number below is another client, of which nothing is known
        looked = parts_of(traced(client=last(40, 50)))[0]
        assert looked.facts[1] == ("51", "clients")


@pytest.mark.parametrize("key", ["dispatched_step", "applied_step"])
@pytest.mark.parametrize("step", [2**62, -(2**62), MOST_STEPS + 1, -2])
def test_a_step_that_no_server_has_made_is_refused(key, step):
    steps = last(40, step)
    with pytest.raises(InvalidInput, match=rf"{key} must be from -1 to \d+, got {step} in row 39; the trace is damage"):
        parts_of(traced(**{key: steps}))


def test_the_oldest_update_that_can_be_is_shown():
    part = parts_of(traced(applied_step=last(40, MOST_STEPS), dispatched_step=last(40, -1)))[0]
    section = next(one for one in part.sections if one.title == "How stale updates were")
    assert max(row[-1] for row in section.tables[0].rows) == MOST_STEPS + 1


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (dict.fromkeys(TIMES, np.full(40, np.nan)), "applied_at must be a time where an update was applied, got NaN"),
        (dict.fromkeys(TIMES, np.full(40, 7.0)), ""),
        ({key: np.arange(40) * 1e300 for key in TIMES}, ""),
    ],
    ids=["no times", "one time", "huge times"],
)
def test_times_that_say_nothing_cost_no_page_and_warn_of_nothing(times, said):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (part,) = parts_of(traced(FACTS, **times))
    assert "3 clients with 2 tasks in flight brought 40 updates" in part.answer[0]
    assert any(said in note for section in part.sections for note in section.notes)
