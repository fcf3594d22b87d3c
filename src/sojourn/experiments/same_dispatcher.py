"""Which dispatcher each algorithm of a comparison has, and how to give all of them the same one.

An algorithm that keeps idle clients busy receives more updates in the same time than one whose tasks queue. Comparing
the two compares two things at once. So a comparison reports the dispatchers and can hold them equal.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sojourn.errors import InvalidInput
from sojourn.learning.run.build import fleet_and_plan, timing_of
from sojourn.learning.run.config import TrainConfig
from sojourn.own_code import OBJECT
from sojourn.scenario import Dispatcher, dispatcher_said
from sojourn.trace import Trace

QUEUING = ("routed", "pure", "shuffled")
"""Dispatchers under which a client may hold several tasks."""
SAME = "same"
"""The baseline's dispatcher for all."""


def dispatcher_of(config: TrainConfig) -> str:
    """The dispatcher of a run as text; routing with a cap of 1 sends tasks to idle clients only and is called `idle`.

    >>> from sojourn.fleet import Fleet
    >>> from sojourn.own_code import handed_over
    >>> fleet = handed_over(Fleet.of(fast=(3, 4.0), slow=(2, 1.0)), "fleet")
    >>> [dispatcher_of(TrainConfig(fleet, algorithm=one)) for one in ("asyncsgd", "fedbuff(size=2)", "fedavg")]
    ['routed', 'idle', 'rounds']
    >>> dispatcher_of(TrainConfig(fleet, cap="1")), dispatcher_of(TrainConfig(fleet, cap="2"))
    ('idle', 'routed (cap 2)')
    """
    if config.trace is not None:
        return str(Trace.load(config.trace).metadata.get("dispatcher", "recorded"))
    fleet, plan, scenario = timing_of(config)
    scenario.dispatcher.kind.check(fleet, plan)
    return dispatcher_said(str(scenario.dispatcher), plan)


def asked_for(dispatch: str, baseline: TrainConfig) -> str:
    """The dispatcher that `same`, or the text of a dispatcher, stands for."""
    if dispatch == SAME:
        return dispatcher_of(baseline)
    try:
        return str(Dispatcher.parse(dispatch))
    except InvalidInput as error:
        raise InvalidInput(f"dispatch must be same, or a dispatcher such as idle: {error}") from None


def moved(wanted: str, configs: Mapping[str, TrainConfig]) -> tuple[str, ...]:
    """The algorithms whose own dispatcher has to be replaced so that all have the wanted one.

    Algorithms that cannot run under it are refused, all in one sentence.
    """
    found, refused = [], {}
    for name, config in configs.items():
        try:
            own = dispatcher_of(config)
            if own == wanted:
                continue
            if config.dispatcher is not None:
                raise InvalidInput(f"it names dispatcher {config.dispatcher} itself")
            if config.trace is not None:
                raise InvalidInput("a trace has its dispatcher already")
            had = dispatcher_of(replace(config, dispatcher=wanted))
            if had != wanted:
                raise InvalidInput(f"its plan makes that {had}")
            found.append(name)
        except InvalidInput as error:
            refused[name] = str(error).partition(";")[0]
    if refused:
        said = " and ".join(f"{name} ({why})" for name, why in refused.items())
        raise InvalidInput(f"dispatch {wanted} cannot be held for {said}; leave these out, or compare without dispatch")
    return tuple(found)


def differing(configs: Mapping[str, TrainConfig], baseline: str) -> list[str]:
    """A sentence if the algorithms do not all have the same dispatcher; otherwise nothing.

    It offers `--dispatch same` and `--dispatch idle` only where they would not be refused.
    """
    dispatchers = {name: dispatcher_of(config) for name, config in configs.items()}
    if len(set(dispatchers.values())) < 2:
        return []
    each = ", ".join(f"{name} {dispatcher}" for name, dispatcher in dispatchers.items())
    said = f"the algorithms have different dispatchers ({each}), which may explain part of the differences"
    ways = {SAME: "the baseline's", "idle": "idle"}
    offered = [
        f"--dispatch {way} gives all of them {word}" for way, word in ways.items() if _works(way, configs, baseline)
    ]
    return ["; ".join(filter(None, (said, ", ".join(offered))))]


def _works(dispatch: str, configs: Mapping[str, TrainConfig], baseline: str) -> bool:
    if baseline not in configs:
        return False
    try:
        moved(asked_for(dispatch, configs[baseline]), configs)
    except InvalidInput:
        return False
    return True


def uncapped(configs: Mapping[str, TrainConfig]) -> list[str]:
    """A sentence for each algorithm whose own dispatcher lets tasks queue although its plan has a cap."""
    notes = []
    for name, config in configs.items():
        if config.trace is not None:
            continue
        given, (_, plan, scenario) = fleet_and_plan(config)[1], timing_of(config)
        queues = scenario.dispatcher.name in QUEUING and not plan.capped
        if given.capped and queues:
            file = config.plan is not None and config.cap is None and not config.plan.startswith(OBJECT)
            whose = f"the cap of plan {Path(str(config.plan)).stem}" if file else "the cap"
            notes.append(f"{name} keeps its own dispatcher, {scenario.dispatcher}: {whose} is not used")
    return notes
