"""The live page in a real browser, beside a real federation on this machine."""

import json
import os
import re
import signal
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from threading import Thread

import pytest
from reading import cut_off, faint_text, faults
from stranger import stranger_at

import sojourn
from live.waiting import free_port, until
from report.live_page.pretended_run import Asked, Run
from sojourn import Fleet, Plan, Trace
from sojourn.dashboards import Dashboard, watched_in
from sojourn.report.web.secure import Gate

START = 120.0  # seconds that a federation may take to start on a busy machine
SOURCE = Path(sojourn.__file__).parents[1]
GONE = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")


def enter(page, token):
    page.fill("#token", token)
    page.keyboard.press("Enter")


class Federation:
    """`sojourn live local` with a page, in processes of its own."""

    def __init__(self, folder):
        self.folder, self.port, self.started, self.replan = folder, free_port(), [], "20s"
        self.is_of("fast,3,8", "slow,2,1")
        self.run = folder / "live"

    def is_of(self, *groups):
        (self.folder / "fleet.csv").write_text("\n".join(["name,count,rate", *groups, ""]))

    def start(self, *words):
        shown = ["--out", self.run.name, "--dashboard", str(self.port), "--replan", self.replan]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        with (self.folder / "said.txt").open("ab") as said:
            command = [sys.executable, "-m", "sojourn", "live", "local", *words, *shown]
            self.started.append(
                Popen(command, stdin=DEVNULL, stdout=said, stderr=STDOUT, env=environment, cwd=self.folder)
            )
        return self.started[-1]

    @property
    def token(self):
        until((self.run / "dashboard.token").exists, START, self.said)
        return (self.run / "dashboard.token").read_text().strip()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/"

    def said(self):
        return (self.folder / "said.txt").read_text()

    def log(self):
        whole, _, _ = (self.run / "log.jsonl").read_text().rpartition("\n")  # the last line may be half written
        return [json.loads(line) for line in whole.splitlines()]


@pytest.fixture
def federation(tmp_path):
    made = Federation(tmp_path)
    yield made
    for one in made.started:
        one.kill()
        one.wait(START)


@pytest.fixture
def watched(visit):
    """A pretended run on a page, which is closed before its server goes: it would try to reach it again."""
    run = Run(controls=Asked(never_replans="this run keeps its plan")).happens(20.0, 100)
    with Dashboard(run) as page:
        yield run, page
        visit.end()


def test_a_wrong_token_is_refused_and_the_right_one_shows_the_run(visit, watched):
    _, dashboard = watched
    page = visit(dashboard.address)
    visit.expect_errors("401")
    enter(page, "wrong")
    page.locator("#refusal", has_text="this is not the token").wait_for()
    assert page.locator("#run").is_hidden()
    enter(page, dashboard.token_file.read_text().strip())
    page.locator("#answer", has_text="100 updates").wait_for()
    assert page.locator("#door").is_hidden()
    assert dashboard.token_file.read_text().strip() not in page.content()
    assert page.url == dashboard.address


@pytest.mark.parametrize(("status", "why"), [(503, "Service Unavailable"), (429, "there were too many wrong tokens")])
def test_a_server_that_cannot_answer_now_is_asked_again_with_the_same_token(visit, watched, status, why):
    _, dashboard = watched
    page = visit(dashboard.address)
    visit.expect_errors(str(status))
    page.route("**/api/events", lambda route: route.fulfill(status=status, body=why, headers={"Retry-After": "1"}))
    enter(page, dashboard.token_file.read_text().strip())
    page.locator("#connection", has_text=f"({why}), trying again").wait_for()
    assert page.inner_text("#refusal") == ""
    page.unroute("**/api/events")
    page.locator("#answer", has_text="100 updates").wait_for()
    assert page.locator("#door").is_hidden()
    assert page.locator("#connection").is_hidden()


@pytest.mark.slow
def test_who_takes_the_port_of_a_server_that_has_gone_is_not_sent_the_token(visit):
    with Dashboard(Run(controls=Asked()).happens(20.0, 100)) as dashboard:
        page, token = visit(dashboard.address), dashboard.token_file.read_text().strip()
        visit.expect_errors(*GONE)
        enter(page, token)
        page.locator("#answer", has_text="100 updates").wait_for()
        port = int(dashboard.address.rstrip("/").rpartition(":")[2])
    page.locator("#connection", has_text="trying again").wait_for()
    until(lambda: not page.evaluate("sessionStorage.length"), START, "a page that is loaded now finds no token")
    with stranger_at(port) as heard:
        page.locator("#refusal", has_text="so it was not sent").wait_for()
        visit.end()
    assert {path for path, _ in heard} == {"/api/proof"}
    assert not [said for _, said in heard if token in said or "uthorization" in said]


