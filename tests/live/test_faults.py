"""A live run when things break, with real processes: nothing acknowledged is lost, and the trace says what happened."""

import os
import random
import re
import resource
import signal
import time

import numpy as np
import pytest
from processes import START, Processes, alive, children, kill, names_in, until

from sojourn.live.replayed import replay_run
from sojourn.trace import APPLIED, DROPPED, IN_FLIGHT, LOST

FLEET = "fast,6,30\nslow,4,6\n"
NAMES = [f"client-{number}" for number in range(10)]
REST = 900  # updates of the last server: enough seconds to look at it while it runs


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
def test_a_server_killed_at_twenty_moments_under_load_loses_nothing(tmp_path, record_property):
    moments, kills = random.Random(20), 20
    run = {"cap": "2", "concurrency": 12, "steps": 10**6}
    with Processes(tmp_path, FLEET, **run) as all_of_it:
        clients = [all_of_it.clients(*NAMES[part::2]) for part in range(2)]
        back, received = [], 0
        for number in range(kills + 1):
            last = {"over": {"steps": received + REST}} if number == kills else {}
            server = all_of_it.server(resume=number > 0, begin_with=10, **last)
            until(all_of_it.listening, START, all_of_it.said)
            began = time.time()
            if number == 0:
                all_of_it.shows(clients_present=10, tasks_in_flight=12)
            else:
                back.append(back_after(all_of_it, began, number + 1))
            if number < kills:
                time.sleep(moments.uniform(0.0, 1.5))
                received = int(all_of_it.numbers().get("updates_total", received))
                kill(server)
        assert server.wait(START) == 0, all_of_it.said()
        for one in clients:
            assert one.wait(START) == 0
        trace = nothing_is_lost(all_of_it)
        assert len(trace.metadata["resumes"]) == kills
        assert int(trace.applied.sum()) == received + REST
        record_property("seconds until all were back", [round(one, 2) for one in back])
        print("seconds until all were back:", *(f"{one:.2f}" for one in sorted(back)))  # shown with -s; docs/live.md
        assert sum(one < 2.0 for one in back) >= 0.9 * kills  # a machine may stall once or twice
        assert max(back) < 6.0


@pytest.mark.slow
def test_a_server_killed_again_while_its_clients_come_back_loses_nothing(tmp_path):
    moments, kills, received = random.Random(21), 12, 0
    run = {"cap": "2", "concurrency": 12, "steps": 10**6}
    with Processes(tmp_path, FLEET, **run) as all_of_it:
        clients = [all_of_it.clients(*NAMES[part::2]) for part in range(2)]
        for number in range(kills + 1):
            last = {"over": {"steps": received + REST}} if number == kills else {}
            server = all_of_it.server(resume=number > 0, begin_with=10, **last)
            until(all_of_it.listening, START, all_of_it.said)
            if number % 4 == 0:  # all are back after every third kill in a row
                shown = all_of_it.shows(clients_present=10, tasks_in_flight=12)
                received = int(all_of_it.shows(updates_total=shown["updates_total"] + 20)["updates_total"])
            if number < kills:
                time.sleep(moments.uniform(0.0, 0.5))
                kill(server)
        assert server.wait(START) == 0, all_of_it.said()
        for one in clients:
            assert one.wait(START) == 0
        trace = nothing_is_lost(all_of_it)
        assert len(trace.metadata["resumes"]) <= kills  # a server may be killed before it has written that it started
        assert int(trace.applied.sum()) >= received


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "tasks"), [("asgrad", 12), ("asgrad(assignment=pure, wait=4)", 10), ("fedavg", 6), ("asyncfeded", 10)]
)
def test_servers_of_methods_that_wait_or_go_in_turn_are_killed_and_lose_nothing(tmp_path, algorithm, tasks):
    run = {"algorithm": algorithm, "concurrency": tasks, "steps": 10**6}
    run |= {"local_steps": 3} if algorithm == "asyncfeded" else {}
    with Processes(tmp_path, FLEET, **run) as all_of_it:
        clients = [all_of_it.clients(*NAMES[part::2]) for part in range(2)]
        received = 0
        for number in range(3):
            last = {"over": {"steps": received + 50}} if number == 2 else {}
            server = all_of_it.server(resume=number > 0, begin_with=10, **last)
            if number < 2:
                received = int(
                    all_of_it.shows(2 * START, clients_present=10, updates_total=received + 10)["updates_total"]
                )
                kill(server)
        assert server.wait(START) == 0, all_of_it.said()
        for one in clients:
            assert one.wait(START) == 0
        assert len(nothing_is_lost(all_of_it).metadata["resumes"]) == 2


