"""Clients that come and go, tasks that get lost, rates that change."""

from dataclasses import replace

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Law, Plan, UnreadableFile, measure, simulate
from sojourn.simulation.availability import Availability
from sojourn.simulation.scenario import Dispatcher, Scenario
from sojourn.trace import LOST

FLEET = Fleet.of(a=(3, 2.0), b=(3, 1.0))


def run(availability, steps=2000, fleet=FLEET, **more):
    scenario = Scenario(availability=(availability,))
    return simulate(fleet, Plan.uniform(fleet, 9), steps, start="even", seed=5, scenario=scenario, **more)


def test_a_client_works_only_while_its_table_says_that_it_is_there():
    intervals = ((0.0, 4.0), (10.0, 11.0), (20.0, 30.0))
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)
    trace = run(Availability("table", intervals=intervals, period=40.0, groups=("a",)), fleet=fleet)
    mine = trace.applied & (trace.client < 3)
    phase = trace.finished_at[mine] % 40
    inside = [(phase >= low - 1e-9) & (phase <= high + 1e-9) for low, high in intervals]
    assert np.logical_or.reduce(inside).all()
    others = trace.applied & (trace.client >= 3)
    assert (trace.finished_at[others] - trace.started_at[others]) == pytest.approx(1)


def test_a_paused_task_goes_on_where_it_stopped():
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)  # 0.5 a task for group a
    trace = run(Availability("table", intervals=((0.0, 0.75),), period=1.0, groups=("a",)), fleet=fleet)
    mine = trace.applied & (trace.client < 3)
    length = (trace.finished_at - trace.started_at)[mine]
    begins = trace.started_at[mine] % 1.0
    tie = abs(begins - 0.25) < 1e-6  # would be done at the very moment when the client leaves, at 0.75
    assert length[~tie & (begins < 0.25)] == pytest.approx(0.5)
    assert length[~tie & (begins > 0.25)] == pytest.approx(0.75)  # 0.5 of work and 0.25 away
    assert (~tie & (begins > 0.25)).any()


def test_a_task_may_be_interrupted_many_times():
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)  # group a: 250 times there and away in a task of 0.5
    trace = run(Availability("table", intervals=((0.0, 0.001),), period=0.002, groups=("a",)), 300, fleet)
    mine = trace.applied & (trace.client < 3)
    assert (trace.finished_at - trace.started_at)[mine] == pytest.approx(1.0, abs=0.002)


def test_a_client_that_leaves_can_lose_its_task_and_the_server_sends_another():
    trace = run(Availability("churn", on=3.0, off=1.0, leave="lose"))
    lost = trace.fate == LOST
    assert 20 < lost.sum() < 2000
    assert np.isnan(trace.finished_at[lost]).all()
    assert (trace.applied_at[lost] >= trace.started_at[lost]).all()  # when it was lost
    assert np.isin(trace.applied_at[lost], trace.dispatched_at).all()  # and replaced at once
    assert (trace.applied_step[lost] == -1).all()
    assert int(trace.applied.sum()) == 2000
    # C tasks in flight all the time: every ended task, applied or lost, is followed by one new
    assert len(trace) == 2000 + int(lost.sum()) + 9


@pytest.mark.parametrize(("on", "off"), [(5.0, 5.0), (2.0, 6.0)])
def test_churn_takes_clients_away_for_the_stated_part_of_the_time(on, off):
    # pure dispatch with one task a client: a client is busy exactly while it is there
    scenario = Scenario(Dispatcher("pure"), availability=(Availability("churn", on=on, off=off),))
    summary = measure(
        FLEET, Plan.uniform(FLEET, 6), 20_000, start="one-each", replications=12, seed=1, scenario=scenario
    )
    speed = (FLEET.count * FLEET.rate).sum() * on / (on + off)
    assert abs(summary.throughput.value - speed) < 4 * summary.throughput.error


def test_diurnal_clients_are_there_for_their_part_of_every_period():
    scenario = Scenario(Dispatcher("pure"), availability=(Availability("diurnal", on=6.0, period=24.0),))
    summary = measure(
        FLEET, Plan.uniform(FLEET, 6), 20_000, start="one-each", replications=12, seed=1, scenario=scenario
    )
    assert summary.throughput.value == pytest.approx(9.0 * 6 / 24, rel=0.02)


