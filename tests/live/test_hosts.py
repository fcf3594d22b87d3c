"""Hosts of tests are real, are as far away as they say, and are gone afterwards."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hosts import RESOLVING, Hosts, Link, namespaces
from late_proxy import LateProxy

HERE = Path(__file__).parent
ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as one:
    print(one.getsockname()[1], flush=True)
    while True:
        with one.accept()[0] as call:
            while content := call.recv(1):
                call.sendall(content)
"""
ASK = """
import socket, sys, time
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as one:
    times = []
    for _ in range(5):
        begin = time.monotonic()
        one.sendall(b"?")
        one.recv(1)
        times.append(time.monotonic() - begin)
    print(min(times))
"""
needs_namespaces = pytest.mark.skipif(bool(namespaces()), reason=namespaces() or "there are namespaces")


def there():
    """The namespaces of this machine, and what lies beside them."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split(" ")[0] for line in listed.splitlines()} | {str(one) for one in RESOLVING.glob("*")}


def mine():
    return {one for one in there() if f"sojourn-{os.getpid()}-" in one}


@needs_namespaces
def test_a_host_knows_others_by_name_and_reaches_them_after_its_delay():
    links = {"far": Link(delay=0.05)}
    with Hosts("server", "far", links=links, called={"fl.example.org": "server"}) as hosts:
        command = [*hosts.words("server"), sys.executable, "-c", ECHO, hosts.address("server"), "5000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as echo:
            assert echo.stdout.readline() == "5000\n"
            found = [
                subprocess.run(
                    [*hosts.words(name), sys.executable, "-c", ASK, "fl.example.org", "5000"],
                    capture_output=True, text=True, check=True,
                ).stdout
                for name in ("far", "server")
            ]  # fmt: skip
            echo.kill()
    assert float(found[0]) >= 0.1
    assert float(found[1]) < float(found[0]) - 0.09
    assert not mine()


@needs_namespaces
def test_nothing_is_left_of_hosts_after_a_failure_or_ctrl_c():
    for error in (ValueError, KeyboardInterrupt):
        with suppress(error), Hosts("one", "other", links={"one": Link(delay=0.01)}) as hosts:
            running = subprocess.Popen([*hosts.words("one"), "sleep", "1000"])
            assert mine()
            raise error
        assert running.wait(60) == -signal.SIGKILL
        assert not mine()


@needs_namespaces
def test_what_a_killed_test_has_left_is_removed_by_the_next_one():
    program = "from hosts import Hosts; h = Hosts('one').__enter__(); print(h.words('one')[-1], flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed:
        left = killed.stdout.readline().strip()
        assert left in there()  # once it is dead, a test of another process may remove it at any moment
        killed.kill()
    with Hosts("one") as hosts:
        assert left not in there()
        assert hosts.words("one")[-1] in there()


def test_without_namespaces_a_slow_link_is_a_proxy_and_says_that_nothing_is_lost():
    with (
        Hosts("server", "far", links={"far": Link(delay=0.05, loss=0.5)}, separate=False) as hosts,
        subprocess.Popen(
            [sys.executable, "-c", ECHO, hosts.address("server"), "0"], stdout=subprocess.PIPE, text=True
        ) as echo,
    ):
        assert (hosts.words("far"), hosts.lossy) == ([], False)
        place, _, port = hosts.way("far", "server", int(echo.stdout.readline())).rpartition(":")
        assert place == hosts.address("far") == "127.0.0.3"
        words = [sys.executable, "-c", ASK, place, port]
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        echo.kill()
    assert float(found) >= 0.1


def test_a_proxy_without_a_target_hangs_up():
    proxy = LateProxy(("127.0.0.1", 0), ("127.0.0.1", 9), 0.0)
    with socket.create_connection(proxy.address[:2], timeout=60) as one:
        assert one.recv(1) == b""
    proxy.close()
