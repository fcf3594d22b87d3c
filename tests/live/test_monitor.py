"""The numbers of a live run, on 127.0.0.1 alone."""

import json
import urllib.error
import urllib.request
from http.server import ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from sojourn.errors import InvalidInput
from sojourn.learning.run.config import TrainConfig
from sojourn.live.log import Log
from sojourn.live.monitor import HELP, check_port_free, serving, text
from sojourn.live.serve import open_server
from sojourn.live.settings import ServerFile


def test_metrics_are_served_and_nothing_else():
    with serving(0, lambda: {"updates_total": 7.0, "accuracy": 0.5}) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            said = answer.read().decode()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)
        with pytest.raises(InvalidInput, match=f"cannot be served at port {port}"), serving(port, dict):
            pass
    assert "# TYPE sojourn_updates_total counter\nsojourn_updates_total 7.0\n" in said
    assert "# TYPE sojourn_accuracy gauge\nsojourn_accuracy 0.5\n" in said


def test_a_metrics_port_that_is_in_use_costs_no_run_and_begins_none(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nall,2,5\n")
    config = TrainConfig(str(tmp_path / "fleet.csv"), steps=5, model="logistic", device="cpu")
    old = tmp_path / "live"
    old.mkdir()
    (old / "config.json").write_text("{}")
    with serving(0, dict) as port:
        for folder, overwrite in ((old, True), (tmp_path / "new", False)):
            file = ServerFile("127.0.0.1:0", out=str(folder), metrics_port=port)
            with pytest.raises(InvalidInput, match=f"cannot be served at port {port}"):
                open_server(config, file, overwrite=overwrite)
    assert (old / "config.json").exists()
    assert not (tmp_path / "new").exists()


def test_a_server_says_when_the_list_of_its_clients_is_damaged_and_when_it_is_whole_again(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,count,rate\nall,2,5\n")
    config, said = TrainConfig(str(tmp_path / "fleet.csv"), steps=5, model="logistic", device="cpu"), []

    def report(what, facts):
        if what == "keys":
            said.append(facts["reason"])

    with open_server(config, ServerFile("127.0.0.1:0", out=str(tmp_path / "live")), report=report) as run:
        for problem in (None, "it is damaged", "it is damaged", None):
            run.engine._registry = SimpleNamespace(problem=problem)
            run._look_at_keys()
        run.engine._registry = None
    assert said == ["it is damaged", "the file of those who may join can be read again"]


def test_every_number_has_its_words():
    assert text(dict.fromkeys(HELP, 1.0)).count("# HELP") == len(HELP)


def test_a_log_that_has_grown_long_is_turned_over_and_says_first_what_holds(tmp_path, monkeypatch):
    monkeypatch.setattr("sojourn.live.log.MOST", 100)
    with Log(tmp_path / "log.jsonl") as log:
        for number in range(5):
            log.write("joined", {"client": number, "reason": 'a "quoted"\nreason'})
    old, new = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("log.jsonl.1", "log.jsonl")
    )
    assert old[0]["what"] == new[0]["what"] == "new log"
    assert new[0]["clients"] == list(range(new[1]["client"]))  # who joined in the lines before
    assert new[-1]["client"] == 4


def test_a_port_is_tried_without_an_answer_to_who_asks_there_already(monkeypatch):
    listening = []
    monkeypatch.setattr(ThreadingHTTPServer, "server_activate", listening.append)
    check_port_free(0)
    assert listening == []  # a Prometheus that asked now would get a page without numbers