def test_updates_get_lost_on_the_way_with_the_stated_probability():
    trace = run(Availability(loss=0.2), steps=8000)
    ended = trace.applied.sum() + (trace.fate == LOST).sum()
    share = (trace.fate == LOST).sum() / ended
    assert share == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / ended))
    assert np.isfinite(trace.finished_at[trace.fate == LOST]).all()  # it was served, and lost after that
    assert (trace.applied_at == trace.finished_at)[trace.fate == LOST].all()


def test_a_rate_jumps_at_its_time_and_drifts():
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)
    jump = run(Availability(changes=((50.0, 0.5), (100.0, 4.0)), groups=("b",)), fleet=fleet)
    mine = jump.applied & (jump.client >= 3)
    length = (jump.finished_at - jump.started_at)[mine]
    begins = jump.started_at[mine]
    expected = np.where(begins < 50, 1.0, np.where(begins < 100, 2.0, 0.25))
    assert length == pytest.approx(expected)
    drift = run(Availability(drift=-0.01), fleet=fleet, steps=500)
    mine = drift.applied & (drift.client >= 3)
    length = (drift.finished_at - drift.started_at)[mine]
    assert length == pytest.approx(np.exp(0.01 * drift.started_at[mine]))


def test_a_fleet_that_comes_to_a_stop_is_said():
    gone = Availability("table", intervals=((0.0, 20.0),))
    with pytest.raises(InvalidInput, match=r"came to a stop after \d+ steps: no client will finish another task"):
        run(gone)
    with pytest.raises(InvalidInput, match="came to a stop"):
        run(Availability(drift=-1.0))


def test_availability_is_read_from_toml_and_csv(tmp_path):
    (tmp_path / "a.toml").write_text(
        '[[availability]]\nname = "churn"\non = 10.0\noff = 2.0\ngroups = ["a"]\n'
        "[[availability]]\nloss = 0.1\nchanges = [[5.0, 0.5]]\n"
    )
    first, second = Availability.load(tmp_path / "a.toml")
    assert first == Availability("churn", on=10.0, off=2.0, groups=("a",))
    assert second == Availability(loss=0.1, changes=((5.0, 0.5),))
    (tmp_path / "t.csv").write_text("group,from,to\na,5,6\na,0,3\n,1,2\n")
    assert Availability.load(tmp_path / "t.csv") == (
        Availability("table", intervals=((0.0, 3.0), (5.0, 6.0)), groups=("a",)),
        Availability("table", intervals=((1.0, 2.0),)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weekly", "availability must be one of always, churn, diurnal, table, got 'weekly'"),
        ("churn(on=5)", "churn needs mean times on and off > 0, got 5.0 and nan"),
        ("diurnal(on=30, period=24)", "diurnal needs 0 < on < period, got 30.0 and 24.0"),
        ("always(loss=1)", "loss must be a probability below 1, got 1.0"),
        ("always(leave=stay)", "leave must be pause or lose, got 'stay'"),
        ("table", r"needs increasing, disjoint \(from, to\)"),
        ("always(drift=inf)", "drift must be finite"),
    ],
)
def test_availability_written_wrongly_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        Availability.parse(text)


def test_availability_files_that_cannot_be_read_are_said(tmp_path):
    with pytest.raises(UnreadableFile, match="does not exist"):
        Availability.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[[availability]\n")
    with pytest.raises(UnreadableFile, match="is not valid TOML"):
        Availability.load(tmp_path / "bad.toml")
    (tmp_path / "key.toml").write_text("[[availability]]\nspeed = 3\n")
    with pytest.raises(InvalidInput, match="unknown key 'speed'"):
        Availability.load(tmp_path / "key.toml")
    (tmp_path / "c.csv").write_text("group,begin,end\n")
    with pytest.raises(InvalidInput, match="columns must be group,from,to"):
        Availability.load(tmp_path / "c.csv")
    with pytest.raises(InvalidInput, match="no group 'zz'"):
        run(Availability(loss=0.1, groups=("zz",)))
