"""A Flower federation of real processes on this machine: a SuperLink, SuperNodes, and runs of an app."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from processes import START, alive, children, free_port, until

import sojourn

SOURCE = Path(sojourn.__file__).parents[1].resolve()
BIN = Path(sys.executable).parent
EXAMPLES = Path(__file__).parents[2] / "examples" / "flower"
END = 20.0  # seconds that processes have to end


class Flower:
    """Flower's processes in one folder; leaving the block ends all of them, by their ids."""

    def __init__(self, folder, keys=None):
        """`keys` is a folder with server.pem, server.key and ca.pem; None = no encryption."""
        self.folder, self.keys, self.port = folder, keys, free_port()
        self.live = folder / "live"
        self._started = []
        home = folder / "home"
        home.mkdir()
        secure = "insecure = true" if keys is None else f'root-certificates = "{keys / "ca.pem"}"'
        where = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n{secure}\n'
        (home / "config.toml").write_text(where)
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FLWR")},
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(SOURCE),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pids = [pid for one in self._started for pid in family(one.pid)]
        for one in self._started[::-1]:
            if one.poll() is None:
                one.terminate()
        for one in self._started[::-1]:
            try:
                one.wait(END)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait(END)
        for pid in pids:
            end(pid)

    def start(self, log, *words):
        """Start one of Flower's programs; its words go to a file."""
        with (self.folder / log).open("ab") as file:
            command = [str(BIN / words[0]), *map(str, words[1:])]
            one = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.folder, env=self.env
            )
        self._started.append(one)
        return one

    def superlink(self, *more):
        """Start the SuperLink, and wait until it listens."""
        secure = ["--insecure"]
        if self.keys is not None:
            names = {"ssl-ca-certfile": "ca.pem", "ssl-certfile": "server.pem", "ssl-keyfile": "server.key"}
            secure = [word for flag, name in names.items() for word in (f"--{flag}", self.keys / name)]
        place = ["--host", "127.0.0.1", "--port", self.port, "--disable-runtime-dependency-installation"]
        one = self.start("superlink.log", "flower-superlink", *secure, *place, *more)
        until(lambda: "Uvicorn running" in self.said("superlink.log"), START, lambda: self.said("superlink.log"))
        return one

    def supernode(self, name, part=0, parts=1, key=None):
        """Start a SuperNode whose client has this name."""
        secure = ["--insecure"] if self.keys is None else ["--root-certificates", self.keys / "ca.pem"]
        auth = [] if key is None else ["--auth-supernode-private-key", key]
        place = ["--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1", "--port", free_port()]
        config = ["--node-config", f'name="{name}" partition-id={part} num-partitions={parts}']
        return self.start(f"{name}.log", "flower-supernode", *secure, *auth, *place, *config)

    def flwr(self, *words):
        """Call `flwr`, and return what it prints as JSON."""
        command = [str(BIN / "flwr"), *map(str, words), "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=self.env, timeout=START)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def run(self, app, **keys):
        """Start a run of an app with these keys of sojourn."""
        given = {"folder": str(self.live), **keys}
        config = " ".join(f"sojourn.{key}={json.dumps(value)}" for key, value in given.items())
        return self.flwr("run", app, "--run-config", config)["run-id"]

    def log(self):
        """The lines of the run's log."""
        path = self.live / "log.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def happened(self, what, many=1, seconds=START, **facts):
        """Wait until something has happened so often, and return the lines that say it."""

        def found():
            lines = [one for one in self.log() if one["what"] == what and facts.items() <= one.items()]
            return lines if len(lines) >= many else None

        return until(found, seconds, lambda: f"{what} {facts}: {self.log()} {self.said('superlink.log')[-3000:]}")

    def said(self, log):
        """What a process has said."""
        path = self.folder / log
        return path.read_text(errors="replace") if path.exists() else ""

    def server_program(self):
        """The process id of the ServerApp."""
        found = [pid for one in self._started for pid in family(one.pid) if "flwr-serverapp" in words_of(pid)]
        return found[-1] if found else None


def words_of(pid):
    """The command of a process; "" = it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def family(pid):
    """A process and all that it has started."""
    try:
        return [pid, *(one for child in children(pid) for one in family(child))]
    except OSError:
        return []


def end(pid):
    """End a process that was started here, if it has not ended by itself."""
    until_then = time.monotonic() + END
    while alive(pid) and time.monotonic() < until_then:
        time.sleep(0.1)
    if alive(pid):
        os.kill(pid, signal.SIGKILL)