def test_the_keyboard_reaches_what_each_client_holds(visit, watched):
    _, dashboard = watched
    page = visit(dashboard.address)
    enter(page, dashboard.token_file.read_text().strip())
    page.locator("#answer", has_text="100 updates").wait_for()
    assert page.locator("#clients tr").count() == 0  # nothing is made that nobody reads
    page.locator("#clients-each summary").focus()
    page.keyboard.press("Enter")
    rows = page.locator("#clients tbody tr")
    rows.first.wait_for()
    said = [row.split("\t") for row in rows.all_inner_texts()]
    assert said[0] == ["fast-0", "fast", "yes", "1", "1"]
    assert said[4] == ["slow-4", "slow", "no", "0", "0"]
    page.locator("#clients-each summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#clients").is_hidden()


def drawn(page):
    """Keep every text that is drawn from now on, and how wide it may be, in `drawn` of the page."""
    page.evaluate("""() => {
        const fill = CanvasRenderingContext2D.prototype.fillText;
        window.drawn = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...most) {
            window.drawn.push([text, x + (this.textAlign === "left" ? this.measureText(text).width : 0), most]);
            fill.call(this, text, x, y, ...most);
        };
    }""")


def test_what_is_not_known_without_a_trace_is_a_dash(visit, watched):
    run, dashboard = watched
    run.rows, run.updates, run.notes = [], 3550, ("There is no trace yet.",)
    page = visit(dashboard.address)
    drawn(page)
    enter(page, dashboard.token_file.read_text().strip())
    page.locator("#answer", has_text="3,550 updates, 178 per second (10 promised).").wait_for()
    facts = dict(reversed(one.split("\n")[:2]) for one in page.locator(".fact").all_inner_texts())
    assert (facts["updates"], facts["updates per second"]) == ("3,550", "178")
    assert facts["tasks in flight"] == facts["mean staleness"] == "–"
    assert page.locator("#notes").inner_text() == "There is no trace yet."
    row = page.locator("#groups tbody tr").first.inner_text().split("\t")
    assert row == ["fast", "3 of 3", "–", "–", "–", "–", "75.0%", "–", "3"]
    assert page.locator("#clients-each").is_hidden()
    until(lambda: page.evaluate("drawn.some(([text]) => text === '3,550 updates')"), START, "the network is drawn")
    assert not [text for text, *_ in page.evaluate("drawn") if "null" in text or "tasks out" in text]


def test_before_the_first_update_the_axes_of_charts_have_numbers(visit, watched):
    run, dashboard = watched
    run.rows = []
    page = visit(dashboard.address)
    drawn(page)
    enter(page, dashboard.token_file.read_text().strip())
    in_each = "drawn.filter(([text]) => text === '0.4').length >= 4"
    until(lambda: page.evaluate(in_each), START, "there are four charts")


def test_on_a_phone_names_that_are_too_long_end_in_an_ellipsis(visit):
    run = Run(names=("a-group-with-a-very-long-name-" * 4, "slow")).happens(20.0, 100)
    with Dashboard(run) as dashboard:
        page = visit(dashboard.address, width=390)
        drawn(page)
        enter(page, dashboard.token_file.read_text().strip())
        cut = "drawn.some(([text]) => text.startsWith('a-group') && text.endsWith('…: 3 clients'))"
        until(lambda: page.evaluate(cut), START, "the network is drawn")
        ours = [one for one in page.evaluate("drawn") if "a-group" in one[0]]
        assert len([one for one in ours if one[0].endswith("…")]) >= 3  # in the boxes of its clients
        width = page.evaluate("document.getElementById('network').clientWidth")
        assert all(end <= width and most == [] for _, end, most in ours)  # never squeezed
        for entry in page.locator("figcaption .entry").all():
            assert entry.bounding_box()["height"] < 30  # a key stays beside its word
        visit.end()


