"""Fit where rates change while the trace is recorded: it is noticed, and the latest rates can be had."""

from dataclasses import replace

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Law, Plan, Trace, fit, simulate
from sojourn.availability import Availability
from sojourn.scenario import Scenario
from sojourn.timing.fit import observed
from sojourn.trace import COLUMNS

DRIFT = np.log(0.7) / 1450  # about as long as 3000 steps take
FLEET = Fleet.of(fast=(4, 4.0), middle=(4, 1.0), slow=(4, 0.25))


def run(*availability, steps=3000, fleet=FLEET, seed=0):
    scenario = Scenario(availability=tuple(Availability(**one) for one in availability))
    return simulate(fleet, Plan.uniform(fleet, 12), steps, start="even", seed=seed, scenario=scenario)


@pytest.fixture(scope="module")
def falling():
    """Rates that fall by 30%."""
    trace = run({"drift": DRIFT})
    assert np.exp(DRIFT * np.nanmax(trace.applied_at)) == pytest.approx(0.7, abs=0.05)
    return trace


@pytest.mark.parametrize("by", ["group", "client"])
def test_rates_that_fall_by_a_third_are_noticed(falling, by):
    found = fit(falling, FLEET, by=by)
    said = [note for note in found.notes if note.startswith("rates change from the beginning of the trace to its end")]
    assert len(said) == 1
    assert "--latest 0.25" in said[0]
    assert found.drift_p_value < 1e-5
    if by == "group":
        assert found.drift == pytest.approx(np.full(3, -0.3), abs=0.15)


def test_the_latest_rates_are_those_of_the_end(falling, tmp_path):
    whole, last = fit(falling, FLEET), fit(falling, FLEET, latest=0.25)
    lasted = np.nanmax(falling.applied_at)
    now = FLEET.rate * np.exp(DRIFT * 0.875 * lasted)  # in the middle of the last quarter
    assert ((last.rate_low <= now) & (now <= last.rate_high)).all()
    assert last.fleet.rate == pytest.approx(now, rel=0.1)
    assert not (whole.rate_low <= now).all()
    assert (whole.latest, last.latest) == (1.0, 0.25)
    assert last.observations.sum() == pytest.approx(whole.observations.sum() / 4, rel=0.2)
    falling.save(tmp_path / "trace.parquet")
    assert fit(tmp_path / "trace.parquet", FLEET, latest=0.25).fleet == last.fleet


def test_one_group_that_changes_is_named_and_the_others_are_not():
    trace = run({"changes": ((300.0, 0.5),), "groups": ("middle",)})
    found = fit(trace, FLEET)
    said = next(note for note in found.notes if note.startswith("rates change"))
    assert "by about middle -" in said
    assert "fast" not in said
    assert "slow" not in said


@pytest.mark.parametrize("text", ["exponential", "lognormal(sigma=1)", "hyperexponential(scv=4)", "gamma(shape=4)"])
@pytest.mark.slow
def test_constant_rates_are_hardly_ever_held_to_change(text):
    fleet = replace(FLEET, law=(Law.parse(text),) * 3)
    found = [fit(run(steps=400, fleet=fleet, seed=seed), fleet, law=text) for seed in range(40)]
    chance = np.array([one.drift_p_value for one in found])
    assert (chance < 0.05).sum() <= 6
    assert sum("rates change" in note for one in found for note in one.notes) <= 2


def table(started, finished):
    """Services of one client; what has not finished is in flight."""
    rows = len(started)
    columns = {key: np.zeros(rows) for key in COLUMNS}
    columns |= {"started_at": started, "finished_at": finished, "applied_at": finished}
    columns["fate"] = np.isnan(finished)
    return Trace(**{**columns, "work": np.ones(rows)})


def test_by_hand_the_latest_part_counts_what_began_in_it():
    # from 0 to 40; since 20: 4 and 6 units served, 8 running: rate 2 / 18
    trace = table([0, 10, 22, 26, 32], [10, 22, 26, 32, np.nan])
    columns = {key: getattr(trace, key) for key in COLUMNS}
    trace = Trace(**{**columns, "dispatched_at": [0, 0, 0, 0, 40]})
    found = fit(trace, Fleet.of(all=(1, 1.0)), law="exponential", latest=0.5)
    assert found.fleet.rate[0] == pytest.approx(2 / 18)
    assert (found.observations.tolist(), found.censored.tolist()) == ([2], [1])
    assert np.isnan(found.drift).all()


def test_the_latest_part_of_a_file_read_in_pieces_is_the_same(falling, monkeypatch):
    whole = fit(falling, FLEET, latest=0.25)
    monkeypatch.setattr(observed, "PIECE", 700)
    assert fit(falling, FLEET, latest=0.25).fleet.rate == pytest.approx(whole.fleet.rate, rel=1e-12)


def test_a_part_that_is_not_one_or_has_no_service_is_refused(falling):
    for latest in (0.0, 1.5, np.nan):
        with pytest.raises(InvalidInput, match="latest must be above 0 and at most 1, got"):
            fit(falling, FLEET, latest=latest)
    with pytest.raises(InvalidInput, match="rows without in the latest 1e-06 of the time; record a longer trace"):
        fit(falling, FLEET, latest=1e-6)
