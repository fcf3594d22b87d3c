"""A live run when things break, with real processes: nothing acknowledged is lost, and the trace says what happened."""

import random
import time

import pytest
from processes import START, Processes, kill, names_in, until

from sojourn.live.replayed import replay_run
from sojourn.trace import APPLIED

FLEET = "fast,6,30\nslow,4,6\n"
NAMES = [f"client-{number}" for number in range(10)]


def same_model(processes):
    """Whether a replay of the recorded trace gives the same model to the bit."""
    return replay_run(processes.live, processes.folder / "again").same


def nothing_is_lost(processes):
    """Check that what clients were told is what the trace says, and return the trace."""
    trace = processes.trace()
    applied, acknowledged = names_in(trace, APPLIED), processes.ledger("acknowledged")
    assert len(set(applied)) == len(applied) == int(trace.applied.sum())
    assert len({name[:2] for name in applied}) == len(applied)
    assert set(acknowledged) <= set(applied)
    assert not set(processes.ledger("refused")) & set(applied)
    assert len(acknowledged) > 0.8 * len(applied)
    assert same_model(processes)
    return trace


@pytest.mark.slow
def test_a_server_killed_at_twenty_moments_under_load_loses_nothing(tmp_path):
    moments, kills = random.Random(20), 20
    run = {"cap": "2", "concurrency": 12, "steps": 10**6}
    with Processes(tmp_path, FLEET, **run) as all_of_it:
        clients = [all_of_it.clients(*NAMES[part::2]) for part in range(2)]
        slowest, received = 0.0, 0
        for number in range(kills + 1):
            last = {"over": {"steps": received + 200}} if number == kills else {}
            server = all_of_it.server(resume=number > 0, begin_with=10, **last)
            until(all_of_it.listening, START, all_of_it.said)
            began = time.time()
            if number == 0:
                all_of_it.shows(clients_present=10, tasks_in_flight=12)
            else:
                slowest = max(slowest, back_after(all_of_it, began, number + 1))
            if number < kills:
                time.sleep(moments.uniform(0.0, 1.5))
                received = int(all_of_it.numbers().get("updates_total", received))
                kill(server)
        assert server.wait(START) == 0, all_of_it.said()
        for one in clients:
            assert one.wait(START) == 0
        trace = nothing_is_lost(all_of_it)
        assert len(trace.metadata["resumes"]) == kills
        assert int(trace.applied.sum()) == received + 200
        assert slowest < 2.0


def back_after(all_of_it, began, epoch):
    """Wait until all clients are back and C tasks are in flight; return after how many seconds the last was back."""

    def back():
        lines = all_of_it.log()
        starts = [row for row, line in enumerate(lines) if line["what"] == "resumed" and line["epoch"] == epoch]
        joined = {line["client"]: line["at"] for line in lines if line["what"] == "joined" and starts}
        new = {line["client"]: line["at"] for line in lines[starts[0] :] if line["what"] == "joined"} if starts else {}
        return max(new.values()) if len(new) == len(joined) == 10 else None

    last = until(back, 10.0, all_of_it.said)
    all_of_it.shows(5.0, clients_present=10, tasks_in_flight=12)
    return last - began
