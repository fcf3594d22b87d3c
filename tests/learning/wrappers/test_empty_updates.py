"""Updates of which the server uses nothing, such as check-ins, pass through no wrapper: at the client or the server."""

import pytest
import torch

from small_runs import simulated
from sojourn.learning.algorithms.base import Sent
from sojourn.learning.algorithms.fedasmu import FedAsmu
from sojourn.learning.algorithms.fedprox import FedProx
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.wrappers import Gaussian, TopK, wrapped
from sojourn.learning.wrappers.epsilon import epsilon_of
from sojourn.testing import check_wrapper

LOCAL = Local(step_size=0.1, batch_size=4)
CHANGE = torch.tensor([4.0, 3.0, 2.0, 1.0])
SENT = Sent(torch.zeros(4), 0)


def change(steps=1):
    return Update(None, CHANGE * steps, 0.1, steps, torch.ones(()))


def whole(case):
    run = case.replay()
    run.advance(case.steps)
    return run


def finished(case):
    """How many trainings each client of FedASMU has finished: every second task, because the first only checks in."""
    return [int((case.trace.client[case.trace.applied] == client).sum()) // 2 for client in range(6)]


def test_an_emptied_update_tells_nothing_but_the_work_done():
    full = Update(None, CHANGE, 0.1, 3, torch.ones(()), stats=torch.ones(2), bits=7, key=5, clipped=torch.ones(()))
    left = full.emptied()
    assert (left.empty, left.bits, left.steps, left.key) == (True, 0, 3, 5)
    assert (left.loss, left.stats, left.clipped) == (None, None, None)
    assert torch.equal(left.vector, torch.zeros(4))
    assert not full.empty


def test_a_check_in_leaves_error_feedback_as_it_was():
    made = TopK(share=0.5)(FedAsmu())
    kept, sent = made.finish(None, SENT, SENT.params, change())
    assert (kept.own, sent.bits) == (None, 0)
    start, _ = made.start(kept, SENT)
    kept, sent = made.finish(kept, SENT, start, change())
    assert sent.vector.tolist() == [8, 6, 0, 0]  # of both halves together
    assert kept.own.error.tolist() == [0, 0, 4, 2]
    kept, sent = made.finish(kept, SENT, SENT.params, change())  # the next training
    assert kept.own.error.tolist() == [0, 0, 4, 2]


def test_check_ins_send_no_bits_through_any_number_of_compressors():
    case = simulated(wrapped(FedAsmu(), [Gaussian(clip=5, noise=0, delta=0), TopK(share=0.25)]), LOCAL)
    assert whole(case).tally.bits_up == sum(finished(case)) * (32 + 2)


@pytest.mark.parametrize("at", ["client", "server"])
def test_epsilon_counts_no_check_in(at):
    pytest.importorskip("dp_accounting")
    case = simulated(Gaussian(clip=1.0, noise=4.0, at=at)(FedAsmu()), LOCAL)
    run = whole(case)
    found = dict(zip(run.columns, run.measures, strict=True))
    assert sum(run.state.memory.sent.values()) == sum(finished(case))
    assert found["epsilon"] == epsilon_of(2.0, max(finished(case)), 1e-5)
    if at == "client":
        assert run.tally.worked == 0  # neither an update nor a check-in tells its loss


@pytest.mark.parametrize("at", ["client", "server"])
def test_a_budget_is_spent_by_models_alone_and_check_ins_stay_check_ins_when_it_is_spent(at):
    pytest.importorskip("dp_accounting")
    one = Gaussian(clip=1.0, noise=4.0, at=at, budget=3.0)
    case = simulated(one(FedAsmu()), LOCAL)
    run = whole(case)
    within = [min(many, one.most) for many in finished(case)]
    assert 0 < sum(within) < sum(finished(case))
    assert run.state.version == sum(within)
    assert run.state.memory.refused == sum(finished(case)) - sum(within)


def test_a_client_without_a_step_in_time_keeps_what_it_has_left_out():
    made = TopK(share=0.5)(FedProx(deadline=1.0))
    kept, _ = made.finish(None, SENT, SENT.params, change())
    again, sent = made.finish(kept, SENT, SENT.params, change(steps=0))
    assert torch.equal(again.own.error, kept.own.error)
    assert (sent.empty, sent.bits) == (True, 0)


def test_clients_without_a_step_in_time_send_no_bits():
    case = simulated(TopK(share=0.25)(FedProx(deadline=0.5)), Local(3, step_size=0.1, batch_size=4))
    none = int((case.trace.work[case.trace.applied] == 0).sum())
    assert 0 < none < case.steps
    assert whole(case).tally.bits_up == (case.steps - none) * (32 + 2)


def test_wrappers_around_methods_with_empty_updates_pass_the_checks():
    check_wrapper(TopK(share=0.5), around=[FedAsmu(mu=2), FedProx(deadline=1.0)])
