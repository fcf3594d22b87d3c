"""Simulated training on the live page: the trace is there from the beginning, the metrics say how far it has come."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from sojourn import Fleet, Plan, Trace, train
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.report.live_page import tasks
from sojourn.report.live_page.state import State
from sojourn.report.live_page.training import WatchedTraining
from sojourn.trace import scan

FLEET = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("training")
    FLEET.save(home / "fleet.csv")
    plan = Plan.uniform(FLEET, 12)
    plan.save(home / "plan.json")
    train(home / "fleet.csv", home / "plan.json", folder=home / "run", steps=200, progress=False, evaluate_every=20)
    return home / "run"


@pytest.fixture
def half(trained, tmp_path):
    """The same run as it was when it had come half of the way."""
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    (folder / "summary.json").unlink()
    (folder / "model.safetensors").unlink()
    lines = (folder / "metrics.csv").read_text().splitlines(keepends=True)
    (folder / "metrics.csv").write_text("".join(lines[:7]))  # up to update 100
    (folder / "checkpoints").mkdir()
    return folder, lines


def test_a_run_that_has_ended_shows_the_numbers_of_its_files(trained):
    state = State(WatchedTraining(trained))
    now, trace = state.look(), Trace.load(trained / "trace.parquet")
    assert now["state"] == "ended"
    assert now["updates"] == 200
    assert now["staleness"]["whole"] == pytest.approx(trace.staleness.mean(), rel=1e-5)
    assert now["staleness"]["promised"] == pytest.approx(11.0, rel=1e-5)  # C - 1
    assert now["flying"] == 0
    assert now["curves"]["at"][0] == 0.0
    assert len(now["curves"]["at"]) == 11
    assert state.about["controls"] is False


def test_half_way_as_many_tasks_are_in_flight_as_the_plan_says(half):
    folder, _ = half
    now = State(WatchedTraining(folder)).look()
    assert now["state"] == "stopped"
    assert now["updates"] == 100
    assert now["flying"] == sum(now["clients"]["held"]) == now["concurrency"] == 12


def test_the_page_follows_while_it_trains(half):
    folder, lines = half
    state = State(WatchedTraining(folder))
    state.look()
    with (folder / "metrics.csv").open("a") as file:
        file.write("".join(lines[7:10]))
    now = state.look()
    assert now["updates"] == 160
    assert now["flying"] == 12
    whole = State(WatchedTraining(folder)).look()
    assert whole["history"] == now["history"]
    assert whole["curves"] == now["curves"]


def test_a_page_that_nobody_reads_does_not_read_the_trace(half, monkeypatch):
    folder, _ = half
    read = []
    monkeypatch.setattr(tasks, "scan", lambda *given: read.append(given) or scan(*given))
    watched = WatchedTraining(folder)
    assert read == []
    State(watched).look()
    assert len(read) == 1


def test_the_tasks_in_flight_are_those_that_were_sent_and_have_not_ended(trained):
    trace = Trace.load(trained / "trace.parquet")
    followed, ended = tasks.Tasks.of(trained / "trace.parquet"), 0
    for time in np.linspace(0.0, float(np.nanmax(trace.applied_at)), 60):
        ended += followed.ended(time).size
        client, began = followed.flying(time)
        mine = (trace.dispatched_at <= time) & ~(trace.applied_at <= time)
        assert ended == (trace.applied_at <= time).sum()
        assert sorted(client) == sorted(trace.client[mine])
        assert began.sum() == (trace.started_at[mine] <= time).sum()
        assert followed._held.size == mine.sum()  # what a next look has to go through


def test_a_trace_in_any_order_is_followed_alike(trained):
    rows = tasks.Tasks.of(trained / "trace.parquet").rows
    mixed = tasks.Tasks(np.random.default_rng(1).permutation(rows))
    time = float(np.nanmedian(rows["applied_at"]))
    assert mixed.ended(time)["applied_at"].tolist() == tasks.Tasks(rows).ended(time)["applied_at"].tolist()


def test_a_run_that_is_replaced_is_shown_from_its_beginning(half):
    folder, lines = half
    state = State(WatchedTraining(folder))
    assert state.look()["updates"] == 100
    (folder / "metrics.csv").write_text("".join(lines[:3]))
    assert state.look()["updates"] == 20


def test_a_trace_that_is_replaced_takes_no_evaluations_away(half):
    folder, _ = half
    state = State(WatchedTraining(folder))
    before = state.look()
    os.utime(folder / "trace.parquet", (1.0, 1.0))
    now = state.look()
    assert (now["updates"], now["curves"]) == (before["updates"], before["curves"])


@pytest.mark.parametrize("fails", ["_state", "_read_trace", "_flying"])
def test_what_a_failed_look_has_read_is_told_by_the_next_one(half, monkeypatch, fails):
    folder, lines = half
    watched = WatchedTraining(folder)
    state = State(watched)
    state.look()
    with (folder / "metrics.csv").open("a") as file:
        file.write("".join(lines[7:10]))

    def failing():
        raise OSError("a disk that is away for a moment")

    with monkeypatch.context() as away:
        away.setattr(watched, fails, failing)
        with pytest.raises(OSError, match="away"):
            state.look()
    now = state.look()
    assert now["updates"] == 160
    assert now["curves"] == State(WatchedTraining(folder)).look()["curves"]


def test_a_trace_that_could_not_be_read_is_read_again(half):
    folder, _ = half
    state = State(WatchedTraining(folder))
    trace = (folder / "trace.parquet").read_bytes()
    (folder / "trace.parquet").write_bytes(trace[:100])
    os.utime(folder / "trace.parquet", (1.0, 1.0))
    with pytest.raises(UnreadableFile):
        state.look()
    (folder / "trace.parquet").write_bytes(trace)
    os.utime(folder / "trace.parquet", (1.0, 1.0))
    assert state.look()["updates"] == 100


def without_trace(half):
    """The run as it is where its timing depends on what it computes: its trace comes at the end."""
    folder, lines = half
    trace = (folder / "trace.parquet").read_bytes()
    (folder / "trace.parquet").unlink()
    return folder, lines, trace


def test_without_a_trace_what_the_metrics_say_is_shown_and_nothing_else(half):
    folder, lines, trace = without_trace(half)
    state = State(WatchedTraining(folder))
    now, time = state.look(), float(lines[6].split(",")[2])
    assert lines[0].split(",")[2] == "time"
    assert now["updates"] == 100
    assert now["throughput"]["whole"] == now["throughput"]["now"] == pytest.approx(100 / time, rel=1e-4)
    assert now["staleness"] == {"now": None, "promised": pytest.approx(11.0), "whole": None}
    assert (now["flying"], now["clients"], now["last"]) == (None, None, None)
    assert {key: now["groups"][key] for key in ("serving", "waiting", "updates", "share")} == {
        key: [None, None] for key in ("serving", "waiting", "updates", "share")
    }
    assert [row["tasks"] for row in now["speeds"]] == [None] * FLEET.clients
    assert "maybe at the end only" in now["notes"][0]
    (folder / "trace.parquet").write_bytes(trace)
    now = state.look()
    assert (now["updates"], now["flying"], now["notes"]) == (100, 12, [])


def test_of_a_trace_that_is_too_large_to_be_read_the_metrics_are_shown(half, monkeypatch):
    folder, _ = half
    monkeypatch.setattr("sojourn.report.live_page.training.LARGEST", 100)
    now = State(WatchedTraining(folder)).look()
    assert (now["updates"], now["flying"]) == (100, None)
    assert "larger than 256 MB" in now["notes"][0]


def test_the_clients_of_a_run_without_its_fleet_are_told_when_the_trace_comes(half):
    folder, _, trace = without_trace(half)
    config = folder / "config.json"
    config.write_text(config.read_text().replace("fleet.csv", "gone.csv"))
    state = State(WatchedTraining(folder))
    assert (state.look()["updates"], state.about["count"]) == (100, 0)
    (folder / "trace.parquet").write_bytes(trace)
    now = state.look()
    assert (now["updates"], now["flying"], len(now["curves"]["at"])) == (100, 12, 6)
    assert state.about["count"] == FLEET.clients
    assert state.renamed == 1


def test_an_odd_row_of_the_metrics_or_the_trace_leaves_the_others(half):
    folder, lines = half
    cells, lost = lines[6].split(","), lines[0].split(",").index("lost")
    cells[lost] = "nan"
    with (folder / "metrics.csv").open("a") as file:
        file.write(",".join(cells))
    trace = Trace.load(folder / "trace.parquet")
    client, applied_at = trace.client.copy(), trace.applied_at.copy()
    client[0], applied_at[1], applied_at[2] = -9, np.inf, np.nan
    (folder / "trace.parquet").unlink()
    replace(trace, client=client, applied_at=applied_at).save(folder / "trace.parquet")
    now = State(WatchedTraining(folder)).look()
    assert now["updates"] == 97
    assert now["flying"] == 12
    assert now["faults"] == {}


def test_without_its_fleet_the_clients_of_the_trace_are_one_group(trained, tmp_path):
    folder = tmp_path / "copied"
    shutil.copytree(trained, folder)
    text = (folder / "config.json").read_text().replace("fleet.csv", "gone.csv")
    (folder / "config.json").write_text(text)
    watched = WatchedTraining(folder)
    now = State(watched).look()
    assert watched.described.groups == ("all clients",)
    assert watched.described.notes
    assert now["groups"]["clients"] == [FLEET.clients]
    assert now["staleness"]["promised"] is None
    assert np.isfinite(now["staleness"]["whole"])


def test_a_folder_without_a_run_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(InvalidInput, match="holds no run; name the folder of"):
        WatchedTraining(tmp_path)
