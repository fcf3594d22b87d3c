"""Clients that come and go, tasks that get lost, rates that change."""

from dataclasses import replace

import numpy as np
import pytest

from sojourn import Fleet, InvalidInput, Law, Plan, UnreadableFile, measure, simulate
from sojourn.availability import Availability
from sojourn.random import keys
from sojourn.scenario import Dispatcher, Scenario
from sojourn.timing.shares import exact_shares
from sojourn.timing.simulate import drive
from sojourn.trace import LOST

FLEET = Fleet.of(a=(3, 2.0), b=(3, 1.0))


def run(availability, steps=2000, fleet=FLEET, **more):
    scenario = Scenario(availability=(availability,))
    return simulate(fleet, Plan.uniform(fleet, 9), steps, start="even", seed=5, scenario=scenario, **more)


def test_a_client_works_only_while_its_table_says_that_it_is_there():
    intervals = ((0.0, 4.0), (10.0, 11.0), (20.0, 30.0))
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)
    trace = run(Availability("table", intervals=intervals, period=40.0, groups=("a",)), fleet=fleet)
    mine = trace.applied & (trace.client < 3)
    phase = trace.finished_at[mine] % 40
    inside = [(phase >= low - 1e-9) & (phase <= high + 1e-9) for low, high in intervals]
    assert np.logical_or.reduce(inside).all()
    others = trace.applied & (trace.client >= 3)
    assert (trace.finished_at[others] - trace.started_at[others]) == pytest.approx(1)


def test_a_paused_task_goes_on_where_it_stopped():
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)  # 0.5 a task for group a
    trace = run(Availability("table", intervals=((0.0, 0.75),), period=1.0, groups=("a",)), fleet=fleet)
    mine = trace.applied & (trace.client < 3)
    length = (trace.finished_at - trace.started_at)[mine]
    begins = trace.started_at[mine] % 1.0
    tie = abs(begins - 0.25) < 1e-6  # would be done at the very moment when the client leaves, at 0.75
    assert length[~tie & (begins < 0.25)] == pytest.approx(0.5)
    assert length[~tie & (begins > 0.25)] == pytest.approx(0.75)  # 0.5 of work and 0.25 away
    assert (~tie & (begins > 0.25)).any()


TWICE = Plan.weighted(FLEET, [2.0, 1.0], 9)


@pytest.mark.parametrize(
    ("dispatcher", "availability", "known"),
    [
        ("routed", (Availability(loss=0.5, groups=("b",)),), True),
        (
            "shuffled",
            (Availability(loss=0.5, groups=("b",)), Availability("churn", on=1.0, off=1.0, groups=("a",))),
            True,
        ),
        ("routed", (Availability(loss=0.4),), True),
        ("routed", (Availability("churn", on=3.0, off=3.0),), True),
        ("routed", (Availability("churn", on=1.0, off=1.0, leave="lose"),), False),
        ("shuffled", (Availability("churn", on=1.0, off=1.0, leave="lose", groups=("b",)),), False),
        ("routed", (Availability("churn", on=1.0, off=1.0, leave="lose"), Availability(loss=0.2)), True),
    ],
)
def test_the_share_that_a_trace_keeps_is_that_of_the_updates_which_arrive(dispatcher, availability, known):
    scenario = Scenario(Dispatcher(dispatcher), availability=availability)
    trace = simulate(FLEET, TWICE, 20_000, start="even", seed=5, scenario=scenario)
    assert trace.metadata["prob"] == ("exact" if known else "estimated")
    shares = exact_shares(FLEET, TWICE, scenario)
    assert (shares is not None) == known
    late = trace.dispatched_step > 15_000
    error = (1 / 6 / 20_000) ** 0.5  # at least that of any of these shares
    for group, of in enumerate((slice(0, 3), slice(3, 6))):
        found = np.bincount(trace.client[trace.applied], minlength=6)[of].mean() / 20_000
        mine = trace.prob[late & (FLEET.group_of_client[trace.client] == group)]
        assert mine.mean() == pytest.approx(found, abs=4 * error)
        assert shares is None or (mine == shares[group]).all()


@pytest.mark.parametrize("text", ["always(loss=0.3)", "churn(on=3, off=3)"])
@pytest.mark.parametrize("dispatcher", ["routed", "shuffled"])
def test_what_meets_all_clients_alike_leaves_the_shares_as_they_are(dispatcher, text):
    alike, plain = (
        Scenario(Dispatcher(dispatcher), availability=(Availability.parse(text),)),
        Scenario(Dispatcher(dispatcher)),
    )
    assert exact_shares(FLEET, TWICE, alike).tolist() == exact_shares(FLEET, TWICE, plain).tolist()


