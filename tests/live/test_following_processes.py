"""A live federation of real processes whose fast clients become half as fast: it is planned again, and all follows.

Service times are artificial; processes, messages and the clock are real. What is promised for measured times allows for
links and stalls of a busy machine, as far as they are steady: 15% are allowed beyond four standard errors.
"""

from pathlib import Path

import pytest

from live.processes import Processes, until
from sojourn import Trace, observe
from sojourn.live.replayed import replay_run
from sojourn.live.settings import write_file

pytest.importorskip("grpc")
CLIENT = Path(__file__).with_name("slowing_client.py")
FLEET = "fast,3,8\nslow,3,4\n"
BEFORE, LASTS = 9.0, 26.0  # seconds until the change, and in all
WITHIN = 250  # updates after the change within which there is a plan for it
ALLOWED = 0.15


@pytest.mark.slow
def test_real_clients_that_become_half_as_fast_are_noticed_and_planned_for(tmp_path):
    keys = {"cap": "1", "correction": 0.5, "law": "lognormal(sigma=0.3)", "time": LASTS, "evaluate_every": 10**6}
    with Processes(tmp_path, FLEET, model="logistic", **keys) as here:
        server = here.server(replan="10min")
        until(here.listening, 60, here.said)
        slow = tmp_path / "slow"
        for names in (["fast-0", "slow-0", "fast-1"], ["slow-1", "fast-2", "slow-2"]):
            path = tmp_path / f"{names[0]}.toml"
            about = {"server": f"127.0.0.1:{here.port}", "clients": names, "holds": "part", "paced": True}
            write_file(path, {**about, "give_up": 60.0}, here.run)
            here.start([CLIENT, slow, 2.0, 3, path], f"{names[0]}.log")
        here.shows(seconds=150, updates_total=1)  # time counts from the first task
        changed = here.shows(time_seconds=BEFORE)["time_seconds"]
        slow.touch()
        assert server.wait(150) == 0, here.said()
        trace, log = here.trace(), here.log()
        plans = trace.metadata["plans"]
        print(*((round(one["time"], 2), one["step"], one["reason"], one["throughput"], one["share"]) for one in plans))
        drifts = [one for one in plans if one["reason"].startswith("drift") and one["time"] > changed]
        before = int((trace.applied_at[trace.applied] < changed).sum())
        assert drifts[0]["step"] <= before + WITHIN
        assert (
            plans[-1]["throughput"] < 0.85 * next(one for one in reversed(plans) if one["time"] < changed)["throughput"]
        )
        assert [one["reason"] for one in log if one["what"] == "plan"] == [one["reason"] for one in plans[1:]]
        found = observe(here.live)
        last = max((one for one in found.periods if one.begin > changed), key=lambda one: one.updates)
        assert last.observed == pytest.approx(last.promised, abs=4 * last.error + ALLOWED * last.promised)
        assert last.observed_share == pytest.approx(last.promised_share, abs=4 * (0.25 / last.updates) ** 0.5 + 0.05)
        assert replay_run(here.live, tmp_path / "again").same
        assert len(Trace.load(tmp_path / "again/trace.parquet")) == len(trace)
