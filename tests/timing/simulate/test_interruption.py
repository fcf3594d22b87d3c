"""Ctrl-C during a measurement, sent to a process of its own."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

from sojourn import Fleet, Plan, analyze

PROGRAM = """
import json, sys
from sojourn import Fleet, Plan, measure

fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
told = []

def progress(done, total):
    if done > float(sys.argv[3]) and not told:
        told.append(done)
        print("running", flush=True)

steps, replications = int(sys.argv[1]), int(sys.argv[2])
summary = measure(fleet, Plan.uniform(fleet, 20), steps, replications=replications, seed=1, progress=progress)
print(json.dumps({
    "complete": summary.complete,
    "steps": summary.steps,
    "arrivals": int(summary.arrivals.sum()),
    "replications": summary.replications,
    "staleness": summary.staleness.value.tolist(),
    "tail": summary.queue_tail[:, 1].tolist(),
}))
"""


HARDLY_MOVING = """
import json, sys
from sojourn import Fleet, Plan, measure
from sojourn.availability import Availability
from sojourn.timing.simulate.drive import Patience
from sojourn.timing.simulate.record import simulate_to_file
from sojourn.scenario import Scenario

fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
plan = Plan.uniform(fleet, 10)
scenario = Scenario(availability=(Availability.parse(sys.argv[1]),))
measure(fleet, plan, 10, start="even", scenario=Scenario(availability=(Availability(loss=0.1),)))  # compiles
look, told = Patience.look, []

def looked(self, applied, lost, alive):  # called between two calls of the compiled loop
    look(self, applied, lost, alive)
    if applied and not told:
        told.append(applied)
        print("running", flush=True)

Patience.look = looked
if sys.argv[2] == "measure":
    print(json.dumps(measure(fleet, plan, 10**12, start="even", scenario=scenario).complete))
else:
    print(json.dumps(simulate_to_file(fleet, plan, 10**12, sys.argv[2], start="even", scenario=scenario)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", ["always(loss=0.99999)", "churn(on=1e-5, off=1e-5)"])
@pytest.mark.parametrize("verb", ["measure", "simulate_to_file"])
def test_ctrl_c_is_heard_while_hardly_any_update_is_applied(text, verb, tmp_path):
    command = [sys.executable, "-c", HARDLY_MOVING, text, verb if verb == "measure" else str(tmp_path / "t.parquet")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n", process.stderr.read()
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert (process.returncode, out) == (0, "false\n"), err


def interrupted(steps, replications, after):
    """Run a measurement, press Ctrl-C when more than `after` steps are done, and return what it prints."""
    command = [sys.executable, "-c", PROGRAM, str(steps), str(replications), str(after)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n", process.stderr.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    return json.loads(out)


@pytest.mark.parametrize(
    ("steps", "replications", "after"),
    [(10**12, 1, 8e6), (1_000_000, 100_000, 8e6), (10**12, 12, 2e7)],
    ids=["one run", "many short runs", "many long runs"],
)
@pytest.mark.slow
def test_ctrl_c_returns_the_summary_of_what_was_done(steps, replications, after):
    found = interrupted(steps, replications, after)
    assert found["complete"] is False
    assert 0 < found["steps"] < steps * replications
    assert found["steps"] == found["arrivals"]
    assert 1 <= found["replications"] <= replications
    # some millions of steps give staleness and utilisation to about a percent
    fleet = Fleet.of(fast=(5, 1.2), slow=(5, 1.0))
    analysis = analyze(fleet, Plan.uniform(fleet, 20))
    assert np.allclose(found["staleness"], analysis.staleness(), rtol=0.03)
    assert np.allclose(found["tail"], analysis.utilisation, rtol=0.01)
