"""Dispatchers: the package's and one's own satisfy the same table; what is missing or wrong is said."""

import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from sojourn import Dispatcher, Fleet, InvalidInput, Plan, Scenario, dispatching, simulate
from sojourn.dispatching import REQUIRED, DispatcherKind, register
from sojourn.random import MOVE, mix, unit
from sojourn.testing import CheckFailed, check_dispatcher
from sojourn.timing.simulate.runners import runner

EXAMPLES = Path(__file__).parents[3] / "examples" / "extending"


@register
@dataclass(frozen=True)
class IdleTwin(DispatcherKind):
    """The package's idle dispatcher, written as a stranger would."""

    name = "idle-twin"

    @staticmethod
    def choose(state, finisher, key):
        key += MOVE
        return state.idle[np.int64(unit(mix(key)) * state.idle.size)], 1.0 / state.idle.size, key


@register
@dataclass(frozen=True)
class InTurn(DispatcherKind):
    """Clients `stride` apart, one after the other: it remembers where it was."""

    name = "in-turn"

    stride: int = 1

    def memory(self, clients):
        return 0.0, self.stride

    @staticmethod
    def choose(state, finisher, key):
        client = np.int64(state.memory[0])
        state.memory[0] = (client + state.memory[1]) % state.tasks.size
        return client, 1.0 / state.tasks.size, key


@register
@dataclass(frozen=True)
class BySampling(DispatcherKind):
    """By the plan's sampling, by adding up."""

    name = "by-sampling"

    @staticmethod
    def choose(state, finisher, key):
        key += MOVE
        u = unit(mix(key))
        client, total = 0, state.sampling[0]
        while total <= u and client < state.sampling.size - 1:
            client += 1
            total += state.sampling[client]
        return client, state.sampling[client], key


@pytest.mark.parametrize(
    "dispatcher",
    [
        *("routed", "pure", "shuffled", "idle", "rounds", "rounds(wait=3, interaction=1.0)"),
        *("periodic(contacts=4, waiting=2.0, interaction=1.0)",),
        *("held(wait=3)", "held(waiting=0.7, assign=routed)", "held(wait=2, assign=shuffled)"),
        *("restarting(wait=4)", "restarting(harmonic=20, strict=true)", "restarting(age=5)", "groups(slack=1.2)"),
        *("in-turn", "in-turn(stride=3)", "by-sampling"),
    ],
)
def test_every_dispatcher_satisfies_the_table(dispatcher):
    check_dispatcher(dispatcher, steps=600)


def _trace(text, tasks=5, steps=1000, links=()):
    fleet = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
    scenario = Scenario(dispatcher=Dispatcher.parse(text), server_rate=20.0)
    return simulate(fleet, Plan.uniform(fleet, tasks), steps, start="even", seed=3, scenario=scenario)


def test_the_idle_dispatcher_as_a_strangers_class_gives_the_same_run_bit_for_bit():
    ours, theirs = _trace("idle"), _trace("idle-twin")
    assert ours.client.tobytes() == theirs.client.tobytes()
    assert set(theirs.prob[5:].tolist()) == {1 / 6}  # of one of those idle, which no weight can be made of
    assert ours.applied_at.tobytes() == theirs.applied_at.tobytes()


def test_a_dispatcher_remembers_what_it_puts_into_its_memory():
    trace = _trace("in-turn(stride=3)")
    later = trace.dispatched_at > 0
    order = trace.client[later][np.argsort(trace.dispatched_at[later], kind="stable")]
    assert (np.diff(order) % 10 == 3).all()


def test_a_dispatcher_sees_the_sampling_of_the_plan():
    fleet = Fleet.of(a=(1, 1.0), b=(1, 1.0))
    scenario = Scenario(dispatcher=Dispatcher.parse("by-sampling"))
    trace = simulate(
        fleet,
        replace(Plan.uniform(fleet, 4), sampling=np.array([0.2, 0.8])),
        5000,
        start="even",
        seed=1,
        scenario=scenario,
    )
    share = (trace.client == 0).mean()
    assert share == pytest.approx(0.2, abs=5 * np.sqrt(0.16 / 5000))
    assert set(trace.prob[trace.dispatched_at > 0].tolist()) == {0.2, 0.8}


