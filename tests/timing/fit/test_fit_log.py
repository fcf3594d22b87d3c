"""A fleet from a log: the speeds that made it come back, in whatever way it is written."""

import datetime as dt

import numpy as np
import pytest

import sojourn as sj
from sojourn import Fleet, InvalidInput, Plan, UnreadableFile, fit, simulate
from sojourn.laws.law import Law
from sojourn.trace import IN_FLIGHT

FLEET = Fleet(
    ("fast", "slow"), np.array([6, 4]), np.array([2.0, 0.25]), (Law.parse("gamma(shape=2)"), Law.parse("exponential"))
)


@pytest.fixture(scope="module")
def trace():
    return simulate(FLEET, Plan.uniform(FLEET, 20), 12_000, seed=5, start="even")


def write(path, trace, shown=str):
    """A trace as (device, start, end); what is in flight has no end."""
    lines = ["device,start,end"]
    for client, start, end, fate in zip(trace.client, trace.started_at, trace.finished_at, trace.fate, strict=True):
        if np.isfinite(start):
            over = "" if fate == IN_FLIGHT or np.isnan(end) else shown(end)
            lines.append(f"{FLEET.client_name(int(client))},{shown(start)},{over}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_simulated_trace_written_as_a_log_gives_back_its_groups_speeds_and_laws(trace, tmp_path):
    found = fit(write(tmp_path / "log.csv", trace))
    fleet = found.fleet
    assert fleet.name == FLEET.name
    assert fleet.count.tolist() == FLEET.count.tolist()
    scv = np.array([law.scv for law in FLEET.law])
    error = FLEET.rate * np.sqrt(scv / found.observations)
    assert (np.abs(fleet.rate - FLEET.rate) < 3 * error).all()
    assert (found.rate_low < FLEET.rate).all()
    assert (FLEET.rate < found.rate_high).all()
    assert [law.name for law in fleet.law] == ["gamma", "exponential"]
    assert {name.rsplit("-", 1)[0] for name in found.devices.log.device[:6]} == {"fast"}


@pytest.mark.slow
def test_times_and_numbers_give_the_same_fleet(trace, tmp_path):
    noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    ways = {
        "numbers": lambda t: f"{t:.6f}",
        "zoned": lambda t: (noon + dt.timedelta(seconds=round(t, 6))).isoformat(),
        "plain": lambda t: (noon + dt.timedelta(seconds=round(t, 6))).replace(tzinfo=None).isoformat(" "),
        "epoch": lambda t: f"{noon.timestamp() + t:.6f}",
        "milliseconds": lambda t: f"{1e3 * (noon.timestamp() + t):.3f}",
    }
    fleets = [Fleet.from_log(write(tmp_path / f"{name}.csv", trace, shown)) for name, shown in ways.items()]
    for other in fleets[1:]:
        assert (other.name, other.count.tolist()) == (fleets[0].name, fleets[0].count.tolist())
        assert other.rate == pytest.approx(fleets[0].rate, rel=1e-6)
        assert [law.name for law in other.law] == [law.name for law in fleets[0].law]


def durations(tasks=300, seed=1, devices=(("a", 1.0), ("b", 1.0), ("c", 8.0), ("d", 8.0))):
    rng = np.random.default_rng(seed)
    names = [name for name, _ in devices for _ in range(tasks)]
    return {"device": names, "seconds": np.concatenate([rng.exponential(mean, tasks) for _, mean in devices])}


def test_units_change_nothing():
    log = durations()
    milli = {"device": log["device"], "took": 1000 * log["seconds"]}
    texts = {"device": log["device"], "duration": [f"{value!r}s" for value in log["seconds"].tolist()]}
    fleet = Fleet.from_log(log)
    assert fleet.name == ("fast", "slow")
    assert Fleet.from_log(texts) == fleet
    assert Fleet.from_log(milli, duration="took", time_unit="ms").rate == pytest.approx(fleet.rate)


def test_failed_tasks_change_nothing():
    log = durations()
    failed = {
        "device": [*log["device"], "a", "c", "never"],
        "seconds": [*log["seconds"], 1e6, None, 5.0],
        "status": [*["ok"] * len(log["device"]), "crashed", "ok", "crashed"],
    }
    found = fit(failed)
    assert found.fleet == Fleet.from_log(log)
    assert (found.devices.log.failed, found.devices.log.incomplete) == (2, 1)


def test_the_order_of_rows_changes_nothing_but_the_draws():
    log = durations()
    order = np.random.default_rng(2).permutation(len(log["device"]))
    shuffled = {"device": [log["device"][row] for row in order], "seconds": log["seconds"][order]}
    assert Fleet.from_log(shuffled).rate == pytest.approx(Fleet.from_log(log).rate)


def test_every_device_may_be_a_group_under_its_name():
    found = fit(durations(devices=(("x=1, y", 1.0), ("b", 1.0), ("c", 8.0))), groups="device")
    assert found.fleet.name == ("x-1- y", "b", "c")
    assert found.devices.log.device == ("x=1, y", "b", "c")
    assert found.by == "client"
    assert found.fleet.rate == pytest.approx([1, 1, 0.125], rel=0.2)


def test_the_number_of_groups_may_be_given():
    assert Fleet.from_log(durations(), groups=1).name == ("all",)
    assert Fleet.from_log(durations(), groups="3").groups == 3
    for wrong in ("many", 0, -1, 2.5, "99"):
        with pytest.raises(InvalidInput, match=r"groups must"):
            Fleet.from_log(durations(), groups=wrong)


def test_a_group_of_one_device_has_its_name():
    assert Fleet.from_log(durations(devices=(("a", 1.0), ("b", 1.0), ("old laptop", 9.0)))).name == (
        "fast",
        "old laptop",
    )
    assert Fleet.from_log(durations(devices=(("slow", 1.0), ("b", 9.0), ("c", 9.0)))).name == ("slow", "slow-2")


def test_a_single_device_is_a_fleet_of_one_client_and_reported():
    found = fit(durations(devices=(("a", 2.0),)))
    assert found.fleet.clients == 1
    assert "the log has only one device, a: the fleet is a single client" in found.notes


def test_a_column_of_tasks_taken_for_the_devices_is_noticed():
    log = {"id": [f"task-{number}" for number in range(50)], "duration": np.random.default_rng(1).exponential(1, 50)}
    assert any("every device has only one task" in note for note in fit(log).notes)


def test_devices_that_may_be_in_a_wrong_group_are_reported():
    many = [(f"{name}{number}", mean) for number in range(200) for name, mean in (("a", 1.0), ("b", 4.0))]
    seldom, often = (fit(durations(tasks, devices=many)).notes for tasks in (5, 60))
    assert any("of the devices have too few tasks to tell their group" in note for note in seldom)
    assert not any("too few tasks to tell their group" in note for note in often)


def test_durations_alone_have_no_drift_and_no_latest():
    found = fit(durations())
    assert np.isnan(found.drift_p_value)
    with pytest.raises(
        InvalidInput, match=r"latest needs a log that says when tasks began, got 0.5 for a log of durations only"
    ):
        fit(durations(), latest=0.5)


def test_devices_that_slow_down_are_noticed_where_the_log_has_times():
    rng = np.random.default_rng(3)
    start = np.sort(rng.uniform(0, 1000, 4000))
    lasted = rng.exponential(np.where(start < 500, 1.0, 2.0))
    log = {"device": np.array(list("abcd"))[rng.integers(0, 4, 4000)], "start": start, "end": start + lasted}
    assert fit(log).drift_p_value < 0.01
    assert fit(log, latest=0.4).fleet.rate == pytest.approx(0.5, rel=0.1)


def test_what_belongs_to_a_trace_is_refused_for_a_log_and_the_other_way_round(trace):
    with pytest.raises(InvalidInput, match=r"fleet is for a trace, .* give groups"):
        fit(durations(), FLEET)
    with pytest.raises(InvalidInput, match=r"by is for a trace, which numbers its clients, got 'client' for a log"):
        fit(durations(), by="client")
    with pytest.raises(InvalidInput, match=r"groups is for a log of durations, got 2 for a trace; leave it out"):
        fit(trace, groups=2)


def test_a_trace_is_fitted_as_before_in_memory_and_in_a_file(trace, tmp_path):
    trace.save(tmp_path / "trace.parquet")
    trace.save(tmp_path / "no-suffix")
    for source in (tmp_path / "trace.parquet", tmp_path / "no-suffix"):
        assert sj.fit(source, FLEET).fleet == sj.fit(trace, FLEET).fleet
        assert sj.fit(source, FLEET).devices is None


def test_zeros_only_are_refused():
    with pytest.raises(
        InvalidInput, match=r"^the log must have tasks that take time, all its 2 tasks take 0 s; record"
    ):
        fit({"device": ["a", "b"], "duration": [0, 0]})


def test_rates_of_very_few_tasks_are_called_guesses():
    notes = fit({"device": ["a"] * 4 + ["b"] * 5, "seconds": [1, 2, 1, 2, 80, 90, 80, 90, 85]}, groups="device").notes
    assert "a: only 4 tasks: treat the rate as a guess" in notes
    assert not any("b: only" in note for note in notes)


def test_the_note_on_the_number_of_groups_says_what_the_criterion_is():
    (note,) = [one for one in fit(durations(20)).notes if "BIC" in one]
    assert "BIC (misfit plus a penalty per group)" in note


def test_a_file_that_only_bears_the_name_of_a_trace_is_refused_as_a_log(tmp_path):
    path = tmp_path / "picture.parquet"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    with pytest.raises(UnreadableFile, match=r"^log file .* is not a text file; a log must be CSV or Parquet"):
        fit(path)