def test_a_task_may_be_interrupted_many_times():
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)  # group a: 250 times there and away in a task of 0.5
    trace = run(Availability("table", intervals=((0.0, 0.001),), period=0.002, groups=("a",)), 300, fleet)
    mine = trace.applied & (trace.client < 3)
    assert (trace.finished_at - trace.started_at)[mine] == pytest.approx(1.0, abs=0.002)


def test_a_client_that_leaves_can_lose_its_task_and_the_server_sends_another():
    trace = run(Availability("churn", on=3.0, off=1.0, leave="lose"))
    lost = trace.fate == LOST
    assert 20 < lost.sum() < 2000
    assert np.isnan(trace.finished_at[lost]).all()
    assert (trace.applied_at[lost] >= trace.started_at[lost]).all()  # when it was lost
    assert np.isin(trace.applied_at[lost], trace.dispatched_at).all()  # and replaced at once
    assert (trace.applied_step[lost] == -1).all()
    assert int(trace.applied.sum()) == 2000
    # C tasks in flight all the time: every ended task, applied or lost, is followed by one new
    assert len(trace) == 2000 + int(lost.sum()) + 9


@pytest.mark.parametrize(("on", "off"), [(5.0, 5.0), (2.0, 6.0)])
def test_churn_takes_clients_away_for_the_stated_part_of_the_time(on, off):
    # pure dispatch with one task a client: a client is busy exactly while it is there
    scenario = Scenario(Dispatcher("pure"), availability=(Availability("churn", on=on, off=off),))
    summary = measure(
        FLEET, Plan.uniform(FLEET, 6), 20_000, start="one-each", replications=12, seed=1, scenario=scenario
    )
    speed = (FLEET.count * FLEET.rate).sum() * on / (on + off)
    assert abs(summary.throughput.value - speed) < 4 * summary.throughput.error


def test_diurnal_clients_are_there_for_their_part_of_every_period():
    scenario = Scenario(Dispatcher("pure"), availability=(Availability("diurnal", on=6.0, period=24.0),))
    summary = measure(
        FLEET, Plan.uniform(FLEET, 6), 20_000, start="one-each", replications=12, seed=1, scenario=scenario
    )
    assert summary.throughput.value == pytest.approx(9.0 * 6 / 24, rel=0.02)


def test_updates_get_lost_on_the_way_with_the_stated_probability():
    trace = run(Availability(loss=0.2), steps=8000)
    ended = trace.applied.sum() + (trace.fate == LOST).sum()
    share = (trace.fate == LOST).sum() / ended
    assert share == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / ended))
    assert np.isfinite(trace.finished_at[trace.fate == LOST]).all()  # it was served, and lost after that
    assert (trace.applied_at == trace.finished_at)[trace.fate == LOST].all()


def worked(trace, mine, rate, jumps, drift):
    """Integral of the rate from the start to the end of each service, by sums over many small pieces."""
    begins, ends = trace.started_at[mine], trace.finished_at[mine]
    times = begins + np.linspace(0, 1, 4001)[:, None] * (ends - begins)
    middle = (times[1:] + times[:-1]) / 2
    factor = np.ones_like(middle)
    for at, value in jumps:
        factor[middle >= at] = value
    return (rate * factor * np.exp(drift * middle) * np.diff(times, axis=0)).sum(axis=0)


@pytest.mark.parametrize("drift", [0.0, 0.02, -0.004])
def test_a_service_ends_when_the_integral_of_its_rate_is_its_work(drift):
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)
    jumps = ((50.0, 0.5), (50.5, 3.0), (90.0, 4.0))
    trace = run(Availability(changes=jumps, drift=drift, groups=("b",)), fleet=fleet)
    mine = trace.applied & (trace.client >= 3)
    assert worked(trace, mine, 1.0, jumps, drift) == pytest.approx(1, rel=2e-3)
    at_once = mine & (trace.started_at < 50) & (trace.finished_at > 50.5)
    assert at_once.any()  # two jumps in one service
    others = trace.applied & (trace.client < 3)
    assert (trace.finished_at - trace.started_at)[others] == pytest.approx(0.5)