@pytest.mark.slow
def test_a_reader_who_comes_back_need_not_give_the_token_again(visit, watched):
    run, dashboard = watched
    page = visit(dashboard.address)
    enter(page, dashboard.token_file.read_text().strip())
    page.locator("#answer", has_text="100 updates").wait_for()
    run.happens(10.0, 50)
    page.reload()
    page.locator("#answer", has_text="150 updates").wait_for()
    assert page.locator("#door").is_hidden()


def test_names_with_html_in_them_stay_text(visit, watched):
    run, dashboard = watched
    bad = "<img src=x onerror=alert(1)><b>bold</b>"
    run.names = {0: bad}
    run.log = [{"at": 1.0, "what": "refused", "client": 0, "reason": bad}]
    page = visit(dashboard.address)
    enter(page, dashboard.token_file.read_text().strip())
    page.locator("#events", has_text=bad).wait_for()
    assert page.locator("#speeds").inner_text().count(bad) == 1
    assert page.locator("#run img, #run table b").count() == 0


def test_the_buttons_ask_what_they_say_by_keyboard_too(visit, watched):
    run, dashboard = watched
    page = visit(dashboard.address)
    enter(page, dashboard.token_file.read_text().strip())
    page.locator("#pause:enabled").wait_for()
    assert page.locator("#replan").is_disabled()  # with the reason as its title
    assert page.locator("#replan").get_attribute("title") == "this run keeps its plan"
    page.locator("#pause").focus()
    page.keyboard.press("Enter")
    page.locator("#pause", has_text="Go on").wait_for()
    page.keyboard.press("Enter")
    page.locator("#pause", has_text="Pause").wait_for()
    page.click("#stop")
    assert run.controls.asked == ["pause", "go_on"]  # it asks once more before it stops
    page.click("#stop")
    page.locator("#done", has_text="The server stops").wait_for()
    assert run.controls.asked == ["pause", "go_on", "stop"]


class Site(BaseHTTPRequestHandler):
    """A site of somebody else, which allows its own scripts everything."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>elsewhere</title>")

    def log_message(self, *_):
        pass


@pytest.fixture
def elsewhere():
    """The address of a site at another port of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{site.server_port}"
        site.shutdown()


@pytest.fixture
def answered(monkeypatch):
    """What the gate is asked for, and with which status it answers."""
    found, gate = [], Gate.__call__

    async def heard(self, scope, receive, send):
        async def noted(message):
            if message["type"] == "http.response.start":
                found.append((scope["method"], scope["path"], message["status"]))
            await send(message)

        await gate(self, scope, receive, noted)

    monkeypatch.setattr(Gate, "__call__", heard)
    return found


TRIED = """async ([address, token]) => {
    const headers = {Authorization: `Bearer ${token}`}, body = '{"do": "stop"}';
    const ask = (path, more) => fetch(address + path, more).then(answer => answer.type, () => "refused");
    return [await ask("api/events", {headers}), await ask("", {}), await ask("", {mode: "no-cors"}),
        await ask("api/control", {method: "POST", headers, body}),
        await ask("api/control", {method: "POST", mode: "no-cors", body})];
}"""


SHADES = """() => [...document.querySelectorAll("canvas")].map(one => {
    const pixels = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
    let darkest = 255, sum = 0, many = 0;
    for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] === 255) {
        const shade = (pixels[at] + pixels[at + 1] + pixels[at + 2]) / 3;
        darkest = Math.min(darkest, shade), sum += shade, many += 1;
    }
    return one.id === "network" ? sum / many : darkest;
})"""  # of 255: the network as a whole, since it has a ground, and the text of charts


def is_dark(page):
    network, *charts = page.evaluate(SHADES)
    return network < 100 and len(charts) == 4 and min(charts) > 60


def test_on_paper_a_dark_page_is_light_and_whole(visit):
    run = Run().happens(20.0, 100)
    run.log = [{"at": float(at), "what": "refused", "client": 0, "reason": f"reason {at}"} for at in range(40)]
    with Dashboard(run) as dashboard:
        page = visit(dashboard.address, dark=True)
        enter(page, dashboard.token_file.read_text().strip())
        page.locator("#events", has_text="reason 39").wait_for()
        assert is_dark(page)
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        until(lambda: max(page.evaluate(SHADES)[1:]) < 60, START, "the text of charts is dark")
        assert page.evaluate(SHADES)[0] > 150  # the network's ground is light
        assert faint_text(page) == []
        assert cut_off(page) == []
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        until(lambda: is_dark(page), START, "the page is dark again")
        assert page.evaluate("document.documentElement.dataset.theme") is None
        visit.end()


