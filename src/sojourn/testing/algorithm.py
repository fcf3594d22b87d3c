"""Check what every algorithm must do; the package's own algorithms pass the same checks.

The problem is a small quadratic in double precision, and the timing is simulated as the algorithm asks for it. So a run
takes a fraction of a second, and every property can be checked to the bit.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.learning.algorithms.base import Algorithm, Arrival, Info, Sent, Setting, local_work_of
from sojourn.learning.algorithms.table import FACTS, checked
from sojourn.learning.data.synthetic import Quadratic, quadratic
from sojourn.learning.execute.flat_model import FlatModel
from sojourn.learning.execute.waves import Waves, vectorised
from sojourn.learning.models.small import Point
from sojourn.learning.replay.federation import Federation
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.replay import Diverged, Replay
from sojourn.learning.replay.timeline import discarded, superseded
from sojourn.learning.run.store import Store
from sojourn.plan import Plan
from sojourn.timing.simulate.record import simulate
from sojourn.trace import Trace

FLEET = Fleet.of(fast=(3, 4.0), slow=(3, 1.0))
WORK = Local(steps=2, batch_size=4, step_size=0.1)


def check_algorithm(
    algorithm: Algorithm, local: Local = WORK, steps: int = 60, concurrency: int | None = None, falls: float = 0.6
) -> None:
    """Check an algorithm of your own; raise an AssertionError that says which property fails, and how.

    - `local`: the clients' local work
    - `steps`: number of updates of the run
    - `concurrency`: tasks in flight; by default one per client
    - `falls`: largest part of the first gap to the optimum that may be left at the end; choose step sizes of the
      algorithm and of `local` with which that is possible

    >>> from sojourn.learning.algorithms.fedbuff import FedBuff
    >>> check_algorithm(FedBuff(size=3))
    """
    try:
        made = checked(algorithm, repr(algorithm))
    except InvalidInput as error:
        raise AssertionError(str(error)) from None
    case = case_of(made, local, steps, concurrency)
    for check in (*PROPERTIES, _falls(falls)):
        check(case)


@dataclass(frozen=True, eq=False)
class Case:
    """An algorithm with everything that a run of it needs."""

    algorithm: Algorithm
    """It."""
    problem: Quadratic
    """The problem to learn."""
    setting: Setting
    """Fleet, plan, weights and local work."""
    trace: Trace
    """When."""

    def federation(self) -> Federation:
        """Return a new federation for each run, in float64 from zero."""
        model = FlatModel(Point(self.problem).double())
        return Federation(model, self.problem.dataset, self.problem.partition, self.setting.local)

    def replay(self, algorithm: Any = None) -> Replay:
        """Return a run at its beginning."""
        return Replay(algorithm or self.algorithm, self.federation(), self.trace, self.setting)

    @property
    def steps(self) -> int:
        """Number of updates in the trace."""
        return int(self.trace.applied.sum())

    @cached_property
    def story(self) -> "Story":
        """One run, recorded at every step."""
        return Story(self)


def case_of(algorithm: Algorithm, local: Local, steps: int, concurrency: int | None) -> Case:
    """Return the algorithm with the timing that it asks for."""
    around = quadratic(dimension=4, clients=6, examples=10, condition=4, noise=0.3, heterogeneity=0.5, seed=5)
    away = replace(around.dataset, train_x=around.dataset.train_x + np.float32(2))
    problem = Quadratic(away, around.curvature)
    given = Plan.weighted(FLEET, (1.0, 2.0), concurrency or FLEET.clients)
    local = local_work_of(algorithm, local)
    plan, scenario = algorithm.timing(FLEET, given, local)
    trace = simulate(FLEET, plan, steps, seed=3, scenario=scenario, start="even", engine="events")
    return Case(algorithm, problem, Setting(FLEET, plan, np.full(6, 1 / 6), local), trace)


class Story:
    """The record of a run at every step, and of changes that the algorithm made to the tensors that it received."""

    def __init__(self, case: Case) -> None:
        self.kept: list[tuple[Tensor, Tensor]] = []
        self.changed: list[str] = []
        self.infos: list[tuple[Info, Arrival]] = []
        self.sent: list[Sent] = []
        self.versions: list[int] = []
        self.path: list[Tensor] = []
        self.most_held = 0
        self.replay = case.replay(self._watched(case.algorithm))
        for received in range(case.steps + 1):
            self.replay.advance(received)
            self.versions.append(self.replay.state.version)
            self.path.append(self.replay.params)
            held = {pinned.sent.params.data_ptr() for pinned in self.replay.pending.values()}
            self.most_held = max(self.most_held, len(held))

    def _watched(self, algorithm: Algorithm) -> Any:
        calls = {name: self._unchanged(name, getattr(algorithm, name)) for name in ("init", "start", "finish", "tick")}
        facts = {name: getattr(algorithm, name) for name in ("bits_each_way", *FACTS)}
        apply, send = self._unchanged("apply", algorithm.apply), self._unchanged("send", algorithm.send)

        def noted(state: Any, arrival: Arrival) -> Any:
            result = apply(state, arrival)
            self.infos.append((result[1], arrival))
            return result

        def counted(state: Any, client: int) -> Any:
            self.sent.append(send(state, client))
            return self.sent[-1]

        return SimpleNamespace(apply=noted, send=counted, **facts, **calls)

    def _unchanged(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*given: Any) -> Any:
            before = [(tensor, tensor.clone()) for tensor in _tensors(given)]
            result = call(*given)
            if not all(torch.equal(tensor, copy) for tensor, copy in before):
                self.changed.append(name)
            self.kept.extend(before)
            return result

        return checked


def same_bits_again(case: Case) -> None:
    """Check that the same run gives the same bits: nothing is random, nothing is kept outside the state."""
    again = case.replay()
    again.advance(case.steps)
    assert same(again.snapshot(), case.story.replay.snapshot()), (
        "two runs of one trace differ: everything that the algorithm remembers must be in its state, and nothing may "
        "be random"
    )


def stored_and_taken_up(case: Case) -> None:
    """Check that a run which is stored and resumed ends with the same bits."""
    stop = case.steps // 3 + 1
    begun = case.replay()
    begun.advance(stop)
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        Store(folder).save(stop, begun.snapshot())
        tree = Store(folder).load()[1]
    resumed = case.replay()
    resumed.restore(tree)
    resumed.advance(case.steps)
    assert same(resumed.snapshot(), case.story.replay.snapshot()), (
        f"a run stored after {stop} updates and resumed ends with another model: what is not in its state is lost"
    )


def nothing_in_place(case: Case) -> None:
    """Check that no tensor is changed in place, because a model in flight is a reference to the
    tensor that was sent.
    """
    late = not all(torch.equal(tensor, copy) for tensor, copy in case.story.kept)
    names = sorted(set(case.story.changed)) or (["a later call"] if late else [])
    assert not names, f"{', '.join(names)} changed in place a tensor that it received; compute a new one"


def says_whether_it_needs_prob(case: Case) -> None:
    """Check that an algorithm which does not use probabilities learns the same from a trace without them."""
    if case.algorithm.uses_prob:
        return
    unknown = replace(case.trace, prob=np.full(len(case.trace), np.nan))
    blind = Replay(case.algorithm, case.federation(), unknown, case.setting)
    try:
        blind.advance(case.steps)
        alike = torch.equal(blind.params, case.story.replay.params)
    except Diverged:
        alike = False
    assert alike, (
        "the model depends on the probabilities with which clients were drawn: set uses_prob = True, so that a trace "
        "without them is refused"
    )


def one_version_an_update(case: Case) -> None:
    """Check that the version counts changes of the model, at most one per update."""
    versions, path = case.story.versions, case.story.path
    assert versions[0] == 0, f"the version must begin with 0, got {versions[0]}"
    assert versions[-1] > 0, "the version never moved: it must count the changes of the model"
    steps = [later - earlier for earlier, later in pairwise(versions)]
    assert set(steps) <= {0, 1}, f"the version must grow by 0 or 1 per update, it grew by {sorted(set(steps))}"
    for number, grown in enumerate(steps):
        still = torch.equal(path[number + 1], path[number])
        assert grown or still, f"update {number} changed the model, but not its version"


def gradients_add_up(case: Case) -> None:
    """Check that used and unused gradients add up to those computed."""
    story = case.story
    used = sum(arrival.update.steps for info, arrival in story.infos if info.used)
    unused = sum(arrival.update.steps for info, arrival in story.infos if not info.used)
    tally = story.replay.tally
    federation, lost = case.federation(), discarded(case.trace)
    unused += sum(
        federation.steps_of(client, work) for client, work in zip(case.trace.client, lost, strict=True) if work
    )
    assert (tally.gradients, tally.unused) == (used + unused, unused)
    assert used > 0, "no update was used: Info.used must be true where an update enters the model"


def bits_add_up(case: Case) -> None:
    """Check that the bits sent are those of the tasks."""
    down, up = case.algorithm.bits_each_way(case.problem.dimension)
    tally = case.story.replay.tally
    assert down > 0, f"bits_each_way must be positive, got {down} down"
    assert up > 0, f"bits_each_way must be positive, got {up} up"
    sent = sum(down if one.bits is None else one.bits for one in case.story.sent)
    back = [arrival.update.bits for _, arrival in case.story.infos]
    assert all(own is None or own >= 0 for own in back), "the bits of an update must not be negative"
    came = sum(up if one is None else one for one in back)
    if superseded(case.trace).any():  # updates that came back, but were not received
        assert came < tally.bits_up, "the bits of updates that came back and were given up must count"
        came = tally.bits_up
    assert (tally.bits_up, tally.bits_down) == (came, sent)


def waves_agree(case: Case) -> None:
    """Check that tasks computed together give the same run as tasks computed one by one, up to rounding."""
    federation = case.federation()
    waves = Waves(vectorised(federation.model), federation.examples, federation.local, most=8)
    run = Replay(case.algorithm, federation, case.trace, case.setting, waves)
    run.advance(case.steps)
    far = float((run.params - case.story.path[-1]).abs().max())
    assert far < 1e-9, (
        f"computed in waves the model ends {far:.3g} away: if clients keep something, set remembers = True"
    )


def _falls(share: float) -> Callable[[Case], None]:
    def falls(case: Case) -> None:
        gaps = [case.problem.gap(w.numpy()) for w in case.story.path]
        late = float(np.mean(gaps[-10:]))
        assert late < share * gaps[0], (
            f"the loss does not fall enough: {late:.3g} above the minimum at the end, {gaps[0]:.3g} at the start; "
            "give a step size with which it does, or a larger falls="
        )

    return falls


PROPERTIES: tuple[Callable[[Case], None], ...] = (
    same_bits_again,
    nothing_in_place,
    says_whether_it_needs_prob,
    one_version_an_update,
    gradients_add_up,
    bits_add_up,
    stored_and_taken_up,
    waves_agree,
)


def _tensors(value: Any) -> list[Tensor]:
    """Return all tensors within tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [tensor for one in value for tensor in _tensors(one)] if isinstance(value, tuple) else []


def same(tree: Any, other: Any) -> bool:
    """Whether two trees are equal to the bit."""
    if isinstance(tree, Tensor):
        return isinstance(other, Tensor) and torch.equal(tree, other)
    if isinstance(tree, dict):
        return tree.keys() == other.keys() and all(same(tree[key], other[key]) for key in tree)
    if isinstance(tree, tuple | list):
        return len(tree) == len(other) and all(same(a, b) for a, b in zip(tree, other, strict=True))
    return bool(tree == other)
