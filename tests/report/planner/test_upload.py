"""Files dropped on the planner page: fleets and logs are recognised, and anything else gets one sentence."""

import numpy as np
import pytest

import sojourn as sj
from sojourn.dashboards import planner_for
from sojourn.laws.law import MOST_DURATIONS
from sojourn.report.planner import question
from sojourn.report.planner.app import MOST_QUESTION
from sojourn.report.planner.question import MOST_LAW, fleet_from
from sojourn.report.planner.upload import MOST_BYTES, fleet_in, read_upload

LOG = "device,seconds\n" + "".join(f"a,{1 + 0.01 * one}\nb,{4 + 0.02 * one}\n" for one in range(30))


def test_a_fleet_file_becomes_the_same_fleet(tmp_path):
    fleet = sj.Fleet.of(fast=(3, 1 / 3), slow=(2, 1.0))
    fleet.save(tmp_path / "fleet.csv")
    found = read_upload({"name": "fleet.csv", "text": (tmp_path / "fleet.csv").read_text()})
    assert found["kind"] == "fleet"
    assert fleet_from(found["groups"]) == fleet


def test_a_log_becomes_the_fleet_that_fits_it(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    found = read_upload({"name": "log.csv", "text": LOG})
    assert found["kind"] == "log"
    assert fleet_from(found["groups"]) == sj.Fleet.from_log(tmp_path / "log.csv") == fleet_in(tmp_path / "log.csv")
    assert found["notes"]


def measured(groups, durations):
    """Groups whose links take measured times."""
    laws = [sj.Law.parse(f"empirical({' '.join(str(1 + one % 97) for one in range(durations))})")] * groups
    names, ones = [f"group-{one}" for one in range(groups)], np.ones(groups)
    return sj.Fleet(
        names, np.full(groups, 2), ones, uplink_rate=ones, uplink_law=laws, downlink_rate=ones, downlink_law=laws
    )


def test_a_fleet_with_measured_links_is_read_and_answered(tmp_path):
    fleet = measured(2, MOST_DURATIONS)
    fleet.save(tmp_path / "fitted.csv")
    found = read_upload({"name": "fitted.csv", "text": (tmp_path / "fitted.csv").read_text()})
    assert len(found["groups"][0]["uplink_law"]) > 20_000
    assert fleet_from(found["groups"]) == fleet == planner_for(tmp_path / "fitted.csv").fleet


def test_a_question_about_a_hundred_groups_with_three_of_the_longest_laws_may_be_asked():
    longest = len("empirical()") + MOST_DURATIONS * len(f"{-1 / 3!r} ")
    assert longest < MOST_LAW
    assert 100 * 3 * longest < MOST_QUESTION


def test_a_fleet_that_the_page_could_not_send_back_is_refused_at_the_door(monkeypatch):
    monkeypatch.setattr(question, "MOST_ROWS", 1000)
    with pytest.raises(sj.InvalidInput, match="with the durations that their laws list, got"):
        planner_for(measured(2, 100))


def test_a_toml_fleet_is_read():
    text = '[[group]]\nname = "a"\ncount = 2\nrate = 0.5\n'
    assert read_upload({"name": "Fleet.TOML", "text": text})["groups"] == [{"name": "a", "count": 2, "rate": 0.5}]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.csv", "", "empty.csv: the file is empty"),
        ("empty.toml", " \n", "empty.toml: the file is empty"),
        ("trace.parquet", "PAR1\x15\ufffd", "a fleet file must end in .csv or .toml, got trace.parquet"),
        ("trace.csv", "PAR1\x15\ufffd", "trace.csv is a Parquet file"),
        ("plan.json", sj.make_plan(sj.Fleet.of(all=(2, 1.0)), time=9).plan.text(), "plan.json is a plan, and no fleet"),
        ("other.json", '{"a": 1}', "other.json is JSON, and no fleet"),
        ("f.csv", "name;count;rate\nfast;1;2\n", "cells must be separated by commas, got semicolons"),
        ("f.csv", "name,count,rate\nfast,1,-2\n", "f.csv: rate of group 'fast' must be positive"),
        ("l.csv", "device,seconds\na,-3\n", "l.csv"),
        ("l.csv", "colour,size\nred,3\n", "l.csv"),
        ("x.csv", "\x00\x01\x02", "x.csv"),
        ("x.toml", "[[group]", "x.toml"),
        ("../../secret/f.csv", "name,count,rate\nfast,0,1\n", "f.csv: count"),
        ("big.csv", "device,seconds\n" + "a" * 2 * MOST_BYTES, "got 30 MB"),
    ],
)
def test_a_wrong_file_gets_one_sentence_that_names_it(name, text, said):
    found = read_upload({"name": name, "text": text})
    assert said in found["error"]
    assert "sojourn-" not in found["error"]
    assert "\n" not in found["error"]


@pytest.mark.parametrize("asked", [None, {}, {"name": 3, "text": ""}, {"name": "a.csv", "text": 3}])
def test_what_is_no_file_is_refused(asked):
    assert read_upload(asked)["field"] == "file"
