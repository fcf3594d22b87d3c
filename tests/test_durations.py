"""Durations as people write them, and units of time in fleet files."""

import pytest

from sojourn import Fleet
from sojourn.durations import seconds, seconds_of_unit, shown
from sojourn.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90s", 90),
        ("90 s", 90),
        ("1h", 3600),
        ("1.5h", 5400),
        ("1h 30min", 5400),
        ("1h30min", 5400),
        ("1h, 30 minutes", 5400),
        ("2 days", 172_800),
        ("1 week", 604_800),
        ("250 ms", 0.25),
        ("1e3 s", 1000),
        ("1_000", 1000),
        ("2 H", 7200),
        (7, 7),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_read_as_seconds(text, value):
    assert seconds(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("text", ["", "h", "1 fortnight", "soon", "1h x", "1..5h", "1h 30", None, True])
def test_what_is_no_duration_is_refused_with_examples(text):
    with pytest.raises(InvalidInput, match="must be a number"):
        seconds(text)


def test_a_duration_is_shown_in_the_largest_unit_that_fits():
    assert [shown(value) for value in (59, 60, 3600, 86_400, 1e-3)] == ["59 s", "1 min", "1 h", "1 days", "0.001 s"]


def test_a_unit_must_be_one_of_time():
    with pytest.raises(InvalidInput, match="time_unit must be a unit of time such as s, min, h or day, got 'metre'"):
        seconds_of_unit("metre")


def test_rates_are_per_second_once_a_fleet_file_names_its_unit(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate,uplink_rate,time_unit\nfast,9,120,60,h\nslow,1,2,60,min\n")
    fleet = Fleet.load(path)
    assert fleet.rate.tolist() == pytest.approx([120 / 3600, 2 / 60], rel=1e-15)
    assert fleet.uplink_rate.tolist() == pytest.approx([60 / 3600, 1.0], rel=1e-15)


def test_a_unit_that_is_none_names_the_row(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate,time_unit\nfast,9,120,parsec\n")
    with pytest.raises(InvalidInput, match=r"time_unit must be a unit of time.*got 'parsec'"):
        Fleet.load(path)
