"""Fleets: groups of equal clients, their files, and what they refuse."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn import Fleet, InvalidInput, Law, Plan, UnreadableFile
from sojourn.fleet_file import COLUMNS

ANY = settings(max_examples=60)
FLOATS = ("rate", "uplink_rate", "downlink_rate", "data_size", "power", "uplink_power", "downlink_power")
LAWS = ("law", "uplink_law", "downlink_law")


@st.composite
def fleets(draw):
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="=,\n\r\x7f")
    names = st.text(letters, min_size=1, max_size=6).map(str.strip).filter(lambda name: name and name.isprintable())
    name = tuple(draw(st.lists(names, min_size=1, max_size=4, unique=True)))
    positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
    rates = st.floats(min_value=sys.float_info.min, allow_infinity=False)
    unknown = st.just(math.nan)
    law = st.one_of(
        st.sampled_from([Law(), Law("deterministic")]),
        st.builds(Law, st.sampled_from(["lognormal", "gamma", "weibull"]), positive),
    )

    def column(values):
        return draw(st.lists(values, min_size=len(name), max_size=len(name)))

    link = st.one_of(st.just(math.inf), rates)
    watts = st.one_of(unknown, st.just(0.0), positive)
    return Fleet(
        name=name,
        count=column(st.integers(1, 2**53)),
        rate=column(rates),
        law=column(law),
        uplink_rate=column(link),
        uplink_law=column(law),
        downlink_rate=column(link),
        downlink_law=column(law),
        data_size=column(st.one_of(unknown, positive)),
        power=column(watts),
        uplink_power=column(watts),
        downlink_power=column(watts),
    )


def write(folder, text, name="fleet.csv"):
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.slow
@ANY
@given(fleet=fleets())
def test_saving_and_loading_gives_the_same_fleet_to_the_last_bit(tmp_path_factory, fleet):
    for suffix in (".csv", ".toml"):
        path = tmp_path_factory.getbasetemp() / f"any-fleet{suffix}"
        fleet.save(path)
        loaded = Fleet.load(path)
        assert loaded == fleet
        assert loaded.hash == fleet.hash
        for key in ("count", *FLOATS):
            assert getattr(loaded, key).tobytes() == getattr(fleet, key).tobytes()


@pytest.mark.parametrize("suffix", [".csv", ".toml"])
def test_columns_that_hold_only_defaults_are_not_written(tmp_path, suffix):
    path = tmp_path / f"fleet{suffix}"
    Fleet.of(fast=(5, 1.2)).save(path)
    text = path.read_text("utf-8")
    assert [key for key in COLUMNS if key in text] == ["name", "count", "rate"]


def test_name_count_and_rate_are_enough(tmp_path):
    path = write(tmp_path, "name,count,rate\nfast,5,1.2\nslow,5,1\n")
    assert Fleet.load(path) == Fleet.of(fast=(5, 1.2), slow=(5, 1.0))


def test_a_group_without_a_count_is_one_client(tmp_path):
    assert Fleet.load(write(tmp_path, "name,rate\nphone,2\n")) == Fleet.of(phone=(1, 2.0))


def test_the_same_keys_make_a_fleet_in_toml(tmp_path):
    text = '[[group]]\nname = "fast"\ncount = 5\nrate = 1.2\n\n[[group]]\nname = "slow"\ncount = 5\nrate = 1\n'
    assert Fleet.load(write(tmp_path, text, "fleet.toml")) == Fleet.of(fast=(5, 1.2), slow=(5, 1.0))


def test_an_empty_cell_takes_the_default(tmp_path):
    fleet = Fleet.load(write(tmp_path, "name,count,rate,law,power\na,,1,,\nb,2,1,gamma(shape=2),5\n"))
    assert fleet.count.tolist() == [1, 2]
    assert fleet.law == (Law(), Law("gamma", 2.0))
    assert math.isnan(fleet.power[0])
    assert fleet.power[1] == 5


def test_blank_lines_outer_spaces_and_a_byte_order_mark_do_not_matter(tmp_path):
    path = write(tmp_path, "\ufeffname , count,rate\n\n fast, 5 , 1.2 \n,,\n")
    assert Fleet.load(path) == Fleet.of(fast=(5, 1.2))


@pytest.mark.parametrize("suffix", [".CSV", ".Toml"])
def test_the_case_of_the_suffix_does_not_matter(tmp_path, suffix):
    fleet = Fleet.of(fast=(5, 1.2))
    fleet.save(tmp_path / f"fleet{suffix}")
    assert Fleet.load(tmp_path / f"fleet{suffix}") == fleet


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,count,rate\na,1,-2\n", r"fleet.csv: rate of group 'a' must be positive and finite, got -2.0"),
        ("name,count,rate\na,1,nan\n", "rate of group 'a' must be positive and finite, got nan"),
        ("name,count,rate\na,0,1\n", "count of group 'a' must be at least 1, got 0"),
        ("name,count,rate\na,1.5,1\n", "line 2: count must be a whole number, got '1.5'; correct the cell"),
        ("name,count,rate\na,inf,1\n", "line 2: count must be a whole number, got 'inf'"),
        ("name,count,rate\na,9e18,1\nb,9e18,1\n", r"fleet.csv: a fleet can have at most 1e\+17 clients, got 1.8e\+19"),
        (
            f"name,count,rate\na,{'9' * 5000},1\n",
            r"count must be a whole number, got '9+ \.\.\. 9+'",
        ),
        ("name,count,rate\na,1,1e-310\n", "rate of group 'a' must be at least 2.23e-308, got 1e-310"),
        ("name,count,rate\na,few,1\n", "line 2: count must be a whole number, got 'few'"),
        ("name,count,rate\na,1,fast\n", "line 2: rate must be a number, got 'fast'; correct the cell"),
        ("name;count;rate\na;1;1\n", "cells must be separated by commas, got semicolons; replace them"),
        ("a,1,1\nb,2,2\n", "the first line must name the columns, got 'a,1,1'; write name,count,rate above it"),
        ("name,count,rat\na,1,1\n", "unknown column 'rat'; did you mean 'rate'\\?"),
        ("name,count,rate,zzz\na,1,1,1\n", "unknown column 'zzz'; the columns are name, count, rate, law,"),
        ("name,count\na,1\n", "line 2: column 'rate' is required and missing; add it"),
        ("count,rate\n1,1\n", "line 2: column 'name' is required and missing; add it"),
        ("name,count,rate\na,1,1\nb,1,\n", "line 3: column 'rate' is required and missing"),
        ("name,count,rate,law\na,1,1,pareto\n", "line 2: law must be one of exponential, .*got 'pareto'"),
        ("", "a fleet needs at least one group, got none; add a row with name,count,rate"),
        ("name,count,rate\n", "a fleet needs at least one group, got none"),
        ("name,count,rate\na,1\n", "line 2: a row must have 3 cells, got 2; quote commas"),
        ("name,count,rate\na,1,1,1\n", "line 2: a row must have 3 cells, got 4"),
        ("name,count,rate\na,1,1\na,2,2\n", "group names must be unique, got 'a' more than once; rename one"),
        ("name,rate,rate\na,1,1\n", "column 'rate' appears twice; keep one"),
        ("name,count,rate,power\na,1,1,-1\n", "power of group 'a' must be non-negative and finite, got -1.0"),
        ("name,count,rate,data_size\na,1,1,0\n", "data_size of group 'a' must be positive and finite, got 0.0"),
        ("name,count,rate,uplink_rate\na,1,1,0\n", r"uplink_rate of group 'a' must be positive \(inf = no link\)"),
    ],
)
def test_a_wrong_csv_is_refused_with_the_place_the_rule_and_the_value(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        Fleet.load(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[group]]\nname = "a"\nrates = 1\n', "group 1: unknown column 'rates'; did you mean 'rate'\\?"),
        ('[[group]]\nname = "a"\n', "group 1: column 'rate' is required and missing"),
        ('[[group]]\nname = "a"\nrate = 1\ncount = 1.5\n', "group 1: count must be a whole number, got '1.5'"),
        ('[[group]]\nname = "a"\nrate = true\n', "group 1: rate must be a number, got 'True'"),
        ('title = "x"\n', r"a fleet in TOML is a list of \[\[group\]\] tables, got 'title'"),
        ('[group]\nname = "a"\n', r"a fleet in TOML is a list of \[\[group\]\] tables, got something else"),
        ("", "a fleet needs at least one group, got none"),
    ],
)
def test_a_wrong_toml_is_refused_with_the_place_the_rule_and_the_value(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        Fleet.load(write(tmp_path, text, "fleet.toml"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnreadableFile, match=r"fleet file .*none.csv does not exist; check the path"):
        Fleet.load(tmp_path / "none.csv")


def test_a_folder_is_not_a_fleet_file(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UnreadableFile, match=r"folder.csv is a folder; name the file in it"):
        Fleet.load(tmp_path / "folder.csv")


@pytest.mark.parametrize("name", ["fleet.csv", "fleet.toml"])
def test_a_file_that_is_not_utf8_is_refused_with_the_way_out(tmp_path, name):
    (tmp_path / name).write_bytes(b'name,rate\n\xe9t\xe9,1\nname = "\xe9"')
    with pytest.raises(UnreadableFile, match="is not UTF-8 text; save it as UTF-8"):
        Fleet.load(tmp_path / name)


def test_broken_toml_is_refused_with_its_line(tmp_path):
    with pytest.raises(UnreadableFile, match=r"is not valid TOML: .*line 1"):
        Fleet.load(write(tmp_path, "[[group]\n", "fleet.toml"))


def test_broken_csv_is_refused(tmp_path):
    # a cell beyond the limit of the csv module, as left by a quote that never closes
    with pytest.raises(UnreadableFile, match="is not valid CSV: field larger than field limit"):
        Fleet.load(write(tmp_path, 'name,rate\n"' + "x" * 200_000))


def test_another_suffix_is_refused_in_both_directions(tmp_path):
    with pytest.raises(UnreadableFile, match=r"a fleet file must end in .csv or .toml, got .*fleet.json"):
        Fleet.load(write(tmp_path, "{}", "fleet.json"))
    with pytest.raises(InvalidInput, match=r"a fleet file must end in .csv or .toml, got .*fleet.txt"):
        Fleet.of(fast=(5, 1.2)).save(tmp_path / "fleet.txt")


def test_a_million_equal_clients_cost_one_row():
    fleet = Fleet.of(x=(10**6, 1.0))
    assert fleet.clients == 10**6
    assert {getattr(fleet, key).size for key in ("count", *FLOATS)} == {1}
    assert {len(getattr(fleet, key)) for key in ("name", *LAWS)} == {1}


def test_clients_are_numbered_through_the_groups():
    fleet = Fleet.of(a=(2, 1.0), b=(1, 2.0), c=(3, 3.0))
    assert fleet.first_client.tolist() == [0, 2, 3]
    assert fleet.group_of_client.tolist() == [0, 0, 1, 2, 2, 2]
    assert [fleet.client_name(k) for k in range(6)] == ["a-0", "a-1", "b", "c-0", "c-1", "c-2"]


def test_the_expanded_fleet_has_the_same_clients_one_by_one():
    fleet = replace(Fleet.of(a=(2, 1.0), b=(1, 2.0)), law=(Law("gamma", 2.0), Law()), power=[3.0, math.nan])
    single = fleet.expanded()
    assert single.name == ("a-0", "a-1", "b")
    assert single.count.tolist() == [1, 1, 1]
    assert single.rate.tolist() == [1.0, 1.0, 2.0]
    assert single.law == (Law("gamma", 2.0), Law("gamma", 2.0), Law())
    assert np.array_equal(single.power, [3.0, 3.0, math.nan], equal_nan=True)
    assert single.expanded() == single


def test_a_fleet_of_rates_is_one_group_a_client():
    fleet = Fleet.of_rates([1.0, 2.0])
    assert fleet.name == ("client-0", "client-1")
    assert fleet.count.tolist() == [1, 1]
    assert fleet.rate.tolist() == [1.0, 2.0]


def test_other_rates_leave_the_rest_of_the_fleet_alone():
    fleet = replace(Fleet.of(a=(2, 1.0), b=(1, 2.0)), power=[3.0, 4.0])
    other = fleet.with_rates([5.0, 6.0])
    assert other.rate.tolist() == [5.0, 6.0]
    assert other.with_rates(fleet.rate) == fleet


def test_only_exponential_service_without_links_is_the_papers_network():
    fleet = Fleet.of(a=(2, 1.0))
    assert fleet.exponential
    assert not replace(fleet, law=(Law("deterministic"),)).exponential
    assert not replace(fleet, uplink_rate=[1.0]).exponential
    assert not replace(fleet, downlink_rate=[1.0]).exponential


def test_the_arrays_of_a_fleet_cannot_be_changed_and_are_its_own():
    rates = np.array([1.0, 2.0])
    fleet = Fleet(("a", "b"), np.array([1, 1]), rates)
    rates[0] = 9.0
    assert fleet.rate[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        fleet.rate[0] = 9.0


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("name", ("a", "c")),
        ("count", [2, 4]),
        ("rate", [1.0, np.nextafter(2.0, 3.0)]),
        *((key, (Law(), Law("gamma", 2.0))) for key in LAWS),
        *((key, [3.0, 3.5]) for key in FLOATS if key != "rate"),
    ],
)
def test_the_fingerprint_changes_when_anything_changes(column, value):
    fleet = replace(Fleet.of(a=(2, 1.0), b=(3, 2.0)), **{key: [3.0, 3.0] for key in FLOATS if key != "rate"})
    changed = replace(fleet, **{column: value})
    assert changed.hash != fleet.hash
    assert changed != fleet
    assert replace(fleet).hash == fleet.hash
    assert hash(replace(fleet)) == hash(fleet)


def test_the_order_of_the_groups_is_part_of_the_fleet():
    assert Fleet.of(a=(1, 1.0), b=(1, 2.0)) != Fleet.of(b=(1, 2.0), a=(1, 1.0))
    assert Fleet.of(a=(1, 1.0)) != "a"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"name": ()}, "a fleet needs at least one group, got none"),
        ({"rate": [1.0]}, "rate must have one value for each of the 2 groups, got 1"),
        ({"count": [1.5, 1]}, r"count must hold whole numbers, got \[1.5, 1.0\]"),
        ({"count": [0, 1]}, "count of group 'a' must be at least 1, got 0"),
        ({"count": [1, -3]}, "count of group 'b' must be at least 1, got -3"),
        (
            {"count": [9 * 10**18, 9 * 10**18]},
            r"a fleet can have at most 1e\+17 clients, got 1.8e\+19; lower the counts",
        ),
        ({"count": [1, 10**300]}, r"a fleet can have at most 1e\+17 clients, got 1e\+300"),
        ({"count": [1e300, -1e300]}, r"a fleet can have at most 1e\+17 clients"),
        ({"count": [math.inf, 1]}, r"a fleet can have at most 1e\+17 clients, got inf"),
        ({"count": [math.nan, 1]}, r"count must hold whole numbers, got \[nan, 1.0\]"),
        ({"count": [None, 1]}, "count must hold whole numbers"),
        ({"count": ["two", "three"]}, "count must hold whole numbers"),
        (
            {"rate": [5e-324, 1.0]},
            "rate of group 'a' must be at least 2.23e-308, got 5e-324; use a longer unit of time",
        ),
        ({"uplink_rate": [1.0, 1e-310]}, "uplink_rate of group 'b' must be at least 2.23e-308, got 1e-310"),
        ({"rate": [1.0, -1.0]}, "rate of group 'b' must be positive and finite, got -1.0"),
        ({"rate": [math.inf, 1.0]}, "rate of group 'a' must be positive and finite, got inf"),
        ({"rate": [1.0, math.nan]}, "rate of group 'b' must be positive and finite, got nan"),
        ({"downlink_rate": [1.0, math.nan]}, r"downlink_rate of group 'b' must be positive \(inf = no link\)"),
        ({"data_size": [math.inf, 1]}, "data_size of group 'a' must be positive and finite, got inf"),
        ({"uplink_power": [1, -1]}, "uplink_power of group 'b' must be non-negative and finite, got -1.0"),
        ({"name": ("a", "a")}, "group names must be unique, got 'a' more than once"),
        ({"name": ("a", "")}, "a group name must be printable, .* got ''"),
        ({"name": ("a", " b")}, "a group name must be .*without .*outer spaces, got ' b'"),
        ({"name": ("a", "b=c")}, "a group name must be .*without '=', ',' or outer spaces, got 'b=c'"),
        ({"name": ("a", "b,c")}, "a group name must be .* got 'b,c'"),
    ],
)
def test_a_wrong_value_is_refused_with_the_group_the_rule_and_the_value(columns, message):
    with pytest.raises(InvalidInput, match=message):
        Fleet(**{"name": ("a", "b"), "count": [1, 1], "rate": [1.0, 1.0], **columns})


def test_a_group_that_is_not_there_is_refused_with_those_that_are():
    fleet = Fleet.of_rates(np.ones(9))
    assert fleet.index("client-8") == 8
    with pytest.raises(InvalidInput, match=r"no group 'x'; its groups are client-0, .*client-5 and 3 more"):
        fleet.index("x")
    with pytest.raises(InvalidInput, match=r"no group 'x'; its groups are a, b$"):
        Fleet.of(a=(1, 1.0), b=(1, 1.0)).index("x")


def test_a_large_count_is_read_to_the_last_digit(tmp_path):
    path = write(tmp_path, "name,count,rate\na,9007199254740993,1\n")
    assert Fleet.load(path).count.tolist() == [9007199254740993]
    assert Plan.uniform(Fleet.load(path), 3).count.tolist() == [9007199254740993]


def test_a_hundred_thousand_groups_are_found_by_name_and_expanded():
    fleet = Fleet.of_rates(np.ones(100_000))
    assert [fleet.index(name) for name in fleet.name] == list(range(100_000))
    assert fleet.expanded().name == fleet.name


def test_a_folder_without_the_suffix_of_a_fleet_file_is_called_a_folder(tmp_path):
    with pytest.raises(UnreadableFile, match=r"^fleet file .* is a folder; name the file in it$"):
        Fleet.load(tmp_path)


def test_laws_may_be_given_as_text():
    fleet = replace(Fleet.of(fast=(1, 2.0), slow=(1, 1.0)), law=["exponential", "lognormal(sigma=0.5)"])
    assert fleet.law == (Law("exponential"), Law("lognormal", 0.5))
    with pytest.raises(InvalidInput, match="lognormol"):
        replace(fleet, law=["exponential", "lognormol(sigma=0.5)"])
