"""Attaching to a live run: what it shows is what the run is, and nothing of it is touched."""

import hashlib
import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from processes import START, Processes, until

import sojourn.live
from live.pretended_clients import Federation, Pretended
from sojourn import InvalidInput, Run, SojournError, UnreadableFile
from sojourn.cli.report import _so_far
from sojourn.learning.run.config import TrainConfig
from sojourn.live.folder_view import view
from sojourn.live.monitor import numbers, serving
from sojourn.live.run import LiveRun, built_for
from sojourn.live.worker import FederationWorker
from sojourn.trace import APPLIED, IN_FLIGHT

OPENED: list[tuple[str, int]] = []
_HOOKED = []


@pytest.fixture
def opened():
    """Every file that this thread opens, with its flags; a run's other threads go on writing their own."""
    if not _HOOKED:  # an audit hook stays for ever
        reader = threading.get_ident()

        def note(event, given):
            if event == "open" and threading.get_ident() == reader:
                OPENED.append((given[0], given[2]))

        sys.addaudithook(note)
        _HOOKED.append(True)
    OPENED.clear()
    return OPENED


def bytes_of(folder):
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def config(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,3,8\nslow,3,2\n")
    keys = {"cap": "1", "concurrency": 6, "steps": 120, "evaluate_every": 30, "model": "logistic", "device": "cpu"}
    return TrainConfig.of({"fleet": str(tmp_path / "fleet.csv"), **keys}, "test")


def run_of(config, folder):
    worker = FederationWorker(built_for(config).federation)
    clients = Federation(worker, lambda client, nth: 0.1 + 0.05 * client, range(6))
    return LiveRun(config, folder, lambda *_: Pretended(clients))


def test_a_run_is_seen_while_it_runs_when_it_was_stopped_and_when_it_was_killed(config, tmp_path, opened):
    live, found, stop = tmp_path / "live", [], threading.Event()

    def watch(run):
        if run.server.received >= 60 and not found:
            run.loop.commit()
            opened.clear()
            found.append(sojourn.live.attach(live))
            mine = [flags for path, flags in opened if str(path).startswith(str(live))]
            assert mine
            assert not [flags for flags in mine if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)]
            seen = found[0]
            assert (seen.state, seen.updates, seen.faults) == ("running", run.server.received, {})
            assert seen.time == pytest.approx(run.loop.now, abs=1.0)
            assert len(seen.in_flight) == len(run.loop.pending) == 6
            assert set(seen.in_flight["client"]) == {client for client, _ in run.loop.pending}
            assert seen.present == [0, 1, 2, 3, 4, 5]
            assert seen.staleness == pytest.approx(numbers(run)["staleness_mean"])
            stop.set()

    with run_of(config, live) as run:
        run.run(stop, watch)
    (live / "lock").touch()
    before = bytes_of(live)
    seen = found[0].refresh()
    assert seen.state == "stopped"
    assert seen.present == []
    assert seen.metrics["received"].tolist() == [row["received"] for row in Run(live).metrics]
    assert seen.clients["applied"].sum() == seen.updates == run.server.received
    assert seen.clients["in_flight"].sum() == 6
    assert 0 < seen.throughput < 60
    assert "updates, " in seen.line
    seen.plot(tmp_path / "picture")
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert bytes_of(live) == before
    log = (live / "log.jsonl").read_text().splitlines()
    (live / "log.jsonl").write_text("\n".join(log[:-1]) + '\n{"at": 1, "what": "half a li')
    for path in (live / "rows.bin", live / "log.jsonl", live / "checkpoints"):
        os.utime(path, (1, 1))
    assert sojourn.live.attach(live).state == "killed"


def test_a_run_that_has_ended_has_its_whole_trace(config, tmp_path):
    with run_of(config, tmp_path / "live") as run:
        assert run.run(threading.Event())
    seen = sojourn.live.attach(tmp_path / "live")
    assert (seen.state, seen.updates) == ("ended", 120)
    assert seen.trace == Run(tmp_path / "live").trace
    assert int((seen.trace.fate == APPLIED).sum()) == 120
    assert [entry["what"] for entry in seen.log][-1] == "ended"
    assert "0 clients, 0 tasks in flight" in seen.line  # although the trace ends with some
    assert (seen.trace.fate == IN_FLIGHT).any()
    assert (len(seen.in_flight), seen.clients["in_flight"].sum()) == (0, 0)
    shown = []
    seen.watch(every=0.01, show=lambda one: shown.append(one.updates))
    assert shown == [120]  # there is nothing to wait for


def test_a_run_that_has_not_ended_tells_its_plans_faults_and_refusals_to_its_report(config, tmp_path):
    with run_of(config, tmp_path / "live") as run:
        stop = threading.Event()
        run.loop.faults.note_refusal(0.5, 1, 3, "not a number")
        plan = {"time": 0.0, "step": 0, "concurrency": 6, "throughput": 9.0, "share": [0.5, 0.5], "staleness": [5, 5]}
        run.loop.plans = [{**plan, "reason": "the start"}, {**plan, "time": 1.0, "step": 9, "reason": "faster"}]
        run.run(stop, lambda run: stop.set() if run.server.received > 60 else None)
    facts = view(tmp_path / "live").trace.metadata
    assert [one["reason"] for one in facts["plans"]] == ["the start", "faster"]
    assert facts["faults"] == {"refused": 1}
    assert facts["refusals"][0]["reason"] == "not a number"
    part = _so_far(tmp_path / "live", None, None)
    tables = {table.caption: table for section in part.sections for table in section.tables}
    assert tables["Faults of the run"].rows == [["refused", 1]]
    assert tables["Reasons of refusals"].rows == [["not a number", 1]]
    assert [row[2] for row in tables["The plans in force, one after the other"].rows] == ["the start", "faster"]


