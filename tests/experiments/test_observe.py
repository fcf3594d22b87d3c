"""What a trace shows, beside what theory promises for it."""

import json
from dataclasses import replace

import numpy as np
import pytest

import sojourn
from sojourn import (
    Dispatcher,
    Fleet,
    InvalidInput,
    Observation,
    Plan,
    Scenario,
    Trace,
    UnreadableFile,
    observe,
    simulate,
    simulate_to_file,
)
from sojourn import trace as trace_file
from sojourn.laws.law import Law
from sojourn.timing.observe import observation

FLEET = Fleet.of(fast=(5, 4.0), slow=(5, 1.0))
LINKED = replace(FLEET, uplink_rate=np.array([20.0, 10.0]), downlink_rate=np.array([5.0, 10.0]))
STEPS = 20_000


def apart(found: Observation, promise: str) -> dict[tuple[str, str], float]:
    """By how many standard errors the observed figures miss a promise."""
    figures = [one for one in found.figures() if (one.figure, one.group) != ("staleness", "all")]
    return {(one.figure, one.group): abs(one.observed - getattr(one, promise)) / one.error for one in figures}


def timed(**columns) -> Trace:
    """A trace of applied tasks of client 0, one after the other, with these times."""
    rows = len(columns["dispatched_at"])
    facts = {"client": np.zeros(rows), "prob": np.ones(rows), "work": np.ones(rows), "fate": np.zeros(rows)}
    steps = {"dispatched_step": np.arange(rows), "applied_step": np.arange(rows)}
    return Trace(**facts, **steps, **columns, metadata={"concurrency": 1, "clients": 1})


@pytest.mark.parametrize("promise", ["given", "fitted"])
@pytest.mark.parametrize(
    ("fleet", "cap"),
    [(LINKED, 1), (replace(LINKED, law=(Law("lognormal", 1.0),) * 2), 1), (LINKED, 2), (LINKED, None)],
    ids=["cap 1", "cap 1, lognormal", "cap 2", "no cap"],
)
def test_a_simulated_run_keeps_both_promises(fleet, cap, promise):
    plan = Plan.uniform(fleet, 6, cap=cap)
    found = observe(simulate(fleet, plan, STEPS, start="even", seed=3), fleet, plan)
    assert max(apart(found, promise).values()) < 4
    assert len(apart(found, promise)) == 5


def test_the_links_are_those_of_the_fleet_although_tasks_wait():
    found = observe(simulate(LINKED, Plan.uniform(LINKED, 10), STEPS, start="even", seed=1), LINKED)
    assert found.fleet.uplink_rate == pytest.approx(LINKED.uplink_rate, rel=0.05)
    assert found.fleet.downlink_rate == pytest.approx(LINKED.downlink_rate, rel=0.1)


def test_without_links_there_are_none():
    found = observe(simulate(FLEET, Plan.uniform(FLEET, 10), 2000, seed=1), FLEET)
    assert not found.fleet.link_time.any()
    assert found.in_flight == pytest.approx(10)


def test_what_the_server_takes_between_two_tasks_counts_as_a_link():
    begin = 1.6 * np.arange(100)
    trace = timed(dispatched_at=begin, started_at=begin + 0.2, finished_at=begin + 1.2, applied_at=begin + 1.5)
    found = observe(trace)
    assert found.promised.throughput == pytest.approx(1 / 1.6, rel=1e-2)
    assert float(found.tally.throughput.value) == pytest.approx(1 / 1.6)
    assert found.in_flight == pytest.approx(1.5 / 1.6, rel=1e-2)
    assert "only 0.9381 of 1 tasks were in flight on average" in found.notes


def test_the_idle_dispatcher_is_compared_with_a_cap_of_one():
    trace = simulate(FLEET, Plan.uniform(FLEET, 6), STEPS, start="even", scenario=Scenario(Dispatcher("idle")), seed=2)
    found = observe(trace, FLEET)
    assert max(apart(found, "given").values()) < 4
    assert found.plan.one_each


def test_other_dispatchers_are_said_to_have_no_theory():
    scenario = Scenario(Dispatcher("rounds", wait=3))
    found = observe(simulate(FLEET, Plan.uniform(FLEET, 6), 3000, scenario=scenario, start="even"), FLEET)
    assert "the theory assumes routed tasks; rounds dispatches in another way" in found.notes
    assert found.tally.fates["dropped"].sum() > 0
    assert any("tasks were lost, dropped or refused, which the theory does not model" in note for note in found.notes)


def test_without_a_fleet_every_client_is_a_group():
    found = observe(simulate(FLEET, Plan.uniform(FLEET, 10), 2000, seed=1))
    assert found.fleet.name[0] == "client-0"
    assert found.given is None
    assert any(note.startswith("the sampling of the trace is not known") for note in found.notes)


def test_another_plan_or_fleet_than_that_of_the_trace_is_noted():
    trace = simulate(FLEET, Plan.uniform(FLEET, 6, cap=1), 2000, start="even", seed=1)
    other = "the trace was recorded under another plan; give it with --plan, or with --sampling, -C and --cap"
    assert other in observe(trace, FLEET).notes
    assert other not in observe(trace, FLEET, cap=1).notes
    assert "the fleet is not the one that the trace was recorded with" in observe(trace, LINKED, cap=1).notes


def test_a_trace_in_pieces_gives_the_same(monkeypatch):
    trace = simulate(LINKED, Plan.uniform(LINKED, 10), 3000, start="even", seed=1)
    whole = observe(trace, LINKED)
    monkeypatch.setattr(observation, "PIECE", 97)
    pieces = observe(trace, LINKED)
    for key in ("observed", "error"):
        assert [getattr(one, key) for one in pieces.figures()] == pytest.approx(
            [getattr(one, key) for one in whole.figures()]
        )
    assert pieces.fleet.downlink_rate == pytest.approx(whole.fleet.downlink_rate, rel=0.05)


