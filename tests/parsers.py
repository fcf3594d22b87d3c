"""Every reader of a text or of a file, with examples that it takes: what the fuzz tests go through.

A new reader belongs into one of the tables. `TEXTS` read the text forms of options and keys, `FILES` a file by itself,
`RUN` and `CELL` a folder, of which one file is changed.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sojourn import Fleet, Law, Plan, analyze
from sojourn.availability import Availability
from sojourn.calibration import Calibration
from sojourn.cli.arguments import whole
from sojourn.cli.cell_options import part_of
from sojourn.cli.comparison_words import content_of
from sojourn.cli.main import app
from sojourn.cli.plan_by_bound import _share
from sojourn.constants import Constants
from sojourn.experiments.cells import Cell, EndedCell, ended
from sojourn.experiments.comparison import ComparisonSpec
from sojourn.experiments.statistics import Target
from sojourn.experiments.sweep import Grid
from sojourn.experiments.training import train
from sojourn.landscape import Landscape
from sojourn.learning.algorithms.table import algorithm
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.load import load_dataset, load_problem
from sojourn.learning.data.partition import partition
from sojourn.learning.execute.augment import Augment
from sojourn.learning.models.load import load_model
from sojourn.learning.replay.server_step import ServerStep
from sojourn.learning.run.config import TrainConfig, value_of
from sojourn.plan_text import plan_of
from sojourn.planning import promises
from sojourn.report.page.of_simulation import given, read_summary
from sojourn.report.page.of_tuning import read_trials
from sojourn.report.reproduction.claim import read_claims
from sojourn.report.reproduction.experiment import Experiment
from sojourn.report.reproduction.paper import Paper
from sojourn.scenario import Dispatcher
from sojourn.scenario_text import override
from sojourn.schedule import Schedule
from sojourn.timing.fit.speed_groups import speed_groups
from sojourn.timing.log.log import read_log
from sojourn.trace import Trace

torch.set_num_threads(1)

FLEET = Fleet.of(fast=(3, 4.0), slow=(3, 1.0))
PLAN = Plan.uniform(FLEET, 6)
_PAPER = Paper("a-paper", "A paper", (Experiment("two-clusters", "Two", "figure 1", lambda folder, fast, watch: []),))
_LABELS = np.arange(60) % 10
_IMAGES = Dataset("images", np.zeros((20, 1, 8, 8)), np.arange(20) % 10, np.zeros((5, 1, 8, 8)), range(5), classes=10)


class Reader(NamedTuple):
    """A reader of texts, or of files."""

    read: Callable[[Any], Any]
    """Takes the text, or the path of the file."""
    examples: tuple[str, ...]
    """What it takes: texts, or contents of files."""
    suffix: str = ""
    """Of the file."""


def _law(text: str) -> None:
    law = Law.parse(text)
    assert np.isfinite(law.scv) or law.scv == np.inf
    assert law.longest > 0
    replace(FLEET, law=(law, law)).hash  # noqa: B018 it must be there


def _schedule(text: str) -> None:
    for step in (0, 1, 150, 10**9):
        assert np.isfinite(Schedule.parse(text).factor(step, float(step)))


def _setting(text: str) -> TrainConfig:
    key, _, value = text.partition("=")
    return TrainConfig.of({"fleet": "fleet.csv", key: value_of(key, value, "--set")}, "--set")


def _algorithm(text: str) -> ComparisonSpec:
    return ComparisonSpec.of(content_of(None, {"fleet": "fleet.csv"}, [], {}, {}, [text], [text]), "compare")


def _step_sizes(text: str) -> ComparisonSpec:
    tuning, top = {"step_sizes": text, "seeds": "10,11"}, {"seeds": text, "target": "accuracy=0.9"}
    return ComparisonSpec.of(content_of(None, {"fleet": "fleet.csv"}, [], tuning, top, ["asyncsgd"], []), "compare")


TEXTS: dict[str, Reader] = {
    "law": Reader(
        _law,
        (
            *("exponential", "lognormal(sigma=1)", "gamma(shape=2)", "erlang(shape=3)", "weibull(shape=0.7)"),
            *("hyperexponential(scv=4)", "empirical(0.5 1 1.5)"),
        ),
    ),
    "dispatcher": Reader(
        Dispatcher.parse,
        ("routed", "rounds(wait=8, interaction=3)", "periodic(contacts=20, waiting=4, interaction=3)"),
    ),
    "availability": Reader(
        Availability.parse,
        (
            *("churn(on=100, off=20, leave=lose)", "diurnal(on=8, period=24, spread=0.5)"),
            "always(loss=0.01, drift=-0.001)",
        ),
    ),
    "partition": Reader(
        lambda text: partition(text, _LABELS, 4, 0),
        (
            *("iid", "iid(sizes=power(exponent=1.5, least=2))", "classes(k=3)", "dirichlet(alpha=0.3, least=2)"),
            *("shards(k=2)", "natural", "by-speed(k=1, slow=2, alone=1)"),
        ),
    ),
    "dataset": Reader(
        load_dataset,
        (
            "quadratic(dimension=3, clients=2, examples=5, largest=4, condition=2, noise=1, heterogeneity=2, seed=1)",
            "logistic(dimension=3, clients=2, examples=5, l2=0.1, shift=1, angle=0.5)",
            *("digits(validation=0.2)", "cifar10(folder=/nowhere, validation=0.1)", "no_such_module:function"),
        ),
    ),
    "problem": Reader(load_problem, ("quadratic(largest=4, condition=2, dimension=2)", "logistic(l2=0.1)")),
    "model": Reader(
        lambda text: load_model(text, _IMAGES, "digits", 0),
        (
            *("mlp(hidden=64, layers=2)", "logistic", "cnn(channels=4, norm=group)", "resnet20(norm=group, width=2)"),
            *("resnet18(width=2, stem=plain)", "problem", "no_such_module:function"),
        ),
    ),
    "algorithm": Reader(
        algorithm,
        (
            *("generalized-asyncsgd", "asyncsgd(assignment=pure, steps=adaptive)", "fedavg(server_rate=1)"),
            *("fedbuff(size=10, staleness=root, distinct=true)", "favano(contacts=20, waiting=4)", "quafl(bits=14)"),
            *("fedasync(alpha=0.6, a=0.5, b=4, most=10)", "delay-adaptive(threshold=3)", "ringleader(refresh=true)"),
            *("ia2sgd(warmup=zero, size=2)", "ace(most=5)", "ca2fl(size=2)", "fadas(beta1=0.5)", "fedasmu(mu=2)"),
            *("aso-fed(beta=0.1)", "fedprox(mu=1, deadline=2)"),
        ),
    ),
    "schedule": Reader(
        _schedule,
        (
            *("constant", "drops(at=100/200, by=0.1)", "cosine(end=40, least=0.1, over=time)", "warmup(length=10)"),
            "inverse(half=100, power=0.5)",
        ),
    ),
    "augmentation": Reader(Augment.parse, ("none", "flip", "crop(pad=4)", "crop-flip(pad=2)")),
    "server's step": Reader(ServerStep, ("sgd", "momentum", "adam", "yogi")),
    "target": Reader(Target.parse, ("accuracy=0.9", "test_loss=0.5")),
    "sampling": Reader(
        lambda text: plan_of(FLEET, text, None, 5), ("uniform", "speed", "fast=0.1,slow=0.2333333333333333")
    ),
    "service law of a group": Reader(
        lambda text: override(FLEET, PLAN, [text], None, None), ("lognormal(sigma=1)", "fast=deterministic")
    ),
    "link of a group": Reader(
        lambda text: override(FLEET, PLAN, None, [text], [text]), ("5", "5:gamma(shape=2)", "fast=5:deterministic")
    ),
    "whole number": Reader(lambda text: whole("steps", text), ("1000", "1e6", "1_000")),
    "setting": Reader(_setting, ("batch_size=16", "step_size=0.1", "data=digits", "seed=5", "steps=10", "holdout=0.1")),
    "algorithm compared": Reader(
        _algorithm,
        ("fedbuff(size=10, staleness=root)", "planned: generalized-asyncsgd plan=plan.json concurrency=5", "plan.json"),
    ),
    "step sizes": Reader(_step_sizes, ("0.03,0.1,0.3", "1,2,3", "3")),
    "part": Reader(part_of, ("1/2", "2/2")),
    "share": Reader(_share, ("0.3",)),
    "experiment": Reader(_PAPER.asked_for, ("all", "two-clusters")),
}

CONSTANTS = "A = 100.0\nL = 1.0\nsigma2 = 2.0\nG2 = 9.0\nR2 = 25.0\nrho2 = 0.5\n[note]\nwhere = 'here'\n"
CALIBRATION = """A = 5.0
L = 2.0
sigma2 = 1.0
G2 = 3.0
[calibration]
schema = 1
confidence = 0.95
clients = 6
asked = 6
gradients = 24
products = 10
exact = true
[calibration.interval]
A = [4.0, inf]
L = [1.0, 3.0]
sigma2 = [0.5, 1.5]
G2 = [2.0, 4.0]
[calibration.run]
data = "digits"
seed = 0
[[calibration.point]]
step = 0
time = 0.0
loss = { value = 5.0, low = 4.0, high = 6.0 }
gradient2 = 1.0
L = { value = 2.0, low = 1.0, high = 3.0 }
secant = 1.0
curvature = 2.0
lowest = -0.5
sigma2 = { value = 1.0, low = 0.5, high = 1.5 }
sigma2_mean = { value = 1.0, low = 0.5, high = 1.5 }
G2 = { value = 3.0, low = 2.0, high = 4.0 }
G2_mean = { value = 3.0, low = 2.0, high = 4.0 }
eigenvalues = [2.0, 1.0]
residuals = [0.1, 0.1]
noise = { value = [0.1, 0.2], low = [0.0, 0.1], high = [0.2, 0.3] }
heterogeneity = { value = [0.1, 0.2], low = [0.0, 0.1], high = [0.2, 0.3] }
"""
LANDSCAPE = """[calibration]
schema = 1
[calibration.landscape]
curvature = [2.0, 1.0]
loss = 5.0
noise = 1.0
heterogeneity = 0.5
between = 0.5
source = "measured"
intervals = { noise = [0.5, inf] }
"""
TRIALS = """rung,step_size,correction,buffer,seed,loss,accuracy,cell
1.0,0.1,0.5,3,10000,0.5,0.8,c42a43585458
0.1,0.2,,,10001,inf,nan,06288554c945
"""
RUN_FILE = """fleet = "fleet.csv"
steps = 20
algorithm = "fedbuff(size=2)"
data = "quadratic(dimension=3, clients=6, examples=5)"
partition = "natural"
model = "problem"
step_size = 0.1
local_steps = 2
batch_size = 4
momentum = 0.5
clip = 1.0
seed = 3
evaluate_every = 5
"""
COMPARISON = """seeds = 2
target = "accuracy=0.9"
baseline = "uniform"
[run]
fleet = "fleet.csv"
time = 5.0
[tuning]
step_sizes = [0.03, 0.1]
seeds = [10, 11]
holdout = 0.1
by = "loss"
extensions = 3
refit = true
[[algorithm]]
name = "uniform"
sampling = "uniform"
[[algorithm]]
name = "planned"
plan = "plan.json"
[[plan]]
name = "few"
concurrency = 5
"""
SWEEP = """seeds = 3
[run]
fleet = "fleet.csv"
steps = 20
[grid]
algorithm = ["asyncsgd", "fedbuff(size=10)"]
concurrency = [10, 30]
"""
AVAILABILITY = """[[availability]]
name = "churn"
on = 100.0
off = 20
leave = "lose"
loss = 0.01
drift = -0.001
groups = ["fast"]
changes = [[10.0, 2.0], [20.0, 0.5]]
[[availability]]
name = "table"
intervals = [[0, 5], [6, 7.5]]
period = 10
"""
PLAN_FILE = """{"sojourn_plan": 1, "concurrency": 6, "step_size": 0.029, "objective": "bound", "fleet_hash": null,
"groups": [{"name": "fast", "count": 3, "sampling": 0.25},
{"name": "slow", "count": 3, "sampling": 0.08333333333333333}],
"promises": {"value": 1.0, "bound": 1.0, "steps": 100, "time": 20.5, "energy": null, "throughput": 4.5,
"server_rate": 50.0, "largest_step_size": 0.03, "staleness": [3.0, 9.0], "queue": [0.5, 1.5]}}
"""
SUMMARY = """{"command": "simulate", "steps": 100, "clients": 3, "concurrency": 4, "mean_staleness": 3.0,
"throughput": {"value": 2.5, "standard_error": 0.1, "exact": null}, "made_by": "sojourn simulate fleet.csv",
"groups": [{"name": "fast", "count": 3, "rate": 4.0, "law": "gamma(shape=2)", "sampling": 0.5, "cap": 2,
"staleness": {"value": 3.0, "standard_error": 0.1, "exact": 3.1},
"queue": {"value": 1, "standard_error": 0, "exact": 1},
"utilisation": {"value": 0.5, "standard_error": 0.1, "exact": 0.5}, "sojourn": {"value": 1.0, "standard_error": 0.1,
"exact": 1.1}, "waiting": {"value": 0.0, "standard_error": null, "exact": 0.0}}],
"promises": [{"promise": "throughput", "promised": 2.4, "simulated": 2.5, "standard_error": 0.1, "z": 1.0}]}
"""
FLEET_CSV = "name,count,rate,law,uplink_rate,uplink_law,data_size,power\nphones,900,1.0,lognormal(sigma=0.8),2,,600,1\n"
SECONDS_CSV = "name,count,seconds_per_task,rate,time_unit\nphones,900,1.5min,,h\nlaptops,9,,30,min\n"
LOG = "device,start,end,status\na,0,2.5,ok\nb,1.5,4,timeout\nb,2,,ok\na,3,4.25,done\n007,3,9,\n"
LOG_OF_TIMES = """Client;Started At;Finished At
a;2026-03-01T12:00:00+01:00;2026-03-01T12:00:02.5+01:00
b;2026-03-01T12:00:01Z;2026-03-01T12:01:00Z
"""
LOG_OF_DURATIONS = "worker\tduration_ms\na\t1500\nb\t90s\na\t00:01:30\n"
FLEET_TOML = """[[group]]
name = "phones"
count = 900
rate = 1.0
law = "lognormal(sigma=0.8)"
data_size = 600
[[group]]
name = "desktops"
rate = 8.0
"""


def _plan(path: Path) -> None:
    """What `sojourn analyze --plan` does."""
    plan = plan_of(FLEET, None, path, None)
    rate = promises.server_rate(plan, None)
    assert promises.promised(plan) is not None
    promises.against_theory(plan, analyze(FLEET, replace(plan, concurrency=min(plan.concurrency, 9)), server_rate=rate))


def _summary(path: Path) -> None:
    """What `sojourn report` reads of a summary."""
    given(read_summary(path))


def _comparison(path: Path) -> None:
    read = ComparisonSpec.load(path)
    for entry in read.algorithms:
        assert read.final(entry, None, read.seeds[0]).name


def _log(path: Path) -> None:
    """What `sojourn fit` reads of a log, before it fits."""
    log = read_log(path)
    assert len(log.trace()) == log.client.size
    assert speed_groups(log.client, log.duration).label.size == len(log.device)


FILES: dict[str, Reader] = {
    "fleet in CSV": Reader(Fleet.load, ("name,count,rate\nfast,3,4.0\nslow,3,1.0\n", FLEET_CSV, SECONDS_CSV), ".csv"),
    "log of durations": Reader(_log, (LOG, LOG_OF_TIMES, LOG_OF_DURATIONS), ".csv"),
    "fleet in TOML": Reader(Fleet.load, (FLEET_TOML,), ".toml"),
    "plan": Reader(_plan, (PLAN_FILE,), ".json"),
    "summary of a simulation": Reader(_summary, (SUMMARY,), ".json"),
    "sampling file": Reader(
        lambda path: plan_of(FLEET, str(path), None, 5),
        ("name,probability\nslow,0.08333333333333333\nfast,0.25\n",),
        ".csv",
    ),
    "availability in TOML": Reader(Availability.load, (AVAILABILITY,), ".toml"),
    "availability in CSV": Reader(Availability.load, ("group,from,to\nfast,0,5\nfast,6,7.5\n,1,2\n",), ".csv"),
    "constants": Reader(Constants.load, (CONSTANTS, "A = 100.0\nL = 1.0\nB = 20.0\n"), ".toml"),
    "calibration": Reader(Calibration.load, (CALIBRATION,), ".toml"),
    "landscape": Reader(
        Landscape.load, (LANDSCAPE, "curvature = [1.0]\nloss = 2\nnoise = 3\nheterogeneity = 4\n"), ".toml"
    ),
    "landscape of a calibration": Reader(lambda path: Calibration.load(path).landscape(), (CALIBRATION,), ".toml"),
    "run file": Reader(TrainConfig.load, (RUN_FILE,), ".toml"),
    "comparison file": Reader(_comparison, (COMPARISON,), ".toml"),
    "sweep file": Reader(lambda path: Grid.load(path).cells(), (SWEEP,), ".toml"),
    "trials of a tuning": Reader(read_trials, (TRIALS,), ".csv"),
    "claims": Reader(
        read_claims, ("statement,paper,ours,error,verdict,rule,note\nmean,50,48.8,exact,agrees,within 5%,\n",), ".csv"
    ),
}


def _config(home: Path) -> TrainConfig:
    return TrainConfig.load(home / "run.toml", fleet=str(home / "fleet.csv"))


@cache
def run_folder(home: Path) -> dict[str, bytes]:
    """The files of a small run, by their names in its folder; taken up again in the middle."""
    FLEET.save(home / "fleet.csv")
    (home / "run.toml").write_text(RUN_FILE)

    def stop(done: int, total: int, facts: dict[str, Any]) -> None:
        if done >= 10:
            raise _Enough

    with suppress(_Enough):
        train(_config(home), home / "run", checkpoint_every=5, progress=stop)
    found = sorted(path for path in (home / "run").rglob("*") if path.is_file() and path.name != "lock")
    return {path.relative_to(home / "run").as_posix(): path.read_bytes() for path in found}


class _Enough(Exception):
    """A run has gone as far as it is wanted."""


def resumed(folder: Path) -> None:
    """What `sojourn train --resume` does."""
    app(["train", "--resume", "--out", str(folder)], standalone_mode=False)


def looked_at(folder: Path) -> None:
    """What `sojourn compare` does with the folder of a cell."""
    if ended(folder) is not None:
        found = EndedCell(Cell("one", TrainConfig("fleet.csv")), folder, diverged=False)
        assert found.last
        assert found.identity()
        assert found.column("accuracy").size


RUN = (
    *("config.json", "metrics.csv", "trace.parquet"),
    *("checkpoints/000000000010.json", "checkpoints/000000000010.safetensors"),
)
CELL = ("config.json", "metrics.csv", "summary.json")


def cell_folder(home: Path) -> dict[str, bytes]:
    """The files of a run that has ended, as far as others look at them."""
    return {**run_folder(home), "summary.json": b'{"complete": true, "received": 10}'}


def read_trace(folder: Path) -> None:
    """What `sojourn fit` reads."""
    trace = Trace.load(folder / "trace.parquet")
    assert trace.staleness is not None
    assert trace.hash
