"""Hosts of a test: network namespaces on one bridge, each with an address, name resolution and a link of its own.

All traffic stays inside the namespaces, which the machine's own network does not see. A link may be slow and lossy, by
the kernel's netem, or by a program that carries the frames (wire.py) where the kernel has no netem. Where namespaces
cannot be made (no root, no iproute2) hosts are addresses 127.0.0.2, 127.0.0.3, ... of this machine, and a slow link is
a TCP proxy; loss is left out then, because a proxy sees a stream of bytes, in which nothing is ever lost.

The names of namespaces have the process id of the test, so that leftovers of a killed test are recognised and removed.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from late_proxy import LateProxy
from waiting import alive, free_port, until

PREFIX = "sojourn"
NETWORK = "10.0.0"  # only inside the namespaces, which know no other one
WIRE = Path(__file__).with_name("wire.py")
RESOLVING = Path("/etc/netns")  # what `ip netns exec` puts over /etc
ENOUGH = 60.0  # seconds for a program of the network to start or to end


class Link(NamedTuple):
    """A host's link to all others."""

    delay: float = 0.0
    """Seconds that a packet takes each way."""
    loss: float = 0.0
    """Part of the packets that is lost, each way."""


@cache
def namespaces():
    """Why network namespaces cannot be made here; "" = they can."""
    if shutil.which("ip") is None:
        return "ip is not installed; on Debian: apt-get install iproute2"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    remove_leftovers()
    name = _space("try")
    made = _try("ip", "netns", "add", name)
    if made.returncode == 0:
        made = _try("ip", "-n", name, "link", "add", "one", "type", "veth", "peer", "name", "other")
    if made.returncode == 0:
        made = _try("ip", "-n", name, "link", "add", "bridge", "type", "bridge")
    _remove(name)
    return made.stderr.strip().replace("\n", " ") if made.returncode else ""


@cache
def netem():
    """Whether the kernel has netem."""
    if shutil.which("tc") is None:
        return False
    name = _space("try")
    _run("ip", "netns", "add", name)
    try:
        return _try("tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms").returncode == 0
    finally:
        _remove(name)


