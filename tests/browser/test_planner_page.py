"""The planner page in a real browser: numbers are those of Python, names stay text, and the keyboard is enough."""

import json
from pathlib import Path

import numpy as np
import planner_page
import pytest
from reading import faults
from stranger import stranger_at

import sojourn as sj
from live.waiting import until
from sojourn.laws.law import MOST_DURATIONS
from sojourn.report.planner.answer import answer
from sojourn.report.planner.app import served
from sojourn.report.planner.examples import examples
from sojourn.report.planner.question import rows_of
from sojourn.report.web.tokens import Token

pytestmark = pytest.mark.slow
TOKEN = Token("t" * 43, Path("nowhere"))
FLEET = sj.Fleet.of(fast=(9, 8.0), slow=(3, 1.0))


@pytest.fixture(scope="module")
def server():
    with served(FLEET, "mine", TOKEN) as serving:
        yield serving


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "planner-page.html"
    path.write_text(planner_page.page(), "utf-8")
    return path


def opened(visit, server, **how):
    visit.expect_errors("401")  # the page is asked for its token first
    page = visit(server.address, **how)
    page.fill("#token", TOKEN.value)
    page.keyboard.press("Enter")
    page.locator("#numbers td").first.wait_for()
    return page


def said(value, digits=4):
    """A number as the page writes it."""
    return f"{round(value):,}" if abs(value) >= 1000 else f"{float(f'{value:.{digits}g}'):,g}"


def shows(page, **question):
    """Wait until the page shows what Python answers."""
    found = answer({"groups": rows_of(FLEET), **question})
    row = page.locator("#numbers tr", has_text="updates per second")
    row.filter(has_text=said(found["yours"]["throughput"])).wait_for()
    return found


def test_the_first_answer_is_that_of_python(visit, server):
    page = opened(visit, server)
    found = shows(page, cap=None, correction=0.0)
    cells = page.locator("#numbers tr", has_text="staleness of the stalest").locator("td").all_inner_texts()
    assert cells[1:3] == [said(found["yours"]["stalest"]), said(found["recommended"]["stalest"])]
    assert page.locator("#differs tbody tr").count() == 2


def test_moving_controls_changes_the_numbers_to_what_python_says(visit, server):
    page = opened(visit, server)
    page.select_option("#cap", "2")
    page.select_option("#sampling", label="by speed")
    page.select_option("#correction", label="1/2")
    page.locator("#tasks-slider").focus()
    page.keyboard.press("ArrowLeft")
    tasks = int(page.input_value("#concurrency"))
    assert tasks < 12
    found = shows(page, cap=2, sampling="speed", correction=0.5, concurrency=tasks)
    waiting = page.locator("#numbers tr", has_text="tasks that wait").locator("td").all_inner_texts()
    assert waiting[1] == said(found["yours"]["waiting"])
    page.locator("#time-slider").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#numbers tr", has_text=f"updates in {page.input_value('#time')}").wait_for()


def test_a_fleet_can_be_typed_and_a_wrong_number_keeps_the_last_answer(visit, server):
    visit.expect_errors("401", "400")
    page = opened(visit, server)
    visit.expect_errors("401", "400")
    before = shows(page, cap=None, correction=0.0)
    rate = page.get_by_label("tasks per second of group 2")
    rate.fill("-1")
    page.locator("#fleet-error", has_text="rate of group 'slow' must be positive").wait_for()
    assert rate.get_attribute("aria-invalid") == "true"
    assert said(before["yours"]["throughput"]) in page.inner_text("#numbers")
    rate.fill("2")
    fleet = FLEET.with_rates(np.array([8.0, 2.0]))
    shows(page, groups=rows_of(fleet), cap=None, correction=0.0)
    assert page.inner_text("#fleet-error") == ""


def test_more_tasks_than_places_are_refused_beside_the_field(visit, server):
    page = opened(visit, server)
    visit.expect_errors("401", "400")
    page.select_option("#cap", "1")
    page.fill("#concurrency", "13")
    page.locator("#concurrency-error", has_text="at most the 12 tasks").wait_for()


def test_the_downloaded_plan_is_the_policy_shown(visit, server, tmp_path):
    page = opened(visit, server)
    page.select_option("#cap", "2")
    found = shows(page, cap=2, correction=0.0)
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "plan.json")
    plan = sj.Plan.load(tmp_path / "plan.json")
    plan.check(FLEET)
    assert (plan.concurrency, set(plan.cap), plan.correction) == (12, {2.0}, 0.0)
    assert plan.promises["throughput"] == found["yours"]["throughput"]
    with page.expect_download() as download:
        page.click("#download-recommended")
    download.value.save_as(tmp_path / "best.json")
    assert sj.Plan.load(tmp_path / "best.json") == sj.make_plan(FLEET, time=found["time"]).plan


