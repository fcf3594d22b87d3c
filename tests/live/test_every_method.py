"""Every method that can run live: its model over pretended clients is that of a replay of the recorded trace."""

from dataclasses import replace

import pytest

from live.pretended_clients import Federation
from live.test_loop import commits, config, finished, replayed, run_of, service  # noqa: F401 fixtures by their names
from sojourn import Fleet, Plan
from sojourn.learning.algorithms.table import ALGORITHMS, algorithm
from sojourn.learning.replay.local import Local
from sojourn.live.remembering import client_side, remembering
from sojourn.live.run import built_for, why_not_live
from sojourn.live.worker import FederationWorker

FLEET = Fleet.of(all=(10, 1.0))


def runs_live(name):
    made = algorithm(name)
    return why_not_live(made, made.timing(FLEET, Plan.uniform(FLEET, 10), Local())[1]) is None


LIVE = [name for name in ALGORITHMS if runs_live(name)]


def clients(config):  # noqa: F811
    """The clients of a run with what its method does at a client, as their processes have it."""
    federation = built_for(config).federation
    worker = remembering(FederationWorker(federation), client_side(config, federation.model), federation.keys)
    return Federation(worker, service, range(10))


def test_all_methods_but_five_run_live():
    assert set(ALGORITHMS) - set(LIVE) == {"favano", "quafl", "fedfix", "fedasmu", "fedcompass"}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIVE)
def test_the_final_model_of_every_method_that_runs_live_is_that_of_a_replay_bit_for_bit(config, tmp_path, name):  # noqa: F811
    local = {"local_steps": 3} if algorithm(name).sends == "delta" else {}
    config = replace(config, algorithm=name, cap=None, steps=120, **local)
    trace = finished(run_of(config, tmp_path / "live", clients(config)))
    assert int(trace.applied.sum()) == 120
    assert (tmp_path / "live/model.safetensors").read_bytes() == replayed(config, trace, tmp_path / "again")
