"""Recording to a file piece by piece: the same trace as in memory, and nothing lost on Ctrl-C."""

import os
import signal

import numpy as np
import pytest

from sojourn import (
    Dispatcher,
    Fleet,
    InvalidInput,
    Plan,
    Scenario,
    Trace,
    UnwritableFile,
    __version__,
    scan,
    simulate,
    simulate_to_file,
)
from sojourn.timing.simulate import jump_chain
from sojourn.timing.simulate import record as record_module

FLEET = Fleet.of(fast=(4, 8.0), middle=(3, 2.0), slow=(2, 0.5))
PLAN = Plan.weighted(FLEET, [1.0, 1.5, 2.0], 15)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(record_module, "CHUNK", 700)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as a person sends it: a signal to the process, with Python's own handler in place."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def assert_consistent(trace):
    """The trace is the whole run of as many steps as it says it has."""
    steps = trace.metadata["steps"]
    whole = simulate(FLEET, PLAN, steps, start=trace.metadata["start"], seed=trace.metadata["seed"])
    assert len(trace) == steps + PLAN.concurrency
    for key in ("client", "prob", "dispatched_step", "applied_step", "fate", "work"):
        assert np.array_equal(getattr(trace, key), getattr(whole, key)), key
    for key in ("dispatched_at", "started_at", "finished_at", "applied_at"):
        assert np.allclose(getattr(trace, key), getattr(whole, key), rtol=1e-12, atol=0, equal_nan=True), key


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("steps", [1, 699, 700, 701, 5000])
def test_a_recorded_trace_is_the_simulated_one(tmp_path, steps):
    assert simulate_to_file(FLEET, PLAN, steps, tmp_path / "run.parquet", start="even", seed=5) is True
    assert Trace.load(tmp_path / "run.parquet") == simulate(FLEET, PLAN, steps, start="even", seed=5)


def test_pieces_change_nothing_but_the_last_bits_of_the_clock(monkeypatch):
    whole = simulate(FLEET, PLAN, 5000, seed=5)
    monkeypatch.setattr(record_module, "CHUNK", 61)
    pieces = simulate(FLEET, PLAN, 5000, seed=5)
    assert np.array_equal(pieces.client, whole.client)
    assert np.array_equal(pieces.dispatched_step, whole.dispatched_step)
    assert np.allclose(pieces.applied_at, whole.applied_at, rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize("dispatcher", ["routed", "rounds", "periodic(contacts=3, waiting=1)"])
def test_pieces_of_the_event_engine_change_no_bit(monkeypatch, dispatcher):
    plan = Plan.uniform(FLEET, FLEET.clients)
    how = {"start": "even", "scenario": Scenario(Dispatcher.parse(dispatcher)), "engine": "events"}
    whole = simulate(FLEET, plan, 2000, **how)
    monkeypatch.setattr(record_module, "CHUNK", 61)
    assert simulate(FLEET, plan, 2000, **how).hash == whole.hash


@pytest.mark.parametrize("dispatcher", ["routed", "rounds"])
def test_a_run_by_time_is_the_run_by_steps_that_goes_a_little_beyond_it(dispatcher):
    plan = Plan.uniform(FLEET, FLEET.clients)
    how = {"start": "even", "scenario": Scenario(Dispatcher.parse(dispatcher)), "engine": "events"}
    trace = simulate(FLEET, plan, time=50.0, **how)
    assert simulate(FLEET, plan, trace.metadata["steps"], **how) == trace
    late = trace.applied_at[trace.applied] > 50.0
    assert 0 < late.sum() <= record_module.LITTLE + FLEET.clients


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ({}, "simulate needs steps or a time, one of them, got None and None; give one"),
        ({"steps": 5, "time": 1.0}, "simulate needs steps or a time, one of them, got 5 and 1.0; give one"),
        ({"time": 0.0}, "time must be positive and finite, got 0.0"),
        ({"time": float("inf")}, "time must be positive and finite, got inf"),
        ({"steps": 10**13}, "a run of 10000000000000 steps needs about .* of memory, .* are free; give fewer steps"),
    ],
)
def test_a_run_needs_an_end_that_it_can_reach(ends, message):
    with pytest.raises(InvalidInput, match=message):
        simulate(FLEET, PLAN, **ends)


def test_metadata_tell_how_the_trace_was_made(tmp_path):
    expected = {
        "origin": "simulated",
        "engine": "jump chain",
        "steps": 100,
        "complete": True,
        "clients": 9,
        "concurrency": 15,
        "start": "routed",
        "seed": 6,
        "fleet_hash": FLEET.hash,
        "plan_hash": PLAN.hash,
        "sojourn": __version__,
    }
    simulate_to_file(FLEET, PLAN, 100, tmp_path / "run.parquet", start="routed", seed=6)
    told = Trace.load(tmp_path / "run.parquet").metadata
    assert {key: told[key] for key in expected} == expected
    assert simulate(FLEET, PLAN, 100, start="routed", seed=6).metadata == told


@pytest.mark.usefixtures("small_pieces")
def test_progress_tells_the_steps_done(tmp_path):
    told = []
    simulate_to_file(
        FLEET, PLAN, 2000, tmp_path / "run.parquet", progress=lambda done, total: told.append((done, total))
    )
    assert told == [(700, 2000), (1400, 2000), (2000, 2000)]