def test_a_drift_has_its_closed_form():
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)
    for drift in (0.01, -0.01, 1e-250):
        trace = run(Availability(drift=drift), fleet=fleet, steps=500)
        begins, ends = trace.started_at[trace.applied], trace.finished_at[trace.applied]
        # rate * (exp(drift end) - exp(drift begin)) / drift = 1
        rate = np.where(trace.client[trace.applied] < 3, 2.0, 1.0)
        assert rate * np.exp(drift * begins) * np.expm1(drift * (ends - begins)) == pytest.approx(drift, rel=1e-9)


def test_a_paused_service_keeps_the_work_that_is_left_and_not_the_time():
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)
    drift = 0.05
    trace = run(Availability("table", intervals=((0.0, 0.3),), period=1.0, drift=drift), 200, fleet)
    mine = trace.applied & (trace.client >= 3)
    times = np.linspace(trace.started_at[mine], trace.finished_at[mine], 40_001)
    middle = (times[1:] + times[:-1]) / 2
    there = middle % 1.0 < 0.3
    assert (there * np.exp(drift * middle) * np.diff(times, axis=0)).sum(axis=0) == pytest.approx(1, rel=2e-3)


@pytest.mark.parametrize("drift", [0.3, -0.1])
def test_the_updates_of_clients_that_never_wait_are_a_poisson_process_with_the_drifting_rate(drift):
    # one task a client, given back to it at once: the time of step K, through the integral of all rates, is a sum of K
    # unit exponentials, with mean K and standard deviation sqrt(K)
    steps, replications = 40, 400
    scenario = Scenario(Dispatcher("pure"), availability=(Availability(drift=drift),))
    passed = []
    for seed in range(replications):
        trace = simulate(FLEET, Plan.uniform(FLEET, 6), steps, start="one-each", seed=seed, scenario=scenario)
        passed.append(9.0 * np.expm1(drift * trace.applied_at[steps - 1]) / drift)
    error = np.sqrt(steps / replications)
    assert abs(np.mean(passed) - steps) < 4 * error


def test_a_service_beyond_what_a_falling_rate_will_ever_do_keeps_its_client_while_others_go_on():
    # group b: all that a client will ever do is 1 / 0.6 tasks
    fleet = replace(FLEET, law=(Law("deterministic"),) * 2)
    fading = Scenario(Dispatcher("pure"), availability=(Availability(drift=-0.6, groups=("b",)),))
    trace = simulate(fleet, Plan.uniform(fleet, 6), 200, start="one-each", scenario=fading)
    assert np.bincount(trace.client[trace.applied], minlength=6)[3:].tolist() == [1, 1, 1]
    with pytest.raises(InvalidInput, match=r"came to a stop after \d+ steps"):  # in the end they hold all tasks
        run(Availability(drift=-0.6, groups=("b",)), fleet=fleet, steps=2000)


def test_a_fleet_that_comes_to_a_stop_is_reported():
    gone = Availability("table", intervals=((0.0, 20.0),))
    with pytest.raises(InvalidInput, match=r"came to a stop after \d+ steps: no client will finish another task"):
        run(gone)
    with pytest.raises(InvalidInput, match="came to a stop"):
        run(Availability(drift=-1.0))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("churn(on=1e-9, off=1e9)", "clients come and go, and none finishes a task while it is online"),
        ("diurnal(on=1e-300, period=24)", "clients come and go, and none finishes a task while it is online"),
        ("churn(on=1e-9, off=1, leave=lose)", r"[\d,]+ tasks were lost, and none came back; lower the loss"),
        ("always(loss=0.9999999999999999)", r"[\d,]+ tasks were lost, and none came back; lower the loss"),
        ("churn(on=10, off=10, drift=-2)", "clients come and go, and none finishes a task"),
    ],
)
def test_a_run_that_gets_nowhere_ends_and_says_what_is_in_its_way(text, reason, monkeypatch):
    monkeypatch.setattr(drive, "MOST_EVENTS", 3_000_000)
    scenario = Scenario(availability=(Availability.parse(text),))
    plan = Plan.uniform(FLEET, 9)
    nowhere = rf"^the run makes no progress: no update was applied in 3,000,000 events after step \d; {reason}"
    with pytest.raises(InvalidInput, match=nowhere):
        simulate(FLEET, plan, 1000, start="even", scenario=scenario)
    with pytest.raises(InvalidInput, match=nowhere):
        measure(FLEET, plan, 1000, start="even", scenario=scenario)
    online = drive.OnlineEngine(FLEET, plan, scenario, np.full(6, 2), keys(1))
    monkeypatch.setattr(drive, "MOST_EVENTS", 20_000)  # the online loop is slow
    with pytest.raises(InvalidInput, match="the run makes no progress"):
        list(online.tasks(1000))


