"""A trace can be handed over: the run learns along it, whoever made it; one that does not fit is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sojourn import Dispatcher, Fleet, InvalidInput, Plan, Scenario, Trace, simulate
from sojourn.experiments.cells import Cell
from sojourn.experiments.training import calibrated, open_run, train
from sojourn.learning.calibrate.calibrate import Effort
from sojourn.learning.run.build import build
from sojourn.learning.run.config import TrainConfig
from sojourn.trace import APPLIED

FLEET = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
PLAN = Plan.of(FLEET, {"fast": 0.12, "slow": 0.07}, 8)
SMALL = {"data": "quadratic(dimension=3, clients=10, examples=5)", "partition": "natural", "model": "problem"}
WORDS = {"sampling": "fast=0.12,slow=0.07", "concurrency": 8, "seed": 5, "device": "cpu", **SMALL}


@pytest.fixture
def fleet(tmp_path):
    FLEET.save(tmp_path / "fleet.csv")
    return str(tmp_path / "fleet.csv")


def made(dispatcher="routed", steps=100, plan=PLAN, local_steps=1, start="one-each"):
    scenario = Scenario(Dispatcher.parse(dispatcher), local_steps=local_steps)
    return simulate(FLEET, plan, steps, start=start, seed=5, scenario=scenario, engine="events")


def model_of(folder):
    return load_file(folder / "model.safetensors")


def assert_same_bits(one, other):
    mine, theirs = model_of(one), model_of(other)
    assert mine.keys() == theirs.keys()
    for key, value in mine.items():
        assert torch.equal(value, theirs[key]), key


@pytest.mark.parametrize(
    ("algorithm", "dispatcher", "local_steps", "start"),
    [
        ("generalized-asyncsgd", "routed", 1, "one-each"),
        ("asyncsgd(assignment=pure, steps=adaptive)", "pure", 1, "one-each"),
        ("fedbuff(size=3)", "idle", 2, "one-each"),
        ("fedavg(interaction=0.5)", "rounds(interaction=0.5)", 3, "even"),
    ],
)
def test_a_run_along_a_trace_that_was_simulated_is_the_run_that_simulates_it(
    fleet, tmp_path, algorithm, dispatcher, local_steps, start
):
    made(dispatcher, local_steps=local_steps, start=start).save(tmp_path / "trace.parquet")
    shared = {**WORDS, "algorithm": algorithm, "local_steps": local_steps}
    train(TrainConfig(fleet, steps=100, **shared), tmp_path / "simulated")
    train(TrainConfig(fleet, trace=str(tmp_path / "trace.parquet"), **shared), tmp_path / "given")
    assert_same_bits(tmp_path / "simulated", tmp_path / "given")
    told = json.loads((tmp_path / "given" / "config.json").read_text())
    assert told["trace_hash"] == Trace.load(tmp_path / "trace.parquet").hash


def test_a_trace_is_an_object_too_and_brings_its_concurrency(fleet, tmp_path):
    words = {key: value for key, value in WORDS.items() if key != "concurrency"}
    outcome = train(TrainConfig(fleet, **words), tmp_path / "given", trace=made())
    train(TrainConfig(fleet, steps=100, **WORDS), tmp_path / "simulated")
    assert outcome.received == 100
    assert_same_bits(tmp_path / "simulated", tmp_path / "given")


def by_hand(**changes):
    """Two tasks in flight over clients 0 and 9, which takes three times as long; it says nothing of itself."""
    columns = {
        "client": [0, 0, 9, 0, 0],
        "prob": [0.5] * 5,
        "dispatched_at": [0.0, 1.0, 0.0, 2.0, 3.0],
        "started_at": [0.0, 1.0, 0.0, 2.0, 3.0],
        "finished_at": [1.0, 2.0, 3.0, 3.0, 4.0],
        "applied_at": [1.0, 2.0, 3.0, 3.0, 4.0],
        "dispatched_step": [0, 1, 0, 2, 4],
        "applied_step": np.arange(5),
        "work": [1] * 5,
        "fate": np.full(5, APPLIED),
    }
    return Trace(**{**columns, **changes})


def test_a_trace_made_by_hand_is_learned_along_and_what_was_not_checked_is_said(fleet, tmp_path):
    run = open_run(TrainConfig(fleet, **WORDS), tmp_path / "run", trace=by_hand())
    assert run.notes == [
        "the trace does not state its fleet_hash, plan_hash, dispatcher, concurrency: its fleet and plan were not "
        "checked"
    ]
    outcome = run.go()
    assert (outcome.received, outcome.metrics["time"]) == (5, 4.0)
    assert run.replay.arrivals.tolist() == [4, 1]


def test_a_trace_that_says_what_it_is_needs_no_note(fleet, tmp_path):
    with open_run(TrainConfig(fleet, **WORDS), tmp_path / "run", trace=made()) as run:
        assert run.notes == []


def test_a_part_of_a_trace_is_trained_when_steps_or_time_say_so(fleet, tmp_path):
    trace = made()
    some = train(TrainConfig(fleet, steps=40, **WORDS), tmp_path / "steps", trace=trace)
    at = float(trace.applied_at[29])
    others = train(TrainConfig(fleet, time=at, **WORDS), tmp_path / "time", trace=trace)
    assert (some.received, others.received) == (40, 30)


def test_steps_within_a_round_go_on_to_its_end(fleet, tmp_path):
    words = {**WORDS, "algorithm": "fedavg"}
    outcome = train(TrainConfig(fleet, steps=41, **words), tmp_path / "run", trace=made("rounds", start="even"))
    assert outcome.received == 48


def test_a_run_along_a_trace_is_resumed_to_the_same_bits_without_the_file(fleet, tmp_path):
    class Enough(Exception):
        pass

    def stop(done, total, facts):
        if done >= 60:
            raise Enough

    path = tmp_path / "trace.parquet"
    made().save(path)
    config = TrainConfig(fleet, trace=str(path), **WORDS)
    train(config, tmp_path / "whole")
    with pytest.raises(Enough):
        train(config, tmp_path / "run", checkpoint_every=25, progress=stop)
    path.unlink()
    assert train(config, tmp_path / "run", resume=True).received == 100
    assert_same_bits(tmp_path / "whole", tmp_path / "run")


def test_a_folder_is_not_resumed_along_another_trace_or_none(fleet, tmp_path):
    config = TrainConfig(fleet, **WORDS)
    open_run(config, tmp_path / "run", trace=made()).close()
    with pytest.raises(InvalidInput, match=r"holds another run: its trace_hash is '\w+' \(now '\w+'\)"):
        open_run(config, tmp_path / "run", resume=True, trace=made(steps=101))
    with pytest.raises(InvalidInput, match="holds another run: its config is steps = None"):
        open_run(config, tmp_path / "run", resume=True)


def test_a_cell_is_found_by_what_its_trace_holds_wherever_it_lies(fleet, tmp_path):
    for name, steps in (("one", 100), ("same", 100), ("other", 101)):
        made(steps=steps).save(tmp_path / f"{name}.parquet")
    cells = [
        Cell("run", TrainConfig(fleet, trace=str(tmp_path / f"{name}.parquet"))) for name in ("one", "same", "other")
    ]
    assert cells[0].hash == cells[1].hash != cells[2].hash
    assert Cell("run", TrainConfig(fleet)).hash != cells[0].hash


def test_constants_are_measured_along_a_trace_too(fleet, tmp_path):
    made(steps=60).save(tmp_path / "trace.parquet")
    shared = {**WORDS, "execution": "one-by-one", "batch_size": 2}
    effort = Effort(gradients=40, points=2, directions=2)
    given = calibrated(build(TrainConfig(fleet, trace=str(tmp_path / "trace.parquet"), **shared)), effort)
    assert given.content() == calibrated(build(TrainConfig(fleet, steps=60, **shared)), effort).content()


def facts(**changes):
    trace = made()
    return replace(trace, metadata={**trace.metadata, **changes})


WRONG = {
    "rounds are wanted": (
        lambda: made(),
        {"algorithm": "fedavg"},
        "fedavg needs a trace of dispatcher rounds, this one has 'routed'; simulate it with that dispatcher",
    ),
    "queues are wanted": (
        lambda: made("rounds", start="even"),
        {},
        "generalized-asyncsgd needs a trace of dispatcher routed, this one has 'rounds'",
    ),
    "another queue is wanted": (
        lambda: made("pure"),
        {},
        "needs a trace of dispatcher routed, this one has 'pure'; simulate it with that dispatcher, or give dispatcher "
        "pure",
    ),
    "timing beside a trace": (
        lambda: made(),
        {"availability": "churn(on=9, off=1)", "trace": "some.parquet"},
        "a trace already has its timing: availability must not be given with it; leave it out",
    ),
    "rounds that nobody names": (
        by_hand,
        {"algorithm": "fedavg"},
        "fedavg needs a trace of rounds, this one names no dispatcher; add dispatcher rounds to its metadata",
    ),
    "another number of clients": (
        lambda: facts(clients=12),
        {},
        "the trace has clients 12, the fleet has 10; give the fleet that it was made with",
    ),
    "another fleet": (
        lambda: facts(fleet_hash="beef"),
        {},
        f"the trace has fleet_hash 'beef', this fleet's is '{FLEET.hash}'; "
        "give the fleet, laws and links that it was made with",
    ),
    "another plan": (
        lambda: made(plan=Plan.uniform(FLEET, 8)),
        {},
        "the trace has plan_hash '.*', this plan's is '.*'; give the plan or the sampling that it was made with",
    ),
    "another concurrency": (
        lambda: made(plan=replace(PLAN, concurrency=6)),
        {},
        "the trace has concurrency 6, this run has 8; give the concurrency that the trace has",
    ),
    "another number of local steps": (
        lambda: made(local_steps=2),
        {},
        "the trace has local_steps 2, this run has 1; give as many local steps as the trace has",
    ),
    "work that nobody asked for": (
        lambda: by_hand(work=[1, 1, 3, 1, 1]),
        {},
        "a task of the trace does 3 local steps, this run has 1",
    ),
    "clients that there are not": (
        lambda: by_hand(client=[0, 0, 10, 0, 0]),
        {},
        "the trace has clients 0 to 10, the fleet 10, which are 0 to 9; give the fleet that it was made with",
    ),
    "no probabilities": (
        lambda: by_hand(prob=np.full(5, np.nan)),
        {},
        "generalized-asyncsgd divides by the probability with which a client was drawn, the trace lacks it",
    ),
    "rows in another order": (
        lambda: by_hand(applied_step=[1, 0, 2, 3, 4]),
        {},
        "a trace must have its applied rows in order, applied_step 0, 1, 2, ..., this one does not; sort its rows",
    ),
    "a task in flight in the middle": (
        lambda: by_hand(fate=[0, 0, 1, 0, 0], applied_step=[0, 1, -1, 2, 3], dispatched_step=[0, 1, 0, 2, 3]),
        {},
        "a trace must have its tasks in flight last, this one does not; move these rows to the end",
    ),
    "time that goes back": (
        lambda: by_hand(applied_at=[1.0, 2.0, 3.0, 2.5, 4.0]),
        {},
        "applied_at of a trace must be finite and never decrease, this trace's does; correct it",
    ),
    "a model of the future": (
        lambda: by_hand(dispatched_step=[0, 1, 3, 2, 4]),
        {},
        "a task of a trace must carry a model that existed: row 2 has dispatched_step 3 after 2 updates; correct it",
    ),
    "no updates": (
        lambda: by_hand(fate=np.ones(5), applied_step=np.full(5, -1)),
        {},
        "a trace to train along must have applied updates, got none; simulate more steps",
    ),
    "more steps than there are": (
        lambda: made(),
        {"steps": 101},
        "steps must lie within the trace, which has 100 updates, got 101; give fewer steps, or none for all of it",
    ),
    "more time than there is": (
        by_hand,
        {"time": 5.0},
        "time must lie within the trace, whose last update is applied at 4, got 5; give less time, or none",
    ),
}


@pytest.mark.parametrize(("trace", "words", "message"), WRONG.values(), ids=WRONG)
def test_a_trace_that_does_not_fit_is_refused_before_anything_is_written(fleet, tmp_path, trace, words, message):
    with pytest.raises(InvalidInput, match=message.replace("(", r"\(").replace("...", r"\.\.\.")):
        open_run(TrainConfig(fleet, **{**WORDS, **words}), tmp_path / "run", trace=trace())
    assert not (tmp_path / "run").exists()


def test_a_trace_without_probabilities_is_enough_for_an_algorithm_that_does_not_ask(fleet, tmp_path):
    trace = by_hand(prob=np.full(5, np.nan))
    words = {**WORDS, "algorithm": "asyncsgd"}
    assert train(TrainConfig(fleet, **words), tmp_path / "run", trace=trace).received == 5