def test_a_log_that_is_chosen_becomes_a_fleet(visit, server, tmp_path):
    page = opened(visit, server)
    log = tmp_path / "log.csv"
    log.write_text("device,seconds\n" + "".join(f"a,{1 + one / 99}\nb,{5 + one / 50}\n" for one in range(40)))
    page.set_input_files("#file", log)
    page.locator("#example-about", has_text="Fitted to a log").wait_for()
    fleet = sj.Fleet.from_log(log)
    shows(page, groups=rows_of(fleet), cap=None, correction=0.0)


def test_a_file_that_is_too_large_gets_a_sentence(visit, server, tmp_path):
    page = opened(visit, server)
    large = tmp_path / "log.csv"
    large.write_bytes(b"x" * 20_000_000)
    page.set_input_files("#file", large)
    page.locator("#file-error", has_text="at most 15 MB, got 20 MB").wait_for()


def test_a_name_with_html_in_it_stays_text(visit, server, tmp_path):
    page = opened(visit, server)
    name = "<img src=x onerror=alert(1)><b>"
    (tmp_path / "fleet.csv").write_text(f'name,count,rate\n"{name.replace("=", "-")}",3,1\nb,2,2\n')
    page.set_input_files("#file", tmp_path / "fleet.csv")
    page.locator("#by-group td", has_text="onerror").wait_for(state="attached")
    assert page.locator("main img, #by-group b, #pictures b").count() == 0
    page.get_by_label("name of group 2").fill("<script>x</script>")
    page.locator("#by-group td", has_text="<script>").wait_for(state="attached")


def test_an_old_answer_never_replaces_a_newer_one(visit, server):
    page = opened(visit, server)
    for _ in range(4):
        for cap in ("1", "2", "3", "null"):
            page.select_option("#cap", cap)
    page.select_option("#cap", "3")
    shows(page, cap=3, correction=0.0)
    page.wait_for_timeout(500)
    assert page.locator("#differs tr", has_text="cap").locator("td").nth(1).inner_text() == "3"


def test_the_keyboard_alone_sets_a_policy(visit, server):
    page = opened(visit, server)
    page.keyboard.press("Tab")
    for _ in range(60):
        if page.evaluate("document.activeElement.id") == "take":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#answer", has_text="It is the recommended plan").wait_for()
    assert page.locator("#differs-not").is_visible()


def test_everybody_can_read_the_page(visit, server):
    for dark in (False, True):
        page = opened(visit, server, dark=dark)
        page.reload()  # it keeps the token; the focus is at its beginning
        page.locator("#numbers td").first.wait_for()
        assert faults(page) == []


def test_a_server_that_has_gone_is_said(visit):
    serving = served(FLEET, "mine", TOKEN).start()
    page = opened(visit, serving)
    visit.expect_errors("401", "ERR_")
    serving.stop()
    page.select_option("#cap", "1")
    page.locator("#connection", has_text="does not answer").wait_for()
    assert said(answer({"groups": rows_of(FLEET), "cap": None, "correction": 0})["yours"]["throughput"]) in (
        page.inner_text("#numbers")
    )


def test_who_takes_the_port_of_a_planner_that_has_gone_is_sent_neither_token_nor_fleet(visit):
    serving = served(FLEET, "mine", TOKEN).start()
    page = opened(visit, serving)
    visit.expect_errors("401", "ERR_")
    serving.stop()
    page.select_option("#cap", "2")
    page.locator("#connection", has_text="does not answer").wait_for()
    until(lambda: not page.evaluate("sessionStorage.length"), 60, "a page that is loaded now finds no token")
    with stranger_at(serving.port) as heard:
        page.select_option("#cap", "3")
        page.locator("#refusal", has_text="so it was not sent").wait_for()
        visit.end()
    assert {path for path, _ in heard} == {"/api/proof"}
    assert not [said for _, said in heard if TOKEN.value in said or "uthorization" in said or "slow" in said]