@pytest.mark.parametrize("name", ["127.0.0.1", "evil.example"])
def test_another_origin_can_neither_read_nor_control_even_with_the_token(visit, watched, elsewhere, answered, name):
    run, dashboard = watched
    page = visit(f"http://{elsewhere.replace('127.0.0.1', name)}/")
    visit.expect_errors("CORS", "ERR_FAILED", "NotSameOrigin", "another machine: http://evil.example")
    tried = page.evaluate(TRIED, [dashboard.address, dashboard.token_file.read_text().strip()])
    assert tried == ["refused"] * 5
    assert {(method, path) for method, path, _ in answered} >= {("GET", "/"), ("POST", "/api/control")}
    assert {status for *_, status in answered} == {403}
    assert run.controls.asked == []


def test_a_strange_name_that_points_to_this_machine_is_not_answered(visit, watched, answered):
    _, dashboard = watched
    visit.expect_errors("421", "another machine: http://evil.example", "Opener-Policy")
    page = visit(dashboard.address.replace("127.0.0.1", "evil.example"))
    assert "127.0.0.1 alone" in page.inner_text("body")
    assert {status for *_, status in answered} == {421}


def test_who_opens_localhost_comes_to_127_0_0_1(visit, watched):
    _, dashboard = watched
    visit.expect_errors("another machine: http://localhost")
    page = visit(dashboard.address.replace("127.0.0.1", "localhost"))
    assert page.url == dashboard.address
    enter(page, dashboard.token_file.read_text().strip())
    page.locator("#answer", has_text="100 updates").wait_for()


@pytest.mark.slow
def test_a_real_federation_is_shown_paused_killed_resumed_and_stopped(visit, federation):
    server = federation.start(str(federation.folder / "fleet.csv"), "--time", "300s", "--data", "digits")
    token = federation.token
    until(lambda: "page: " in federation.said(), START, federation.said)
    page = visit(federation.address)
    enter(page, token)
    page.locator("#answer", has_text=re.compile(r": [1-9][0-9,]+ updates")).wait_for(timeout=1000 * START)
    page.click("#pause")
    page.locator("#state", has_text="paused").wait_for()
    page.locator("#facts .fact span", has_text="paused").wait_for()  # not "running"
    until(lambda: "paused" in [one["what"] for one in federation.log()], START, "the loop pauses")
    page.click("#pause")
    page.locator("#state", has_text="running").wait_for()
    page.click("#replan")
    page.locator("#events", has_text="asked for").wait_for()

    visit.expect_errors(*GONE)
    server.send_signal(signal.SIGKILL)
    server.wait(START)
    page.locator("#connection", has_text="trying again").wait_for()
    federation.start("--resume")
    page.locator("#events", has_text="resumed").wait_for(timeout=1000 * START)
    page.locator("#connection").wait_for(state="hidden", timeout=1000 * START)
    assert federation.token == token

    page.click("#stop")
    page.click("#stop")
    assert federation.started[-1].wait(START) == 130
    page.locator("#state", has_text="stopped").wait_for()
    assert federation.log()[-1]["what"] == "stopped"
    page.locator("#answer", has_text=f" {federation.log()[-1]['received']:,} updates").wait_for()
    assert token not in federation.said()
    assert token not in (federation.run / "log.jsonl").read_text()


@pytest.mark.slow
def test_everybody_can_read_the_page_of_a_real_federation(visit, federation):
    federation.is_of("fast,8,3", "slow,4,0.7")
    federation.replan = "10min"
    policy = ["--concurrency", "18", "--sampling", "uniform"]
    federation.start(str(federation.folder / "fleet.csv"), *policy, "--time", "300s", "--data", "digits")
    token = federation.token
    until(lambda: "page: " in federation.said(), START, federation.said)
    whole = {"live-page": {}, "live-page-dark": {"dark": True, "height": 1700}}
    views = {**whole, "live-page-phone": {"width": 390, "height": 1500}}
    for name, how in views.items():
        page = visit(federation.address, **how)
        enter(page, token)
        page.locator("#answer", has_text=re.compile(r": ([3-9]\d\d|\d,\d{3}) updates")).wait_for(timeout=1000 * START)
        page.wait_for_timeout(300)
        visit.picture(page, name, whole=not how)
        assert faults(page) == []
    visit.end()


