"""A live run over pretended clients whose speeds change, on a clock of its own: fast, and the same each time."""

import threading
from concurrent.futures import Executor, Future

import numpy as np

from live.pretended_clients import Federation, Pretended
from sojourn import Trace
from sojourn.learning.run.config import TrainConfig
from sojourn.live.journal import Commit, Journal
from sojourn.live.planner import Said
from sojourn.live.run import LiveRun, Settings, built_for
from sojourn.live.worker import FederationWorker


class AtOnce(Executor):
    """Works out what it is given at once, so that a test does not depend on threads."""

    def submit(self, work, /, *given, **options):
        done = Future()
        try:
            done.set_result(work(*given, **options))
        except Exception as error:
            done.set_exception(error)
        return done


class Rarely(Journal):
    """Commits at every so manyth chance, at once."""

    every = 40

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        self._asked = 0

    def wait(self):
        self._asked += 1
        return 0.0 if self._asked % (2 * self.every + 1) == 0 else 1.0

    def commit(self, commit: Commit):
        self._put(commit)
        commit.then()


class Changing:
    """Service times by client and task, with a mean that changes at given times."""

    def __init__(self, *rates, law="exponential", seed=0):
        self.rates, self.law, self.seed = rates, law, seed  # pairs (time from which they hold, rates of the clients)
        self.federation = None

    def rates_at(self, time):
        return next(np.asarray(rates, float) for since, rates in reversed(self.rates) if time >= since)

    def __call__(self, client, nth):
        mean = 1 / self.rates_at(self.federation.clock)[client]
        rng = np.random.default_rng((self.seed, client, nth))
        if self.law == "exponential":
            return float(rng.exponential(mean))
        return mean if self.law == "deterministic" else float(mean * rng.lognormal(-0.045, 0.3))


def quadratic(path, clients, **changes):
    """A run on a quadratic whose clients want different models."""
    data = f"quadratic(dimension=2, clients={clients}, examples=20, heterogeneity=1, noise=0.1, seed=3)"
    given = {"data": data, "model": "problem", "partition": "natural", "device": "cpu", "dtype": "float64"}
    return TrainConfig(str(path), **{**given, "evaluate_every": 10**9, **changes})


def federation_of(config, times, clients):
    made = Federation(FederationWorker(built_for(config).federation), times, range(clients))
    times.federation = made
    return made


def run_of(config, folder, federation, resume=False, every=1e9, said=None, **settings):
    said = Said.of(config, nothing=said == "nothing")
    begin = {"begin_with": len(federation.clients), **settings}
    return LiveRun(
        config,
        folder,
        lambda *_: Pretended(federation),
        Settings(replan=every, **begin),
        resume,
        said=said,
        pool=AtOnce(),
    )


def finished(run, watch=None):
    with run:
        assert run.run(threading.Event(), watch)
    return Trace.load(run.folder / "trace.parquet")


def five_clients(place, steps, **changes):
    """Return a function that opens, or resumes, a live run of three fast and two slow pretended clients."""
    fleet = place / "fleet.csv"
    fleet.write_text("name,count,rate\nfast,3,8\nslow,2,2\n")

    def opened(resume=False, **settings):
        config = quadratic(fleet, 5, cap="1", concurrency=5, steps=steps, **changes)
        rates = [8.0] * 3 + [2.0] * 2
        return run_of(config, place / "live", federation_of(config, Changing((0, rates)), 5), resume, **settings)

    return opened
