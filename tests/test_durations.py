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
def test_what_is_not_a_duration_is_refused_with_examples(text):
    with pytest.raises(InvalidInput, match="must be a number"):
        seconds(text)


def test_a_duration_with_a_sign_is_told_that_it_is_positive():
    with pytest.raises(InvalidInput, match=r"time must be a positive number, or a duration such as 90s, .* got '-4s'"):
        seconds("-4s")


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


def test_a_unit_that_is_not_one_names_the_row(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate,time_unit\nfast,9,120,parsec\n")
    with pytest.raises(InvalidInput, match=r"time_unit must be a unit of time.*got 'parsec'"):
        Fleet.load(path)


def test_a_fleet_file_may_say_how_long_a_task_takes_instead_of_a_rate(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text(
        "name,count,rate,seconds_per_task,uplink_rate,time_unit\n"
        "fast,9,,0.5,60,min\nslow,1,,1.5 min,60,h\nother,1,120,,60,min\n"
    )
    fleet = Fleet.load(path)
    assert fleet.rate.tolist() == [2.0, 1 / 90, 2.0]
    assert fleet.uplink_rate.tolist() == [1.0, 1 / 60, 1.0]
    fleet.save(tmp_path / "again.csv")
    assert Fleet.load(tmp_path / "again.csv") == fleet


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            "1,2",
            "line 2: a row must have either rate or seconds_per_task, got both, 1 and 2; leave one of the two empty",
        ),
        (",", "line 2: column 'rate' is required and missing; add it, or seconds_per_task"),
        (",-3", "line 2: seconds_per_task must be positive and finite, got -3; correct the cell"),
        (",0", "line 2: seconds_per_task must be positive and finite, got 0"),
        (",nan", "line 2: seconds_per_task must be positive and finite, got nan"),
        (",soon", "line 2: seconds_per_task must be a number, or a duration such as 90s, .* got 'soon'"),
    ],
)
def test_a_row_has_either_a_rate_or_the_seconds_of_a_task(tmp_path, cells, message):
    path = tmp_path / "fleet.csv"
    path.write_text(f"name,rate,seconds_per_task\na,{cells}\n")
    with pytest.raises(InvalidInput, match=message):
        Fleet.load(path)


def test_a_group_in_toml_may_have_seconds_per_task(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text('[[group]]\nname = "a"\nseconds_per_task = 4\n\n[[group]]\nname = "b"\nseconds_per_task = "1min"\n')
    assert Fleet.load(path).rate.tolist() == [0.25, 1 / 60]


@pytest.mark.parametrize(
    ("given", "meant"), [("5mn", "5min"), ("5m", "5min"), ("1h 5m", "1h 5min"), ("2 hrs", "2 hours")]
)
def test_a_misspelt_unit_is_answered_with_the_nearest(given, meant):
    with pytest.raises(InvalidInput, match=f"got '{given}'; did you mean {meant}"):
        seconds(given)
