"""check_algorithm finds what is wrong with an algorithm of one's own."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch

from sojourn.learning.algorithms import Info, ServerStep, Standard, storable
from sojourn.testing import check_algorithm


@storable("tests.plain")
class State(NamedTuple):
    """The model, and how often it changed."""

    params: torch.Tensor
    version: int


@dataclass(frozen=True)
class Plain(Standard):
    """SGD, as it comes."""

    server: ServerStep = field(default_factory=lambda: ServerStep(step_size=0.1))

    name = "plain"
    sends = "gradient"

    def init(self, params, setting):
        return State(params, 0)

    def apply(self, state, arrival):
        return State(state.params - 0.1 * arrival.update.as_gradient(), state.version + 1), Info()


def test_a_sound_algorithm_passes():
    check_algorithm(Plain())


class Empty:
    """Defines nothing."""


class NoApply(Standard):
    """Forgets the rule itself."""

    name, sends = "mine", "gradient"

    def init(self, params, setting):
        return State(params, 0)


class InPlace(Plain):
    """Changes the model that is in flight."""

    def apply(self, state, arrival):
        return State(state.params.sub_(0.1 * arrival.update.as_gradient()), state.version + 1), Info()


class Secretly(Plain):
    """Divides by a probability without saying so."""

    def apply(self, state, arrival):
        step = 0.1 / (6 * arrival.prob)
        return State(state.params - step * arrival.update.as_gradient(), state.version + 1), Info()


class Random(Plain):
    """Rolls dice that nobody set."""

    def apply(self, state, arrival):
        noise = 1e-3 * torch.rand(4, dtype=torch.float64)
        return State(state.params - 0.1 * arrival.update.as_gradient() + noise, state.version + 1), Info()


class NoVersion(Plain):
    """Does not count."""

    def apply(self, state, arrival):
        return State(state.params - 0.1 * arrival.update.as_gradient(), 0), Info()


class Uncounted(Plain):
    """Counts every other change."""

    def apply(self, state, arrival):
        version = (arrival.step + 1) // 2
        return State(state.params - 0.1 * arrival.update.as_gradient(), version), Info()


class Unused(Plain):
    """Says that nothing is used."""

    def apply(self, state, arrival):
        return super().apply(state, arrival)[0], Info(used=False)


class Upwards(Plain):
    """Climbs."""

    def apply(self, state, arrival):
        return State(state.params + 0.1 * arrival.update.as_gradient(), state.version + 1), Info()


class Undeclared(Plain):
    """Keeps what a checkpoint does not know."""

    class Memory(NamedTuple):
        params: torch.Tensor
        version: int

    def init(self, params, setting):
        return self.Memory(params, 0)

    def apply(self, state, arrival):
        return self.Memory(state.params - 0.1 * arrival.update.as_gradient(), state.version + 1), Info()


class Forgets(Plain):
    """Clients keep something that the algorithm does not own up to."""

    def start(self, kept, sent):
        return (sent.params if kept is None else 0.5 * (sent.params + kept)), 1.0

    def finish(self, kept, sent, start, update):
        return start + update.as_delta(), update


class Outside(Plain):
    """Remembers outside its state."""

    seen: list[float] = []  # noqa: RUF012 that is the mistake

    def apply(self, state, arrival):
        self.seen.append(arrival.time)
        size = 0.1 / (1 + 0.01 * len(self.seen))
        return State(state.params - size * arrival.update.as_gradient(), state.version + 1), Info()


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (Plain, "must be an object, got the class Plain; write Plain()"),
        (Empty(), "Empty must define name, sends, remembers, must_remember, weighs, uses_prob, sets_steps, corrects"),
        (NoApply(), "NoApply must define apply; inherit from sojourn.algorithms.Standard to get what most"),
        (InPlace(), "apply changed in place a tensor"),
        (Secretly(), "the model depends on the probabilities .*: set uses_prob = True"),
        (Random(), "two runs of one trace differ"),
        (NoVersion(), "the version never moved"),
        (Uncounted(), "changed the model, but not its version"),
        (Unused(), "no update was used"),
        (Upwards(), "the loss does not fall"),
        (Undeclared(), "which is not declared"),
        (Forgets(), "computed in waves the model ends .* away"),
        (Outside(), "two runs of one trace differ"),
    ],
)
def test_what_is_wrong_is_found_and_named(algorithm, said):
    with pytest.raises(Exception, match=said.replace("(", r"\(").replace(")", r"\)")):
        check_algorithm(algorithm)
