"""Local steps whose results are lost count as computed and as unused: of tasks that a round leaves behind, and those
that a call of the server interrupts.
"""

from dataclasses import replace

import numpy as np
import pytest

from small_runs import FLEET, simulated, with_law
from sojourn.algorithms import FedAvg, FedProx, Local, algorithm
from sojourn.scenario import Dispatcher

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


FIRST_THREE = Dispatcher.named("rounds", wait=3)
APPLIED, LOST = 5 * 3, 4 * 3  # a run ends with its last update, before the last tasks of that round are given up


@pytest.mark.parametrize(("steps", "begun"), [(5, 2), (1, 1), (9, 3)])
def test_what_clients_had_begun_when_their_round_ended_is_computed_and_unused(steps, begun):
    case = simulated(FedAvg(), Local(steps, batch_size=4), fleet=EVEN, steps=APPLIED, tasks=6, dispatcher=FIRST_THREE)
    # of each round: the fast clients are back after steps / 4 seconds, the slow ones begin a step every second
    assert case.trace.work[~case.trace.applied].tolist() == [begun] * APPLIED
    assert costs(case) == (APPLIED * steps + LOST * begun, LOST * begun, LOST)


def test_an_epoch_that_its_round_leaves_behind_is_discarded_whole():
    local = Local(epochs=1, batch_size=4)  # three batches of ten examples
    case = simulated(FedAvg(), local, fleet=EVEN, steps=APPLIED, tasks=6, dispatcher=FIRST_THREE)
    assert costs(case) == ((APPLIED + LOST) * 3, LOST * 3, LOST)


def test_an_update_that_its_round_leaves_behind_on_its_way_is_discarded_and_its_bits_do_not_count():
    fleet = replace(EVEN, rate=np.array([4.0, 4.0]), uplink_rate=np.array([np.inf, 0.001]))
    case = simulated(FedAvg(), Local(4, batch_size=4), fleet=fleet, steps=APPLIED, tasks=6, dispatcher=FIRST_THREE)
    dropped = ~case.trace.applied
    assert np.isfinite(case.trace.finished_at[dropped]).all()
    assert costs(case) == ((APPLIED + LOST) * 4, LOST * 4, LOST)
    replay = case.replay()
    replay.advance(case.steps)
    assert replay.tally.bits_up == APPLIED * replay.last_bits


@pytest.mark.parametrize("chosen", [FedAvg(), FedProx()])
def test_a_task_that_has_not_begun_when_its_round_ends_costs_no_gradient(chosen):
    fleet = replace(EVEN, downlink_rate=np.array([np.inf, 0.001]))
    case = simulated(chosen, Local(4, batch_size=4), fleet=fleet, steps=APPLIED, tasks=6, dispatcher=FIRST_THREE)
    assert costs(case) == (APPLIED * 4, 0, LOST)
