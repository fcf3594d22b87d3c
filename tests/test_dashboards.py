"""Dashboards from Python and from the command line: pages of runs, their addresses and their tokens."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing, suppress

import pytest
from typer.testing import CliRunner

import sojourn
import sojourn.dashboards
from sojourn import Fleet
from sojourn.cli.dashboard import dashboard
from sojourn.cli.main import app
from sojourn.dashboards import beside, beside_training, check_port
from sojourn.errors import InvalidInput
from sojourn.report.web.serving import listening


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboards") / "run"
    sojourn.train(Fleet.of(fast=(2, 4.0), slow=(2, 1.0)), folder=folder, steps=40, progress=False)
    return folder


def read(address, token):
    """Return the first message of a page about now."""
    place = address.removeprefix("http://").removesuffix("/")
    with closing(http.client.HTTPConnection(place, timeout=60)) as line:
        line.request("GET", "/api/events", headers={"Authorization": f"Bearer {token}"})
        with line.getresponse() as answer:
            assert answer.status == 200
            while not (text := answer.readline().decode()).startswith("event: now"):
                assert text
            return json.loads(answer.readline().decode().removeprefix("data: "))


def test_a_page_shows_a_folder_and_leaves_nothing_behind(trained):
    before = sorted(trained.rglob("*"))
    with sojourn.dashboard(trained) as page:
        token = page.token_file.read_text().strip()
        assert token not in page.address
        assert token not in repr(page)
        assert read(page.address, token)["updates"] == 40
    assert not page.token_file.exists()
    assert sorted(trained.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize(("how", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_a_page_that_is_ended_by_a_signal_leaves_no_token_behind(trained, tmp_path, how, status):
    (tmp_path / "temporary").mkdir()
    words = [sys.executable, "-m", "sojourn", "dashboard", str(trained), "--port", "0"]
    surroundings = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(words, env=surroundings, stderr=subprocess.PIPE, text=True) as page:
        assert any("its token is in" in line for line in page.stderr)  # it waits for this line
        assert list((tmp_path / "temporary").glob("sojourn-*/dashboard.token"))
        page.send_signal(how)
        assert page.wait(60) == status
    assert not list((tmp_path / "temporary").glob("sojourn-*"))


def test_ctrl_c_while_a_page_is_made_ends_it_without_a_word(trained, monkeypatch, capsys):
    made = sojourn.dashboards.dashboard

    def interrupted(*given, **options):
        signal.raise_signal(signal.SIGINT)
        return made(*given, **options)

    monkeypatch.setattr(sojourn.dashboards, "dashboard", interrupted)
    dashboard(trained, port=0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_what_is_no_run_is_refused_in_a_sentence(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="name the folder of sojourn"):
        sojourn.dashboard(place)
    said = CliRunner().invoke(app, ["dashboard", place])
    assert isinstance(said.exception, InvalidInput)


def test_a_port_that_is_taken_is_refused_before_any_work(trained, tmp_path):
    with listening(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match="give another port"):
            check_port(port)
        with pytest.raises(InvalidInput, match="give another port"):
            sojourn.dashboard(trained, port)
        fleet = tmp_path / "fleet.csv"
        fleet.write_text("name,count,rate\nall,2,1\n")
        for verb in (["train"], ["live", "local"]):
            words = [*verb, str(fleet), "--steps", "5", "--out", str(tmp_path / "run"), "--dashboard", str(port)]
            assert "another port" in str(CliRunner().invoke(app, words).exception)
    assert not (tmp_path / "run").exists()


def test_several_seeds_have_no_single_page(tmp_path):
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("name,count,rate\nall,2,1\n")
    words = ["train", str(fleet), "--steps", "5", "--out", str(tmp_path / "run"), "--seeds", "2"]
    said = CliRunner().invoke(app, [*words, "--dashboard", "0"])
    assert "shows one run" in str(said.exception)
    assert CliRunner().invoke(app, words).exit_code == 0
    said = CliRunner().invoke(app, ["train", "--resume", "--out", str(tmp_path / "run"), "--dashboard", "0"])
    assert "shows one run" in str(said.exception)


def test_training_with_a_page_says_where_it_is_and_not_its_token(tmp_path):
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("name,count,rate\nall,2,1\n")
    words = ["train", str(fleet), "--steps", "5", "--out", str(tmp_path / "run"), "--dashboard", "0"]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0
    assert "page: http://127.0.0.1:" in said.output
    assert "its token is in " in said.output
    line = next(line for line in said.output.splitlines() if "its token" in line)
    assert line.endswith("dashboard.token")  # its value is for a terminal alone


def test_training_is_paused_and_stopped_by_who_has_its_token_and_can_be_resumed(tmp_path):
    fleet, stop, waited = Fleet.of(fast=(2, 4.0), slow=(2, 1.0)), threading.Event(), threading.Event()
    keys = {"steps": 60, "folder": tmp_path / "run", "evaluate_every": 20}
    with suppress(KeyboardInterrupt):
        sojourn.train(fleet, progress=interrupt, **keys)  # it has begun
    with beside_training(tmp_path / "run", stop, 0) as (page, controls):
        port, token = int(page.address.rsplit(":", 1)[1].strip("/")), page.token_file.read_text().strip()

        def trains():
            controls.wait()
            waited.set()

        assert read(page.address, token)["state"] == "running"
        assert controlled(port, "wrong", "pause") == 401
        assert not controls.paused
        assert controlled(port, token, "pause") == 200
        until(lambda: read(page.address, token)["state"] == "paused")
        training = threading.Thread(target=trains)
        training.start()
        assert not waited.wait(0.5)
        assert controlled(port, token, "go_on") == 200
        assert waited.wait(60)
        assert controlled(port, token, "replan") == 409  # its plan never changes
        controlled(port, token, "pause")
        assert controlled(port, token, "stop") == 200
        controls.wait()  # a pause does not outlast a stop
        assert stop.is_set()
    assert sojourn.train(fleet, progress=False, resume=True, **keys).last["received"] == 60


def test_training_from_python_has_a_page_that_can_pause_and_stop_it(tmp_path, monkeypatch):
    fleet, folder = Fleet.of(fast=(2, 4.0), slow=(2, 1.0)), tmp_path / "run"
    keys = {"steps": 60, "folder": folder, "evaluate_every": 20}
    pages, begun, go, runs = kept_pages(monkeypatch), threading.Event(), threading.Event(), []

    def progress(*_):
        begun.set()
        assert go.wait(60)

    training = threading.Thread(
        target=lambda: runs.append(sojourn.train(fleet, progress=progress, dashboard=0, **keys))
    )
    training.start()
    try:
        assert begun.wait(60)
        port, token = pages[0].port, (folder / "dashboard.token").read_text().strip()
        assert controlled(port, token, "pause") == 200
        go.set()
        assert read(f"http://127.0.0.1:{port}/", token)["state"] == "paused"
        assert controlled(port, token, "stop") == 200
    finally:
        go.set()
        training.join(60)
    assert not runs[0].complete
    assert not (folder / "dashboard.token").exists()
    assert sojourn.train(fleet, progress=False, resume=True, dashboard=0, **keys).last["received"] == 60


def test_a_page_of_training_needs_a_folder_for_its_token():
    with pytest.raises(InvalidInput, match="dashboard needs a folder"):
        sojourn.train(Fleet.of(all=(2, 1.0)), steps=5, dashboard=0)


def kept_pages(monkeypatch):
    """The pages that are served from now on, to learn which ports they have."""
    pages, served = [], sojourn.dashboards._served

    def kept(*given):
        pages.append(served(*given))
        return pages[-1]

    monkeypatch.setattr(sojourn.dashboards, "_served", kept)
    return pages


def interrupt(done, total, facts):
    if done >= 20:
        raise KeyboardInterrupt


def test_without_a_port_nothing_is_shown(tmp_path):
    with beside(None, threading.Event(), None) as page:  # type: ignore[arg-type]
        assert page is None


def test_a_served_run_can_be_read_and_stopped_by_who_has_the_token_in_its_folder(tmp_path, monkeypatch):
    folder, stop, pages = tmp_path / "live", threading.Event(), kept_pages(monkeypatch)
    run = threading.Thread(
        target=lambda: sojourn.serve(
            3, folder=folder, address="127.0.0.1:0", time=60, stop=stop, dashboard=0, model="mlp(hidden=4)"
        )
    )
    run.start()
    try:
        until(lambda: pages)
        port = pages[0].port
        token = (folder / "dashboard.token").read_text().strip()
        until(lambda: answers(port))
        assert read(f"http://127.0.0.1:{port}/", token)["state"] == "running"
        assert controlled(port, token, "stop") == 200
        run.join(60)
        assert stop.is_set()
    finally:
        stop.set()
        run.join(60)
    assert not run.is_alive()
    assert token not in (folder / "log.jsonl").read_text()
    assert (folder / "dashboard.token").exists()  # for the server that resumes the run


def answers(port):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with closing(line), suppress(OSError):
        line.request("GET", "/")
        return line.getresponse().status == 200
    return False


def controlled(port, token, does):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Origin": f"http://127.0.0.1:{port}"}
    with closing(line):
        line.request("POST", "/api/control", json.dumps({"do": does}), headers)
        return line.getresponse().status


def until(holds, seconds=60.0):
    end = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if holds():
            return
        end.wait(0.05)
    raise AssertionError("it never came true")
