"""Waves: many tasks computed at once are worth what they are worth one by one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sojourn import InvalidInput
from sojourn.algorithms import ALGORITHMS, AsyncSGD, algorithm
from sojourn.experiments.training import open_run, simulated, train
from sojourn.learning.algorithms.facts import facts_of
from sojourn.learning.execute.executor import Job, OneByOne, run_courses
from sojourn.learning.execute.waves import Waves, vectorised
from sojourn.learning.replay.local import Update
from sojourn.learning.replay.replay import Replay
from sojourn.learning.run.build import Built, build
from sojourn.learning.run.config import TrainConfig
from sojourn.learning.run.metrics import read_metrics
from sojourn.learning.run.trainer import Trainer, together

torch.set_num_threads(1)
STEPS = 40
TIGHT = {"float32": 1e-5, "float64": 1e-10}
WORK = {
    "one gradient": {},
    "local steps": {"local_steps": 3, "momentum": 0.9, "weight_decay": 1e-3, "proximal": 0.1, "clip": 0.5},
    "epochs": {"local_epochs": 1},
}


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    return str(path)


def _built(fleet: str, **options) -> Built:
    settings = {"steps": STEPS, "partition": "dirichlet(alpha=1)", "batch_size": 16, "step_size": 0.05, **options}
    return build(TrainConfig(fleet, **settings))


def _replay(built: Built, waves: bool, most: int = 64) -> Replay:
    federation = built.federation
    parts = federation.examples, federation.local
    executor = Waves(vectorised(federation.model), *parts, most) if waves else OneByOne(federation.model, *parts)
    return Replay(built.algorithm, federation, simulated(built), built.setting, executor)


class Both:
    """Computes every wave both ways, and keeps how far apart updates, losses and statistics come out."""

    waves = True

    def __init__(self, waves: Waves, single: OneByOne) -> None:
        self._waves, self._single = waves, single
        self.gaps: list[float] = []

    def compute(self, jobs: list[Job]) -> list[Update]:
        stacked = self._waves.compute(jobs)
        for one, other in zip(stacked, self._single.compute(jobs), strict=True):
            assert (one.step_size, one.steps) == (other.step_size, other.steps)
            pairs = ((one.gradient, other.gradient), (one.delta, other.delta), (one.loss, other.loss))
            for mine, theirs in pairs:
                assert (mine is None) == (theirs is None)
                if mine is not None and theirs is not None:
                    self.gaps.append(float((mine - theirs).norm() / theirs.norm().clamp(min=1e-30)))
        return stacked


def _largest_gap(built: Built, most: int = 64) -> float:
    """Largest relative difference of an update from its wave, computed from the very same model, one by one."""
    federation = built.federation
    parts = federation.examples, federation.local
    both = Both(Waves(vectorised(federation.model), *parts, most), OneByOne(federation.model, *parts))
    Replay(built.algorithm, federation, simulated(built), built.setting, both).advance(STEPS)
    assert len(both.gaps) >= 2 * STEPS
    return max(both.gaps)


@pytest.mark.parametrize("dtype", TIGHT)
@pytest.mark.parametrize("work", WORK)
def test_a_step_from_a_wave_is_the_step_of_the_task_alone(fleet, work, dtype) -> None:
    assert _largest_gap(_built(fleet, dtype=dtype, model="cnn(channels=4)", **WORK[work])) < TIGHT[dtype]


OPTIONS = {
    "asyncsgd": "assignment=pure",
    "favano": "contacts=3",
    "quafl": "contacts=3",
    "fedbuff": "size=3",
    "ca2fl": "size=3",
    "fadas": "size=3",
}


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if facts_of(algorithm(name)).waves])
def test_waves_serve_every_method_that_says_so(fleet, name) -> None:
    text = f"{name}({OPTIONS[name]})" if name in OPTIONS else name
    built = _built(fleet, dtype="float64", model="mlp(hidden=8)", algorithm=text, local_steps=3)
    assert _largest_gap(built) < 1e-10


def test_all_methods_but_one_say_that_waves_serve_them() -> None:
    assert [name for name in ALGORITHMS if not facts_of(algorithm(name)).waves] == ["asyncfeded"]


def test_a_residual_network_in_waves_is_that_of_one_by_one(fleet) -> None:
    built = _built(fleet, model="resnet20(width=4)", dtype="float64", steps=12, batch_size=4)
    wave, single = _replay(built, True), _replay(built, False)
    for replay in (wave, single):
        replay.advance(12)
    assert float((wave.params - single.params).norm() / single.params.norm()) < 1e-10


class Remembering(AsyncSGD):
    """A method of one's own whose clients begin at the mean of the model that they get and their last one."""

    remembers = True

    def start(self, kept, sent):
        return (sent.params if kept is None else torch.lerp(sent.params, kept, 0.5)), 1.0

    def finish(self, kept, sent, start, update):
        return start, update


