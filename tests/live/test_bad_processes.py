"""A live run with real processes, some of whose clients are no good."""

import re

import numpy as np
import pytest
from processes import START, Processes, kill

from sojourn.live.replayed import replay_run
from sojourn.trace import APPLIED, LOST, REFUSED

pytestmark = pytest.mark.slow
UPDATES = 600  # at most 60 a second come from three clients: there is time to give up the fourth
NUMBERS = 64 * 8 + 8 + 8 * 10 + 10  # of the model


def finished(processes, *good):
    """Wait for the end of the run, and return its trace; the model must be that of a replay."""
    server = processes.started[0]
    assert server.wait(2 * START) == 0, processes.said()
    for one in good:
        assert one.wait(START) == 0
    assert replay_run(processes.live, processes.folder / "again").same
    return processes.trace()


def fates(trace, name):
    """What became of the tasks of a client, in their order."""
    rows = np.flatnonzero(trace.client == trace.metadata["names"][name])
    return trace.fate[rows[np.argsort(trace.dispatched_at[rows])]].tolist()


def test_a_client_that_never_answers_again_is_given_up_and_the_run_goes_on(tmp_path):
    with Processes(tmp_path, "all,4,20\n", partition="iid", cap="1", concurrency=4, steps=UPDATES) as all_of_it:
        all_of_it.server(begin_with=4, patience=4.0)
        good = all_of_it.clients("client-0", "client-1", "client-2")
        silent = all_of_it.bad_clients("silent", "client-3")
        trace = finished(all_of_it, good)
        kill(silent)
        assert fates(trace, "client-3") == [APPLIED] * 3 + [LOST]
        assert trace.metadata["faults"] == {"lost": 1, "timeouts": 1}
        assert int(trace.applied.sum()) == UPDATES


def test_clients_that_send_nonsense_are_expelled_and_none_of_it_gets_into_the_model(tmp_path):
    with Processes(tmp_path, "all,4,20\n", partition="iid", cap="1", concurrency=4, steps=300) as all_of_it:
        all_of_it.server(begin_with=4)
        good = all_of_it.clients("client-0", "client-1")
        bad = [all_of_it.bad_clients(kind, name) for kind, name in (("nan", "client-2"), ("short", "client-3"))]
        trace = finished(all_of_it, good)
        for one, name in zip(bad, ("client-2", "client-3"), strict=True):
            assert one.wait(START) == 2
            said = all_of_it.said(f"client-{name}.log")
            assert re.search(r"error: the server .* refuses: .*3 messages in a row were refused", said), said
            assert fates(trace, name) == [APPLIED] * 3 + [REFUSED] * 3
        reasons = {one["reason"] for one in trace.metadata["refusals"]}
        size = f"an update must have {4 * NUMBERS} bytes, got {4 * NUMBERS - 4}"
        assert reasons == {"an update must have finite numbers only", size}
        assert trace.metadata["faults"] == {"refused": 6, "expelled": 2}
