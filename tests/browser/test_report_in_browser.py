"""Report pages in a browser: without errors, light and dark, on a phone and on paper."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reading
from typer.testing import CliRunner

from live.waiting import until
from sojourn import Fleet, Plan, compare, make_plan, simulate, sweep, train, tune
from sojourn.cli.main import app
from sojourn.report.page.parts import Part, Section, table
from sojourn.report.page.write import write_report

WIDTH = 900  # pixels of pictures of more than the beginning
NAME = "old <script>throw 'run'</script>"  # if it were run, the visit would fail
FLEET = Fleet(("fast", NAME), np.array([6, 4]), np.array([4.0, 1.0]), data_size=np.array([100.0, 300.0]))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    with contextlib.chdir(folder):  # so that the pages name no place of this machine
        _write()
    return folder


def _write() -> None:
    folder = Path()
    fleet = Fleet(("fast", "slow"), FLEET.count, FLEET.rate, data_size=FLEET.data_size)
    plan = Plan.uniform(fleet, 20)
    simulate(fleet, plan, 20_000, start="even", seed=1).save(folder / "trace.parquet")
    write_report([folder / "trace.parquet"], folder / "trace.html", fleet=fleet, plan=plan)
    strange = Plan.uniform(FLEET, 20)
    simulate(FLEET, strange, 3000, start="even", seed=1).save(folder / "strange.parquet")
    write_report([folder / "strange.parquet"], folder / "strange.html", fleet=FLEET, plan=strange)
    make_plan(fleet, time=600).save(folder / "plan.json")
    write_report([folder / "plan.json", folder / "trace.parquet"], folder / "both.html", fleet=fleet)
    write_report([folder / "plan.json"], folder / "plan.html", fleet=fleet)
    wide = [
        table(f"{many} columns", ["staleness"] * many, [[f"{10**12 + at:,}" for at in range(many)]]) for many in (9, 16)
    ]
    part = Part(
        "wide", "tables", ["It is wide."], sections=[Section("Wide", tables=wide, code=["sojourn " + "x" * 300])]
    )
    traces = [folder / "trace.parquet", folder / "strange.parquet"]
    write_report([*traces, part], folder / "wide.html", fleet=fleet, plan=plan)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("trained")
    with contextlib.chdir(folder):
        fleet = Fleet(("fast", "slow"), FLEET.count, FLEET.rate)
        fleet.save("fleet.csv")
        keys: dict[str, Any] = {"data": "digits", "partition": "classes(k=2)", "model": "logistic", "time": 30}
        train("fleet.csv", concurrency=10, step_size=0.1, folder="run", progress=False, **keys)
        write_report(["run"], folder / "run.html")
        methods = ["asyncsgd", "fedbuff(size=5)", "fedasync"]
        compare("fleet.csv", methods, seeds=3, folder="comparison", jobs=1, step_size=0.1, **keys)
        write_report(["comparison"], folder / "comparison.html")
        short = {**keys, "time": 10, "concurrency": 10, "jobs": 1}
        sweep("fleet.csv", {"step_size": [0.05, 0.1, 0.2], "cap": ["1", "none"]}, seeds=2, folder="sweep", **short)
        write_report(["sweep"], folder / "sweep.html")
        Plan.uniform(fleet, 10).save("plan.json")
        del short["concurrency"]
        tune("fleet.csv", "plan.json", folder="tuning", guess=0.1, **short)
        write_report(["tuning"], folder / "tuning.html")
        for seed in (0, 1, 2):
            train(
                "fleet.csv",
                concurrency=10,
                step_size=0.1,
                folder=f"seeds/seed-{seed}",
                seed=seed,
                progress=False,
                **keys,
            )
        Path("seeds/seeds.json").write_text('{"seeds": [0, 1, 2]}')
        write_report(["seeds"], folder / "seeds.html")
        words = ["simulate", "fleet.csv", "-C", "10", "--steps", "20000", "-R", "4", "--out", "simulation"]
        assert CliRunner().invoke(app, words).exit_code == 0
        write_report(["simulation"], folder / "simulation.html")
    return folder


KINDS = {"run": 3400, "comparison": 2450, "sweep": 1300, "tuning": 1600, "seeds": 2200, "simulation": 1700}
"""Kinds of pages, and how many pixels of each are kept as a picture."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.slow
def test_everybody_can_read_a_report_of_training(visit: Any, trained: Path, name: str, dark: bool) -> None:
    page = visit(trained / f"{name}.html", width=WIDTH, height=KINDS[name], dark=dark)
    assert page.locator("svg").count() > 0
    if not dark:
        visit.picture(page, f"report-{name}", whole=False)
    assert reading.faults(page) == []
    page.emulate_media(media="print")
    assert reading.cut_off(page) == []


@pytest.mark.parametrize("name", ["trace", "plan"])
def test_a_report_ends_with_where_it_comes_from(visit: Any, place: Path, name: str) -> None:
    page = visit(place / f"{name}.html", width=WIDTH, height=3280)
    visit.picture(page, f"report-{name}", whole=False)
    assert page.locator("h2").last.inner_text() == "Where it comes from"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["trace", "both"])
@pytest.mark.slow
def test_everybody_can_read_a_report(visit: Any, place: Path, name: str, dark: bool) -> None:
    page = visit(place / f"{name}.html", dark=dark)
    assert reading.faults(page) == []
    assert page.locator("svg").count() > 6


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_report_looks_as_it_should(visit: Any, place: Path, dark: bool) -> None:
    page = visit(place / "trace.html", dark=dark, height=1250)
    visit.picture(page, "report-dark" if dark else "report", whole=False)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 25, 28)" if dark else "rgb(255, 255, 255)")
    text = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
    assert text == ("rgb(163, 177, 184)" if dark else "rgb(85, 99, 107)")
    page.get_by_role("button").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground


def test_a_report_fits_a_phone(visit: Any, place: Path) -> None:
    page = visit(place / "trace.html", width=390, height=1000)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    visit.picture(page, "report-phone", whole=False)


def test_a_report_can_be_printed(visit: Any, place: Path) -> None:
    page = visit(place / "both.html", dark=True)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
    assert page.get_by_role("button").count() == 0
    assert reading.faint_text(page) == []
    assert len(page.pdf()) > 20_000


@pytest.mark.parametrize("name", ["both", "wide"])
def test_nothing_is_cut_off_on_paper(visit: Any, place: Path, name: str) -> None:
    page = visit(place / f"{name}.html")
    page.emulate_media(media="print")
    assert reading.cut_off(page) == []
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll')).backgroundImage") == "none"


def test_a_name_with_a_script_in_it_is_shown_and_not_run(visit: Any, place: Path) -> None:
    page = visit(place / "strange.html")
    assert page.get_by_role("cell", name=NAME).count() > 0


def test_the_links_to_the_parts_lead_to_them(visit: Any, place: Path) -> None:
    page = visit(place / "both.html")
    page.get_by_role("link", name="trace.parquet").click()
    there = "Math.abs(document.querySelector('#part-2').getBoundingClientRect().top) < 40"
    until(lambda: page.evaluate(there), 60, "the page is scrolled to its second part")
