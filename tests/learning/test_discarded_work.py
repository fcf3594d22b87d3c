"""Local steps whose results are lost count as computed and as unused: steps that a call of the server interrupts."""

from dataclasses import replace

import pytest

from small_runs import FLEET, simulated, with_law
from sojourn.algorithms import FedProx, Local, algorithm

EVEN = with_law(FLEET, "deterministic")  # a local step takes three clients 1/4 second, the other three 1 second
CALLS = "contacts=6, waiting=1.75, interaction=0"


def costs(case):
    """Gradients computed, those of them that are unused, and tasks that are lost."""
    replay = case.replay()
    replay.advance(case.steps)
    return replay.tally.gradients, replay.tally.unused, replay.tally.lost


@pytest.mark.parametrize(
    "chosen", [algorithm(f"favano({CALLS})"), algorithm(f"quafl({CALLS})"), FedProx(deadline=1.75)]
)
def test_a_step_that_a_call_interrupts_is_computed_and_unused(chosen):
    case = simulated(chosen, Local(4, batch_size=4), fleet=EVEN, steps=6 * 5)
    # of each call: fast clients have done all 4 steps and are idle, slow ones are in their second step
    done, interrupted = 5 * 3 * (4 + 1), 5 * 3
    assert costs(case) == (done + interrupted, interrupted, 0)


def test_a_step_counts_as_interrupted_where_the_trace_does_not_state_the_number_of_steps():
    case = simulated(FedProx(deadline=1.75), Local(4, batch_size=4), fleet=EVEN, steps=6 * 5)
    facts = {key: value for key, value in case.trace.metadata.items() if key != "local_steps"}
    assert facts.keys() < case.trace.metadata.keys()
    assert costs(replace(case, trace=replace(case.trace, metadata=facts))) == costs(case)
