import json

import numpy as np
import pytest

from report.live_page.pretended_run import Run
from sojourn.errors import SojournError
from sojourn.report.live_page.history import BINS, POINTS, Bins, Curve
from sojourn.report.live_page.speeds import FEW_CLIENTS, Learnt
from sojourn.report.live_page.state import EVENTS, MOST_CLIENTS, MOST_RECENT, PLANS, State


def test_staleness_and_throughput_stand_beside_what_the_plan_promises():
    run = Run().happens(10.0, 50, staleness=5)
    now = State(run).look()
    assert now["updates"] == 50
    assert now["throughput"] == {"now": 5.0, "promised": 10.0, "whole": 5.0}
    assert now["staleness"] == {"now": 5.0, "promised": 4.0, "whole": 5.0}  # 0.75 * 3 + 0.25 * 7


def test_now_is_the_last_half_minute_of_a_live_run():
    run = Run().happens(100.0, 100, staleness=2).happens(30.0, 60, staleness=8)
    now = State(run).look()
    assert now["throughput"]["now"] == 2.0
    assert now["staleness"]["now"] == 8.0
    assert now["staleness"]["whole"] == pytest.approx((100 * 2 + 60 * 8) / 160, rel=1e-5)


def test_now_is_the_last_200_updates_of_a_simulated_run():
    run = Run(live=False).happens(100.0, 1000, staleness=2).happens(100.0, 200, staleness=8)
    now = State(run).look()
    assert now["staleness"]["now"] == 8.0
    assert now["throughput"]["now"] == pytest.approx(200 / 99.5, rel=1e-3)


@pytest.mark.parametrize("live", [True, False])
def test_now_is_right_also_where_more_updates_count_than_are_remembered(live):
    run = Run(live=live).happens(20.0, 20_000).happens(25.0, 75_000)
    run.plans = [run.plans[0]._replace(concurrency=60_000)]
    now = State(run).look()
    assert now["throughput"]["now"] == pytest.approx(3000.0, rel=1e-3)
    assert now["last"] == MOST_RECENT


def test_a_pause_changes_no_number_since_the_clock_of_the_run_stands_still():
    run = Run().happens(10.0, 50)
    state = State(run)
    run.state = "paused"
    now = state.look()
    assert now["state"] == "paused"
    assert now["throughput"]["now"] == 5.0
    run.flying = []
    now = state.look()
    assert now["time"] == 10.0
    assert now["throughput"]["now"] == 5.0
    assert now["throughput"]["whole"] == 5.0
    assert now["staleness"]["now"] == 4.0


def test_the_network_says_who_serves_who_waits_and_who_is_not_there():
    now = State(Run().happens(1.0)).look()
    assert now["clients"] == {"held": [2, 0, 0, 1, 0], "serving": [1, 0, 0, 1, 0], "present": [1, 1, 1, 1, 0]}
    groups = now["groups"]
    assert (groups["clients"], groups["present"]) == ([3, 2], [3, 1])
    assert (groups["serving"], groups["waiting"]) == ([1, 1], [1, 0])


def test_groups_are_compared_with_the_promise_since_their_plan_took_effect():
    run = Run().happens(10.0, 30, client=0, staleness=1)
    state = State(run)
    state.look()
    run.plans = [*run.plans, replace_plan(run.plans[0], time=10.0)]
    run.happens(10.0, 20, client=4, staleness=9)
    now = state.look()
    assert now["groups"]["updates"] == [30, 20]
    assert now["groups"]["share"] == [0.0, 1.0]
    assert now["groups"]["staleness"] == [None, 9.0]
    assert now["plan_count"] == 2


def replace_plan(plan, **changes):
    return plan._replace(**changes)


def test_however_long_a_run_is_its_messages_stay_small():
    run = Run()
    state = State(run)
    sizes = []
    for _ in range(12):
        run.metrics = [{"time": run.time + one, "accuracy": 0.5, "test_loss": 1.0} for one in range(500)]
        run.log = [{"at": 1e9, "what": "lost", "client": 1, "reason": "x" * 1000}] * 500
        run.plans = [*run.plans, *[run.plans[0]] * 50]
        run.happens(10_000.0, 5_000)
        now = state.look()
        assert len(now["history"]["at"]) <= BINS
        assert len(now["curves"]["at"]) <= POINTS + 1
        assert (len(now["events"]), len(now["plans"])) == (EVENTS, PLANS)
        sizes.append(len(json.dumps(now)))
    assert max(sizes) < 60_000
    assert now["updates"] == 60_000


def test_of_very_many_clients_groups_alone_are_told():
    many = MOST_CLIENTS + 1
    state = State(Run(sizes=(many, 2)).happens(1.0))
    assert state.about["clients"] is None
    now = state.look()
    assert now["clients"] is None
    assert now["groups"]["clients"] == [many, 2]


def test_a_name_with_html_in_it_stays_text():
    bad = "<img src=x onerror=alert(1)>"
    run = Run().happens(1.0)
    run.names = {0: bad}
    run.log = [{"at": 1.0, "what": "refused", "client": 0, "reason": bad}]
    state = State(run)
    now = state.look()
    assert now["events"] == [{"at": 1, "what": "refused", "who": bad, "why": bad}]
    assert state.about["clients"][0] == bad
    assert state.renamed == 1