def test_a_run_is_the_same_however_often_it_comes_up_for_air():
    # a tenth of a million comings and goings for a step, so that the compiled loop stops now and then: whom tasks are
    # sent to is drawn from a stream of its own, of which no number may be skipped
    flicker = run(Availability("churn", on=2e-5, off=2e-5), steps=60)
    steady = run(Availability(), steps=60, engine="events")
    assert drive.SPAN < 60 * 6 / 4e-5 / 3

    def sent(trace):
        return trace.client[np.argsort(trace.dispatched_step, kind="stable")][9:].tolist()

    assert sent(flicker) == sent(steady)


def test_availability_is_read_from_toml_and_csv(tmp_path):
    (tmp_path / "a.toml").write_text(
        '[[availability]]\nname = "churn"\non = 10.0\noff = 2.0\ngroups = ["a"]\n'
        "[[availability]]\nloss = 0.1\nchanges = [[5.0, 0.5]]\n"
    )
    first, second = Availability.load(tmp_path / "a.toml")
    assert first == Availability("churn", on=10.0, off=2.0, groups=("a",))
    assert second == Availability(loss=0.1, changes=((5.0, 0.5),))
    (tmp_path / "t.csv").write_text("group,from,to\na,5,6\na,0,3\n,1,2\n")
    assert Availability.load(tmp_path / "t.csv") == (
        Availability("table", intervals=((0.0, 3.0), (5.0, 6.0)), groups=("a",)),
        Availability("table", intervals=((1.0, 2.0),)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weekly", "availability must be one of always, churn, diurnal, table, got 'weekly'"),
        ("churn(on=5)", "churn needs mean times on and off > 0, got 5.0 and nan"),
        ("diurnal(on=30, period=24)", "diurnal needs 0 < on < period, got 30.0 and 24.0"),
        ("always(loss=1)", "loss must be a probability below 1, got 1.0"),
        ("always(leave=stay)", "leave must be pause or lose, got 'stay'"),
        ("table", r"needs increasing, disjoint \(from, to\)"),
        ("always(drift=inf)", "drift must be finite"),
    ],
)
def test_availability_written_wrongly_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        Availability.parse(text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("intervals = [[0, 1, 2]]", r"intervals must hold pairs of numbers, got \[\[0\.0, 1\.0, 2\.0\]\]"),
        ("intervals = [[0.0, 1.0], [2.0]]", r"intervals must hold pairs of numbers, got \[\[0\.0, 1\.0\], \[2\.0\]\]"),
        ("intervals = [0, 1]", "a pair of intervals must be a list of numbers, got 0"),
        ('intervals = [["a", "b"]]', "a value of a pair of intervals must be a number, got 'a'"),
        ("intervals = 3", "intervals must be a list, got 3"),
        ("changes = [[1, 2, 3]]", r"changes must hold pairs of numbers, got \[\[1\.0, 2\.0, 3\.0\]\]"),
    ],
)
def test_an_interval_is_a_pair(tmp_path, line, message):
    (tmp_path / "a.toml").write_text(f'[[availability]]\nname = "table"\n{line}\n')
    with pytest.raises(InvalidInput, match=message):
        Availability.load(tmp_path / "a.toml")


def test_a_row_of_intervals_has_three_cells(tmp_path):
    (tmp_path / "t.csv").write_text("group,from,to\na,0,3\na,5,6,7\n")
    with pytest.raises(InvalidInput, match="line 3: an interval is group,from,to, got 4 cells"):
        Availability.load(tmp_path / "t.csv")


def test_availability_files_that_cannot_be_read_are_reported(tmp_path):
    with pytest.raises(UnreadableFile, match="does not exist"):
        Availability.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[[availability]\n")
    with pytest.raises(UnreadableFile, match="is not valid TOML"):
        Availability.load(tmp_path / "bad.toml")
    (tmp_path / "key.toml").write_text("[[availability]]\nspeed = 3\n")
    with pytest.raises(InvalidInput, match="unknown key 'speed'"):
        Availability.load(tmp_path / "key.toml")
    (tmp_path / "c.csv").write_text("group,begin,end\n")
    with pytest.raises(InvalidInput, match="columns must be group,from,to"):
        Availability.load(tmp_path / "c.csv")
    with pytest.raises(InvalidInput, match="no group 'zz'"):
        run(Availability(loss=0.1, groups=("zz",)))
