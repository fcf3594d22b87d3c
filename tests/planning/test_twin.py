"""The twin: exact second moments against samples, by hand, and against closed forms."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.plan import Plan
from sojourn.planning.policy import Policy, robust, usual
from sojourn.planning.twin import predict
from sojourn.planning.twin.moments import BLOCKS, exact
from sojourn.planning.twin.runs import Run, Runs

SMALL = Landscape(
    (4.0, 2.0, 1.0, 0.3), loss=2.0, noise=1.5, heterogeneity=2.0, noise_floor=0.3, heterogeneity_floor=0.2
)
FLEET = Fleet.of(fast=(4, 4.0), slow=(2, 1.0))
FREE = Plan.uniform(FLEET, 6, cap=1)
FALLING = "linear(end=budget)"
RULES = {
    "plain": (replace(FREE, correction=0.0), "generalized-asyncsgd", 0.02),
    "weighted": (Plan.weighted(FLEET, [3.0, 1.0], 4), "generalized-asyncsgd", 0.03),
    "half weighted, falling": (replace(FREE, correction=0.5, schedule=FALLING), "generalized-asyncsgd", 0.04),
    "buffered": (FREE, "fedbuff(size=3, dispatch=idle)", 0.09),
    "buffered by staleness": (
        replace(Plan.uniform(FLEET, 4), schedule="cosine(end=budget)"),
        "fedbuff(size=2, staleness=root, dispatch=idle)",
        0.1,
    ),
    "buffered, distinct": (FREE, "fedbuff(size=3, distinct=true, dispatch=idle)", 0.08),
    "rounds": (Plan.uniform(FLEET, 3), "fedavg", 0.2),
    "rounds, falling": (replace(Plan.uniform(FLEET, 3), schedule=FALLING), "fedavg", 0.3),
    "calibrated": (replace(FREE, schedule=FALLING), "ca2fl(size=3, dispatch=idle)", 0.1),
    "table": (FREE, "ia2sgd", 0.03),
    "table without warm-up, falling": (replace(FREE, schedule=FALLING), "ia2sgd(warmup=false)", 0.04),
    "adaptive": (Plan.uniform(FLEET, 6), "asyncsgd(assignment=pure, steps=adaptive)", 0.03),
    "dropped": (Plan.uniform(FLEET, 6), "asyncsgd(assignment=pure, steps=drop)", 0.03),
    "mixed": (FREE, "fedasync(alpha=0.3, dispatch=idle)", 0.1),
}


class Servers:
    """The servers of the rules written out as the algorithms have them, on many samples at once (NumPy, no adjoint)."""

    def __init__(self, run: Run, eta: float) -> None:
        self.run, self.eta, self.options = run, eta, run.server.options
        self.buffer: list[Any] = []
        self.inside: set[int] = set()
        self.table: dict[int, Any] = {}
        self.version = 0
        self.count = len(run.small.share)

    def arrive(self, k: int, client: int, sent: Any, version: int, gradient: Any, w: Any) -> Any:
        """The model after update k; `gradient()` is what the client sends."""
        u, name = self.run.updates, self.run.server.name
        here, there = self.eta * u.level[k], self.eta * u.sent_level[k]
        if name in ("generalized-asyncsgd", "asyncsgd"):
            tau, steps = self.version - version, self.options.get("steps", "constant")
            if steps == "drop" and tau > u.concurrency:
                return w
            self.version += 1
            factor = min(1.0, u.concurrency / max(tau, 1)) if steps == "adaptive" else 1.0
            return w - here * factor * u.counts[k] * gradient()
        if name == "fedbuff":
            return self._buffered(client, there, version, gradient, w)
        if name == "fedavg":
            self.buffer.append((gradient, there))
            if len(self.buffer) < 3:
                return w
            return self._flush(w, sum(step * one() for one, step in self.buffer) / 3)
        if name == "ca2fl":
            self.buffer.append((client, gradient, there))
            if len(self.buffer) < self.options["size"]:
                return w
            fresh = [(i, step * one()) for i, one, step in self.buffer]
            move = sum(self.table.values()) / self.count if self.table else 0.0
            move = move + sum(new - self.table.get(i, 0.0) for i, new in fresh) / len(fresh)
            self.table.update(dict(fresh))
            return self._flush(w, move)
        if name == "ia2sgd":
            self.table[client] = gradient()
            if self.options["warmup"] and len(self.table) < self.count:
                return w
            self.version += 1
            return w - here * sum(self.table.values()) / self.count
        share = self.options["alpha"] * (1.0 + self.version - version) ** -0.5
        self.version += 1
        return (1 - share) * w + share * (sent - there * gradient())

    def _buffered(self, client: int, step: float, version: int, gradient: Any, w: Any) -> Any:
        if self.options["distinct"] and client in self.inside:
            return w
        factor = (1 + self.version - version) ** -0.5 if self.options["staleness"] == "root" else 1.0
        self.inside.add(client)
        self.buffer.append((gradient, step * factor))
        if len(self.buffer) < self.options["size"]:
            return w
        self.inside.clear()
        return self._flush(w, sum(size * one() for one, size in self.buffer) / len(self.buffer))

    def _flush(self, w: Any, move: Any) -> Any:
        self.buffer = []
        self.version += 1
        return w - move


def sampled(run: Run, landscape: Landscape, eta: float, samples: int, seed: int, group: int = -1) -> Any:
    """Final losses of samples of the same linear recursion; noise and offsets as the loss of the block's beginning."""
    rng = np.random.default_rng(seed)
    h, n = landscape.h, len(run.small.share)
    mine = np.ones(n, bool) if group < 0 else run.small.speed == group
    inside = np.where(mine, n / mine.sum(), 0.0)
    start = np.sqrt(2 * landscape.loss / h.sum())
    w = np.full((samples, h.size), start)
    z = rng.normal(size=(n, samples, h.size)) * np.sqrt(h / h.sum())
    z = (z - z[mine].mean(axis=0)) * np.sqrt(inside)[:, None, None]
    models, server, block = [(w, 0)], Servers(run, eta), 0
    loss = landscape.loss
    ends = run.time * np.arange(BLOCKS + 1) / BLOCKS
    state = {"loss": loss}
    for k, (client, sent) in enumerate(zip(run.updates.client.tolist(), run.updates.sent.tolist(), strict=True)):
        while run.updates.time[k] > ends[block + 1]:
            block += 1
            state["loss"] = float((w**2 @ h / 2).mean())
        xi = rng.normal(size=w.shape) * np.sqrt(h / h.sum() * inside[client])
        model, version = models[sent]

        def gradient(model: Any = model, client: int = client, xi: Any = xi) -> Any:
            at = state["loss"]
            spread = np.sqrt(landscape.heterogeneity * at + landscape.heterogeneity_floor) * z[client]
            return h * inside[client] * model + spread + np.sqrt(landscape.noise * at + landscape.noise_floor) * xi

        w = server.arrive(k, client, model, version, gradient, w)
        models.append((w, server.version))
    return w**2 @ h / 2