def back_after(all_of_it, began, epoch):
    """Wait until all clients are back and C tasks are in flight; return after how many seconds the last was back."""

    def back():
        lines = all_of_it.log()
        starts = [row for row, line in enumerate(lines) if line["what"] == "resumed" and line["epoch"] == epoch]
        joined = {line["client"]: line["at"] for line in lines if line["what"] == "joined" and starts}
        new = {line["client"]: line["at"] for line in lines[starts[0] :] if line["what"] == "joined"} if starts else {}
        return max(new.values()) if len(new) == len(joined) == 10 else None

    last = until(back, START, all_of_it.said)
    all_of_it.shows(clients_present=10, tasks_in_flight=12)
    return last - began


def ended_at(all_of_it, server, clients, more=100):
    """Stop the server by Ctrl-C, let it go on for some more updates to the end, and return the trace."""
    server.send_signal(signal.SIGINT)
    assert server.wait(START) == 130, all_of_it.said()
    received = int(re.findall(r"stopped after ([\d,]+) updates", all_of_it.said())[-1].replace(",", ""))
    server = all_of_it.server(resume=True, over={"steps": received + more})
    assert server.wait(2 * START) == 0, all_of_it.said()
    for one in clients:
        assert one.wait(START) == 0
    return nothing_is_lost(all_of_it)


@pytest.mark.slow
def test_killed_clients_lose_their_tasks_and_the_run_goes_on_without_them(tmp_path):
    run = {"cap": "2", "concurrency": 10, "steps": 10**6}
    with Processes(tmp_path, "fast,6,20\nslow,4,2\n", **run) as all_of_it:

        def goes_on(present, in_flight):
            """Wait until so many clients are there, with so many tasks, and some more updates have come."""
            until(lambda: all_of_it.numbers().get("clients_present") == present, START, all_of_it.numbers)
            before = all_of_it.shows(tasks_in_flight=in_flight)["updates_total"]
            return all_of_it.shows(updates_total=before + 20 * (in_flight > 0))

        server = all_of_it.server(begin_with=10)
        parts = [NAMES[part::4] for part in range(4)]
        clients = [all_of_it.clients(*part) for part in parts]
        all_of_it.shows(clients_present=10)
        goes_on(10, 10)
        kill(clients[0])
        goes_on(7, 10)
        for one in clients[1:3]:
            one.send_signal(signal.SIGKILL)
        goes_on(2, 4)
        kill(clients[3])
        goes_on(0, 0)
        until(lambda: all_of_it.numbers().get("tasks_in_flight") == 0, START, all_of_it.numbers)
        clients = [all_of_it.clients(*part) for part in parts]
        goes_on(10, 10)
        trace = ended_at(all_of_it, server, clients)
        first = {trace.metadata["names"][name] for name in parts[0]}
        dead = [line["client"] for line in all_of_it.log() if line["what"] == "left"][:3]
        assert set(dead) == first
        assert {LOST, DROPPED} >= set(trace.fate[~np.isin(trace.fate, (APPLIED, IN_FLIGHT))].tolist())
        assert 4 <= int((trace.fate == LOST).sum()) <= 20


def interrupted_alone(process):
    process.send_signal(signal.SIGINT)


def interrupted_at_a_terminal(process):
    os.killpg(process.pid, signal.SIGINT)