class Hosts:
    """Hosts by name; leaving the block ends what runs on them and removes them."""

    def __init__(self, *names, links=None, called=None, separate=None):
        """`called` has further names of hosts, as in {"fl.example.org": "server"}; `separate` = use namespaces."""
        self.names, self.links, self.called = names, dict(links or {}), dict(called or {})
        self.separate = not namespaces() if separate is None else separate
        self.lossy = self.separate
        """Whether packets are lost on links that say so."""
        first, block = (1, NETWORK) if self.separate else (2, "127.0.0")
        self._address = {name: f"{block}.{number}" for number, name in enumerate(names, first)}
        self._held, self._switch = ExitStack(), _space("switch")

    def __enter__(self):
        if not self.separate:
            return self
        remove_leftovers()
        try:
            self._build()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_):
        self._held.close()

    def words(self, name):
        """The words before a command that runs it on a host."""
        return ["ip", "netns", "exec", _space(name)] if self.separate else []

    def start(self, name, command, folder, log="said.txt", **where):
        """Start a shell command on a host; what it says goes to a file in the folder. `where` = environment."""
        with (folder / log).open("ab") as file:
            started = subprocess.Popen(
                [*self.words(name), "/bin/sh", "-c", f"exec env {command}"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=folder,
                env={**os.environ, **where},
            )
        self._held.callback(_stop, started)
        return started

    def processes(self, name):
        """The numbers of the processes that run on a host; only where hosts are namespaces."""
        return [int(one) for one in _try("ip", "netns", "pids", _space(name)).stdout.split()]

    def address(self, name):
        """The address of a host."""
        return self._address[name]

    def way(self, name, server, port):
        """HOST:PORT at which a host reaches a port of another: itself, or a proxy where there are no namespaces."""
        if self.separate or name not in self.links:
            return f"{self.address(server)}:{port}"
        proxy = LateProxy((self.address(name), free_port()), (self.address(server), port), self.links[name].delay)
        self._held.callback(proxy.close)
        return f"{proxy.address[0]}:{proxy.address[1]}"

    def _build(self):
        self._new(self._switch)
        _run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", self._switch, "link", "set", "bridge", "up")
        for name in self.names:
            self._connect(name, self.links.get(name, Link()))

    def _new(self, space):
        self._held.callback(_remove, space)
        _run("ip", "netns", "add", space)
        _run("ip", "-n", space, "link", "set", "lo", "up")

    def _connect(self, name, link):
        """Make a host, and a cable from its eth0 to a port of the bridge, through a wire where netem is missing."""
        space, port, switch = _space(name), f"port{self.names.index(name)}", self._switch
        far, near = (f"{port}a", f"{port}b") if any(link) and not netem() else (port, None)
        self._new(space)
        _run("ip", "-n", switch, "link", "add", "eth0", "type", "veth", "peer", "name", far)
        inside = _words(switch)
        if not netem():
            _run(*inside, sys.executable, WIRE, "plain", "eth0", far)
        _run("ip", "-n", switch, "link", "set", "eth0", "netns", space)
        if near is not None:
            _run("ip", "-n", switch, "link", "add", near, "type", "veth", "peer", "name", port)
            _run(*inside, sys.executable, WIRE, "plain", near, port)
            _run("ip", "-n", switch, "link", "set", near, "up")
            _run("ip", "-n", switch, "link", "set", far, "up")
        _run("ip", "-n", switch, "link", "set", port, "master", "bridge", "up")
        _run("ip", "-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        _run("ip", "-n", space, "link", "set", "eth0", "up")
        _run("ip", "-n", space, "route", "add", "default", "dev", "eth0")  # programs look there for their own address
        self._resolve(space)
        if near is not None:
            self._carry(far, near, link)
        elif any(link):
            netem_words = ["netem", "delay", f"{1000 * link.delay:g}ms", "loss", f"{100 * link.loss:g}%"]
            _run("tc", "-n", space, "qdisc", "add", "dev", "eth0", "root", *netem_words)
            _run("tc", "-n", switch, "qdisc", "add", "dev", port, "root", *netem_words)

    def _resolve(self, space):
        """Let programs on a host know all hosts by name."""
        lines = [f"{self._address[name]} {name}" for name in self.names]
        lines += [f"{self._address[name]} {alias}" for alias, name in self.called.items()]
        (RESOLVING / space).mkdir(parents=True)
        (RESOLVING / space / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")
        (RESOLVING / space / "resolv.conf").write_text("")

    def _carry(self, far, near, link):
        words = [*_words(self._switch), sys.executable, WIRE, "carry", far, near, link.delay, link.loss, 1]
        wire = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self._held.callback(_stop, wire)
        assert wire.stdout.readline() == b"carrying\n"


def remove_leftovers():
    """Remove the namespaces of tests that were killed."""
    listed = _try("ip", "netns", "list").stdout.split("\n")
    there = {*(line.split(" ")[0] for line in listed), *(one.name for one in RESOLVING.glob(f"{PREFIX}-*"))}
    for space in there:
        found = re.fullmatch(rf"{PREFIX}-(\d+)-\w+", space)
        if found and not alive(int(found[1])):
            _remove(space)


def _space(name):
    return f"{PREFIX}-{os.getpid()}-{name}"


def _words(space):
    return ["ip", "netns", "exec", space]


def _run(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=ENOUGH, text=True)


def _try(*words):
    return subprocess.run(list(map(str, words)), check=False, capture_output=True, timeout=ENOUGH, text=True)


def _stop(process):
    process.kill()
    process.wait(ENOUGH)
    if process.stdout is not None:
        process.stdout.close()


def _remove(space):
    """Remove a namespace, after the processes that run in it."""
    while inside := [int(one) for one in _try("ip", "netns", "pids", space).stdout.split()]:
        for pid in inside:  # some of them may start others meanwhile
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(alive, inside)), ENOUGH, f"processes of {space} have ended")
    _try("ip", "netns", "del", space)
    shutil.rmtree(RESOLVING / space, ignore_errors=True)
    if RESOLVING.is_dir() and not any(RESOLVING.iterdir()):
        with suppress(OSError):
            RESOLVING.rmdir()