def run_of(name: str, time: float = 12.0, seed: int = 3) -> tuple[Run, float]:
    plan, algorithm, eta = RULES[name]
    return Runs(FLEET, time, traces=1, seed=seed).of(Policy(name, plan, algorithm))[0], eta


@pytest.mark.parametrize("name", RULES)
def test_the_moments_are_those_of_samples(name: str) -> None:
    run, eta = run_of(name)
    assert len(run.updates) > 20
    found = exact(run, SMALL).at(eta).curve[-1]
    drawn = sampled(run, SMALL, eta, 200, seed=5)
    assert abs(found - drawn.mean()) < 2 * drawn.std(ddof=1) / np.sqrt(drawn.size)
    assert drawn.mean() < SMALL.loss


@pytest.mark.parametrize("name", ["plain", "buffered", "rounds", "calibrated", "table", "dropped", "mixed"])
def test_a_direction_that_one_group_informs_is_that_of_samples(name: str) -> None:
    run, eta = run_of(name)
    alone = replace(SMALL, between=1.0)
    still = replace(alone, noise=0.0, heterogeneity=0.0, noise_floor=0.5, heterogeneity_floor=0.5)
    drawn = [sampled(run, still, eta, 200, seed=6 + group, group=group) for group in (0, 1)]
    mixed = drawn[0] * 4 / 6 + drawn[1] * 2 / 6
    found = exact(run, still).at(eta)
    assert abs(found.curve[-1] - mixed.mean()) < 2 * mixed.std(ddof=1) / np.sqrt(mixed.size)
    assert found.worst == pytest.approx(max(one.mean() for one in drawn), rel=0.15)


def test_unknown_algorithms_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"the twin knows the linear rules of .*, got 'favano'"):
        predict(FLEET, [Policy("no", FREE, "favano")], 1.0)


def test_every_usual_policy_is_predicted_and_the_free_ones_win() -> None:
    fleet = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
    asked = [Policy("robust: nobody waits", robust(fleet)), *usual(fleet, 2000 / 730)]
    found = {one.policy.name: one for one in predict(fleet, asked, 2000 / 730)}
    assert found["robust: nobody waits"].loss < 0.75 * found["AsyncSGD, uniform"].loss
    assert found["robust: nobody waits"].updates == pytest.approx(2000, rel=0.05)