@pytest.mark.parametrize("algorithm", ["aso-fed", "fedasmu", f"{__name__}:Remembering"])
def test_clients_that_remember_may_have_tasks_that_overtake_each_other(tmp_path, algorithm) -> None:
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,40\nslow,3,10\n")
    timing = {"dispatcher": "routed", "uplink": "2"}
    built = _built(
        str(tmp_path / "fleet.csv"), algorithm=algorithm, dtype="float64", model="mlp(hidden=8)", **timing, steps=150
    )
    wave, single = _replay(built, True), _replay(built, False)
    trace = simulated(built)
    mine = np.flatnonzero(trace.applied & (trace.client == 0))
    assert (np.diff(trace.dispatched_step[mine]) < 0).any()
    for replay in (wave, single):
        replay.advance(150)
    assert float((wave.params - single.params).norm() / single.params.norm()) < 1e-9


def test_a_wave_that_is_too_large_is_split(fleet) -> None:
    built = _built(fleet, dtype="float64", model="mlp(hidden=8)")
    sizes = []
    gradients = vectorised(built.federation.model)

    def watched(params, stats, x, y):
        sizes.append(len(params))
        return gradients(params, stats, x, y)

    executor = Waves(watched, built.federation.examples, built.federation.local, most=3)
    replay = Replay(built.algorithm, built.federation, simulated(built), built.setting, executor)
    replay.advance(STEPS)
    assert max(sizes) == 3
    whole = _replay(built, True)
    whole.advance(STEPS)
    torch.testing.assert_close(replay.params, whole.params, rtol=1e-12, atol=1e-14)


class Counting:
    """An executor that computes nothing and counts."""

    waves = True

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def compute(self, jobs: list[Job]) -> list[Update]:
        self.sizes.append(len(jobs))
        return [Update(torch.zeros_like(job.start), None, job.step_size, 1, torch.zeros(())) for job in jobs]