def test_the_result_is_a_table():
    found = observe(simulate(FLEET, Plan.uniform(FLEET, 10), 2000, seed=1), FLEET)
    table = found.to_pandas()
    assert list(table) == ["figure", "group", "given", "fitted", "observed", "error"]
    assert list(table.figure) == ["throughput", "share", "share", "staleness", "staleness", "staleness"]
    assert "updates per unit of time" in repr(found)


def test_the_warm_up_can_be_given():
    trace = simulate(FLEET, Plan.uniform(FLEET, 10), 2000, seed=1)
    assert observe(trace, FLEET, warmup=500).tally.updates == 1500
    with pytest.raises(InvalidInput, match="warmup must be from 0 to 1999"):
        observe(trace, FLEET, warmup=2000)


def test_what_a_trace_does_not_say_is_asked_for():
    begin = np.arange(3.0)
    trace = timed(dispatched_at=begin, started_at=begin, finished_at=begin + 1, applied_at=begin + 1)
    with pytest.raises(InvalidInput, match="how many tasks were in flight"):
        observe(replace(trace, metadata={"clients": 1}))
    with pytest.raises(InvalidInput, match="how many clients"):
        observe(replace(trace, metadata={"concurrency": 1}))
    with pytest.raises(InvalidInput, match="an applied update, got none"):
        observe(replace(trace, fate=np.full(3, 1)), Fleet.of(one=(1, 1.0)))


@pytest.fixture
def run(tmp_path):
    """A trained run whose folder names its fleet file."""
    FLEET.save(tmp_path / "fleet.csv")
    made = {"sampling": "speed", "concurrency": 6, "cap": 1, "partition": "iid", "model": "logistic"}
    sojourn.train(tmp_path / "fleet.csv", folder=tmp_path / "run", steps=2000, progress=False, **made)
    return tmp_path / "run"


def test_the_folder_of_a_run_says_fleet_and_plan(run):
    for place in (run, run / "trace.parquet"):
        found = observe(place)
        assert found.fleet.name == ("fast", "slow")
        assert found.plan.one_each
        assert found.plan.sampling[0] == pytest.approx(4 * found.plan.sampling[1])
        assert found.given is not None
        assert found.given.fleet == FLEET
        assert max(apart(found, "given").values()) < 4


def test_what_is_given_has_precedence_over_the_folder(run):
    assert observe(run, cap=2).plan.cap.tolist() == [2, 2]
    assert observe(run, plan=Plan.uniform(FLEET, 4, cap=1)).plan.concurrency == 4
    assert observe(run, LINKED).given.fleet == LINKED


def test_a_run_whose_fleet_has_changed_or_is_gone_has_no_promise_for_it(run):
    LINKED.save(run.parent / "fleet.csv")
    changed = observe(run)
    assert changed.given is None
    assert changed.plan.one_each
    assert any("has changed since the run" in note for note in changed.notes)
    (run.parent / "fleet.csv").unlink()
    gone = observe(run)
    assert gone.given is None
    assert gone.fleet.groups == 10
    assert any(note.startswith("what the run was given is left out: ") for note in gone.notes)
    assert observe(run, FLEET).given is not None


def test_code_that_a_folder_names_is_not_run(run):
    facts = json.loads((run / "config.json").read_text())
    facts["config"] |= {"model": "nowhere:make", "law": "nowhere:Law()"}
    (run / "config.json").write_text(json.dumps(facts))
    found = observe(run)
    assert found.given is None
    assert any("names code to be run, law" in note for note in found.notes)


def test_a_fleet_file_is_found_beside_the_folder(run, monkeypatch):
    facts = json.loads((run / "config.json").read_text())
    facts["config"]["fleet"] = "fleet.csv"
    (run / "config.json").write_text(json.dumps(facts))
    assert observe(run).given is not None


def test_a_folder_without_a_trace_is_refused(tmp_path):
    with pytest.raises(UnreadableFile, match=r"has no trace\.parquet"):
        observe(tmp_path)


@pytest.mark.parametrize("fleet", [FLEET, LINKED, None], ids=["fleet", "links", "no fleet"])
def test_a_file_read_in_pieces_gives_the_numbers_of_the_trace_in_memory(tmp_path, monkeypatch, fleet):
    made = fleet or FLEET
    simulate_to_file(made, Plan.uniform(made, 10), 3000, tmp_path / "trace.parquet", start="even", seed=1)
    whole = observe(Trace.load(tmp_path / "trace.parquet"), fleet)
    monkeypatch.setattr(observation, "PIECE", 701)
    pieces = observe(tmp_path / "trace.parquet", fleet)
    assert pieces.notes == whole.notes
    for one, other in zip(pieces.figures(), whole.figures(), strict=True):
        assert one[:2] == other[:2]
        assert one[4:] == other[4:]  # what is observed is the same to the last bit
        assert one.given == pytest.approx(other.given, nan_ok=True)
        assert one.fitted == pytest.approx(other.fitted, rel=1e-9 if fleet is not LINKED else 1e-2)


def test_a_file_is_read_once(tmp_path, monkeypatch):
    simulate_to_file(FLEET, Plan.uniform(FLEET, 10), 3000, tmp_path / "trace.parquet", seed=1)
    read, piece_of = [], trace_file._piece
    monkeypatch.setattr(observation, "PIECE", 701)
    monkeypatch.setattr(
        trace_file, "_piece", lambda path, rows, facts: read.append(len(rows)) or piece_of(path, rows, facts)
    )
    observe(tmp_path / "trace.parquet", FLEET)
    assert sum(read) == 3010