def test_what_a_crash_has_undone_is_forgotten():
    run = Run().happens(10.0, 50)
    state = State(run)
    assert state.look()["updates"] == 50
    run.anew, run.time, run.step = True, 0.0, 0
    run.happens(5.0, 20)
    now = state.look()
    assert now["updates"] == 20
    assert sum(now["history"]["throughput"]) * 5.0 / len(now["history"]["at"]) == pytest.approx(20, abs=2)


def test_a_run_without_promises_is_shown_all_the_same():
    run = Run().happens(10.0, 50)
    run.plans = []
    now = State(run).look()
    assert now["throughput"]["promised"] is None
    assert now["groups"]["share_promised"] == [None, None]
    assert set(now["history"]["throughput_promised"]) == {None}


def test_a_run_that_has_not_begun_is_shown_all_the_same():
    now = State(Run()).look()
    assert now["updates"] == 0
    assert now["history"]["at"] == []
    assert now["speeds"][0]["mean"] is None


def test_counts_are_exact_however_large():
    run = Run().happens(10.0, 3)
    state = State(run)
    state.look()
    state._by_group[2] = [123_456_789, 1]
    assert state.look()["groups"]["updates"] == [123_456_789, 1]


def test_a_task_that_took_for_ever_hides_no_speed():
    learnt = Learnt(2)
    learnt.add(np.array([0, 0, 1]), np.array([2.0, np.inf, 3.0]))
    assert learnt.speeds.mean.tolist() == [2.0, 3.0]


def test_bins_keep_all_updates_when_their_width_doubles():
    bins = Bins(8)
    rng = np.random.default_rng(0)
    for end in (1.0, 10.0, 1000.0):
        bins.add(rng.uniform(0, end, 100), np.full(100, 2.0))
    assert bins.count.sum() == 300
    assert bins.stale.sum() == 600
    assert bins.width * 8 > 1000.0


def test_bins_show_the_throughput_that_there_was():
    bins = Bins()
    bins.add(np.arange(0.05, 100.0, 0.1), np.full(1000, 3.0))
    shown = bins.shown(100.0)
    np.testing.assert_allclose(shown["throughput"], 10.0, rtol=0.15)
    np.testing.assert_allclose(shown["staleness"], 3.0)


def test_the_newest_point_of_a_curve_is_always_there():
    curve = Curve(("loss",), most=10)
    for time in range(1000):
        curve.add(float(time), {"loss": float(time)})
        assert curve.shown()["at"][-1] == time
        assert curve.shown()["at"][0] == 0.0
    assert len(curve.shown()["at"]) <= 11


def test_speeds_are_learnt_with_intervals_that_hold():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(100):
        learnt = Learnt(4)
        learnt.add(np.repeat(np.arange(4), 30), rng.exponential(2.0, 120))
        found = learnt.speeds
        inside += int(((found.low < 2.0) & (found.high > 2.0)).sum())
    assert 0.90 < inside / 400 < 0.99


def test_of_many_clients_the_speeds_of_groups_are_shown():
    run = Run(sizes=(FEW_CLIENTS, 5)).happens(10.0, 40, client=0).happens(10.0, 40, client=FEW_CLIENTS + 1)
    rows = State(run).look()["speeds"]
    assert [row["name"] for row in rows] == ["fast", "slow"]
    assert all(row["low"] < 0.4 < row["high"] for row in rows)  # each task took 0.4 seconds
    assert [row["told"] for row in rows] == [0.5, 0.5]


@pytest.mark.parametrize("at", ["NaN", "1e400", "-1e400", "9" * 400, '"noon"', "null"])
def test_an_event_at_no_time_is_shown_without_one(at):
    run = Run().happens(1.0)
    run.log = [json.loads(f'{{"at": {at}, "what": "lost", "client": 0, "reason": [], "received": {{}}}}')]
    assert State(run).look()["events"] == [{"at": None, "what": "lost", "who": "fast-0", "why": ""}]


def test_a_task_in_flight_of_a_client_that_there_is_not_is_held_by_nobody():
    run = Run().happens(1.0)
    run.flying = [0, 4_000_000_000_000, 3]
    assert State(run).look()["clients"]["held"] == [1, 0, 0, 1, 0]


def test_after_a_part_that_could_not_be_taken_in_no_wrong_numbers_are_shown():
    run = Run().happens(1.0, 5)
    state = State(run)
    state.look()
    run.metrics = [{"accuracy": 0.5}]  # a row without its time
    run.happens(1.0, 5)
    with pytest.raises(KeyError):
        state.look()
    with pytest.raises(SojournError, match="could not be taken in"):
        state.look()
    run.anew, run.time, run.step = True, 0.0, 0
    assert state.look()["updates"] == 0


def test_a_description_does_not_change_with_looks():
    run = Run()
    state = State(run)
    before = state.about
    run.happens(1.0)
    state.look()
    assert state.about == before
