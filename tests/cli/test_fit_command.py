"""`sojourn fit` as a user meets it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sojourn import Fleet, InvalidInput, Plan, Trace, UnreadableFile, __version__, simulate
from sojourn.cli.fit import fit as verb
from sojourn.timing.fit.from_trace import fit
from sojourn.trace import COLUMNS

app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)
app.command()(verb)


def call(*words, code=0):
    """Run the verb: what it prints; an error made by input comes out as it was raised."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    fleet.save(folder / "fleet.csv")
    simulate(fleet, Plan.uniform(fleet, 8), 3000, seed=1).save(folder / "trace.parquet")
    return folder


def test_help_shows_examples():
    assert "sojourn fit trace.parquet --out fitted.csv" in call("--help")


def test_groups_are_shown_in_a_table_and_written_as_a_fleet(files, tmp_path):
    out = call(files / "trace.parquet", "--fleet", files / "fleet.csv", "--out", tmp_path / "fitted.csv")
    found = fit(Trace.load(files / "trace.parquet"), Fleet.load(files / "fleet.csv"))
    assert Fleet.load(tmp_path / "fitted.csv") == found.fleet
    for word in ("95% interval", "fast", f"{found.fleet.rate[0]:.6g}", f"{found.rate_low[1]:.6g} to", "exponential"):
        assert word in out


def test_clients_are_fitted_without_a_fleet_with_notes_below_the_table(files, tmp_path):
    out = call(files / "trace.parquet", "--out", tmp_path / "fitted.toml", "--confidence", "0.5")
    assert Fleet.load(tmp_path / "fitted.toml").name[3] == "client-3"
    assert "50% interval" in out
    assert "the clients' rates lie around" in out


def test_json_carries_the_fit_at_full_precision(files, tmp_path):
    words = ["--fleet", files / "fleet.csv", "--by", "client", "--law", "gamma", "--out", tmp_path / "fitted.csv"]
    content = json.loads(call(files / "trace.parquet", *words, "--json"))
    found = fit(Trace.load(files / "trace.parquet"), Fleet.load(files / "fleet.csv"), by="client", law="gamma")
    groups = content.pop("groups")
    assert content == {
        "command": "fit",
        "sojourn": __version__,
        "fleet_hash": found.fleet.hash,
        "clients": 4,
        "by": "client",
        "confidence": 0.95,
        "latest": 1.0,
        "drift_p_value": found.drift_p_value,
        "notes": list(found.notes),
    }
    for g, group in enumerate(groups):
        assert group == {
            "name": found.fleet.name[g],
            "count": 1,
            "observations": found.observations[g],
            "censored": found.censored[g],
            "work": 1.0,
            "rate": found.fleet.rate[g],
            "rate_low": found.rate_low[g],
            "rate_high": found.rate_high[g],
            "law": str(found.fleet.law[g]),
            "distance": found.distance[g],
            "p_value": found.p_value[g],
            "uplink_rate": None,
            "uplink_law": "exponential",
            "downlink_rate": None,
            "downlink_law": "exponential",
            "drift": found.drift[g],
        }


def test_uplinks_have_a_column_where_there_are_any(files, tmp_path):
    trace = Trace.load(files / "trace.parquet")
    columns = {key: getattr(trace, key) for key in COLUMNS}
    late = np.random.default_rng(2).exponential(0.1, len(trace))
    Trace(**{**columns, "applied_at": trace.finished_at + late}).save(tmp_path / "trace.parquet")
    assert "uplink rate" in call(tmp_path / "trace.parquet", "--out", tmp_path / "fitted.csv")
    assert Fleet.load(tmp_path / "fitted.csv").uplink_rate == pytest.approx(np.full(4, 10.0), rel=0.1)


def test_downlinks_have_a_column_where_there_are_any(files, tmp_path):
    fleet = Fleet.of(one=(3, 2.0))
    slow = Fleet(fleet.name, fleet.count, fleet.rate, downlink_rate=np.array([4.0]))
    simulate(slow, replace(Plan.uniform(slow, 3), cap=np.ones(1)), 2_000, seed=1).save(tmp_path / "trace.parquet")
    fleet.save(tmp_path / "fleet.csv")
    words = ["--fleet", tmp_path / "fleet.csv", "--out", tmp_path / "fitted.csv"]
    assert "downlink rate" in call(tmp_path / "trace.parquet", *words)
    assert Fleet.load(tmp_path / "fitted.csv").downlink_rate == pytest.approx(np.full(1, 4.0), rel=0.1)


def test_an_empirical_law_is_written_in_full_and_shown_in_short(files, tmp_path):
    words = ["--fleet", files / "fleet.csv", "--law", "empirical", "--out", tmp_path / "fitted.csv"]
    out = call(files / "trace.parquet", *words)
    law = Fleet.load(tmp_path / "fitted.csv").law[0]
    assert f"empirical ({len(law.durations)} values)" in out
    assert "empirical(" not in out


def test_mistakes_are_told_before_the_work(files, tmp_path):
    with pytest.raises(InvalidInput, match=r"--out must end in .csv or .toml, got .*fitted.json"):
        call("missing.parquet", "--out", tmp_path / "fitted.json")
    with pytest.raises(UnreadableFile, match=r"trace file missing.parquet does not exist"):
        call("missing.parquet", "--out", tmp_path / "fitted.csv")
    with pytest.raises(InvalidInput, match="by must be group or client, got 'colour'"):
        call(files / "trace.parquet", "--by", "colour", "--out", tmp_path / "fitted.csv")
    assert "--out" in call(files / "trace.parquet", code=2)
