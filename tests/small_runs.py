"""Small federations to train: two clients to be followed by hand, and a quadratic over a simulated fleet."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from sojourn import Fleet, Law, Plan, simulate
from sojourn.learning.algorithms.base import Algorithm, Setting, local_work_of
from sojourn.learning.data.dataset import Dataset
from sojourn.learning.data.synthetic import Quadratic, quadratic
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.models.small import Point
from sojourn.learning.replay.batches import Batches
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.replay import Replay
from sojourn.learning.replay.timeline import Live, Timeline
from sojourn.random import START, keys
from sojourn.scenario import Scenario
from sojourn.timing.simulate.drive import OnlineEngine
from sojourn.timing.simulate.start import place
from sojourn.trace import APPLIED, Trace

torch.set_num_threads(1)  # the same sums in the same order on any number of cores

FLEET = Fleet.of(fast=(3, 4.0), slow=(3, 1.0))
_AROUND = quadratic(dimension=4, clients=6, examples=10, condition=4, noise=0.3, heterogeneity=0.5, seed=5)
_AWAY = replace(_AROUND.dataset, train_x=_AROUND.dataset.train_x + np.float32(2))
PROBLEM = Quadratic(_AWAY, _AROUND.curvature)  # the clients' optima lie around (2, 2, 2, 2)
# f_1 = (w - 1)^2 / 2 and f_2 = (w + 3)^2 / 2: gradients w - 1 and w + 3, their mean w + 1, the optimum -1
TOY = Quadratic(Dataset("toy", [[1.0], [-3.0]], [0, 0], [[0.0]], [0], owner=[0, 1]), np.ones(1))
# four clients with optima 1, 1, 1 and -7, whose examples are skewed: the mean is -1 as well, most of them lie above it
_SKEWED = [[2.0], [2.0], [2.0], [2.0], [-3.0]] * 3 + [[-6.0], [-6.0], [-6.0], [-6.0], [-11.0]]
_OWNERS = [client for client in range(4) for _ in range(5)]
SKEWED = Quadratic(Dataset("skewed", _SKEWED, [0] * 20, [[0.0]], [0], owner=_OWNERS), np.ones(1))


def with_law(fleet: Fleet, text: str) -> Fleet:
    """The fleet with one law of service for all."""
    return replace(fleet, law=(Law.parse(text),) * fleet.groups)


@dataclass(frozen=True, eq=False)
class Case:
    """An algorithm with all that it runs on."""

    algorithm: Algorithm
    problem: Quadratic
    setting: Setting
    trace: Trace
    scenario: Scenario = field(default_factory=Scenario)
    seed: int = 0

    def federation(self) -> Federation:
        """Anew for every run, in float64 from zero."""
        model = FlatModel(Point(self.problem).double())
        return Federation(model, self.problem.dataset, self.problem.partition, self.setting.local, self.seed)

    @cached_property
    def batches(self) -> Batches:
        """Which examples a task sees."""
        return self.federation().batches

    def replay(self, algorithm: Any = None, timeline: Timeline | None = None) -> Replay:
        """A run at its beginning."""
        return Replay(algorithm or self.algorithm, self.federation(), timeline or self.trace, self.setting)

    def live(self) -> Live:
        """The engine that would have written the trace."""
        fleet, plan, mine = self.setting.fleet, self.setting.plan, keys(self.seed)
        queues = place("even", fleet, plan, np.random.default_rng(int(mine[START])))
        return Live(OnlineEngine(fleet, plan, self.scenario, queues, mine), queues)

    @property
    def steps(self) -> int:
        """Updates in the trace."""
        return int(self.trace.applied.sum())

    def path(self) -> Any:
        """The server's model at the beginning and after every update, one row each."""
        replay = self.replay()
        rows = [replay.params]
        for received in range(1, self.steps + 1):
            replay.advance(received)
            rows.append(replay.params)
        return torch.stack(rows).numpy()

    def of(self, algorithm: Algorithm, **changes: Any) -> "Case":
        """Another algorithm on the very same trace; changes are of the local work."""
        local = replace(self.setting.local, **changes)
        return replace(self, algorithm=algorithm, setting=replace(self.setting, local=local))


def simulated(
    algorithm: Algorithm,
    local: Local,
    *,
    fleet: Fleet = FLEET,
    weights: Any = (1.0, 1.0),
    tasks: int | None = None,
    steps: int = 60,
    seed: int = 3,
    problem: Quadratic | None = None,
    **world: Any,
) -> Case:
    """An algorithm on the timing that it asks for; `weights` sample the groups, `world` is the rest of the scenario."""
    local = local_work_of(algorithm, local)
    plan, scenario = algorithm.timing(fleet, Plan.weighted(fleet, weights, tasks or fleet.clients), local)
    scenario = replace(scenario, **world)
    trace = simulate(fleet, plan, steps, start="even", seed=seed, scenario=scenario, engine="events")
    problem = problem or (PROBLEM if fleet.clients == 6 else TOY)
    equal = np.full(fleet.clients, 1 / fleet.clients)
    return Case(algorithm, problem, Setting(fleet, plan, equal, local), trace, scenario, seed)


def by_hand(
    algorithm: Algorithm,
    *tasks: tuple[int, int] | tuple[int, int, int],
    dispatcher: str = "routed",
    together: int = 1,
    sampling: tuple[float, float] = (0.5, 0.5),
    concurrency: int = 2,
    **local: Any,
) -> Case:
    """The two clients, 1 and 2, and tasks in the order in which they come back.

    A task is (client, updates received before its model[, local steps]); `together` of them are applied at a time.
    """
    fleet = with_law(Fleet.of(one=(1, 1.0), two=(1, 1.0)), "deterministic")
    plan = Plan.of(fleet, dict(zip(fleet.name, sampling, strict=True)), concurrency)
    work = local_work_of(algorithm, Local(**{"step_size": 0.1, "batch_size": 1, **local}))
    client = np.array([task[0] - 1 for task in tasks])
    sent = np.array([task[1] for task in tasks])
    now = np.arange(len(tasks)) // together + 1.0
    trace = Trace(
        client=client,
        prob=np.array(sampling)[client],
        dispatched_at=np.concatenate([[0.0], now])[sent],
        started_at=now - 1,
        finished_at=now,
        applied_at=now,
        dispatched_step=sent,
        applied_step=np.arange(len(tasks)),
        work=[task[2] if len(task) > 2 else work.steps for task in tasks],
        fate=np.full(len(tasks), APPLIED),
        metadata={"dispatcher": dispatcher},
    )
    return Case(algorithm, TOY, Setting(fleet, plan, np.full(2, 0.5), work), trace)
