"""`sojourn fit` with a log of durations: from a file that people have to a fleet."""

import csv
import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sojourn import Fleet, InvalidInput, Plan, UnreadableFile, simulate
from sojourn.cli.fit import fit as verb

pytest.importorskip("matplotlib")

app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)
app.command()(verb)


def call(*words, code=0):
    """Run the verb: what it prints; an error made by input comes out as it was raised."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def log(tmp_path):
    """Four phones and two tablets; one task failed, one has no end."""
    rng = np.random.default_rng(4)
    rows = ["phone,began,done,state"]
    for number in range(900):
        device = number % 6
        start = 10.0 * number
        end = start + rng.gamma(2, 1.0 if device < 4 else 9.0)
        rows.append(f"{'phone' if device < 4 else 'tablet'} {device},{start:.3f},{end:.3f},ok")
    rows += ["phone 1,1,5,crashed", "phone 1,1,,ok"]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "log.csv"


NAMED = ("--device", "phone", "--start", "began", "--end", "done")


def test_a_log_becomes_a_fleet_with_a_table_of_its_groups(log, tmp_path):
    out = call(log, *NAMED, "--out", tmp_path / "fleet.csv")
    fleet = Fleet.load(tmp_path / "fleet.csv")
    assert (fleet.name, fleet.count.tolist()) == (("fast", "slow"), [4, 2])
    assert 1 / fleet.rate == pytest.approx([2, 18], rel=0.15)
    assert "6 devices, 900 finished tasks, 2 rows left out" in out
    for word in ("devices", "tasks", "mean seconds", "95% interval", "law", "p of the law", "gamma(shape="):
        assert word in out
    assert f"{1 / fleet.rate[1]:.4g}" in out
    assert "left out: 1 task that failed (status crashed)" in out
    assert "left out: 1 row without a device" in out
    assert f"wrote {tmp_path / 'fleet.csv'} and {tmp_path / 'fleet-devices.csv'}" in out.replace("\n", "")


def test_the_devices_keep_their_names_in_a_file_beside_the_fleet(log, tmp_path):
    call(log, *NAMED, "--out", tmp_path / "fleet.toml")
    with (tmp_path / "fleet-devices.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["device"] for row in rows] == ["phone 0", "phone 1", "phone 2", "phone 3", "tablet 4", "tablet 5"]
    assert [row["group"] for row in rows] == ["fast"] * 4 + ["slow"] * 2
    assert [int(row["client"]) for row in rows] == list(range(6))
    assert {int(row["tasks"]) for row in rows} == {150}
    with pytest.raises(InvalidInput, match=r"fleet-devices.csv exists already; name another file, or give --overwrite"):
        call(log, *NAMED, "--out", tmp_path / "fleet.csv")


def test_json_has_the_devices_and_what_was_left_out(log, tmp_path):
    content = json.loads(call(log, *NAMED, "--out", tmp_path / "fleet.csv", "--json"))
    assert (content["failed"], content["incomplete"]) == (1, 1)
    assert [one["device"] for one in content["devices"]][:2] == ["phone 0", "phone 1"]
    assert set(content["bic"]) == {"1", "2", "3", "4", "5", "6"}
    assert [group["name"] for group in content["groups"]] == ["fast", "slow"]


def test_the_groups_may_be_said(log, tmp_path):
    call(log, *NAMED, "--groups", "1", "--out", tmp_path / "one.csv")
    assert Fleet.load(tmp_path / "one.csv").count.tolist() == [6]
    call(log, *NAMED, "--groups", "device", "--out", tmp_path / "each.csv")
    assert Fleet.load(tmp_path / "each.csv").name[4] == "tablet 4"
    with pytest.raises(InvalidInput, match=r"groups must be auto, device or a number of groups, got 'some'"):
        call(log, *NAMED, "--groups", "some", "--out", tmp_path / "x.csv")


@pytest.mark.slow
def test_pictures_show_devices_and_laws(log, tmp_path):
    out = call(log, *NAMED, "--out", tmp_path / "fleet.csv", "--pictures", tmp_path / "pictures")
    made = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert made == {f"fit-{what}.{kind}" for what in ("devices", "laws") for kind in ("svg", "png")}
    assert "fit-laws.svg" in out.replace("\n", "")


@pytest.mark.slow
def test_a_trace_has_pictures_too(tmp_path):
    fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    fleet.save(tmp_path / "fleet.csv")
    simulate(fleet, Plan.uniform(fleet, 8), 500, seed=1).save(tmp_path / "trace.parquet")
    words = ["--out", tmp_path / "fitted.csv", "--pictures", tmp_path, "--overwrite"]
    call(tmp_path / "trace.parquet", "--fleet", tmp_path / "fleet.csv", *words)
    call(tmp_path / "trace.parquet", *words)
    assert (tmp_path / "fit-devices.png").is_file()
    assert not (tmp_path / "fitted-devices.csv").exists()


def test_mistakes_are_one_sentence(log, tmp_path):
    out = tmp_path / "fleet.csv"
    with pytest.raises(UnreadableFile, match=r"log file .*none.csv does not exist; check the path"):
        call(tmp_path / "none.csv", "--out", out)
    with pytest.raises(InvalidInput, match=r"has no column that says which device did a task .*--device NAME"):
        call(log, "--out", out)
    Fleet.of(a=(1, 1.0)).save(tmp_path / "given.csv")
    with pytest.raises(InvalidInput, match=r"fleet is for a trace, which numbers its clients"):
        call(log, *NAMED, "--fleet", tmp_path / "given.csv", "--out", out)
    with pytest.raises(InvalidInput, match=r"time_unit must be a unit of time such as s, min, h or day, got 'metre'"):
        call(log, *NAMED, "--time-unit", "metre", "--out", out)
    assert not out.exists()
