"""The numbers of a live run, on 127.0.0.1 alone."""

import urllib.error
import urllib.request

import pytest

from sojourn.errors import InvalidInput
from sojourn.live.log import Log
from sojourn.live.monitor import HELP, serving, text


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


def test_every_number_has_its_words():
    assert text(dict.fromkeys(HELP, 1.0)).count("# HELP") == len(HELP)


def test_a_log_that_has_grown_long_is_turned_over(tmp_path):
    with Log(tmp_path / "log.jsonl", most=100) as log:
        for number in range(5):
            log.write("joined", {"client": number, "reason": 'a "quoted"\nreason'})
    old, new = ((tmp_path / name).read_text().splitlines() for name in ("log.jsonl.1", "log.jsonl"))
    assert all(one.startswith("{") for one in old + new)
    assert len(old + new) >= 1
