import asyncio
import http.client
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest

from report.web.a_page import POLICY, TOKEN, app
from sojourn.errors import InvalidInput
from sojourn.report.web import connection, serving
from sojourn.report.web.serving import Serving, listening


def _asked(port, path, **headers):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    finally:
        line.close()


def test_a_page_is_served_on_this_machine_alone_and_its_port_is_free_afterwards():
    with Serving(app, TOKEN, POLICY) as page:
        assert page.address == f"http://127.0.0.1:{page.port}/"
        assert TOKEN.value not in page.address
        assert _asked(page.port, "/") == (200, "hello")
        assert _asked(page.port, "/secret", Authorization=f"Bearer {TOKEN.value}") == (200, "secret")
        assert _asked(page.port, "/", Host="evil.example")[0] == 421
    listening(page.port).close()


def test_a_connection_on_which_nothing_is_asked_is_closed_and_one_that_waits_for_its_answer_is_not(monkeypatch):
    monkeypatch.setattr(connection, "HEAD", 0.2)
    closed = threading.Event()

    async def slow(scope, receive, send):
        while not closed.is_set():
            await asyncio.sleep(0.01)
        await app(scope, receive, send)

    with Serving(slow, TOKEN, POLICY) as page, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(_asked, page.port, "/secret", Authorization=f"Bearer {TOKEN.value}")
        for said in (b"", b"GET / HTTP/1.1\r\nHost: 127"):
            with socket.create_connection(("127.0.0.1", page.port), timeout=60) as idle:
                idle.sendall(said)
                assert idle.recv(100) == b""
        closed.set()
        assert answer.result(60) == (200, "secret")


@pytest.mark.parametrize("drip", [b"", b"a"])
def test_a_connection_that_never_ends_its_second_question_is_closed_too(monkeypatch, drip):
    monkeypatch.setattr(connection, "HEAD", 0.5)
    question = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:"
    with Serving(app, TOKEN, POLICY) as page:
        with socket.create_connection(("127.0.0.1", page.port), timeout=0.05) as line:
            line.sendall(question + f"{page.port}\r\n\r\n".encode())
            assert until_closed(line, b"hello")
            line.sendall(question)
            assert until_closed(line, drip=drip) == b""
        assert _asked(page.port, "/") == (200, "hello")


def until_closed(line, end=None, drip=b""):
    """Return what comes on a connection until it is closed, or ends so; meanwhile more bytes of a head are sent."""
    said, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        try:
            more = line.recv(4096)
            said += more
            if not more or (end and said.endswith(end)):
                return said
        except TimeoutError:
            with suppress(OSError):
                line.sendall(drip)
        except ConnectionResetError:
            return said
    raise AssertionError(f"it is still open after {said!r}")


def test_an_interrupt_while_it_starts_leaves_neither_thread_nor_port(monkeypatch):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    async def slowly(**_):  # it is still starting when the interrupt comes, however fast the machine is
        while not page._server.should_exit:
            await asyncio.sleep(0.005)

    page = Serving(app, TOKEN, POLICY)
    monkeypatch.setattr(page._server, "startup", slowly)
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=interrupted)  # for this module alone, not for other threads
    monkeypatch.setattr(serving, "time", clock)
    with pytest.raises(KeyboardInterrupt):
        page.start()
    assert not [one for one in threading.enumerate() if one.name == serving.THREAD]
    listening(page.port).close()


def test_nothing_about_requests_is_logged(caplog, capfd):
    with caplog.at_level(logging.DEBUG), Serving(app, TOKEN, POLICY) as page:
        _asked(page.port, "/secret", Authorization=f"Bearer {TOKEN.value}")
        _asked(page.port, "/secret", Authorization="Bearer wrong")
    said = "".join(capfd.readouterr()) + caplog.text
    assert TOKEN.value not in said
    assert "/secret" not in said


def test_a_port_that_is_taken_is_refused_in_a_sentence():
    with Serving(app, TOKEN, POLICY) as page, pytest.raises(InvalidInput, match=f"at port {page.port}.*another port"):
        Serving(app, TOKEN, POLICY, page.port)


@pytest.mark.parametrize("port", [-1, 65536, True, 1.5])
def test_a_port_that_is_no_port_is_refused(port):
    with pytest.raises(InvalidInput, match="a port must be a whole number"):
        listening(port)