def test_traces_of_one_seed_are_equal_and_of_two_seeds_are_not():
    assert simulate(FLEET, PLAN, 500, seed=1) == simulate(FLEET, PLAN, 500, seed=1)
    assert not np.array_equal(simulate(FLEET, PLAN, 500, seed=1).client, simulate(FLEET, PLAN, 500, seed=2).client)


def test_the_beginning_of_a_longer_run_is_the_shorter_run():
    short, long = simulate(FLEET, PLAN, 300, seed=1), simulate(FLEET, PLAN, 900, seed=1)
    assert np.array_equal(short.client[:300], long.client[:300])
    assert np.array_equal(short.applied_at[:300], long.applied_at[:300])
    # and what was in flight after 300 steps is dispatched alike in the longer one
    pairs = {(step, client) for step, client in zip(long.dispatched_step, long.client, strict=True)}
    assert {(step, client) for step, client in zip(short.dispatched_step, short.client, strict=True)} <= pairs


@pytest.mark.usefixtures("small_pieces")
def test_ctrl_c_during_the_progress_report_finishes_the_file(tmp_path, ctrl_c):
    def impatient(done, total):
        if done >= 2100:
            ctrl_c()

    assert simulate_to_file(FLEET, PLAN, 10**9, tmp_path / "run.parquet", seed=5, progress=impatient) is False
    trace = Trace.load(tmp_path / "run.parquet")
    assert trace.metadata["complete"] is False
    assert trace.metadata["steps"] == 2100
    assert_consistent(trace)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("moment", ["advance", "write"])
def test_ctrl_c_at_any_moment_leaves_no_gap_in_the_file(tmp_path, monkeypatch, ctrl_c, moment):
    # a signal that comes while compiled code runs is seen the moment that code returns
    owner = jump_chain if moment == "advance" else record_module.TraceWriter
    original, calls = getattr(owner, moment), []

    def interrupted(*arguments):
        calls.append(moment)
        if len(calls) == 4 and moment == "write":
            ctrl_c()
        result = original(*arguments)
        if len(calls) == 4 and moment == "advance":
            ctrl_c()
        return result

    monkeypatch.setattr(owner, moment, interrupted)
    assert simulate_to_file(FLEET, PLAN, 10**9, tmp_path / "run.parquet", seed=5) is False
    monkeypatch.undo()
    trace = Trace.load(tmp_path / "run.parquet")
    assert trace.metadata["complete"] is False
    assert trace.metadata["steps"] >= 3 * 700
    assert_consistent(trace)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 1.5}, "steps must be a whole number of at least 1, got 1.5"),
        ({"steps": 10, "seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"steps": 10, "start": "fair"}, "start must be one of even, routed, stationary, one-each, got 'fair'"),
    ],
)
def test_a_refused_run_leaves_the_old_file_alone(tmp_path, sizes, message):
    path = tmp_path / "run.parquet"
    path.write_text("precious")
    with pytest.raises(InvalidInput) as refusal:
        simulate_to_file(FLEET, PLAN, path=path, **sizes)
    assert str(refusal.value) == message
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("run.parquet", "precious")]
    with pytest.raises(InvalidInput) as refusal:
        simulate(FLEET, PLAN, **sizes)
    assert str(refusal.value) == message


@pytest.mark.usefixtures("small_pieces")
def test_an_error_halfway_is_raised_and_the_rows_written_stay(tmp_path):
    def broken(done, total):
        if done >= 1400:
            raise RuntimeError("the screen is gone")

    with pytest.raises(RuntimeError, match="the screen is gone"):
        simulate_to_file(FLEET, PLAN, 10**9, tmp_path / "run.parquet", seed=5, progress=broken)
    trace = Trace.load(tmp_path / "run.parquet")
    assert trace.metadata.get("complete", False) is False
    assert np.array_equal(trace.applied_step[trace.applied], np.arange(1400))


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UnwritableFile, match=r"^cannot write trace file .*run\.parquet: "):
        simulate_to_file(FLEET, PLAN, 10, tmp_path / "nowhere" / "run.parquet")


@pytest.mark.parametrize("whole", [np.int64, np.int32])
def test_steps_and_seed_may_be_numpy_integers(tmp_path, whole):
    simulate_to_file(FLEET, PLAN, whole(100), tmp_path / "run.parquet", seed=whole(5))
    trace = Trace.load(tmp_path / "run.parquet")
    assert trace == simulate(FLEET, PLAN, 100, seed=5)
    assert trace.metadata["seed"] == 5


@pytest.mark.usefixtures("small_pieces")
def test_a_recorded_trace_can_be_read_in_pieces(tmp_path):
    simulate_to_file(FLEET, PLAN, 3000, tmp_path / "run.parquet", seed=5)
    whole = Trace.load(tmp_path / "run.parquet")
    pieces = list(scan(tmp_path / "run.parquet", rows=500))
    assert max(len(piece) for piece in pieces) <= 500
    assert np.array_equal(np.concatenate([piece.client for piece in pieces]), whole.client)
    assert all(piece.metadata == whole.metadata for piece in pieces)