def interrupted_twice(process):
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)


def terminated(process):
    process.send_signal(signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interrupt", "more"),
    [
        (interrupted_alone, []),
        (interrupted_at_a_terminal, []),
        (interrupted_twice, []),
        (terminated, ["--no-durable"]),
    ],
)
def test_a_local_run_that_is_interrupted_leaves_nothing_behind_and_can_be_resumed(
    tmp_path, monkeypatch, interrupt, more
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Processes(tmp_path, "fast,5,20\nslow,5,4\n") as all_of_it:
        flags = ["--cap", "1", "--steps", 800, "--data", "digits", "--partition", "classes(k=2)"]
        flags += ["--model", "mlp(hidden=8)", "--out", "live", "--metrics-port", all_of_it.metrics_port, *more]
        local = all_of_it.start(
            ["-m", "sojourn", "live", "local", tmp_path / "fleet.csv", *flags], "local.log", session=True
        )
        all_of_it.shows(updates_total=60)
        clients = children(local.pid)
        assert len(clients) == 2
        interrupt(local)
        assert local.wait(START) == 130, all_of_it.said("local.log")
        assert not [pid for pid in clients if alive(pid)]
        assert not list(tmp_path.glob("sojourn-live-*"))
        flags = ["--out", "live", "--resume", *more]
        again = all_of_it.start(["-m", "sojourn", "live", "local", *flags], "local.log")
        assert again.wait(2 * START) == 0, all_of_it.said("local.log")
        assert int(all_of_it.trace().applied.sum()) == 800
        assert len(all_of_it.trace().metadata["resumes"]) == 1
        received = [line["received"] for line in all_of_it.log() if line["what"] == "resumed"]
        assert received[0] >= (30 if interrupt is interrupted_twice else 60)  # the second one ends it like a kill
        assert same_model(all_of_it)


def resumed_to(processes, clients, updates):
    """Resume the server, let the run end after so many updates, and check that nothing is lost."""
    server = processes.server(resume=True)
    assert server.wait(2 * START) == 0, processes.said()
    for one in clients:
        assert one.wait(START) == 0
    assert int(nothing_is_lost(processes).applied.sum()) == updates


@pytest.mark.slow
def test_a_disk_that_is_full_while_a_checkpoint_is_written_stops_the_server_and_nothing_acknowledged_is_lost(tmp_path):
    with Processes(tmp_path, FLEET, model="mlp(hidden=256)", cap="2", concurrency=12, steps=900) as all_of_it:
        server = all_of_it.server(begin_with=10)
        clients = [all_of_it.clients(*NAMES[part::2]) for part in range(2)]
        all_of_it.shows(updates_total=100)
        most = 70_000  # a checkpoint has 77 kB of numbers, the rows of all 900 updates have 60 kB
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (most, most))
        assert server.wait(2 * START) == 2
        said = all_of_it.said().strip().splitlines()[-1]
        assert re.fullmatch(r"error: cannot write checkpoint .*checkpoints.*: File too large; .*", said), said
        assert "Traceback" not in all_of_it.said()
        assert not (all_of_it.live / "trace.parquet").exists()
        resumed_to(all_of_it, clients, 900)


@pytest.mark.slow
def test_a_full_disk_stops_the_server_with_a_sentence_and_nothing_acknowledged_is_lost(tmp_path):
    with Processes(tmp_path, FLEET, cap="2", concurrency=12, steps=900) as all_of_it:
        server = all_of_it.server(most=30_000, begin_with=10)
        clients = [all_of_it.clients(*NAMES[part::2]) for part in range(2)]
        assert server.wait(2 * START) == 2
        said = all_of_it.said().strip().splitlines()[-1]
        assert re.fullmatch(r"error: cannot write rows of the trace .*rows.bin: File too large; .*", said), said
        assert "Traceback" not in all_of_it.said()
        assert not (all_of_it.live / "trace.parquet").exists()
        resumed_to(all_of_it, clients, 900)
