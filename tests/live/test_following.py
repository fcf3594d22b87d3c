"""Plans that follow the fleet: a live run whose clients change their speeds is planned again, and all follows.

Clients are pretended, on a clock of its own, so that every run is the same each time.
"""

import json
import threading
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from live.changing_fleet import AtOnce, Changing, Rarely, federation_of, finished, quadratic, run_of
from live.pretended_clients import Pretended
from sojourn import Fleet, Plan, observe
from sojourn.correction import Correction
from sojourn.errors import InvalidInput
from sojourn.experiments.training import train
from sojourn.landscape import Landscape
from sojourn.learning.run.run_config import config_of
from sojourn.live.believed import Told, filled
from sojourn.live.chooser import InForce
from sojourn.live.follower import Follower
from sojourn.live.planner import Planner, Said
from sojourn.live.run import LiveRun, Settings, built_for, told_of
from sojourn.live.serve import open_run
from sojourn.live.settings import ServerFile
from sojourn.live.speeds import Means
from sojourn.planning.by_twin import Aim, Wishes, advise_by_twin
from sojourn.timing.observe.periods import plan_of_task

BENCH = Path(__file__).parents[2] / "benchmarks" / "following.py"
FAST, SLOW = 8.0, 4.0
RATES = [FAST] * 5 + [SLOW] * 5
HALVED = [FAST / 2] * 5 + [SLOW] * 5
JUMP = 15.0  # seconds at which the fast group becomes half as fast
WITHIN = 250  # updates after the jump within which the run has a plan for it
RIGHT = 400  # more updates after which its promises and its weights are right
ALLOWED = 0.12  # error of a promise or a weight then


@pytest.fixture(autouse=True)
def commits(monkeypatch):
    monkeypatch.setattr("sojourn.live.run.Journal", Rarely)


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text(f"name,count,rate\nfast,5,{FAST}\nslow,5,{SLOW}\n")
    return path


def loaded(path):
    spec = spec_from_file_location(path.stem, path)
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def replayed(config, trace, folder):
    train(replace(config, steps=None, execution="one-by-one"), folder, trace=trace)
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_when_a_group_becomes_half_as_fast_throughput_shares_and_weights_are_soon_those_of_the_new_promise(
    fleet, tmp_path
):
    config = quadratic(fleet, 10, cap="1", concurrency=10, correction=0.5, steps=1900)
    times = Changing((0, RATES), (JUMP, HALVED), law="lognormal")
    run = run_of(config, tmp_path / "live", federation_of(config, times, 10))
    seen = []
    trace = finished(run, lambda one: seen.append((one.server.received, one.loop.chooser.shares)))
    jump = int((trace.applied_at[trace.applied] < JUMP).sum())
    plans = trace.metadata["plans"]
    assert [one["reason"] for one in plans[:1]] == ["start"]
    first = next(one for one in plans if one["time"] > JUMP)
    assert first["reason"].startswith("drift: tasks of 5 clients such as 0 take")
    assert first["step"] <= jump + WITHIN
    assert not [one for one in plans if 0 < one["time"] < JUMP]  # no false alarm
    last = plans[-1]
    true = np.array(HALVED) / sum(HALVED)
    assert last["throughput"] == pytest.approx(sum(HALVED), rel=ALLOWED)
    assert last["share"] == pytest.approx([0.5, 0.5], rel=ALLOWED)
    later = [share for step, share in seen if step >= jump + WITHIN + RIGHT]
    assert len(later) > 200
    assert np.max(np.abs(np.array(later) / true - 1)) < 2 * ALLOWED  # every client's weight, at every update
    assert np.array(later).mean(axis=0) == pytest.approx(true, rel=ALLOWED)
    found = observe(trace, Fleet.load(fleet), Plan.uniform(Fleet.load(fleet), 10, cap=1))
    period = found.periods[-1]
    assert period.observed == pytest.approx(period.promised, abs=4 * period.error + 0.05 * period.promised)
    assert np.all(np.diff(plan_of_task(trace)[np.argsort(trace.dispatched_at)]) >= 0)
    assert (tmp_path / "live/model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")