def test_a_reader_that_comes_while_files_are_replaced_reads_again(config, tmp_path, monkeypatch):
    with run_of(config, tmp_path / "live") as run:
        stop = threading.Event()
        run.run(stop, lambda run: stop.set() if run.server.received > 30 else None)
    manifests = sorted((tmp_path / "live/checkpoints").glob("*.json"))
    content = manifests[-1].read_bytes()
    manifests[-1].write_bytes(content[:100])
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            manifests[-1].write_bytes(content)

    clock = SimpleNamespace(sleep=pause, time=time.time)  # not for other threads, which may sleep meanwhile
    monkeypatch.setattr("sojourn.live.folder_view.time", clock)
    assert sojourn.live.attach(tmp_path / "live").updates == run.server.received
    assert len(pauses) == 3
    manifests[-1].write_bytes(content[:100])
    pauses.extend([0.0] * 10)
    with pytest.raises(UnreadableFile, match=r"cannot be read \(UnreadableFile: manifest .* is not valid JSON"):
        sojourn.live.attach(tmp_path / "live")


def test_the_metrics_port_of_this_machine_gives_numbers_and_no_other_does():
    now = {"time_seconds": 10.0, "updates_total": 50.0, "staleness_mean": 3.0, "clients_present": 4.0}
    now |= {"tasks_in_flight": 5.0, "lost_total": 2.0, "late_total": 0.0, "accuracy": 0.75}
    with serving(0, lambda: now) as port:
        seen = sojourn.live.attach(port)
        assert (seen.state, seen.updates, seen.throughput, seen.staleness) == ("running", 50, 5.0, 3.0)
        now |= {"time_seconds": 12.0, "updates_total": 70.0}
        assert seen.refresh().throughput == 10.0
        assert seen.faults == {"lost": 2, "late": 0}
        assert seen.line.endswith("4 clients, 5 tasks in flight, accuracy 0.750; 2 lost")
        assert seen.metrics["updates_total"].tolist() == [50.0, 70.0]
        seen.plot()
    assert seen.refresh().state == "gone"
    assert seen.updates == 70
    with pytest.raises(SojournError, match="nobody serves the metrics of a live run at http"):
        sojourn.live.attach(f"127.0.0.1:{port}")
    with pytest.raises(InvalidInput, match=r"read on this machine alone, got fl\.example\.org:9100; forward the port"):
        sojourn.live.attach("fl.example.org:9100")


def test_what_is_no_live_run_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="there is no folder nowhere; name the folder of a live run"):
        sojourn.live.attach("nowhere")
    with pytest.raises(InvalidInput, match="holds no live run"):
        sojourn.live.attach(tmp_path)
    with pytest.raises(InvalidInput, match="is a folder or the address of its metrics, got None"):
        sojourn.live.attach(None)


@pytest.mark.slow
def test_a_real_run_is_watched_from_another_process_and_goes_on_undisturbed(tmp_path, opened):
    with Processes(tmp_path, "fast,5,10\nslow,5,2\n") as all_of_it:
        flags = ["--cap", "1", "--steps", 600, "--partition", "classes(k=2)", "--model", "mlp(hidden=8)"]
        flags += ["--out", "live", "--metrics-port", all_of_it.metrics_port, "--callback", "checkpoints(every=100)"]
        local = all_of_it.start(["-m", "sojourn", "live", "local", tmp_path / "fleet.csv", *flags], "local.log")
        all_of_it.shows(3 * START, updates_total=60)
        opened.clear()
        before = all_of_it.shows()
        seen = sojourn.live.attach(all_of_it.live)
        port = sojourn.live.attach(all_of_it.metrics_port)
        until(lambda: seen.refresh().updates >= before["updates_total"], START, "a commit has what was shown before")
        after = all_of_it.shows()
        assert not [flags for path, flags in opened if "/live/" in str(path) and flags & (os.O_WRONLY | os.O_RDWR)]
        assert seen.state == port.state == "running"
        assert before["updates_total"] <= seen.updates <= after["updates_total"]
        assert before["updates_total"] <= port.updates <= after["updates_total"]
        assert len(seen.present) == port.numbers["clients_present"] == 10
        assert (seen.trace.fate == IN_FLIGHT).sum() <= 10
        shown = []
        seen.watch(every=0.3, seconds=4.0, show=lambda one: shown.append(one.updates))
        assert shown == sorted(shown)
        assert len(shown) >= 3
        local.send_signal(signal.SIGINT)
        assert local.wait(START) == 130, all_of_it.said("local.log")
        stopped = bytes_of(all_of_it.live)
        seen.refresh()
        assert seen.state == "stopped"
        assert str(seen.updates) in all_of_it.said("local.log").replace(",", "")
        assert bytes_of(all_of_it.live) == stopped
        again = all_of_it.start(["-m", "sojourn", "live", "local", "--out", "live", "--resume"], "local.log")
        while again.poll() is None:
            seen.refresh()
            time.sleep(0.02)
        assert again.wait(START) == 0, all_of_it.said("local.log")
        assert (seen.refresh().state, seen.updates) == ("ended", 600)
        assert np.array_equal(seen.trace.applied_step[seen.trace.applied], np.arange(600))
