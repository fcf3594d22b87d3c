"""Fit where services are cut off: clients that leave, rounds that are over, servers that call or take their time."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Law, Plan, Trace, fit, observe, simulate
from sojourn.availability import Availability
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.fit import gathering, observed
from sojourn.trace import APPLIED, COLUMNS, DROPPED, LOST, REFUSED

FLEET = Fleet.of(fast=(4, 4.0), middle=(4, 1.0), slow=(4, 0.25))
ONE = Fleet.of(all=(1, 1.0))
NAN = np.nan


def run(scenario, steps=3000, fleet=FLEET, seed=0):
    return simulate(fleet, Plan.uniform(fleet, 12), steps, start="even", seed=seed, scenario=scenario)


def leaving(text):
    return Scenario(availability=(Availability.parse(text),))


def called(text, **more):
    return Scenario(Dispatcher.parse(text), **more)


def changed(trace, metadata=None, **columns):
    """The same trace with other columns."""
    same = {key: getattr(trace, key) for key in COLUMNS}
    return Trace(**{**same, **columns}, metadata=trace.metadata if metadata is None else metadata)


def as_once_written(trace):
    """Killed tasks with finished_at, nothing that says when a task was lost or dropped, less metadata."""
    lost, over = trace.fate == LOST, np.isin(trace.fate, (LOST, DROPPED))
    facts = {key: trace.metadata[key] for key in ("dispatcher", "local_steps", "clients")}
    return changed(
        trace,
        facts,
        finished_at=np.where(lost, trace.applied_at, trace.finished_at),
        applied_at=np.where(over, NAN, trace.applied_at),
    )


def assert_found(found):
    """The true rates lie within the intervals (of twelve clients perhaps not all)."""
    rate = FLEET.rate if found.by == "group" else FLEET.expanded().rate
    held = (found.rate_low <= rate) & (rate <= found.rate_high)
    assert held.mean() >= 0.8
    assert found.fleet.rate == pytest.approx(rate, rel=0.1 if found.by == "group" else 0.35)


CUT_OFF = {
    "clients leave": leaving("churn(on=5, off=5, leave=lose)"),
    "rounds wait for six of twelve": called("rounds(wait=6)"),
    "rounds wait for three of twelve": called("rounds(wait=3)"),
    "the server calls": called("periodic(contacts=4, waiting=1, interaction=0.5)"),
    "the server calls, five local steps": called("periodic(contacts=4, waiting=1, interaction=0.5)", local_steps=5),
    "the server calls, twenty local steps": called("periodic(contacts=4, waiting=4, interaction=3)", local_steps=20),
}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["group", "client"])
@pytest.mark.parametrize("name", CUT_OFF)
def test_services_that_are_cut_off_count_as_longer(name, by):
    found = fit(run(CUT_OFF[name]), FLEET, by=by)
    assert_found(found)
    assert {law.name for law in found.fleet.law} == {"exponential"}
    assert found.censored[-1] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clients leave", "rounds wait for six of twelve", "the server calls"])
def test_traces_as_they_were_once_written_give_the_same_rates(name):
    new = run(CUT_OFF[name])
    now, then = fit(new, FLEET), fit(as_once_written(new), FLEET)
    assert then.fleet.rate == pytest.approx(now.fleet.rate)
    assert then.censored.tolist() == now.censored.tolist()


def test_an_old_trace_does_not_say_which_of_its_lost_tasks_were_served():
    trace = run(leaving("always(loss=0.2)"))
    assert_found(fit(trace, FLEET))
    old = fit(as_once_written(trace), FLEET)
    assert old.fleet.rate == pytest.approx(0.8 * FLEET.rate, rel=0.1)
    lost = int((trace.fate == LOST).sum())
    assert old.notes[0].startswith(f"{lost} lost tasks do not show whether they had been served")


def table(started, finished, applied, fate, work=1, **metadata):
    """Rows of one client."""
    rows = len(started)
    columns = {key: np.zeros(rows) for key in COLUMNS}
    columns |= {"started_at": started, "finished_at": finished, "applied_at": applied, "fate": fate}
    return Trace(**{**columns, "work": np.broadcast_to(work, rows)}, metadata=metadata)


def test_by_hand_a_lost_task_counts_as_time_but_not_as_a_finish():
    # 1 + 3 units served, 4 more lost at 8: rate 2 / 8
    trace = table([0, 1, 4], [1, 4, NAN], [1, 4, 8], [0, 0, LOST])
    found = fit(trace, ONE, law="exponential")
    assert found.fleet.rate[0] == pytest.approx(2 / 8)
    assert (found.observations.tolist(), found.censored.tolist()) == ([2], [1])


def test_by_hand_an_update_that_came_back_was_served_though_nobody_noted_when():
    # 1 + 3 units served; the others were applied or refused at 8, but when they finished is not known
    trace = table([0, 1, 4, 5], [1, 4, NAN, NAN], [1, 4, 8, 8], [0, 0, 0, REFUSED])
    found = fit(trace, ONE, law="exponential")
    assert found.fleet.rate[0] == pytest.approx(2 / 4)
    assert found.notes[0].startswith("2 rows have a service without a start or an end")


def test_by_hand_an_interrupted_client_tells_its_steps_and_its_time():
    # 3 steps in 6, 1 in 4 (interrupted), none in 2: rate 4 / 12
    trace = table([0, 6, 10], [6, 10, 12], [7, 10, 12], [0, 0, 0], work=[3, 1, 0], dispatcher="periodic", local_steps=3)
    found = fit(trace, ONE)
    assert found.fleet.rate[0] == pytest.approx(4 / 12)
    assert (found.observations.tolist(), found.censored.tolist(), found.work.tolist()) == ([4], [2], [4 / 3])


def test_tasks_of_several_local_steps_that_are_dropped_are_divided_by_them():
    scenario = called("rounds(wait=6)", local_steps=4)
    for found in (
        fit(run(scenario), FLEET, law="gamma(shape=4)"),
        fit(run(replace(scenario, one_draw=True)), FLEET),  # one service time for all four
    ):
        assert_found(found)


@pytest.mark.parametrize("begun", [0, 2, 3])
def test_the_work_of_a_dropped_task_is_what_it_had_begun_and_not_what_was_planned(begun):
    ends, fate = ([4, 16, NAN], [4, 16, 22]), [APPLIED, APPLIED, DROPPED]
    trace = table([0, 4, 16], *ends, fate, work=[4, 4, begun], dispatcher="rounds", local_steps=4)
    assert fit(trace, ONE, law="exponential").fleet.rate[0] == pytest.approx(2 / (4 / 4 + 12 / 4 + 6 / 4))


@pytest.mark.slow
@pytest.mark.parametrize("law", [Law("lognormal", 1.0), Law("gamma", 4.0)], ids=str)
def test_the_law_is_found_though_many_services_are_cut_off(law):
    fleet = replace(Fleet.of(all=(12, 1.0)), law=(law,))
    for scenario in (leaving("churn(on=2, off=1, leave=lose)"), called("rounds(wait=8)")):
        found = fit(run(scenario, fleet=fleet), fleet)
        assert found.censored[0] > 300
        assert found.fleet.law[0].name == law.name
        assert found.fleet.law[0].parameter == pytest.approx(law.parameter, rel=0.1)
        assert found.fleet.rate[0] == pytest.approx(1.0, rel=0.1)


@pytest.mark.slow
def test_of_very_many_services_that_are_cut_off_a_sample_tells_what_all_tell(monkeypatch):
    trace = run(called("rounds(wait=3)"))
    all_of_them = fit(trace, FLEET)
    monkeypatch.setattr(gathering, "KEPT", 400)
    some = fit(trace, FLEET)
    assert some.fleet.rate == pytest.approx(all_of_them.fleet.rate)  # exponential: their sum is all that matters
    assert some.censored.tolist() == all_of_them.censored.tolist()
    monkeypatch.setattr(observed, "PIECE", 700)
    assert fit(trace, FLEET).fleet.rate == pytest.approx(all_of_them.fleet.rate)


def test_which_durations_are_kept_does_not_depend_on_the_pieces(monkeypatch):
    trace = run(leaving("churn(on=5, off=5, leave=lose)"))
    monkeypatch.setattr(gathering, "KEPT", 30)

    def kept(piece):
        monkeypatch.setattr(observed, "PIECE", piece)
        service = observed.observe(trace, FLEET, True).service
        return service.kept.value.tolist(), service.age[service.cut].tolist()

    whole = kept(10**6)
    assert all(map(len, whole))
    assert kept(700) == kept(97) == whole


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"recorded_until": "<b>"}, "recorded_until in the metadata of the trace must be a number, got '<b>'"),
        ({"recorded_until": NAN}, "recorded_until in the metadata of the trace must be finite"),
        ({"leave": 5}, "leave in the metadata of the trace must be a list, got 5"),
        ({"local_steps": "x"}, "local_steps in the metadata of the trace must be a whole number"),
        ({"server_rate": "x"}, "server_rate in the metadata of the trace must be a number"),
        ({"server_rate": 0}, "server_rate in the metadata of the trace must be above 0"),
        ({"clients": 10**12}, "clients in the metadata of the trace must be a whole number from 0 to 10000000"),
        ({"clients": "many"}, "clients in the metadata of the trace must be a whole number"),
    ],
)
def test_metadata_of_another_kind_are_refused_in_a_sentence(facts, words):
    trace = run(Scenario(), steps=50)
    strange = changed(trace, {**trace.metadata, **facts})
    for fitted in (fit, observe):
        with pytest.raises(InvalidInput, match=re.escape(words)):
            fitted(strange)


def test_an_end_that_is_not_stated_counts_as_missing():
    trace = run(Scenario(), steps=50)
    assert fit(changed(trace, {**trace.metadata, "recorded_until": None}), FLEET).observations.sum() > 0


def test_counts_that_are_not_those_of_exponential_service_are_noticed():
    scenario = called("periodic(contacts=4, waiting=4, interaction=3)", local_steps=20)
    plain = fit(run(scenario), FLEET)
    assert any("the law cannot be found and exponential is assumed" in note for note in plain.notes)
    assert not any("vary" in note for note in plain.notes)
    for law, word in ((Law("gamma", 10.0), "vary less"), (Law("hyperexponential", 8.0), "vary more")):
        found = fit(run(scenario, fleet=replace(FLEET, law=(law,) * 3)), FLEET)
        assert any(word in note for note in found.notes)
    with pytest.raises(InvalidInput, match="law must be auto or exponential for this trace, got 'lognormal'"):
        fit(run(scenario), FLEET, law="lognormal")


# uplinks


@pytest.mark.parametrize(
    ("scenario", "word"),
    [
        (Scenario(server_rate=3.0), "a server that takes time"),
        (called("rounds(interaction=1)"), "the end of the round"),
        (called("periodic(contacts=4, waiting=1, interaction=0.5)"), "the server's call"),
    ],
)
def test_waiting_for_the_server_is_not_uplink_time(scenario, word):
    trace = run(scenario)
    found = fit(trace, FLEET)
    assert np.isinf(found.fleet.uplink_rate).all()
    assert found.notes[-1] == f"uplink times cannot be separated from waiting for {word}; none are assumed"
    assert np.isinf(fit(trace).fleet.uplink_rate).all()
    linked = replace(FLEET, uplink_rate=np.array([5.0, 6.0, 7.0]))
    kept = fit(trace, linked)
    assert kept.fleet.uplink_rate.tolist() == [5, 6, 7]
    assert kept.notes[-1].endswith("the uplinks are those of the given fleet")


def test_a_trace_that_does_not_name_its_server_shows_it_by_updates_that_never_overtake():
    busy = run(Scenario(server_rate=3.0))
    found = fit(changed(busy, {}), FLEET)
    assert np.isinf(found.fleet.uplink_rate).all()
    assert "a server that applies them one after the other" in found.notes[-1]
    for law in (Law(), Law("deterministic")):
        linked = replace(FLEET, uplink_rate=np.full(3, 2.0), uplink_law=(law,) * 3)
        trace = run(Scenario(), fleet=linked)
        for one in (trace, changed(trace, {})):
            assert fit(one, FLEET).fleet.uplink_rate == pytest.approx(np.full(3, 2.0), rel=0.1)


def test_a_pause_is_named_because_it_cannot_be_told_from_service():
    found = fit(run(leaving("churn(on=5, off=5)")), FLEET)
    assert "the durations contain their absences" in found.notes[0]