def test_everything_that_waits_for_a_token_goes_on_with_it(visit):
    serving = served(FLEET, "mine", TOKEN).start()
    page = opened(visit, serving)
    visit.expect_errors("401", "ERR_")
    serving.stop()
    other = Token("u" * 43, TOKEN.file)
    with served(FLEET, "mine", other, serving.port):
        page.select_option("#cap", "2")
        page.locator("#refusal", has_text="this is not the token").wait_for()
        page.click("#download")
        assert "This is not the token" in page.inner_text("#refusal")
        page.fill("#token", other.value)
        with page.expect_download():
            page.keyboard.press("Enter")
        shows(page, cap=2, correction=0.0)
        page.select_option("#cap", "3")
        shows(page, cap=3, correction=0.0)


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_cannot_answer_now_is_asked_again_with_the_same_token(visit, server, status):
    page = opened(visit, server)
    visit.expect_errors("401", str(status))
    page.route("**/api/answer", lambda route: route.fulfill(status=status, body="busy", headers={"Retry-After": "1"}))
    page.select_option("#cap", "3")
    page.locator("#connection", has_text="(busy), trying again").wait_for()
    assert page.locator("#door").is_hidden()
    page.unroute("**/api/answer")
    shows(page, cap=3, correction=0.0)
    page.locator("#connection").wait_for(state="hidden")


def test_a_fleet_with_measured_durations_is_taken_and_keeps_them(visit, server, tmp_path):
    page = opened(visit, server)
    law = sj.Law.empirical(np.arange(1.0, MOST_DURATIONS + 1))
    fleet = sj.Fleet(["a", "b"], [5, 5], [1.0, 2.0], law=[law, sj.Law()], uplink_rate=[9.0, 9.0], uplink_law=[law] * 2)
    fleet.save(tmp_path / "fitted.csv")
    page.set_input_files("#file", tmp_path / "fitted.csv")
    page.locator("#by-group td", has_text="b").wait_for(state="attached")
    shows(page, groups=rows_of(fleet), cap=None, correction=0.0)
    first = page.get_by_label("law of group 1")
    assert (first.input_value(), first.get_attribute("placeholder")) == ("", "2,000 durations")
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "plan.json")
    sj.Plan.load(tmp_path / "plan.json").check(fleet)
    assert (json.loads((tmp_path / "plan.json").read_text())["fleet_hash"]) == fleet.hash


def test_a_fleet_that_cannot_be_used_takes_the_answer_before_it_away(visit, server, tmp_path):
    page = opened(visit, server)
    visit.expect_errors("401", "400")
    refusal = {"error": "row 1: uplink_law must be short", "field": "fleet"}
    page.route("**/api/answer", lambda route: route.fulfill(status=400, json=refusal))
    (tmp_path / "next.csv").write_text("name,count,rate\nnext,5,1\n")
    page.set_input_files("#file", tmp_path / "next.csv")
    page.locator("#fleet-error", has_text="row 1").wait_for()
    assert [page.inner_text(f"#{one}").strip() for one in ("answer", "numbers", "pictures", "differs")] == [""] * 4
    assert all(page.locator(f"#{one}").is_disabled() for one in ("download", "download-recommended", "take"))
    page.unroute("**/api/answer")
    page.select_option("#example", label="mine")
    page.locator("#numbers td").first.wait_for()
    assert page.locator("#download").is_enabled()