@pytest.mark.slow
def test_everybody_can_read_the_page_of_a_thousand_clients(visit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a page is headed by the folder as it was given
    fleet = Fleet.of(phones=(700, 1.2), laptops=(250, 2.4), sites=(50, 12.0))
    plan = Plan.weighted(fleet, fleet.rate, 1500)
    with suppress(KeyboardInterrupt):
        how = {"steps": 12_000, "evaluate_every": 500, "step_size": 0.01}
        sojourn.train(fleet, plan, folder="thousand", progress=interrupt, **how)
    with Dashboard(watched_in("thousand")) as dashboard:
        page = visit(dashboard.address, height=1270)
        enter(page, dashboard.token_file.read_text().strip())
        page.locator("#facts", has_text="of 1,500").wait_for()
        page.wait_for_timeout(300)
        visit.picture(page, "live-page-thousand", whole=False)
        assert faults(page) == []
        visit.end()


def interrupt(done, total, facts):
    if done >= 9000:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_training_is_paused_from_its_page_and_stopped_with_a_checkpoint(visit, tmp_path):
    fleet, out, port = tmp_path / "fleet.csv", tmp_path / "run", free_port()
    fleet.write_text("name,count,rate\nfast,3,8\nslow,2,1\n")
    said, words = tmp_path / "said.txt", ["train", str(fleet), "--steps", "1000000", "--evaluate-every", "200"]
    command = [sys.executable, "-m", "sojourn", *words, "--out", out.name, "--dashboard", str(port)]
    with said.open("wb") as file:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        training = Popen(command, stdin=DEVNULL, stdout=file, stderr=STDOUT, env=environment, cwd=tmp_path)
    try:
        until(lambda: "its token is in " in said.read_text(), START, said.read_text)
        token = re.search(r"its token is in (.*)\n", said.read_text())[1]
        page = visit(f"http://127.0.0.1:{port}/")
        visit.expect_errors(*GONE)
        enter(page, Path(token).read_text().strip())
        page.locator("#answer", has_text=re.compile(r": [1-9][0-9,]+ updates")).wait_for(timeout=1000 * START)
        assert page.locator("#replan").is_hidden()
        page.click("#pause")
        page.locator("#state", has_text="paused").wait_for()
        page.locator("#done", has_text="Training waits").wait_for()
        visit.picture(page, "live-page-training", whole=False)
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert faults(page) == []
        page.click("#pause")
        page.locator("#state", has_text="running").wait_for()
        page.click("#stop")
        page.click("#stop")
        assert training.wait(START) == 130
        page.locator("#state", has_text="stopped").wait_for()
    finally:
        training.kill()
        training.wait(START)
    assert "continue with: sojourn train --resume --out" in said.read_text()
    assert list((out / "checkpoints").glob("*.json"))
    assert not (out / "summary.json").exists()


@pytest.mark.slow
def test_the_page_of_a_run_that_has_ended_shows_the_numbers_of_its_files(visit, federation):
    federation.start(str(federation.folder / "fleet.csv"), "--time", "12s", "--data", "digits")
    until(lambda: "page: " in federation.said(), START, federation.said)
    page = visit(federation.address)
    visit.expect_errors(*GONE)
    enter(page, federation.token)
    page.locator("#state", has_text="ended").wait_for(timeout=1000 * START)
    assert federation.started[-1].wait(START) == 0
    trace = Trace.load(federation.run / "trace.parquet")
    updates = int(trace.applied.sum())
    page.locator("#connection", has_text="the run has ended").wait_for()
    assert f" {updates:,} updates" in page.locator("#answer").inner_text()
    assert not (federation.run / "dashboard.token").exists()
    with sojourn.dashboard(federation.run) as again:
        late = visit(again.address)
        enter(late, again.token_file.read_text().strip())
        late.locator("#answer", has_text=f" {updates:,} updates").wait_for()
        assert f"mean staleness {float(f'{trace.staleness.mean():.3g}'):g}" in late.locator("#answer").inner_text()
        said = late.locator("#answer").inner_text() + late.locator("#facts").inner_text()
        assert not [one for one in ("now", "running", "last 30 s") if one in said]
        assert "run time" in said