def settled(config, folder, times, fresh):
    """The mean of a run's last models, and its trace."""
    run = run_of(config, folder, federation_of(config, times, 10), every=1e9 if fresh else None)
    models = []
    trace = finished(run, lambda one: models.append(one.server.params.numpy().copy()))
    return np.array(models[-len(models) // 4 :]).mean(axis=0), trace


def optimum(config):
    data = built_for(config).federation.dataset
    return np.mean([data.train_x[data.owner == client].mean(axis=0) for client in range(10)], axis=0)


@pytest.mark.slow
def test_a_quadratic_settles_at_its_optimum_with_correction_1_while_speeds_jump_twice(fleet, tmp_path):
    config = quadratic(fleet, 10, cap="1", concurrency=10, correction=1.0, steps=2400, step_size=0.02)
    jumps = (0, RATES), (10, HALVED), (20, [FAST] * 5 + [SLOW / 4] * 5)
    model, trace = settled(config, tmp_path / "live", Changing(*jumps, law="deterministic"), fresh=True)
    assert sum(one["reason"].startswith("drift") for one in trace.metadata["plans"]) >= 2
    away = np.linalg.norm(model - optimum(config))
    kept, old = settled(config, tmp_path / "kept", Changing(*jumps, law="deterministic"), fresh=False)
    assert "plans" not in old.metadata
    assert away < 0.05
    assert np.linalg.norm(kept - optimum(config)) > 3 * away  # shares that remember all updates are biased for long


@pytest.mark.slow
def test_a_server_killed_after_a_change_goes_on_with_the_plan_in_force_and_replays_bit_for_bit(fleet, tmp_path):
    config = quadratic(fleet, 10, cap="1", concurrency=6, correction=0.5, sampling="speed", steps=1500)
    times = Changing((0, RATES), (8.0, HALVED), law="lognormal")
    federation, folder = federation_of(config, times, 10), tmp_path / "live"

    class Killed(Exception):
        pass

    def kill(run):
        if len(run.loop.plans) > 1 and run.server.received > run.loop.plans[-1]["step"] + 150:
            raise Killed

    run = run_of(config, folder, federation)
    with run, pytest.raises(Killed):
        run.run(threading.Event(), kill)
    again = run_of(config, folder, federation, resume=True)
    before, after = run.loop, again.loop
    assert after.plans == before.plans
    for mine, other in zip(before.force, after.force, strict=True):
        assert np.array_equal(mine, other)
    assert after.follower.speeds.known.tasks.sum() > 0.9 * before.follower.speeds.known.tasks.sum()
    trace = finished(again)
    assert [dict(one) for one in trace.metadata["plans"]][: len(before.plans)] == before.plans
    print(*((one["time"], one["step"], one["reason"]) for one in trace.metadata["plans"]), sep="\n")
    assert len(trace.metadata["resumes"]) == 1
    assert (folder / "model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")
    for number, entry in enumerate(trace.metadata["plans"]):  # everything can be checked
        place = folder / "plans" / str(number)
        plan, made_for = Plan.load(place / "plan.json"), Fleet.load(place / "fleet.csv")
        plan.check(made_for)
        assert plan.hash == entry["hash"]
        told = json.loads((place / "change.json").read_text())
        assert told["time"] == entry["time"]
        if number:
            assert np.allclose(plan.sampling / made_for.rate, (plan.sampling / made_for.rate)[0])  # speed, anew
    rates = made_for.rate[told["clients"]["group"]]
    assert rates == pytest.approx(HALVED, rel=ALLOWED)
    noted = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [one["reason"] for one in noted if one["what"] == "plan"] == [
        one["reason"] for one in trace.metadata["plans"][1:]
    ]


def test_a_fleet_of_unknown_speeds_begins_with_everyone_busy_and_learns(tmp_path):
    config = quadratic("unknown(10)", 10, cap="1", correction=0.5, steps=700)
    times = Changing((0, [16.0] * 3 + [2.0] * 7), law="lognormal")
    run = run_of(config, tmp_path / "live", federation_of(config, times, 10), said="nothing")
    trace = finished(run)
    start, first, *_ = trace.metadata["plans"]
    assert (start["throughput"], start["concurrency"]) == (None, 10)
    assert first["reason"] == "the speeds are known now"
    assert trace.metadata["plans"][-1]["throughput"] == pytest.approx(62.0, rel=0.1)
    shares = run.loop.chooser.shares
    assert shares[:3].mean() / shares[3:].mean() == pytest.approx(8.0, rel=0.2)
    assert (tmp_path / "live/model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")
    with pytest.raises(InvalidInput, match="a simulation needs the speeds of its fleet"):
        train(config, tmp_path / "simulated")


@pytest.mark.slow
def test_a_plan_is_kept_if_nothing_has_changed(fleet, tmp_path):
    config = quadratic(fleet, 10, cap="1", concurrency=10, correction=0.5, steps=900)
    times = Changing((0, RATES), law="deterministic")
    run = run_of(config, tmp_path / "live", federation_of(config, times, 10), every=2.0)
    trace = finished(run)
    noted = [json.loads(line) for line in (tmp_path / "live/log.jsonl").read_text().splitlines()]
    kept = [one for one in noted if one["what"] == "plan kept"]
    assert len(trace.metadata["plans"]) == 2  # the second has measured shares in place of the fleet file's
    assert len(kept) >= 4
    assert {one["reason"] for one in kept} == {"interval"}


@pytest.mark.slow
def test_weights_of_groups_by_name_stay_with_their_clients(fleet, tmp_path):
    config = quadratic(fleet, 10, cap=None, concurrency=12, sampling="fast=3,slow=1", correction=1.0, steps=700)
    times = Changing((0, RATES), (5.0, HALVED), law="deterministic")
    run = run_of(config, tmp_path / "live", federation_of(config, times, 10))
    trace = finished(run)
    assert len(trace.metadata["plans"]) > 1
    assert run.loop.force.sampling == pytest.approx([0.15] * 5 + [0.05] * 5)
    assert trace.metadata["plans"][-1]["share"] == pytest.approx([0.75, 0.25])
    assert (tmp_path / "live/model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")


@pytest.mark.slow
def test_learning_the_speeds_costs_a_delay_once_and_then_the_plan_is_as_good_as_the_informed_one():
    bench = loaded(BENCH)
    rates = bench.fleets(20)["two speeds, 10 to 1"]
    policy = bench.POLICIES["a quarter of the clients, by speed"]
    short, long = (bench.cost(rates, policy, "lognormal", updates, seed=1) for updates in (300, 900))
    assert short.start == long.start < 0.5  # without speeds every second task goes to a slow client
    assert long.updates < 200  # until it is within 5% of the informed plan's throughput
    assert long.regret < 0.2 * long.lasted
    assert long.regret - short.regret < 0.5 * long.regret  # two thirds of the run add less than half of the delay


@pytest.mark.slow
def test_a_calibration_lets_the_model_of_training_choose_and_excludes_a_sampling(fleet, tmp_path):
    config = quadratic(fleet, 10, cap="1", concurrency=10, steps=10)
    built = built_for(config)
    planner = Planner(built, told_of(built), Said(concurrency=4, cap="1"), Landscape.generic())
    found = planner.find(told_of(built).means, np.zeros(10), np.ones(10, bool), left=20.0)
    same = advise_by_twin(found.fleet, 20.0, Landscape.generic(), Aim(wishes=Wishes(4, 1))).plan
    assert (found.plan.concurrency, found.correction) == (4, same.correction)
    assert np.array_equal(found.plan.sampling, same.sampling)
    with pytest.raises(InvalidInput, match="a calibration lets the planner choose whom to sample"):
        Planner(built, told_of(built), Said(sampling="speed"), Landscape.generic())


def test_promises_are_for_the_clients_that_are_there(fleet, tmp_path):
    config = quadratic(fleet, 10, cap="1", concurrency=10, steps=10)
    built = built_for(config)
    planner = Planner(built, told_of(built), Said.of(config))
    here = np.arange(10) < 7  # two of the slow ones
    found = planner.find(told_of(built).means, np.zeros(10), here, left=20.0)
    assert found.promises["throughput"] == pytest.approx(5 * FAST + 2 * SLOW)
    assert found.promises["share"] == pytest.approx((40 / 48, 8 / 48))
    assert found.force.share.sum() == pytest.approx(1)  # shares in force are those if all were there


def test_a_client_that_sent_nothing_is_a_usual_one_of_its_group_and_not_faster_than_its_task_shows():
    told = Told(np.array([1.0, 1.0, 5.0, 5.0]), np.zeros(4), np.array([0, 0, 1, 1]))
    nothing = np.array([2.0, np.nan, np.nan, np.nan])
    means = Means(nothing, nothing, np.array([9.0, 0, 0, 0]), np.array([9.0, 0, 0, 0]))
    ages = np.array([0.0, 0.0, 0.0, 7.0])
    assert filled(means, told, ages).service.tolist() == pytest.approx([2.0, 2.0, 5.0, 7.0])
    unknown = replace(told, known=False)
    assert filled(means, unknown, ages).service.tolist() == pytest.approx([2.0, 2.0, 2.0, 7.0])


@pytest.mark.parametrize("error", [InvalidInput("no policy keeps the limits"), StopIteration("nothing to choose")])
def test_a_plan_that_cannot_be_worked_out_leaves_the_old_one_in_force(fleet, tmp_path, monkeypatch, error):
    def fails(*_):
        raise error

    config = quadratic(fleet, 10, cap="1", concurrency=10, steps=300)
    run = run_of(config, tmp_path / "live", federation_of(config, Changing((0, RATES)), 10), every=1.0)
    monkeypatch.setattr(run.loop.follower.planner, "find", fails)
    trace = finished(run)
    assert len(trace.metadata["plans"]) == 1
    assert error.args[0] in (tmp_path / "live/log.jsonl").read_text()


def test_a_client_that_says_it_worked_for_a_year_has_worked_no_longer_than_it_held_the_task(fleet, tmp_path):
    config = quadratic(fleet, 10, cap="1", concurrency=10, steps=300)
    federation = federation_of(config, Changing((0, RATES)), 10)
    run = run_of(config, tmp_path / "live", federation, every=1.0)
    arrived = run.loop._arrived
    run.loop._arrived = lambda event: arrived(event._replace(service=3e7) if event.name.client == 0 else event)
    finished(run)
    known = run.loop.follower.speeds.known
    assert known.service[0] == pytest.approx(known.turnaround[0], rel=1e-6)


def test_the_correction_of_a_task_is_that_of_the_plan_that_it_was_sent_under():
    weights = np.full(2, 0.5)
    found = Correction(0.5, weights, np.array([0.8, 0.2]))
    before = found.factor(0, 0.8, 3.0)
    told = {"mean_factor": 2.0}
    found.follow([{"time": 0.0, "correction": 0.5, **told}, {"time": 5.0, "correction": 1.0, **told}])
    assert found.factor(0, 0.8, 3.0) == found.factor(0, 0.8, 5.0) == before  # sent before, or as it took effect
    assert found.factor(0, 0.8, 5.1) == 0.5 / 0.8
    other = Correction(0.0, weights)
    other.follow([{"time": 0.0, "correction": 0.5, **told}, {"time": 5.0, "correction": 1.0, **told}])
    assert other.factor(0, 0.8, 9.0) == 1.0  # whoever replays with another correction has it throughout
    with pytest.raises(InvalidInput, match="lists its plans in a way that cannot be read"):
        found.follow([{"time": "soon"}])


def test_a_new_plan_counts_shares_anew(fleet, tmp_path):
    config = quadratic(fleet, 10, cap="1", concurrency=10, steps=10)
    run = run_of(config, tmp_path / "live", federation_of(config, Changing((0, RATES)), 10))
    with run:
        chooser = run.loop.chooser
        for client in range(10):
            chooser.arrive(client)
        for _ in range(500):
            chooser.take(0)
            chooser.release(0, used=True)
        assert chooser.share(0) > 0.8
        share = np.full(10, 0.1)
        chooser.adopt(InForce(share, np.ones(10), share, 5))
        assert chooser.share(0) == pytest.approx(0.1)
        assert chooser.places == 10


def test_how_often_to_plan_is_checked_at_the_door():
    assert ServerFile(replan="10min").every(False) == 600.0
    assert ServerFile().every(True) == 600.0
    assert ServerFile().every(False) is ServerFile(replan="never").every(True) is None
    for wrong in (0, -1.0):
        with pytest.raises(InvalidInput, match="replan must be a positive time, never or auto"):
            ServerFile(replan=wrong)
    with pytest.raises(InvalidInput, match="replan must be a time such as 10min, never or auto"):
        ServerFile(replan="sometimes")
    with pytest.raises(InvalidInput, match="leave out one"):
        ServerFile(replan="never", calibration="calibration.toml")


def test_plans_are_worked_out_in_the_background_unless_told_otherwise(fleet, tmp_path):
    config = quadratic(fleet, 10, cap="1", concurrency=10, steps=10)
    with LiveRun(config, tmp_path / "live", lambda *_: _Silent(), Settings(replan=1.0)) as run:
        here = threading.get_ident()
        assert run.loop.follower._pool.submit(threading.get_ident).result() != here
    assert AtOnce().submit(threading.get_ident).result() == threading.get_ident()


class _Silent:
    """An engine without clients."""

    def now(self):
        return 0.0

    def acknowledge(self, names):
        """Nothing to tell."""

    def stop(self, ended):
        """Nothing to stop."""


def test_a_run_without_a_policy_still_follows_its_fleet_when_it_is_resumed(fleet, tmp_path):
    config = quadratic(fleet, 10, steps=200)
    federation = federation_of(config, Changing((0, RATES)), 10)
    file = ServerFile(out=str(tmp_path / "live"))

    def opened(run, resume):
        return open_run(run, file, lambda *_: Pretended(federation), resume)

    stop = threading.Event()
    with opened(config, False) as run:
        assert run.loop.follower is not None
        run.run(stop, lambda now: stop.set() if now.server.received >= 50 else None)
    kept = config_of(tmp_path / "live", {}, True)
    assert kept.cap == "1"  # our advice, filled in
    with opened(kept, True) as run:
        assert run.loop.follower is not None
    with open_run(config, replace(file, replan="never"), lambda *_: Pretended(federation), True) as run:
        assert run.loop.follower is None


@pytest.mark.parametrize(("label", "who"), [([0, 1, 1], "client 0"), ([0, 0, 1], "2 clients such as 0")])
def test_a_group_of_one_is_called_a_client(label, who):
    gone = SimpleNamespace(group=np.array([True, False]), group_ratio=np.array([1.5, 1.0]))
    said = Follower._said(SimpleNamespace(label=np.array(label)), gone)
    assert said == f"drift: tasks of {who} take 1.50 times as long"
