import base64
import hashlib
import hmac
from functools import partial

import pytest

from report.web.a_page import PORT, TOKEN, gate
from report.web.asking import ask
from sojourn.report.web.secure import content_policy

HOST = {"Host": f"127.0.0.1:{PORT}"}
MINE = f"http://127.0.0.1:{PORT}"
NONCE = "0123456789abcdef" * 4
RIGHT = {**HOST, "Authorization": f"Bearer {TOKEN.value}"}


@pytest.fixture
def asked():
    return partial(ask, gate())


def test_the_empty_page_needs_no_token_and_everything_else_does(asked):
    assert asked("GET", "/", HOST).text == "hello"
    assert asked("GET", "/secret", HOST).status == 401
    assert asked("GET", "/no-such-thing", HOST).status == 401
    assert asked("GET", "/secret", RIGHT).text == "secret"


@pytest.mark.parametrize("said", ["Bearer wrong", "Bearer ", "Basic " + "t" * 43, "t" * 43, "Bearer " + "t" * 44])
def test_a_wrong_token_is_refused(asked, said):
    assert asked("GET", "/secret", {**HOST, "Authorization": said}).status == 401


def test_a_token_in_the_address_or_in_a_cookie_is_no_token(asked):
    assert asked("GET", f"/secret?token={TOKEN.value}", HOST).status == 401
    assert asked("GET", "/secret", {**HOST, "Cookie": f"token={TOKEN.value}"}).status == 401


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:8001", "", "[::1]"])
def test_a_host_that_is_not_this_page_is_refused_even_with_the_token(asked, host):
    answer = asked("GET", "/secret", {**RIGHT, "Host": host})
    assert answer.status == 421
    assert "secret" not in answer.text


def expected(said):
    return hmac.new(TOKEN.value.encode(), said.encode(), "sha256").hexdigest()


def test_a_server_proves_to_know_the_token_at_its_own_address_and_tells_it_to_nobody(asked):
    answer = asked("GET", f"/api/proof?{NONCE}", HOST)
    assert (answer.status, answer.text.strip()) == (200, expected(f"sojourn 127.0.0.1:{PORT} {NONCE}"))
    assert TOKEN.value not in answer.text
    assert "secret" not in asked("GET", f"/secret?{NONCE}", HOST).text


@pytest.mark.parametrize("query", ["", "?", "?0", f"?{NONCE.upper()}", f"?{NONCE}0", f"?nonce={NONCE}"])
def test_a_proof_is_for_a_nonce_alone(asked, query):
    answer = asked("GET", f"/api/proof{query}", HOST)
    assert answer.status == 400
    assert "64 digits" in answer.text


def test_nobody_else_gets_a_proof(asked):
    path = f"/api/proof?{NONCE}"
    assert asked("GET", path, {"Host": f"127.0.0.1:{PORT + 1}"}).status == 421  # who has another port cannot pass it on
    assert asked("GET", path, {**HOST, "Origin": "http://evil.example"}).status == 403
    assert asked("GET", path, {**HOST, "Sec-Fetch-Site": "same-site"}).status == 403
    assert asked("POST", path, {**HOST, "Origin": MINE}).status == 401


def test_who_opens_localhost_is_led_to_127_0_0_1_and_nothing_else_is_answered_there(asked):
    there = {**RIGHT, "Host": f"localhost:{PORT}"}
    led = asked("GET", "/", there)
    assert (led.status, led.headers["location"]) == (307, f"{MINE}/")
    assert "hello" not in led.text
    assert asked("GET", "/secret", there).status == 421
    assert asked("GET", f"/api/proof?{NONCE}", there).status == 421  # which somebody at ::1 would pass on
    assert asked("POST", "/", {**there, "Origin": f"http://localhost:{PORT}"}).status == 421


def test_at_port_80_names_come_without_a_port():
    mine = {**RIGHT, "Host": "127.0.0.1", "Origin": "http://127.0.0.1"}
    assert ask(gate(80), "GET", "/", {"Host": "localhost"}).headers["location"] == "http://127.0.0.1:80/"
    assert ask(gate(80), "POST", "/secret", mine).status == 200
    assert ask(gate(80), "POST", "/secret", {**mine, "Origin": "http://evil.example"}).status == 403
    assert ask(gate(80), "GET", "/secret", {**RIGHT, "Host": "evil.example"}).status == 421
    assert ask(gate(), "POST", "/secret", mine).status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:8001", f"http://localhost:{PORT}"])
def test_a_foreign_origin_is_refused_even_with_the_token(asked, origin):
    assert asked("GET", "/secret", {**RIGHT, "Origin": origin}).status == 403
    assert asked("POST", "/secret", {**RIGHT, "Origin": origin}).status == 403


def test_a_post_needs_the_origin_of_this_page(asked):
    assert asked("POST", "/secret", RIGHT).status == 403
    assert asked("POST", "/secret", {**RIGHT, "Origin": MINE}).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_asks_for_is_refused(asked, site):
    assert asked("GET", "/", {**HOST, "Sec-Fetch-Site": site}).status == 403
    assert asked("GET", "/", {**HOST, "Sec-Fetch-Site": "same-origin"}).status == 200


def test_a_preflight_of_another_origin_is_told_nothing(asked):
    preflight = {**HOST, "Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = asked("OPTIONS", "/secret", preflight)
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_two_different_hosts_in_one_request_are_refused(asked):
    twice = [("Host", f"127.0.0.1:{PORT}"), ("Host", "evil.example"), ("Authorization", RIGHT["Authorization"])]
    assert asked("GET", "/secret", twice).status == 421


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/secret", 401)])
def test_every_answer_tells_the_browser_what_it_may_not_do(asked, path, status):
    answer = asked("GET", path, HOST)
    assert answer.status == status
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers


def test_the_policy_names_scripts_by_their_hashes():
    digest = base64.b64encode(hashlib.sha256(b"1;").digest()).decode()
    assert f"script-src 'sha256-{digest}'; style-src 'none'" in content_policy(["1;"], [])


def test_after_too_many_wrong_tokens_nobody_is_answered_for_a_while(asked):
    for _ in range(10):
        assert asked("GET", "/secret", {**HOST, "Authorization": "Bearer no"}).status == 401
    late = asked("GET", "/secret", RIGHT)
    assert late.status == 429
    assert 0 < int(late.headers["retry-after"]) <= 60


def test_a_request_without_a_token_is_no_wrong_try(asked):
    for _ in range(20):
        asked("GET", "/secret", HOST)
    assert asked("GET", "/secret", RIGHT).status == 200
