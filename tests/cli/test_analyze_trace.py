"""`sojourn analyze` of a trace: promised and observed, side by side."""

import csv
import io
import json

import pytest

from sojourn import Fleet, InvalidInput, Plan, observe, simulate
from sojourn.cli.main import app

FLEET = Fleet.of(fast=(5, 4.0), slow=(5, 1.0))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a fleet and the trace of a run with a cap of 1."""
    folder = tmp_path_factory.mktemp("trace")
    FLEET.save(folder / "fleet.csv")
    simulate(FLEET, Plan.uniform(FLEET, 6, cap=1), 5000, start="even", seed=1).save(folder / "trace.parquet")
    return folder


@pytest.fixture
def call(capsys):
    """Run the verb in this process: what it prints on stdout; an error comes out as it was raised."""

    def go(*words):
        app(["analyze", *map(str, words)], standalone_mode=False)
        return capsys.readouterr().out

    return go


def test_promised_and_observed_stand_side_by_side(call, files):
    out = call(files, "--fleet", files / "fleet.csv", "--cap", 1)
    for words in ("promised, given", "promised, fitted", "observed", "throughput", "share", "staleness", "±"):
        assert words in out
    assert "chance can explain the differences: none is larger than 3 standard errors" in out
    assert "what became of the tasks" in out
    assert "refused" in out


def test_the_wrong_plan_is_named_as_the_reason(call, files):
    out = call(files / "trace.parquet", "--fleet", files / "fleet.csv")
    assert "chance does not explain the differences" in out
    assert "theory was asked about another fleet or plan" in out
    assert "the trace was recorded under another plan" in out


def test_without_the_fleet_there_is_one_promise(call, files):
    out = call(files / "trace.parquet", "--csv")
    assert "promised, fitted" in out
    assert "promised, given" not in out


def test_csv_has_two_tables_at_full_precision(call, files):
    words = (files / "trace.parquet", "--fleet", files / "fleet.csv", "--cap", 1)
    first, second = call(*words, "--csv").split("\n\n")
    rows = list(csv.DictReader(io.StringIO(first.partition("\n")[2])))
    found = list(observe(files / "trace.parquet", FLEET, cap=1).figures())
    assert [float(row["observed"]) for row in rows] == [one.observed for one in found]
    assert [float(row["observed, standard error"]) for row in rows] == [one.error for one in found]
    fates = list(csv.DictReader(io.StringIO(second.partition("\n")[2])))
    assert sum(int(row["applied"]) for row in fates) == 5000
    assert sum(int(row["in flight"]) for row in fates) == 6


def test_json_says_the_same_and_can_be_written_to_a_file(call, files, tmp_path):
    words = (files / "trace.parquet", "--fleet", files / "fleet.csv", "--cap", 1)
    printed = json.loads(call(*words, "--json", "--out", tmp_path / "a.json"))
    assert printed == json.loads((tmp_path / "a.json").read_text())
    found = observe(files / "trace.parquet", FLEET, cap=1)
    assert printed["throughput"]["fitted"] == found.promised.throughput
    assert printed["groups"][1]["staleness"]["observed"] == found.tally.staleness.value[1]
    assert printed["groups"][0]["uplink_rate"] is None


@pytest.mark.parametrize("flag", ["--markdown", "--latex"])
def test_the_tables_come_in_other_formats(call, files, flag):
    assert "throughput" in call(files, "--fleet", files / "fleet.csv", flag)


@pytest.mark.parametrize("width", [60, 80])
def test_the_table_is_as_wide_as_the_terminal(call, files, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    out = call(files, "--fleet", files / "fleet.csv", "--cap", 1)
    assert max(map(len, out.splitlines())) <= width
    assert "±" in out
    assert ("left out, as the terminal is too narrow: " in out) == (width == 60)


@pytest.mark.parametrize("flag", ["--limits", "--uplink=5", "--downlink=5", "--server-rate=9", "--pictures=x"])
def test_flags_for_a_fleet_are_refused_for_a_trace(call, files, flag):
    with pytest.raises(InvalidInput, match=f"{flag.partition('=')[0]} is for a fleet"):
        call(files, flag)


@pytest.mark.parametrize("flag", ["--fleet=x.csv", "--warmup=9"])
def test_flags_for_a_trace_are_refused_for_a_fleet(call, files, flag):
    with pytest.raises(InvalidInput, match="is for a trace"):
        call(files / "fleet.csv", flag)
