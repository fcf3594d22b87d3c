"""Pages about training: a run, its seeds, a comparison, a sweep, a live run, from their folders and as objects."""

import json
import shutil

import pytest
from reading_pages import read
from typer.testing import CliRunner

pytest.importorskip("torch")

from sojourn import Fleet, compare, sweep, train
from sojourn.cli.main import app
from sojourn.experiments.results import Run
from sojourn.experiments.statistics import interval
from sojourn.learning.run.metrics import read_metrics
from sojourn.report.page.of_comparison import part_of_sweep
from sojourn.report.page.write import write_report

pytestmark = pytest.mark.slow  # runs are trained and drawn

FLEET = Fleet.of(fast=(3, 4.0), slow=(2, 1.0))


def number(text):
    return float(text.replace(",", ""))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("training")
    FLEET.save(place / "fleet.csv")
    keys = {"steps": 60, "data": "digits", "step_size": 0.1, "batch_size": 8, "evaluate_every": 20}
    train(place / "fleet.csv", concurrency=5, folder=place / "run", **keys)
    compare(place / "fleet.csv", ["asyncsgd", "fedbuff(size=5)"], seeds=2, folder=place / "comparison", jobs=1, **keys)
    del keys["step_size"]
    sweep(place / "fleet.csv", {"step_size": [0.05, 0.1]}, folder=place / "sweep", jobs=1, **keys)
    return place


def paged(*paths, out):
    return read(write_report(list(paths), out).html)


def test_a_run_shows_its_metrics_its_timing_and_its_command(folder, tmp_path):
    told = paged(folder / "run", out=tmp_path / "page.html")
    last = read_metrics(folder / "run")[-1]
    for key in ("received", "accuracy", "test_loss", "client_worst", "gradients"):
        assert number(told.row("The last evaluation", key)[1]) == pytest.approx(last[key], rel=1e-5)
    assert "reached accuracy" in told.answer
    assert "after 60 updates" in told.answer
    facts = json.loads((folder / "run" / "config.json").read_text())
    assert told.row("Hashes, versions", "fleet_hash")[1] == facts["fleet_hash"]
    assert told.row("Hashes, versions", "version of torch")[1] == facts["versions"]["torch"]
    assert told.row("Configuration", "batch_size")[1] == "8"
    assert f"sojourn train {folder / 'fleet.csv'}" in told.text
    assert "--batch-size 8" in told.text
    shares = [told.row("Shares by group", name)[2] for name in FLEET.name]
    assert told.tables["Shares by group"][0][2] == "share of data"
    assert shares == [f"{100 * one / sum(facts['examples']):.3g}%" for one in facts["examples"]]
    assert any(label.startswith("Test accuracy over gradients computed") for label in told.labels)


@pytest.mark.slow
def test_a_run_as_an_object_has_the_same_page_as_its_folder(folder, tmp_path):
    told = read(Run(folder / "run").report(tmp_path / "page.html").html)
    assert told.answer == paged(folder / "run", out=tmp_path / "page.html").answer


@pytest.mark.slow
def test_two_runs_stand_side_by_side(folder, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "other")
    told = paged(folder / "run", tmp_path / "other", out=tmp_path / "page.html")
    last = read_metrics(folder / "run")[-1]
    row = told.row("The same numbers of each", str(tmp_path / "other"))
    assert number(row[1]) == pytest.approx(last["accuracy"], rel=1e-5)
    assert told.labels[0].count(" ends at ") == 2


def test_a_run_that_has_no_trace_or_evaluation_yet_still_has_a_page(folder, tmp_path):
    shutil.copytree(folder / "run", tmp_path / "begun")
    for name in ("trace.parquet", "metrics.csv", "summary.json"):
        (tmp_path / "begun" / name).unlink()
    told = paged(tmp_path / "begun", out=tmp_path / "page.html")
    assert "has no evaluation yet" in told.answer
    assert "no trace yet" in told.text


def test_a_comparison_shows_its_table_with_intervals(folder, tmp_path):
    told = paged(folder / "comparison", out=tmp_path / "page.html")
    rows = json.loads((folder / "comparison" / "summary.json").read_text())["table"]
    for row in (row for row in rows if row["axis"] == "time"):
        cells = told.row("What each one reached", row["algorithm"])
        assert cells[1].startswith(f"{row['mean']:.4g}")
        assert f"{row['mean_low']:.4g}"[:4] in cells[1]
        assert number(cells[3]) == pytest.approx(row["updates"])
    assert len([one for one in told.labels if one.startswith("Test accuracy over")]) == 4
    assert told.row("Timing of the first run of each, over its whole trace", "asyncsgd")
    assert "were compared in the same" in told.answer


