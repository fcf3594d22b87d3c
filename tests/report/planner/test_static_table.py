"""The answers that stand in the page of the docs are those of the server; some are computed again here."""

import json

import planner_page
import pytest

from sojourn.report.planner.answer import answer
from sojourn.report.planner.examples import CORRECTIONS, examples
from sojourn.report.planner.page import static_page
from sojourn.report.planner.static_table import entry, keys, tasks_of, text_of, times_of

TABLE = json.loads(planner_page.ANSWERS.read_text("utf-8"))
PICKED = [(0, 5), (0, -1), (1, 20), (2, 0), (2, -4)]


def test_the_table_is_small_enough_for_a_page():
    assert planner_page.ANSWERS.stat().st_size < 500_000


def test_the_table_holds_every_point_of_the_grid():
    for example, held in zip(examples(), TABLE["fleets"], strict=True):
        assert list(held["entries"]) == [text_of(key) for key in keys(example.fleet)]
        assert (held["tasks"], held["times"]) == (tasks_of(example.fleet), times_of(example.fleet))
        assert held["groups"] == example.content()["groups"]
        assert held["recommended"]["key"] in held["entries"]


@pytest.mark.parametrize(("place", "point"), PICKED)
def test_an_entry_computed_again_is_the_same(place, point):
    example, held = examples()[place], TABLE["fleets"][place]
    key = keys(example.fleet)[point]
    known = {sentence: number for number, sentence in enumerate(TABLE["sentences"])}
    again = json.loads(json.dumps(entry(example, key, known)))
    kept = held["entries"][text_of(key)]
    assert again["notes"] == kept["notes"]
    assert again["side"]["by_group"] == [pytest.approx(one, rel=1e-9) for one in kept["side"]["by_group"]]
    assert again["side"]["throughput"] == pytest.approx(kept["side"]["throughput"], rel=1e-9)
    assert again["plan"]["sampling"] == pytest.approx(kept["plan"]["sampling"], rel=1e-9)
    for mine, theirs in zip(again["losses"], kept["losses"], strict=True):
        assert [word for _, word in mine] == [word for _, word in theirs]
        assert [ratio or 0 for ratio, _ in mine] == pytest.approx([ratio or 0 for ratio, _ in theirs], rel=1e-2)
    assert len(kept["losses"]) == len(CORRECTIONS)


def test_the_page_is_one_file_that_asks_nobody():
    page = static_page(TABLE)
    assert len(page) < 600_000
    assert "src=" not in page
    assert "fetch(" not in page


def test_the_recommended_point_of_each_fleet_is_the_recommended_plan():
    for example, held in zip(examples(), TABLE["fleets"], strict=True):
        best = answer({"groups": held["groups"], "time": held["times"][0]})["recommended"]
        assert held["recommended"]["key"] == text_of((best["cap"], best["concurrency"], best["sampling"]))
        assert held["recommended"]["correction"] == best["correction"], example.name
