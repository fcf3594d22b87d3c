"""The server of the planner page: it answers those who have the token, and refuses in one sentence."""

import json
from http.client import HTTPConnection
from pathlib import Path

import pytest
from planner_questions import FLEET, asked

import sojourn as sj
from sojourn.dashboards import planner_for
from sojourn.report.planner.answer import answer, plan_text
from sojourn.report.planner.app import MOST_QUESTION, served
from sojourn.report.web.tokens import Token

TOKEN = Token("t" * 43, Path("nowhere"))


@pytest.fixture(scope="module")
def page():
    with served(FLEET, "my own fleet", TOKEN) as serving:
        yield serving


def post(page, path, content, token=TOKEN.value, method="POST"):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    connection = HTTPConnection("127.0.0.1", page.port, timeout=60)
    connection.request(
        method,
        path,
        body if method == "POST" else None,
        {"Authorization": f"Bearer {token}", "Origin": f"http://127.0.0.1:{page.port}"},
    )
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def test_the_server_gives_the_answers_of_the_functions(page):
    status, text = post(page, "/api/answer", asked())
    assert status == 200
    assert json.loads(text) == json.loads(json.dumps(answer(asked())))
    assert post(page, "/api/plan", asked()) == (200, plan_text(asked()))


def test_the_given_fleet_is_offered_first(page):
    status, text = post(page, "/api/start", None, method="GET")
    first = json.loads(text)["fleets"][0]
    assert (status, first["name"], first["groups"][0]["name"]) == (200, "my own fleet", "fast")


def test_without_the_token_nothing_is_answered(page):
    for path in ("/api/answer", "/api/plan", "/api/read"):
        assert post(page, path, asked(), token="")[0] == 401


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("/api/answer", b"{", "must be JSON"),
        ("/api/answer", b"[" * 100_000, "must be JSON"),
        ("/api/answer", b'"' + b"x" * MOST_QUESTION + b'"', "at most"),
        ("/api/answer", asked(cap=0), "cap must be none"),
        ("/api/plan", asked(cap=0), "cap must be none"),
        ("/api/read", {"name": "l.csv", "text": "device,seconds\na,-1\n"}, "l.csv"),
        ("/api/read", {"name": "l.csv", "text": "a" * 16_000_000}, "at most"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(page, path, content, said):
    status, text = post(page, path, content)
    assert status == 400
    assert said in json.loads(text)["error"]


def test_the_empty_page_holds_no_numbers_of_the_fleet(page):
    status, text = post(page, "/", None, token="", method="GET")
    assert status == 200
    assert "my own fleet" not in text


def test_a_planner_takes_a_fleet_a_file_or_nothing(tmp_path):
    FLEET.save(tmp_path / "fleet.csv")
    assert planner_for(None).fleet is None
    assert planner_for(FLEET).fleet == FLEET
    assert planner_for(tmp_path / "fleet.csv").name == "fleet.csv"
    with pytest.raises(sj.InvalidInput, match="at most"):
        planner_for(sj.Fleet.of(all=(10**9, 1.0)))


def test_a_run_and_a_fleet_are_too_much(tmp_path):
    with pytest.raises(sj.InvalidInput, match="got both"):
        sj.dashboard(tmp_path, fleet=FLEET)