def test_a_file_that_is_not_taken_leaves_the_answer_and_says_whose_it_is(visit, server, tmp_path):
    page = opened(visit, server)
    visit.expect_errors("401", "400")
    before = shows(page, cap=None, correction=0.0)
    (tmp_path / "trace.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 40)
    page.set_input_files("#file", tmp_path / "trace.parquet")
    page.locator("#file-error", has_text="must end in .csv or .toml, got trace.parquet").wait_for()
    assert page.inner_text("#file-error").endswith("The answer below still belongs to mine.")
    assert said(before["yours"]["throughput"]) in page.inner_text("#numbers")
    assert page.locator("#download").is_disabled()
    page.select_option("#cap", "2")
    shows(page, cap=2, correction=0.0)
    assert page.locator("#download").is_enabled()
    assert page.inner_text("#file-error") == ""


def test_a_policy_as_fast_as_the_recommended_one_brings_in_as_many(visit, server):
    page = opened(visit, server)
    page.click("#take")
    page.locator("#answer", has_text="It is the recommended plan").wait_for()
    page.select_option("#correction", label="0: none")
    page.locator("#answer", has_text=", as many as the recommended plan").wait_for()


@pytest.mark.parametrize(
    ("fault", "said"), [("away", "does not answer"), ("failing", "could not answer that"), ("folder", "cannot be read")]
)
def test_a_dropped_file_that_cannot_be_taken_gets_a_sentence(visit, server, fault, said, tmp_path):
    page = opened(visit, server)
    visit.expect_errors("401", "ERR_", "500")
    if fault == "folder":  # a browser gives a folder as a file that cannot be read
        page.evaluate("void (File.prototype.text = () => Promise.reject(new Error('gone')))")
    else:
        page.route("**/api/read", lambda route: route.abort() if fault == "away" else route.fulfill(status=500))
    (tmp_path / "fleet.csv").write_text("name,count,rate\na,5,1\n")
    page.set_input_files("#file", tmp_path / "fleet.csv")
    page.locator("#file-error", has_text=said).wait_for()


def test_of_several_dropped_files_the_newest_counts(visit, server, tmp_path):
    page = opened(visit, server)
    held = []
    page.route("**/api/read", lambda route: held.append(route) if not held else route.continue_())
    for name in ("early", "late"):
        (tmp_path / f"{name}.csv").write_text(f"name,count,rate\n{name},5,1\n")
        with page.expect_request("**/api/read"):
            page.set_input_files("#file", tmp_path / f"{name}.csv")
    page.locator("#by-group td", has_text="late").wait_for(state="attached")
    with page.expect_response("**/api/read"):
        held[0].continue_()
    page.wait_for_timeout(500)
    assert page.get_by_label("name of group 1").input_value() == "late"


def test_the_advised_command_has_the_budget_of_the_page(visit, server):
    page = opened(visit, server)
    page.fill("#time", "90s")
    page.locator("code", has_text="sojourn train fleet.csv --plan plan.json --time 90").wait_for()


def test_the_static_page_gives_the_answers_of_the_server(visit, static, tmp_path):
    page = visit(static)
    page.locator("#numbers td").first.wait_for()
    example = examples()[1]
    page.select_option("#example", label=example.name)
    page.select_option("#cap", "2")
    page.select_option("#correction", label="1: unbiased")
    page.locator("#tasks-slider").focus()
    page.keyboard.press("ArrowLeft")
    tasks, time = int(page.input_value("#concurrency")), float(page.locator("#time").get_attribute("data-exact"))
    question = {"groups": rows_of(example.fleet), "cap": 2, "correction": 1.0, "concurrency": tasks, "time": time}
    found = shows(page, **question)
    live = json.loads(json.dumps(found))
    cells = page.locator("#numbers tr", has_text="idle clients").locator("td").all_inner_texts()
    assert cells[1] == said(live["yours"]["idle"])
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "plan.json")
    plan = sj.Plan.load(tmp_path / "plan.json")
    plan.check(example.fleet)
    assert (plan.concurrency, set(plan.cap), plan.correction) == (tasks, {2.0}, 1.0)
    assert plan.promises["throughput"] == pytest.approx(live["yours"]["throughput"], rel=1e-9)
    assert plan.promises["time"] == time


def test_everybody_can_read_the_static_page(visit, static):
    page = visit(static)
    page.locator("#numbers td").first.wait_for()
    assert faults(page) == []


def test_the_static_page_offers_nothing_that_needs_a_server(visit, static):
    page = visit(static)
    page.locator("#numbers td").first.wait_for()
    assert not page.locator("#drop").is_visible()
    assert not page.locator("#add").is_visible()
    assert page.get_by_label("clients of group 1").is_disabled()


def test_pictures_of_the_page(visit, server, static):
    for name, how in {"light": {}, "dark": {"dark": True}, "phone": {"width": 390}}.items():
        page = opened(visit, server, **how)
        visit.picture(page, f"planner-{name}")
        assert page.locator("svg.bars").count() == 3


def test_names_and_numbers_of_bars_are_whole_or_cut_at_their_end(visit, server, tmp_path):
    fleet = tmp_path / "fleet.csv"
    name = "<script>alert(1)</script> " + "w" * 60
    fleet.write_text(f'name,count,rate\n"{name}",9,8\nslow,3,0.0001\n')
    for width in (1100, 390):
        page = opened(visit, server, width=width)
        page.set_input_files("#file", fleet)
        page.locator("#by-group td", has_text="<script>").wait_for(state="attached")
        outside = """() => [...document.querySelectorAll("svg.bars text")].filter(text => {
            const mine = text.getBoundingClientRect(), whole = text.ownerSVGElement.getBoundingClientRect();
            return mine.left < whole.left - 1 || mine.right > whole.right + 1;
        }).map(text => text.textContent)"""
        assert page.evaluate(outside) == []
        shown = page.locator("svg.bars text.name").first.text_content()
        assert shown.startswith("<script>alert(1)</script>")
        assert shown.endswith("w…")


def test_the_fleet_and_the_numbers_fit_a_phone(visit, server):
    page = opened(visit, server, width=390)
    for table in ("#fleet", "#numbers"):
        box = page.locator(table).bounding_box()
        assert box["x"] + box["width"] <= 390


def test_the_page_begins_with_a_budget_that_it_does_not_call_too_short(visit, server, tmp_path):
    page = opened(visit, server)
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,999,10\nslow,1,0.01\n")
    page.set_input_files("#file", tmp_path / "fleet.csv")
    page.locator("#numbers caption", has_text="1,000 clients").wait_for()
    assert "Warning" not in page.inner_text("#notes")
