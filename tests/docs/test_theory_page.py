"""The page on the theory: its code prints what it shows, and its prose says what the library computes."""

import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sojourn import Fleet, Plan, analyze, goal, make_plan, simulate
from sojourn.planning.policy import Policy, robust
from sojourn.planning.twin import predict

HOME = Path(__file__).parents[2]
PAGE = HOME / "docs" / "theory.md"
TEXT = PAGE.read_text("utf-8")
WORDS = " ".join(TEXT.split())
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
PICTURES = re.findall(r"\((pictures/theory-[a-z]+\.png)\)", TEXT)

FEW = Fleet.of(fast=(3, 4.0), slow=(2, 1.0))
MANY = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))


@pytest.mark.slow
def test_every_block_of_code_prints_what_the_page_shows(capsys):
    assert len(BLOCKS) == TEXT.count("```python") == 9
    place = {"__name__": "__main__"}  # one after the other, as in a notebook
    for code, printed in BLOCKS:
        exec(compile(code, PAGE.name, "exec"), place)
        assert capsys.readouterr().out == printed


def test_the_task_that_is_told_of_waited_five_times_as_long_as_it_was_served():
    trace = simulate(FEW, Plan.uniform(FEW, 5), steps=600, seed=5, start="even")
    waited, served = trace.started_at - trace.dispatched_at, trace.finished_at - trace.started_at
    assert round(waited[75] / served[75]) == 5
    assert trace.applied_step[75] - trace.dispatched_step[75] == 14
    assert "fourteen updates were applied in between" in WORDS
    assert (trace.client[75], FEW.name[FEW.group_of_client[3]]) == (3, "slow")
    assert "client 3 is the first slow one: *slow 3*" in WORDS
    assert f"begins at {trace.dispatched_at[75]:.1f}" in WORDS


def test_the_whole_small_fleet_would_make_14_updates_per_unit_of_time():
    assert (FEW.count * FEW.rate).sum() == 14
    assert "they would make 14 updates per unit of time, not 4" in WORDS


def test_the_throughputs_of_the_five_ways_lie_where_the_prose_says():
    found = [float(line.split()[-4]) for line in BLOCKS[3][1].splitlines()]
    assert (round(min(found)), round(max(found))) == (46, 339)
    assert "from 46 to 339 here" in WORDS


def test_routed_uniformly_the_slow_clients_let_through_100_at_most():
    assert analyze(MANY, Plan.uniform(MANY, 20_000)).throughput == pytest.approx(100, abs=0.1)
    assert "100 updates per unit of time at most" in WORDS


def test_the_shares_of_the_picture_span_a_factor_of_32():
    ladder = Fleet.of_rates(np.geomspace(0.25, 8.0, 24))
    share = analyze(ladder, Plan.uniform(ladder, 24, cap=1)).share
    assert share[-1] / share[0] == pytest.approx(32)
    assert "the fastest of these 24 clients sends 32 times as many updates as the slowest" in WORDS


@pytest.mark.slow
def test_to_the_finisher_staleness_is_geometric_with_the_means_of_the_prose():
    plan = Plan.uniform(MANY, 100, cap=1)
    assert analyze(MANY, plan).staleness() == pytest.approx([90.25, 729])
    assert "90.25 for the fast clients here, and 729 for the slow ones" in WORDS
    trace = simulate(MANY, plan, 200_000, seed=1, start="stationary")
    fast = trace.staleness[trace.client[trace.applied] < 90]
    assert fast.std() == pytest.approx(fast.mean(), rel=0.02)


def test_favouring_slow_clients_makes_both_groups_fresher_and_the_server_slower():
    flat, slow = (analyze(MANY, Plan.weighted(MANY, weights, 50)) for weights in ([1.0, 1.0], [1.0, 2.0]))
    told = [f"{value:.1f}" for value in (*slow.staleness(), *flat.staleness(), slow.throughput, flat.throughput)]
    assert "{} and {} instead of {} and {}".format(*told[:4]) in WORDS
    assert "{} updates per unit of time instead of {}".format(*told[4:]) in WORDS


@pytest.mark.slow
def test_the_bound_of_the_picture_is_least_with_4_tasks_and_the_twins_loss_with_100():
    drawn = runpy.run_path(str(HOME / "examples" / "theory_pictures.py"))
    tasks = (2, 4, 7, 10, 20, 50, 100)
    bounds = [drawn["in_time"](Plan.uniform(MANY, many)) for many in tasks]
    assert tasks[int(np.argmin(bounds))] == 4
    assert max(bounds[:3]) / min(bounds) == pytest.approx(1.03, abs=0.005)
    assert make_plan(MANY, goal(time=drawn["TIME"])).plan.concurrency == 2
    policies = [Policy(str(many), replace(Plan.uniform(MANY, many, cap=1), correction=0.5)) for many in tasks]
    losses = [one.loss for one in predict(MANY, policies, drawn["TIME"], traces=8)]
    assert losses == sorted(losses, reverse=True)
    routed = Policy("routed", replace(Plan.uniform(MANY, 100), correction=0.5))
    (queued,) = predict(MANY, [routed], drawn["TIME"], traces=8)
    assert round(queued.loss / losses[-1]) == 15
    assert "4 has the least, and from 2 to 7 the bound changes by 3% only" in WORDS
    assert "With 100 tasks the loss is 15 times that with a cap of 1" in WORDS


def test_the_robust_policy_differs_from_one_task_each_by_its_falling_step_size():
    plan = replace(Plan.uniform(MANY, 100, cap=1), correction=0.5)
    falls = replace(plan, schedule=robust(MANY).schedule)
    one, other = predict(MANY, [Policy("falls", falls), Policy("robust", robust(MANY))], 2000 / 730, traces=8)
    assert one.loss == other.loss
    assert "its step size falls to zero towards the end. That makes its loss 0.007 instead of 0.008" in WORDS


def test_the_regrets_are_those_of_the_page_on_planning():
    rows = (HOME / "docs" / "does-it-pay.md").read_text("utf-8").splitlines()
    held = {who: next(row.split("|")[2].strip() for row in rows if row.startswith(f"| {who} |"))
            for who in ("the bound", "always the default")}  # fmt: skip
    assert f"the bound made the loss {held['the bound']} times that of the best policy" in WORDS
    assert f"the robust policy made it {held['always the default']} times" in WORDS


def test_no_line_is_longer_than_100_characters():
    assert [line for line in TEXT.splitlines() if len(line) > 100] == []


def test_every_picture_is_there_small_and_shown():
    kept = sorted(path.relative_to(PAGE.parent).as_posix() for path in PAGE.parent.glob("pictures/theory-*.png"))
    assert sorted(PICTURES) == kept
    assert len(kept) == 5
    assert all((PAGE.parent / name).stat().st_size < 100_000 for name in kept)


@pytest.mark.slow
def test_the_script_draws_every_picture_of_the_page(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", ["theory_pictures.py", "--fast", "--out", str(tmp_path)])
    runpy.run_path(str(HOME / "examples" / "theory_pictures.py"), run_name="__main__")
    assert sorted(f"pictures/{path.name}" for path in tmp_path.iterdir()) == sorted(PICTURES)
