"""Check whether a run can be trained along a trace, and how far.

A trace that was simulated for the run fits. A trace that the user gives, simulated elsewhere or recorded, is checked:
its metadata (clients, fleet, plan, dispatcher, local steps) against what the run needs, and its content.
"""

from typing import Any

import numpy as np

from sojourn.dispatching import QUEUED
from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.learning.replay.timeline import BARRIERS, closing
from sojourn.learning.run.build import Built
from sojourn.shown import quoted
from sojourn.trace import APPLIED, IN_FLIGHT, Trace


def check_trace(built: Built, trace: Trace, where: str) -> None:
    """Refuse a trace that cannot belong to this run: it has clients that do not exist, or impossible models or work."""
    local, rows = built.setting.local, len(trace)
    most = {"client": built.setting.clients - 1, "dispatched_step": rows, "applied_step": rows}
    if local.epochs is None:
        most["work"] = local.steps
    for key, largest in most.items():
        column, least = getattr(trace, key), -1 if key == "applied_step" else 0
        if column.size and not (least <= column.min() and column.max() <= largest):
            raise UnreadableFile(
                f"{where} is not the trace of this run: {key} must lie between {least} and {largest}, "
                f"got {column.min()} to {column.max()}; restore the right file"
            )


def updates_of(built: Built, trace: Trace) -> int:
    """Return the number of updates to receive: all of the trace, or those within the steps or time of the
    configuration.
    """
    config, times = built.config, trace.applied_at[trace.applied]
    given = config.trace is not None
    if config.time is not None:
        if given and times.size and config.time > times[-1]:
            raise InvalidInput(
                f"time must lie within the trace, whose last update is applied at {times[-1]:g}, got {config.time:g}; "
                "give less time, or none for all of it"
            )
        within = int((times <= config.time).sum())
        if within == 0:
            raise InvalidInput(f"no update comes back within time {config.time}; give it more time")
        return within
    if not given or config.steps is None:
        return int(times.size)
    if config.steps > times.size:
        raise InvalidInput(
            f"steps must lie within the trace, which has {times.size} updates, got {config.steps}; "
            "give fewer steps, or none for all of it"
        )
    ends = np.flatnonzero(closing(trace)[trace.applied]) + 1  # ends of rounds and periods
    whole = np.append(ends, times.size)[np.searchsorted(ends, config.steps)] if ends.size else config.steps
    return int(whole)


def check_given(built: Built, trace: Trace) -> list[str]:
    """Refuse a trace along which this run cannot be trained; return sentences on what could not be checked."""
    _check_order(trace)
    _check_facts(built, trace.metadata)
    _check_content(built, trace)
    unknown = [key for key in ("fleet_hash", "plan_hash", "dispatcher", "concurrency") if _said(trace, key) is None]
    if not unknown:
        return []
    return [f"the trace does not state its {', '.join(unknown)}: its fleet and plan were not checked"]


def _said(trace: Trace, key: str) -> Any:
    return trace.metadata.get(key)


def _check_facts(built: Built, facts: Any) -> None:
    """Check the metadata of a trace as far as it has them."""
    fleet, plan, scenario = built.setting.fleet, built.setting.plan, built.scenario
    name, how = built.algorithm.name, scenario.dispatcher.name
    told = facts.get("dispatcher")
    if told is None and how in BARRIERS:
        raise InvalidInput(
            f"{name} needs a trace of {how}, this one names no dispatcher; add dispatcher {how} to its metadata"
        )
    if told is not None and told != how:
        also = f", or give dispatcher {told}" if how in QUEUED and told in QUEUED else ""
        raise InvalidInput(
            f"{name} needs a trace of dispatcher {how}, this one has {quoted(told)}; "
            f"simulate it with that dispatcher{also}"
        )
    _same("clients", facts, fleet.clients, "the fleet has", "give the fleet that it was made with")
    _same("fleet_hash", facts, fleet.hash, "this fleet's is", "give the fleet, laws and links that it was made with")
    _same("local_steps", facts, scenario.local_steps, "this run has", "give as many local steps as the trace has")
    _same("concurrency", facts, plan.concurrency, "this run has", "give the concurrency that the trace has")
    if how == "routed" and facts.get("plan_hash") != plan.timing_hash:
        _same("plan_hash", facts, plan.hash, "this plan's is", "give the plan or the sampling that it was made with")


def _same(key: str, facts: Any, mine: Any, has: str, way_out: str) -> None:
    found = facts.get(key)
    if found is not None and found != mine:
        raise InvalidInput(f"the trace has {key} {quoted(found)}, {has} {quoted(mine)}; {way_out}")


def _check_order(trace: Trace) -> None:
    """Check that rows are in the order in which their tasks ended, with those in flight last."""
    applied = trace.fate == APPLIED
    steps = trace.applied_step[applied]
    if not steps.size:
        raise InvalidInput("a trace to train along must have applied updates, got none; simulate more steps")
    if not np.array_equal(steps, np.arange(steps.size)):
        raise InvalidInput(
            "a trace must have its applied rows in order, applied_step 0, 1, 2, ..., this one does not; "
            "sort its rows by applied_step, and begin with the first update"
        )
    open_rows = np.flatnonzero(trace.fate == IN_FLIGHT)
    if open_rows.size and open_rows.size != len(trace) - open_rows[0]:
        raise InvalidInput("a trace must have its tasks in flight last, this one does not; move these rows to the end")
    times = trace.applied_at[applied]
    if not (np.isfinite(times).all() and (np.diff(times) >= 0).all()):
        raise InvalidInput("applied_at of a trace must be finite and never decrease, this trace's does; correct it")
    before = np.cumsum(applied) - applied
    late = (trace.dispatched_step < 0) | (trace.dispatched_step > before)
    if late.any():
        row = int(np.flatnonzero(late)[0])
        raise InvalidInput(
            f"a task of a trace must carry a model that existed: row {row} has dispatched_step "
            f"{trace.dispatched_step[row]} after {before[row]} updates; correct it"
        )


def _check_content(built: Built, trace: Trace) -> None:
    """Check that clients are in the fleet, work is not more than the run's, and needed probabilities are there."""
    clients, local = built.setting.clients, built.setting.local
    low, high = int(trace.client.min()), int(trace.client.max())
    if low < 0 or high >= clients:
        raise InvalidInput(
            f"the trace has clients {low} to {high}, the fleet {clients}, which are 0 to {clients - 1}; "
            "give the fleet that it was made with"
        )
    work = trace.work[trace.applied]
    if local.epochs is None and (work.min() < 0 or work.max() > local.steps):
        raise InvalidInput(
            f"a task of the trace does {work.max()} local steps, this run has {local.steps}; "
            "give as many local steps as the trace has"
        )
    prob = trace.prob[trace.applied]
    if built.algorithm.uses_prob and not ((prob > 0) & (prob <= 1)).all():
        raise InvalidInput(
            f"{built.algorithm.name} divides by the probability with which a client was drawn, the trace lacks it "
            "(prob is not between 0 and 1 in some row); fill it in, or use an algorithm that does not need it"
        )
