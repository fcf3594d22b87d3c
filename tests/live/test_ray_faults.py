"""A live run on real Ray: a killed actor, a killed server, Ctrl-C; nothing committed is lost, no process is left."""

import os
import signal
from pathlib import Path

import pytest
from processes import Processes, alive, children, kill, until

from sojourn.learning.run.store import Store
from sojourn.live.journal import CHECKPOINTS, ROW, ROWS
from sojourn.live.replayed import replay_run
from sojourn.trace import APPLIED, DROPPED, LOST

pytest.importorskip("ray")
LONG = 180.0  # seconds that Ray and its actors may take to start on a busy machine
AGENTS = "ray::DashboardAgent", "ray::RuntimeEnvAgent"  # helpers of an instance
FLEET = "fast,4,30\nslow,2,6\n"


def all_below(pid):
    """The processes that a process has started, and those that these have started."""
    found, waiting = [], [pid]
    while waiting:
        try:
            mine = children(waiting.pop())
        except OSError:  # it has ended
            continue
        found += mine
        waiting += mine
    return found


def actors(pid):
    """The processes with clients."""
    return [one for one in all_below(pid) if said_by(one).startswith("ray::Clients")]


def said_by(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


class OnRay(Processes):
    """A local run on Ray; leaving the block kills all processes that are left of it."""

    def local(self, *flags, resume=False):
        words = ["-m", "sojourn", "live", "local", "--out", "live", "--metrics-port", self.metrics_port, *flags]
        words += ["--resume"] if resume else [self.folder / "fleet.csv", "--cap", "2", "--concurrency", 8]
        words += [] if resume else ["--data", "digits", "--partition", "classes(k=2)", "--model", "mlp(hidden=8)"]
        return self.start(words, "local.log", session=True)

    def __enter__(self):
        self.seen = set()
        return super().__enter__()

    def below(self, process):
        """The processes of a run now; they are remembered."""
        found = all_below(process.pid)
        self.seen.update(found)
        return found

    def __exit__(self, *given):
        for one in self.started:
            self.seen.update(all_below(one.pid))
        super().__exit__(*given)
        for pid in filter(alive, self.seen):
            os.kill(pid, signal.SIGKILL)

    def gone(self, pids):
        """Wait until these processes have ended."""
        until(lambda: not any(map(alive, pids)), LONG, lambda: [said_by(one) for one in pids if alive(one)])

    def replayed(self):
        return replay_run(self.live, self.folder / "again")


@pytest.mark.slow
def test_killed_actors_and_a_killed_server_cost_tasks_in_flight_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "15")  # how long AGENTS wait for a dead instance
    with OnRay(tmp_path, FLEET) as run:
        server = run.local("--engine", "ray", "--steps", 10**6)
        run.shows(LONG, updates_total=60, clients_present=6)
        first = actors(server.pid)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        run.shows(LONG, lost_total=1)
        until(lambda: len(set(actors(server.pid)) - set(first)) == 1, LONG, run.said)
        before = run.shows(LONG, clients_present=6)["updates_total"]
        run.shows(LONG, updates_total=before + 300)  # some of them are on the disk, however slow it is
        theirs = run.below(server)
        kill(server)
        run.gone([one for one in theirs if not said_by(one).startswith(AGENTS)])
        tree = Store(run.live / CHECKPOINTS).load()[1]
        committed = (run.live / ROWS).read_bytes()[: tree["rows"] * ROW.itemsize]
        received = tree["server"]["tally"]["received"]
        assert received > before
        in_flight = len(tree["flying"])
        assert in_flight > 0
        server = run.local("--engine", "ray", "--steps", received + 60, resume=True)
        assert server.wait(LONG) == 0, run.said("local.log")
        assert (run.live / ROWS).read_bytes().startswith(committed)
        trace = run.trace()
        assert int(trace.applied.sum()) == received + 60
        assert len(trace.metadata["resumes"]) == 1
        assert sorted(trace.applied_step[trace.fate == APPLIED].tolist()) == list(range(received + 60))
        lost = [line["reason"] for line in run.log() if line["what"] == "lost"]
        assert len(lost) == int((trace.fate == LOST).sum()) >= 1
        assert {reason.partition(": ")[0] for reason in lost} == {"its process died"}
        assert int((trace.fate == DROPPED).sum()) >= in_flight
        assert run.replayed().same
        run.gone(theirs)


@pytest.mark.slow
def test_a_run_on_ray_that_is_interrupted_leaves_no_process_and_goes_on_over_grpc(tmp_path):
    with OnRay(tmp_path, FLEET) as run:
        server = run.local("--engine", "ray", "--steps", 900, "--no-durable")
        run.shows(LONG, updates_total=60)
        theirs = run.below(server)
        os.killpg(server.pid, signal.SIGINT)
        assert server.wait(LONG) == 130, run.said("local.log")
        run.gone(theirs)
        assert "continue with: sojourn live local --out live --resume --engine ray --no-durable" in run.said(
            "local.log"
        )
        again = run.local(resume=True)
        assert again.wait(LONG) == 0, run.said("local.log")
        assert int(run.trace().applied.sum()) == 900
        assert len(run.trace().metadata["resumes"]) == 1
        assert run.replayed().same
