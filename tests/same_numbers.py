"""Numbers that no change of the code's layout may change: traces, plans and trained models of fixed seeds.

`python tests/same_numbers.py` writes them to tests/recorded/same_numbers.json, with what the machine computes with:
another processor, or another version of a library, may round otherwise.
"""

import hashlib
import json
import platform
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from sojourn import Availability, Dispatcher, Fleet, Law, Plan, Scenario, goal, make_plan, simulate
from sojourn.experiments.training import train
from sojourn.learning.run.config import TrainConfig
from sojourn.trace import COLUMNS

RECORDED = Path(__file__).parent / "recorded" / "same_numbers.json"
FLEET = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
LINKED = replace(FLEET, law=(Law.parse("lognormal(sigma=1)"), Law.parse("gamma(shape=2)")), uplink_rate=[5.0, 3.0])
PLAN = Plan.of(FLEET, {"fast": 0.12, "slow": 0.07}, 8)


def _scenario(dispatcher: str, **world: Any) -> Scenario:
    return Scenario(Dispatcher.parse(dispatcher), **world)


TRACES: dict[str, Callable[[], Any]] = {
    "routed, jump chain": lambda: simulate(FLEET, PLAN, 3000, seed=1),
    "routed, events": lambda: simulate(FLEET, PLAN, 3000, start="even", seed=2, engine="events"),
    "links and a busy server": lambda: simulate(
        LINKED, replace(PLAN, fleet_hash=None), 2000, start="routed", seed=3, scenario=Scenario(server_rate=20.0)
    ),
    "to the finisher": lambda: simulate(FLEET, PLAN, 2000, start="one-each", seed=4, scenario=_scenario("pure")),
    "shuffled": lambda: simulate(FLEET, PLAN, 2000, start="even", seed=5, scenario=_scenario("shuffled")),
    "to idle clients": lambda: simulate(FLEET, PLAN, 2000, start="one-each", seed=6, scenario=_scenario("idle")),
    "rounds": lambda: simulate(
        FLEET, PLAN, 1000, start="even", seed=7, scenario=_scenario("rounds(interaction=0.5)", local_steps=3)
    ),
    "periodic": lambda: simulate(
        FLEET,
        replace(PLAN, concurrency=10),
        1000,
        start="even",
        seed=8,
        scenario=_scenario("periodic(contacts=3, waiting=1)", local_steps=5),
    ),
    "clients that come and go": lambda: simulate(
        FLEET,
        PLAN,
        2000,
        start="even",
        seed=9,
        scenario=Scenario(availability=(Availability.parse("churn(on=20, off=5)"),)),
    ),
}
PLANS: dict[str, Callable[[], Plan]] = {
    "in time": lambda: make_plan(Fleet.of(fast=(90, 8.0), slow=(10, 1.0)), goal(time=1000)).plan,
    "in steps": lambda: make_plan(FLEET, goal(steps=10_000), concurrency=8).plan,
}
RUNS: dict[str, dict[str, Any]] = {
    "generalized-asyncsgd, one by one": {"sampling": "fast=0.12,slow=0.07", "execution": "one-by-one"},
    "generalized-asyncsgd, waves": {"sampling": "fast=0.12,slow=0.07", "execution": "waves"},
    "generalized-asyncsgd, resumed": {"sampling": "fast=0.12,slow=0.07"},
    "asyncsgd, finisher, adaptive": {"algorithm": "asyncsgd(assignment=pure, steps=adaptive)", "concurrency": 10},
    "fedbuff, idle, local steps": {"algorithm": "fedbuff(size=3)", "local_steps": 3, "momentum": 0.5},
    "fedavg, epochs": {"algorithm": "fedavg", "local_epochs": 1, "step_size": 0.05},
    "favano": {"algorithm": "favano(contacts=3)", "local_steps": 5},
    "quafl": {"algorithm": "quafl(contacts=3)", "local_steps": 5},
    "fedasync": {"algorithm": "fedasync(alpha=0.6)", "local_steps": 2, "clip": 1.0},
    "adam, cosine, by time": {
        "server": "adam",
        "step_size": 0.01,
        "schedule": "cosine(end=30, over=time)",
        "time": 30.0,
    },
    "batch norm and flips": {"model": "cnn(channels=4, norm=batch)", "augment": "flip", "steps": 40},
    "quadratic in float64": {"data": "quadratic(clients=10)", "model": "problem", "partition": "natural"}
    | {"dtype": "float64", "step_size": 0.02},
}


def machine() -> dict[str, str]:
    """What the last bits of a computation depend on."""
    cpu = Path("/proc/cpuinfo")
    facts = (
        re.findall(r"^(model name|cpu family|model|flags)\s*:\s*(.*)$", cpu.read_text(), re.M) if cpu.exists() else []
    )
    told = hashlib.sha256(repr(sorted(set(facts))).encode()).hexdigest()[:16] if facts else platform.processor()
    return {
        "processor": told,
        "numpy": np.__version__,
        "torch": torch.__version__,
        "threads": "1",
    }


def arrays_of(kind: str, name: str) -> dict[str, np.ndarray]:
    """The arrays of a case."""
    if kind == "trace":
        trace = TRACES[name]()
        return {key: np.asarray(getattr(trace, key)) for key in COLUMNS}
    if kind == "plan":
        plan = PLANS[name]()
        return {"sampling": plan.sampling, "rest": np.array([plan.concurrency, plan.step_size])}
    return {key: tensor.numpy() for key, tensor in _trained(name).items()}


def _trained(name: str) -> Mapping[str, torch.Tensor]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        FLEET.save(Path(place) / "fleet.csv")
        shared = {"partition": "classes(k=2)", "concurrency": 8, "seed": 11, "device": "cpu"}
        ends = {} if "time" in RUNS[name] else {"steps": 120}
        config = TrainConfig(f"{place}/fleet.csv", **{**shared, **ends, **RUNS[name]})
        folder = Path(place) / "run"
        if name.endswith("resumed"):
            _abandon(config, folder)
        train(config, folder, resume=name.endswith("resumed"))
        return load_file(folder / "model.safetensors")


class _Enough(Exception):
    pass


def _abandon(config: TrainConfig, folder: Path) -> None:
    """Train halfway, then drop everything that came after the last checkpoint."""

    def look(done: int, total: int, facts: Any) -> None:
        if done >= 70:
            raise _Enough

    try:
        train(config, folder, checkpoint_every=25, progress=look)
    except _Enough:
        return


CASES = [("trace", name) for name in TRACES] + [("plan", name) for name in PLANS] + [("model", name) for name in RUNS]


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Of names, shapes, types and every bit."""
    total = hashlib.sha256()
    for key, value in sorted(arrays.items()):
        total.update(f"{key}{value.shape}{value.dtype}".encode())
        total.update(np.ascontiguousarray(value).tobytes())
    return total.hexdigest()[:32]


def gist(arrays: Mapping[str, np.ndarray]) -> list[float]:
    """A few numbers that tell two results apart where the last bits may differ."""
    values = np.concatenate([value.ravel().astype(np.float64) for _, value in sorted(arrays.items())])
    values = values[np.isfinite(values)]
    return [float(values.size), float(values.mean()), float(np.abs(values).mean())]


def record() -> None:
    """Write them all down."""
    found = {}
    for kind, name in CASES:
        arrays = arrays_of(kind, name)
        found[f"{kind}: {name}"] = {"digest": digest(arrays), "gist": gist(arrays)}
    RECORDED.write_text(json.dumps({"machine": machine(), "cases": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    record()