@pytest.mark.parametrize(("clients", "steps", "expected"), [(100, 2000, 7), (1000, 10_000, 23)])
def test_the_steady_wave_grows_like_the_root_of_the_clients(tmp_path, clients, steps, expected) -> None:
    (tmp_path / "fleet.csv").write_text(f"name,count,rate\nfast,{clients // 2},4\nslow,{clients // 2},1\n")
    built = build(TrainConfig(str(tmp_path / "fleet.csv"), steps=steps, model="logistic", batch_size=1))
    counting = Counting()
    replay = Replay(built.algorithm, built.federation, simulated(built), built.setting, counting)
    replay.advance(steps // 2)  # the first waves are all initial tasks
    del counting.sizes[:]
    replay.advance(steps)
    assert np.mean(counting.sizes) == pytest.approx(expected, rel=0.25)


def test_no_task_is_computed_twice_or_for_nothing(fleet) -> None:
    built = _built(fleet, model="logistic")
    counting = Counting()
    Replay(built.algorithm, built.federation, simulated(built), built.setting, counting).advance(STEPS)
    assert sum(counting.sizes) == STEPS


def test_no_more_updates_than_tasks_wait_and_none_holds_on_to_its_stack(fleet) -> None:
    built = _built(fleet, model="mlp(hidden=8)", concurrency=25)
    replay = _replay(built, True)
    most = 0
    for received in range(1, STEPS):
        replay.advance(received)
        assert len(replay.ready) <= len(replay.pending) <= 25
        for ready in replay.ready.values():
            gradient = ready.update.gradient
            assert gradient.untyped_storage().nbytes() == gradient.nbytes
        most = max(most, len(replay.ready))
    assert most > 5


def test_runs_in_common_waves_end_where_they_end_alone(fleet, tmp_path) -> None:
    config = TrainConfig(fleet, steps=STEPS, dtype="float64", partition="classes(k=2)", model="mlp(hidden=8)")
    configs = [replace(config, seed=1), replace(config, seed=2), replace(config, seed=1, step_size=0.01)]
    configs.append(replace(config, algorithm="fedbuff(size=3)"))
    runs: list[Trainer] = []
    for number, one in enumerate(configs):
        runs.append(open_run(one, tmp_path / f"common-{number}", like=runs[0].built if runs else None))
    assert len({id(run.built.executor) for run in runs}) == 1
    assert len({id(run.built.federation.examples) for run in runs}) == 1
    assert all(outcome.complete for outcome in together(runs))
    for number, one in enumerate(configs):
        train(one, tmp_path / f"alone-{number}")
        common, alone = (read_metrics(tmp_path / f"{name}-{number}")[-1] for name in ("common", "alone"))
        assert common["test_loss"] == pytest.approx(alone["test_loss"], rel=1e-9)


def test_runs_one_by_one_share_nothing_but_the_examples(fleet) -> None:
    first = build(TrainConfig(fleet, execution="one-by-one"))
    other = build(TrainConfig(fleet, execution="one-by-one", seed=1), like=first)
    assert other.executor is not first.executor
    assert other.federation.examples is first.federation.examples


def test_runs_that_do_other_local_work_do_not_share_waves(fleet) -> None:
    first = build(TrainConfig(fleet))
    other = build(TrainConfig(fleet, momentum=0.5, algorithm="fedavg", local_steps=2), like=first)
    assert other.executor is not first.executor
    assert other.federation.examples is first.federation.examples


def test_a_run_in_waves_interrupted_anywhere_goes_on_to_the_same_bits(fleet, tmp_path) -> None:
    config = TrainConfig(fleet, steps=100, partition="classes(k=2)", model="cnn(channels=4)", execution="waves")
    train(config, tmp_path / "whole")

    class Stop(Exception):
        pass

    def until(limit: int):
        def look(done: int, total: int, facts: dict) -> None:
            if done >= limit:
                raise Stop

        return look

    for limit in (13, 41, 77):
        with pytest.raises(Stop):
            train(config, tmp_path / "broken", resume=True, checkpoint_every=5, progress=until(limit))
    train(config, tmp_path / "broken", resume=True)
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "broken"))
    assert one == other


@pytest.mark.parametrize(
    ("model", "precision", "chosen"),
    [
        ("mlp", "fp32", "waves"),
        ("cnn(channels=4)", "fp32", "waves"),
        ("cnn(channels=4, norm=batch)", "fp32", "one-by-one"),
        ("mlp", "bf16", "one-by-one"),
    ],
)
def test_how_a_model_is_computed_is_chosen_by_what_it_is(fleet, model, precision, chosen) -> None:
    assert _built(fleet, model=model, precision=precision, device="cpu").config.execution == chosen


def test_what_cannot_be_is_refused(fleet) -> None:
    with pytest.raises(InvalidInput, match="waves need a model and loss of this package, no dropout"):
        _built(fleet, model="cnn(channels=4, norm=batch)", execution="waves", device="cpu")
    with pytest.raises(InvalidInput, match="precision tf32 is a format of GPUs; on a CPU use fp32"):
        _built(fleet, precision="tf32", device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="device cuda needs a GPU"):
            _built(fleet, device="cuda")


def test_halved_precision_changes_little_and_is_told(fleet, tmp_path) -> None:
    options = {"steps": 300, "partition": "iid", "step_size": 0.2, "device": "cpu"}
    accuracies = [
        train(TrainConfig(fleet, precision=precision, **options), tmp_path / precision).metrics["accuracy"]
        for precision in ("fp32", "bf16")
    ]
    assert abs(accuracies[0] - accuracies[1]) < 0.03
    assert '"precision": "bf16"' in (tmp_path / "bf16" / "config.json").read_text()


def test_drive_returns_each_courses_result_in_order() -> None:
    def course(many: int):
        total = 0
        for number in range(many):
            updates = yield [number] * (number + 1)
            total += sum(updates)
        return total

    class Double:
        waves = True

        def compute(self, jobs):
            return [2 * job for job in jobs]

    executor = Double()
    assert run_courses([(course(3), executor), (course(0), executor), (course(2), executor)]) == [2 * (2 + 6 - 0), 0, 4]
