"""Training where nobody waits: unbiased with correction 1, off by what the shares say with 0, under caps and laws."""

from dataclasses import replace

import numpy as np
import pytest

from small_runs import with_law
from sojourn import Dataset, Fleet, Plan, simulate
from sojourn.correction import client_shares
from sojourn.experiments.training import open_run
from sojourn.learning.algorithms import FedBuff, GeneralizedAsyncSGD, Local, ServerStep, Setting
from sojourn.learning.data.synthetic import Quadratic
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.models.small import Point
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.replay import Replay
from sojourn.learning.run.config import TrainConfig
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.shares import exact_shares

# f_i = (w - b_i)^2 / 2: gradients w - b_i; the optimum is the mean of b, the fast clients alone would go to -1
FLEET = Fleet.of(fast=(3, 4.0), slow=(2, 0.5))
AT = np.array([-1.0, -1.0, -1.0, 2.0, 3.0])
PROBLEM = Quadratic(Dataset("apart", AT[:, None], np.zeros(5), [[0.0]], [0.0], owner=np.arange(5)), np.ones(1))
OPTIMUM = AT.mean()
STEPS, REPLICATIONS, STEP_SIZE = 1500, 12, 0.02
CASES = {
    "cap 1": (Plan.uniform(FLEET, 3, cap=1), "exponential", "routed"),
    "cap 1, full": (Plan.uniform(FLEET, 5, cap=1), "exponential", "routed"),
    "cap 2": (Plan.uniform(FLEET, 6, cap=2), "exponential", "routed"),
    "to the finisher": (Plan.uniform(FLEET, 5), "lognormal(sigma=0.5)", "pure"),
    "skewed weights": (Plan.weighted(FLEET, [1.0, 6.0], 3, cap=1), "exponential", "routed"),
    "cap 1, uneven service": (Plan.uniform(FLEET, 3, cap=1), "hyperexponential(scv=3)", "routed"),
    "mixed caps": (Plan.uniform(FLEET, 6, cap=[1, 4]), "exponential", "routed"),
}


def settled(algorithm, case, correction):
    """Mean of the second half of a run, and its standard error over replications."""
    plan, law, dispatcher = CASES[case]
    fleet, scenario = with_law(FLEET, law), Scenario(Dispatcher(dispatcher))
    plan = replace(plan, correction=correction, fleet_hash=None)
    share = client_shares(fleet.count, exact_shares(fleet, plan, scenario))
    ends = []
    for seed in range(REPLICATIONS):
        trace = simulate(fleet, plan, STEPS, seed=seed, scenario=scenario, start="even")
        federation = Federation(FlatModel(Point(PROBLEM).double()), PROBLEM.dataset, PROBLEM.partition, Local())
        replay = Replay(algorithm, federation, trace, Setting(fleet, plan, np.full(5, 0.2), Local(), share))
        path = []
        for received in range(STEPS // 2, STEPS, 10):
            replay.advance(received)
            path.append(float(replay.params[0]))
        ends.append(np.mean(path))
    return np.mean(ends), np.std(ends, ddof=1) / REPLICATIONS**0.5, share


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_correction_1_settles_at_the_optimum_and_0_where_the_shares_say(case):
    algorithm = GeneralizedAsyncSGD(ServerStep(step_size=STEP_SIZE))
    unbiased, error, share = settled(algorithm, case, 1.0)
    assert abs(unbiased - OPTIMUM) < 5 * error
    biased, error, _ = settled(algorithm, case, 0.0)
    assert abs(biased - share @ AT) < 5 * error
    assert abs(share @ AT - OPTIMUM) > 5 * error  # the two can be told apart


@pytest.mark.slow
def test_a_buffer_is_unbiased_with_the_same_correction():
    algorithm = FedBuff(server_step_size=0.3, size=3, dispatch="routed")
    found, error, _ = settled(algorithm, "cap 1", 1.0)
    assert abs(found - OPTIMUM) < 5 * error


def test_half_a_correction_lies_between():
    plan, _, _ = CASES["cap 1"]
    share = client_shares(FLEET.count, exact_shares(FLEET, plan, Scenario()))
    half = (share * 0.2) ** 0.5 @ AT / ((share * 0.2) ** 0.5).sum()  # weights s (q/s)^(1/2)
    assert share @ AT < half < OPTIMUM


def test_a_run_under_a_cap_knows_the_exact_shares(tmp_path):
    FLEET.save(tmp_path / "fleet.csv")
    keys = {"steps": 20, "concurrency": 3, "cap": "1", "correction": 0.5, "partition": "iid"}
    run = open_run(TrainConfig(str(tmp_path / "fleet.csv"), **keys), tmp_path / "run")
    run.go()
    told = run.built.setting
    assert told.share == pytest.approx(client_shares(FLEET.count, exact_shares(FLEET, told.plan, Scenario())))
    assert told.share.sum() == pytest.approx(1)
    assert told.plan.correction == 0.5
    assert run.trace.prob[0] == pytest.approx(told.share[run.trace.client[0]])
    assert run.trace.metadata["prob"] == "exact"


@pytest.mark.parametrize(
    ("algorithm", "size", "unused"),
    [
        ("fedbuff", 2, []),
        ("fedbuff(size=4)", 4, ["buffer"]),
        ("generalized-asyncsgd", 2, []),
        ("generalized-asyncsgd(size=1)", 1, ["buffer"]),
        ("asyncsgd", None, ["buffer"]),
    ],
)
def test_the_buffer_of_a_plan_is_the_algorithms_where_it_names_none(tmp_path, algorithm, size, unused):
    FLEET.save(tmp_path / "fleet.csv")
    replace(Plan.uniform(FLEET, 3), buffer=2).save(tmp_path / "plan.json")
    config = TrainConfig(str(tmp_path / "fleet.csv"), str(tmp_path / "plan.json"), algorithm=algorithm, steps=8)
    built = open_run(config, tmp_path / "run").built
    assert getattr(built.algorithm, "size", None) == size
    assert built.unused == unused