def test_a_sweep_shows_every_run_and_the_best(folder, tmp_path):
    told = paged(folder / "sweep", out=tmp_path / "page.html")
    rows = {number(row[0]): number(row[3]) for row in told.tables["One row per run"][1:]}
    assert list(rows) == [0.05, 0.1]
    best = max(rows, key=lambda one: rows[one])
    assert f"is {rows[best]:.4g}, with step_size {best:g}" in told.answer


def test_one_run_of_a_sweep_is_complete(folder):
    part = part_of_sweep(folder, [{"step_size": 0.1, "seed": 0, "state": "complete", "test_loss": 1.0}], "one")
    assert part.answer[0] == "1 run of 1 is complete, over step_size."


@pytest.mark.slow
def test_the_seeds_of_a_run_have_a_mean_with_its_interval_and_then_a_part_each(folder, tmp_path):
    values = {3: 0.5, 4: 0.6, 5: 0.7}
    for seed, accuracy in values.items():
        place = tmp_path / "seeds" / f"seed-{seed}"
        shutil.copytree(folder / "run", place)
        head, *_, last = (place / "metrics.csv").read_text().splitlines()
        cells = dict(zip(head.split(","), last.split(","), strict=True)) | {"accuracy": str(accuracy)}
        first = dict.fromkeys(cells, "0")
        (place / "metrics.csv").write_text("\n".join([head, ",".join(first.values()), ",".join(cells.values()), ""]))
    (tmp_path / "seeds" / "seeds.json").write_text('{"seeds": [3, 4, 5]}')
    told = paged(tmp_path / "seeds", out=tmp_path / "page.html")
    assert "Report of 4 parts" in told.text
    low, high = interval(values.values())[1:]
    for axis in ("updates received", "virtual time", "gradients computed"):
        assert told.row("Where every seed has come to", axis)[2] == f"0.6 ({low:.4g} to {high:.4g})"
        assert any(one.startswith(f"Test accuracy over {axis}") for one in told.labels)
    assert "3 seeds of " in told.answer
    (tmp_path / "seeds" / "seed-5" / "summary.json").unlink()
    told = paged(tmp_path / "seeds", out=tmp_path / "page.html")
    assert told.row("Where every seed has come to", "virtual time")[2].startswith("0.55 (")
    assert "not trained to the end: seed-5." in told.text
    (tmp_path / "seeds" / "seed-4" / "summary.json").unlink()
    assert "Report of 3 parts" in paged(tmp_path / "seeds", out=tmp_path / "page.html").text  # one has no interval


@pytest.fixture(scope="module")
def live(folder):
    """A run that looks like a live one: with a log, and a trace that lists plans, faults and names."""
    from sojourn.trace import Trace

    place = folder / "live"
    shutil.copytree(folder / "run", place)
    (place / "rows.bin").write_bytes(b"")
    log = [{"what": "refused", "reason": "a message <b>too</b> large"}] * 3 + [{"what": "joined", "client": "a"}]
    (place / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in log) + '{"what": "unfin')
    trace = Trace.load(place / "trace.parquet")
    entry = {"step": 0, "concurrency": 5, "throughput": 3.0, "share": [0.6, 0.4], "staleness": [3.0, 6.0]}
    middle = float(trace.applied_at[30])
    plans = [
        {**entry, "time": 0.0, "reason": "start"},
        {**entry, "time": middle, "reason": "slower than <i>thought</i>"},
    ]
    more = {"plans": plans, "faults": {"refused": 3, "late": 0}, "names": {"phone": 4}}
    columns = dict(trace._table().items())
    Trace(**columns, metadata={**trace.metadata, **more}).save(place / "trace.parquet")
    return place


def test_a_live_run_shows_its_plans_its_events_and_why_messages_were_refused(live, tmp_path):
    told = paged(live, out=tmp_path / "page.html")
    assert told.row("Events of the log", "refused")[1:] == ["a message <b>too</b> large", "3"]
    assert told.row("The plans in force", "1")[2] == "slower than <i>thought</i>"
    assert told.row("Faults of the run", "refused")[1] == "3"
    assert any("phone" in row for row in told.tables["Clients with the stalest updates"])
    assert "A live run of" in told.answer


def test_the_command_writes_the_page_next_to_what_it_shows(folder, tmp_path):
    done = CliRunner().invoke(app, ["report", str(folder / "run")])
    assert done.exit_code == 0
    assert done.stdout.strip().endswith(f"wrote {folder / 'run' / 'report.html'}")
    told = read((folder / "run" / "report.html").read_text("utf-8"))
    assert f"sojourn report {folder / 'run'}" in told.text
