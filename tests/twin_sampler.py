"""What the twin computes, sampled: servers of its rules written out apart from it, on many samples at once."""

from dataclasses import replace
from typing import Any

import numpy as np

from sojourn.fleet import Fleet
from sojourn.landscape import Landscape
from sojourn.plan import Plan
from sojourn.planning.policy import Policy
from sojourn.planning.twin.runs import BLOCKS, Run, Runs

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
    "gathered, weighted": (
        replace(Plan.uniform(FLEET, 6), correction=1.0, buffer=3, adaptive=True, schedule=FALLING),
        "generalized-asyncsgd",
        0.06,
    ),
    "rounds": (Plan.uniform(FLEET, 3), "fedavg", 0.2),
    "rounds, falling": (replace(Plan.uniform(FLEET, 3), schedule=FALLING), "fedavg", 0.3),
    "calibrated": (replace(FREE, schedule=FALLING), "ca2fl(size=3, dispatch=idle)", 0.1),
    "table": (FREE, "ia2sgd", 0.03),
    "table without warm-up, falling": (replace(FREE, schedule=FALLING), "ia2sgd(warmup=false)", 0.04),
    "adaptive": (Plan.uniform(FLEET, 6), "asyncsgd(assignment=pure, steps=adaptive)", 0.03),
    "dropped": (Plan.uniform(FLEET, 6), "asyncsgd(assignment=pure, steps=drop)", 0.03),
    "mixed": (FREE, "fedasync(alpha=0.3, dispatch=idle)", 0.1),
}
CROWD = Fleet.of(fast=(40, 4.0), slow=(20, 1.0))
CROWDED = Plan.uniform(CROWD, 60, cap=1)
LONG = {  # plan, algorithm, step size, error that is let pass
    "plain": (replace(CROWDED, correction=0.0), "generalized-asyncsgd", 0.005, 0.06),
    "weighted": (CROWDED, "generalized-asyncsgd", 0.004, 0.12),
    "falling": (replace(CROWDED, correction=0.5, schedule=FALLING), "generalized-asyncsgd", 0.01, 0.1),
    "buffered": (CROWDED, "fedbuff(size=7, dispatch=idle)", 0.03, 0.06),
    "adaptive": (CROWDED, "asyncsgd(assignment=pure, steps=adaptive)", 0.005, 0.08),
    "rounds": (Plan.uniform(CROWD, 6), "fedavg", 0.1, 0.15),
    "calibrated": (CROWDED, "ca2fl(size=7, dispatch=idle)", 0.01, 0.1),
    "table": (CROWDED, "ia2sgd(warmup=false)", 0.002, 0.1),
    "mixed": (CROWDED, "fedasync(dispatch=idle)", 0.05, 0.15),
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
        if self.options.get("size", 1) > 1 and name == "generalized-asyncsgd":
            tau = self.version - version
            factor = min(1.0, u.concurrency / max(tau, 1)) if self.options["steps"] == "adaptive" else 1.0
            self.buffer.append((gradient, factor * u.counts[k]))
            if len(self.buffer) < self.options["size"]:
                return w
            return self._flush(w, here * sum(size * one() for one, size in self.buffer) / len(self.buffer))
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
            self.buffer.append((client, gradient))
            if len(self.buffer) < self.options["size"]:
                return w
            fresh = [(i, one()) for i, one in self.buffer]
            move = sum(self.table.values()) / self.count if self.table else 0.0
            move = move + sum(new - self.table.get(i, 0.0) for i, new in fresh) / len(fresh)
            self.table.update(dict(fresh))
            return self._flush(w, here * move)
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
    inside = np.where(mine, (n / mine.sum()) ** landscape.sharper, 0.0)
    pull = np.where(mine, 0.0, landscape.forgetting)
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
            back = h * pull[client] * (model - start)
            noise = np.sqrt(landscape.noise * at + landscape.noise_floor) * xi
            return h * inside[client] * model + back + spread + noise

        w = server.arrive(k, client, model, version, gradient, w)
        models.append((w, server.version))
    return w**2 @ h / 2


def run_of(name: str, time: float = 12.0, seed: int = 3) -> tuple[Run, float]:
    plan, algorithm, eta = RULES[name]
    return Runs(FLEET, time, traces=1, seed=seed).of(Policy(name, plan, algorithm))[0], eta