def test_a_dispatcher_of_your_own_reads_prints_compares_and_pickles(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    made = Dispatcher.parse("in-turn(stride=3)")
    assert made == Dispatcher.of(InTurn(3))
    assert Dispatcher.parse(str(made)) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.queued
    assert str(Dispatcher.parse("rounds(wait=8, interaction=3)")) == "rounds(wait=8, interaction=3.0)"
    assert Dispatcher.parse("own_dispatcher:TwoChoices").kind.name == "two-choices"


@pytest.mark.parametrize("part", list(REQUIRED))
def test_what_a_dispatcher_does_not_define_is_an_error_when_it_is_registered(part):
    body = {key: vars(InTurn)[key] for key in REQUIRED if key != part}
    half = dataclass(frozen=True)(type("Half", (DispatcherKind,), body))
    with pytest.raises(InvalidInput, match=rf"dispatcher Half does not define {part} \(.*\); write them"):
        register(half)


def test_what_is_no_dispatcher_is_refused():
    with pytest.raises(InvalidInput, match="must be a class derived from"):
        register(dict)
    with pytest.raises(InvalidInput, match="the name 'idle' is taken"):
        register(dataclass(frozen=True)(type("Idle", (InTurn,), {"name": "idle"})))
    with pytest.raises(InvalidInput, match=r"dispatcher must be one of routed, .*, got 'nobody'"):
        Dispatcher.parse("nobody")
    with pytest.raises(InvalidInput, match=r"dispatcher fractions:Fraction|must be a class derived from"):
        Dispatcher.parse("fractions:Fraction(numerator=1)")


def _outside(state, finisher, key):
    return state.tasks.size, 0.5, key


def _negative(state, finisher, key):
    return np.int64(-1), 0.5, key


def _above_one(state, finisher, key):
    return finisher, 1.5, key


def _too_small(state, finisher, key):
    key += MOVE
    return np.int64(unit(mix(key)) * state.tasks.size), 0.05, key


def _unknown(state, finisher, key):
    return state.nobody, 1.0, key


@pytest.mark.parametrize(
    ("choose", "sentence"),
    [
        (_outside, "from 0 to 9 with a probability in .*, got client 10 with probability 0.5"),
        (_negative, "got client -1 with probability 0.5; correct its choose"),
        (_above_one, "got client . with probability 1.5"),
        (_too_small, "the mean of 1 / prob must be at most the 10 clients, got "),
        (_unknown, "choose cannot be compiled: "),
    ],
)
def test_a_dispatcher_that_is_wrong_is_caught(choose, sentence, monkeypatch):
    monkeypatch.setattr("sojourn.dispatching._TABLE", dict(dispatching._TABLE))
    wrong = type("Wrong", (DispatcherKind,), {"name": "wrong", "choose": staticmethod(choose), "__module__": __name__})
    monkeypatch.setattr(__import__("sys").modules[__name__], "Wrong", wrong, raising=False)
    with pytest.raises(CheckFailed, match=sentence):
        check_dispatcher(dataclass(frozen=True)(wrong)(), steps=300)


def test_a_summary_stops_with_the_sentence_too(monkeypatch):
    monkeypatch.setattr("sojourn.dispatching._TABLE", dict(dispatching._TABLE))
    wrong = dataclass(frozen=True)(
        type("Wrong", (DispatcherKind,), {"name": "wrong", "choose": staticmethod(_outside)})
    )
    fleet = Fleet.of(a=(3, 1.0))
    run = runner(
        fleet, Plan.uniform(fleet, 3), start="even", seed=0, scenario=Scenario(dispatcher=Dispatcher.of(wrong()))
    )
    with pytest.raises(InvalidInput, match=r"got client 3 with probability 0.5"):
        run.rows(10)
