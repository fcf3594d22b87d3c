"""Pictures of a plan: the bound around it, and how much staleness its throughput costs."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.fleet import Fleet
from sojourn.folders import made
from sojourn.plan import Plan
from sojourn.planning.bound.family import speed_clusters
from sojourn.planning.bound.search import Planned
from sojourn.report.figures import COLOURS, pyplot, save, singles, words
from sojourn.timing.exact.analysis import analyze
from sojourn.types import Floats

POINTS = 60


def plan_pictures(planned: Planned, folder: Path, one_by_one: bool = False) -> list[Path]:
    """Write the two pictures, or each panel as a separate figure; the folder is made if needed."""
    with made(folder):
        if one_by_one:
            drawn = {"sampling": _over_sampling, "concurrency": _over_concurrency, "trade-off": _trade_off}
            return singles({name: partial(draw, planned) for name, draw in drawn.items()}, folder / "plan")
        return [*value_around(planned, folder / "plan-bound"), *trade_off(planned, folder / "plan-trade-off")]


def value_around(planned: Planned, path: str | Path) -> list[Path]:
    """The quantity that was minimised, over the fast clients' probability and over the tasks in flight."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.8))
    _over_sampling(planned, left)
    _over_concurrency(planned, right)
    figure.suptitle(words(planned.objective.name), fontsize=11)
    return save(figure, path)


def _over_sampling(planned: Planned, axis: Any) -> None:
    fleet, plan = planned.fleet, planned.plan
    if np.ptp(fleet.rate) == 0:
        axis.set_axis_off()
        axis.text(0.5, 0.5, "all clients are equally fast", ha="center")
        return
    fast = speed_clusters(fleet, 2) == 0
    n_fast = int(fleet.count[fast].sum())
    share = float((fleet.count * plan.sampling)[fast].sum())
    shares = np.unique(np.append(np.linspace(0.02, 0.98, POINTS), share))
    values = [_value(planned, _moved(fleet, plan.sampling, fast, one), plan.concurrency) for one in shares]
    axis.plot(shares / n_fast, values, color=COLOURS[0])
    axis.plot(share / n_fast, planned.prediction.value, "o", color="black", label="this plan")
    axis.axvline(1 / fleet.clients, color="grey", lw=0.8, ls=":", label="uniform")
    axis.set_ylim(0.9 * min(values), min(max(values), 4 * min(values)))
    axis.set_xlabel("mean probability of a fast client")
    axis.set_ylabel(_word(planned))
    axis.set_title(f"{plan.concurrency} tasks in flight", fontsize=10)
    axis.legend(frameon=False, fontsize=8)


def _word(planned: Planned) -> str:
    scored = planned.prediction.scored
    return "bound" if scored.value == scored.bound else "value"


def _moved(fleet: Fleet, sampling: Floats, fast: NDArray[np.bool_], share: float) -> Floats:
    """The sampling, with another share of all tasks for the fast clients."""
    mass = fleet.count * sampling
    return np.asarray(sampling * np.where(fast, share / mass[fast].sum(), (1 - share) / mass[~fast].sum()))


def _value(planned: Planned, sampling: Floats, tasks: int) -> float:
    plan = Plan(planned.fleet.name, planned.fleet.count, sampling, tasks)
    return planned.objective.predict(planned.fleet, plan).value


def _over_concurrency(planned: Planned, axis: Any) -> None:
    fleet, chosen = planned.fleet, planned.plan.concurrency
    top = max(4 * chosen, 2 * fleet.clients if fleet.clients <= 10 * chosen else 8 * chosen, 8)
    tasks = np.unique(np.append(np.geomspace(1, top, 30).round().astype(int), chosen))
    lines = {"uniform sampling": np.full(fleet.groups, 1 / fleet.clients), "this sampling": planned.plan.sampling}
    for colour, (name, sampling) in zip(COLOURS[1:], lines.items(), strict=False):
        axis.plot(tasks, [_value(planned, sampling, int(one)) for one in tasks], color=colour, label=name)
    searched = {one: value for one, value in planned.searched.items() if np.isfinite(value) and one <= top}
    if len(searched) > 1:
        axis.plot(list(searched), list(searched.values()), ".", color=COLOURS[0], label="best sampling for each")
    axis.plot(chosen, planned.prediction.value, "o", color="black", label="this plan")
    axis.set_xscale("log")
    axis.set_ylim(0, min(axis.get_ylim()[1], 5 * planned.prediction.value))
    axis.set(xlabel="tasks in flight", ylabel=_word(planned))
    axis.set_title("over the concurrency", fontsize=10)
    axis.legend(frameon=False, fontsize=8)


def trade_off(planned: Planned, path: str | Path) -> list[Path]:
    """Mean staleness, and that of the worst client, against throughput as tasks are added."""
    figure, axis = pyplot().subplots(figsize=(5.6, 4.2))
    _trade_off(planned, axis)
    return save(figure, path)


def _trade_off(planned: Planned, axis: Any) -> None:
    fleet, plan = planned.fleet, planned.plan
    server = planned.prediction.analysis.server_rate
    rate = None if np.isinf(server) else server
    tasks = np.unique(np.geomspace(2, max(4 * plan.concurrency, 2 * fleet.clients), 40).round().astype(int))
    samplings = {
        "uniform": np.full(fleet.groups, 1 / fleet.clients),
        "by speed": fleet.rate / (fleet.count * fleet.rate).sum(),
        "this sampling": plan.sampling,
    }
    for colour, (name, sampling) in zip(COLOURS[1:], samplings.items(), strict=False):
        plans = [Plan(fleet.name, fleet.count, sampling, int(one)) for one in tasks]
        solved = [analyze(fleet, one, server_rate=rate) for one in plans]
        flow = [one.throughput for one in solved]
        axis.plot(flow, tasks - 1, color=colour, label=f"{name}: mean")
        axis.plot(flow, [float(one.staleness().max()) for one in solved], color=colour, ls="--", lw=0.9)
    analysis = planned.prediction.analysis
    axis.plot(analysis.throughput, plan.concurrency - 1, "o", color="black", label="this plan")
    axis.plot(analysis.throughput, float(analysis.staleness().max()), "o", mfc="white", color="black")
    axis.plot([], [], color="grey", ls="--", lw=0.9, label="worst client")
    axis.set_yscale("log")
    axis.set_xlabel("throughput (server steps per unit of time)")
    axis.set_ylabel("staleness (server steps)")
    axis.legend(frameon=False, fontsize=8)
