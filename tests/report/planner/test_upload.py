"""Files dropped on the planner page: fleets and logs are recognised, and anything else gets one sentence."""

import pytest

import sojourn as sj
from sojourn.report.planner.question import fleet_from
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


def test_a_toml_fleet_is_read():
    text = '[[group]]\nname = "a"\ncount = 2\nrate = 0.5\n'
    assert read_upload({"name": "Fleet.TOML", "text": text})["groups"] == [{"name": "a", "count": 2, "rate": 0.5}]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.csv", "", "empty.csv"),
        ("f.csv", "name,count,rate\nfast,1,-2\n", "f.csv: rate of group 'fast' must be positive"),
        ("l.csv", "device,seconds\na,-3\n", "l.csv"),
        ("l.csv", "colour,size\nred,3\n", "l.csv"),
        ("x.csv", "\x00\x01\x02", "x.csv"),
        ("x.toml", "[[group]", "x.toml"),
        ("../../secret/f.csv", "name,count,rate\nfast,0,1\n", "f.csv: count"),
        ("big.csv", "device,seconds\n" + "a" * 2 * MOST_BYTES, "got 10 MB"),
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
