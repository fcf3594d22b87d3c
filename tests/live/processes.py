"""A live federation of real processes on this machine: a server at a fixed port, clients, and ways to look at them."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
from waiting import alive as alive
from waiting import free_port, until

import sojourn
from sojourn import Trace
from sojourn.learning.replay.timeline import _nth
from sojourn.live.engine import TaskName
from sojourn.live.settings import write_file

START = 60.0  # seconds that a process may take to start on a busy machine
SOURCE = Path(sojourn.__file__).parents[1].resolve()
LEDGER_CLIENT = Path(__file__).with_name("ledger_client.py")
BAD_CLIENT = Path(__file__).with_name("bad_client.py")
KILLED_SERVER = Path(__file__).with_name("killed_server.py")


class Processes:
    """Processes of a test, in one folder; leaving the block kills what is left of them."""

    def __init__(self, folder, fleet, **run):
        self.folder = folder
        (folder / "fleet.csv").write_text("name,count,rate\n" + fleet)
        self.run = {"fleet": str(folder / "fleet.csv"), "data": "digits", "partition": "classes(k=2)", **run}
        self.run = {"model": "mlp(hidden=8)", "device": "cpu", **self.run}
        self.port, self.metrics_port = free_port(), free_port()
        self.live, self.started = folder / "live", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.started:
            if one.poll() is None:
                one.kill()
        for one in self.started:
            one.wait(START)

    def start(self, words, log, most=None, session=False):
        """Start a program; its words go to a file. No file that it writes grows beyond `most` bytes."""

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        with (self.folder / log).open("ab") as file:
            started = subprocess.Popen(
                [sys.executable, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                start_new_session=session,
                preexec_fn=None if most is None else limit,
            )
        self.started.append(started)
        return started

    def server(self, resume=False, most=None, over=None, killed=None, **settings):
        """Start the server; it may be killed at a moment of its end."""
        content = {"address": f"127.0.0.1:{self.port}", "out": str(self.live), "metrics_port": self.metrics_port}
        write_file(self.folder / "server.toml", {**content, **settings}, {**self.run, **(over or {})})
        program = ["-m", "sojourn"] if killed is None else [KILLED_SERVER, killed]
        words = [*program, "live", "server", "server.toml", *(["--resume"] if resume else [])]
        return self.start(words, "server.log", most)

    def clients(self, *names, **content):
        """Start a process with these clients; it writes down what the server says of their updates."""
        path = self._client_file(names, content)
        return self.start([LEDGER_CLIENT, self.folder / "ledger.txt", path], f"client-{names[0]}.log")

    def bad_clients(self, kind, *names, **content):
        """Start a process with clients that are no good, in a way that bad_client.py knows."""
        return self.start([BAD_CLIENT, kind, self._client_file(names, content)], f"client-{names[0]}.log")

    def _client_file(self, names, content):
        path = self.folder / f"client-{names[0]}.toml"
        about = {"server": f"127.0.0.1:{self.port}", "clients": names, "holds": "part", "paced": True, **content}
        write_file(path, about, self.run)
        return path

    def listening(self):
        """Whether somebody listens at the server's port."""
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def numbers(self):
        """The numbers that the server shows; {} = it does not serve them."""
        try:
            with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as reply:
                lines = reply.read().decode().splitlines()
        except (URLError, OSError):
            return {}
        pairs = (line.removeprefix("sojourn_").split() for line in lines if not line.startswith("#"))
        return {key: float(value) for key, value in pairs}

    def shows(self, seconds=START, **least):
        """Wait until the server shows these numbers or more, and return all of them."""

        def enough():
            found = self.numbers()
            return found if found and all(found[key] >= value for key, value in least.items()) else None

        return until(enough, seconds, lambda: f"{least}: {self.numbers()}, {self.said()} {self.said('local.log')}")

    def log(self):
        """The lines of the run's log."""
        lines = (self.live / "log.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def said(self, log="server.log"):
        """What a process has said."""
        path = self.folder / log
        return path.read_text(errors="replace") if path.exists() else ""

    def ledger(self, what):
        """The names of the tasks of which the clients heard this."""
        path = self.folder / "ledger.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [TaskName(*map(int, line.split()[1:])) for line in lines if line.split()[0] == what]

    def trace(self):
        return Trace.load(self.live / "trace.parquet")


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(START)


def names_in(trace, fate):
    """The full names of the tasks of a fate: the epoch of a task is that of the server that sent it."""
    began = [one["time"] for one in trace.metadata["resumes"]]
    epoch = 1 + np.searchsorted(np.array(began), trace.dispatched_at, side="left")
    rows = np.flatnonzero(trace.fate == fate)
    nth = _nth(trace)
    return [TaskName(int(trace.client[row]), int(nth[row]), int(epoch[row])) for row in rows]


def children(pid):
    """The processes that a process has started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
