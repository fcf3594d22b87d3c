"""The live page behind its gate: who is answered, what is sent, and what can be asked."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from report.live_page.pretended_run import Asked, Run
from report.web.asking import ask
from sojourn.report.live_page.app import app, page, served
from sojourn.report.live_page.hub import Hub
from sojourn.report.web.secure import Gate
from sojourn.report.web.tokens import Token
from sojourn.watched import Promise

TOKEN = Token("s" * 43, Path("nowhere"))
HOST = {"Host": "127.0.0.1:8000"}
RIGHT = {**HOST, "Authorization": f"Bearer {TOKEN.value}"}
MINE = {**RIGHT, "Origin": "http://127.0.0.1:8000"}
FOREIGN = {**RIGHT, "Origin": "http://evil.example"}


def gated(run):
    html, policy = page()
    return Gate(app(Hub(run, threading.Event(), every=0.01), html), 8000, TOKEN, policy)


def heard(run, most=1):
    """Return the events that a reader is sent, of which the last says that the server has stopped."""
    stopping = threading.Event()
    hub = Hub(run, stopping, every=0.01)

    async def read():
        found = []
        async for one in hub.events():
            found.append(one.decode())
            if sum("event: now" in text for text in found) >= most:
                stopping.set()
        return found

    return asyncio.run(read())


def parsed(events, name):
    return [json.loads(text.split("data: ")[1]) for text in events if f"event: {name}\n" in text]


def test_the_page_itself_says_nothing_of_the_run():
    run = Run(names=("secret-group", "slow")).happens(1.0)
    answer = ask(gated(run), "GET", "/", HOST)
    assert answer.status == 200
    assert "secret-group" not in answer.text
    assert TOKEN.value not in answer.text
    assert "<script src" not in answer.text  # everything is inline, and named by its hash


@pytest.mark.parametrize("path", ["/api/events", "/api/control", "/api/none"])
def test_without_the_token_nothing_is_told(path):
    answer = ask(gated(Run()), "GET", path, HOST)
    assert answer.status == 401


@pytest.mark.parametrize("does", ["pause", "go_on", "replan", "stop"])
def test_who_has_the_token_can_control_the_run(does):
    controls = Asked()
    answer = ask(gated(Run(controls=controls)), "POST", "/api/control", MINE, json.dumps({"do": does}).encode())
    assert (answer.status, json.loads(answer.text)) == (200, {"done": does})
    assert controls.asked == [does]


@pytest.mark.parametrize(
    ("headers", "status"),
    [(HOST, 403), (RIGHT, 403), (FOREIGN, 403), ({**MINE, "Authorization": "Bearer no"}, 401)],
    ids=["nobody", "no origin", "foreign origin", "wrong token"],
)
def test_who_has_not_shown_everything_controls_nothing(headers, status):
    controls = Asked()
    answer = ask(gated(Run(controls=controls)), "POST", "/api/control", headers, b'{"do": "stop"}')
    assert answer.status == status
    assert controls.asked == []


def test_a_get_controls_nothing():
    controls = Asked()
    assert ask(gated(Run(controls=controls)), "GET", "/api/control", RIGHT).status == 405
    assert controls.asked == []


@pytest.mark.parametrize(
    "body", [b"", b"stop", b"[1]", b'{"do": "__class__"}', b'{"do": ["pause"]}', b'{"do": {}}', b"[" * 900, b" " * 2000]
)
def test_nonsense_is_refused_in_a_sentence(body):
    controls = Asked()
    answer = ask(gated(Run(controls=controls)), "POST", "/api/control", MINE, body)
    assert answer.status in (400, 409)
    assert json.loads(answer.text)["error"]
    assert controls.asked == []


def test_a_folder_can_only_be_watched():
    answer = ask(gated(Run()), "POST", "/api/control", MINE, b'{"do": "stop"}')
    assert answer.status == 409
    assert "can only watch" in answer.text


def test_the_first_message_has_the_whole_run():
    run = Run().happens(100.0, 1000, staleness=4)
    events = heard(run)
    now = parsed(events, "now")[0]
    assert parsed(events, "about")[0]["name"] == "run"
    assert now["updates"] == 1000
    assert now["history"]["at"][0] < 10.0
    assert now["history"]["at"][-1] > 90.0


def test_the_last_message_says_how_the_run_stands_and_that_the_server_goes():
    events = heard(Run().happens(1.0))
    assert "event: bye" in events[-1]
    assert parsed(events, "now")[-1]["updates"] == 1


def test_a_client_that_gives_another_name_is_told_again():
    run = Run().happens(1.0)
    looked = run.look

    def look():
        run.names = {0: "oslo"} if run.step > 2 else {}
        run.happens(1.0)
        return looked()

    run.look = look
    events = heard(run, most=4)
    assert [one["clients"][0] for one in parsed(events, "about")] == ["fast-0", "oslo"]


def test_a_run_whose_folder_is_gone_is_an_error_in_words():
    run = Run()

    def gone():
        raise FileNotFoundError(2, "No such file or directory", "run/rows.bin")

    run.look = gone
    assert "rows.bin" in parsed(heard(run), "now")[0]["error"]


def test_a_fault_that_nobody_has_thought_of_is_an_error_in_words_too():
    run = Run()

    def odd():
        raise ValueError("x" * 10_000)

    run.look = odd
    said = parsed(heard(run), "now")[0]["error"]
    assert said.startswith("ValueError: xxx")
    assert len(said) <= 500


def test_nobody_looks_at_a_run_that_nobody_reads():
    run = Run()
    looks = []
    run.look = lambda: looks.append(1)
    with served(run, TOKEN):
        pass
    assert looks == []


def test_a_promise_that_is_unknown_is_no_number():
    run = Run().happens(1.0)
    run.plans = [Promise(0.0, 0, "start", 5)]
    now = parsed(heard(run), "now")[0]
    assert now["staleness"]["promised"] is None
