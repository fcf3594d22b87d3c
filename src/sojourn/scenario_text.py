"""A scenario from text: laws and links of a fleet, dispatcher, server and availability, from flags or the keys of a
run.

A text is for one group (`slow=deterministic`) or for all (`lognormal(sigma=1)`). Several texts are a list, or one text
with `;` between them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from sojourn.availability import Availability
from sojourn.dispatching import QUEUED
from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.plan import Plan
from sojourn.scenario import Dispatcher, Scenario

Texts = str | Sequence[str] | None


def override(fleet: Fleet, plan: Plan, law: Texts, uplink: Texts, downlink: Texts) -> tuple[Fleet, Plan]:
    """Return the fleet with these laws and links, and the plan for it.

    >>> fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    >>> changed, _ = override(fleet, Plan.uniform(fleet, 4), "slow=deterministic", "5; slow=2:gamma(shape=2)", None)
    >>> changed.law[0].name, changed.law[1].name, changed.uplink_rate.tolist()
    ('exponential', 'deterministic', [5.0, 2.0])
    """
    columns: dict[str, Any] = {
        key: list(getattr(fleet, key)) for key in ("law", "uplink_rate", "uplink_law", "downlink_rate", "downlink_law")
    }
    for text in _parts(law):
        groups, value = _addressed(fleet, text)
        for group in groups:
            columns["law"][group] = Law.parse(value)
    for name, texts in (("uplink", uplink), ("downlink", downlink)):
        for text in _parts(texts):
            groups, value = _addressed(fleet, text)
            number, _, shape = value.partition(":")
            for group in groups:
                columns[f"{name}_rate"][group] = _rate(name, number)
                columns[f"{name}_law"][group] = Law.parse(shape or "exponential")
    if not (law or uplink or downlink):
        return fleet, plan
    changed = replace(fleet, **columns)
    return changed, replace(plan, fleet_hash=changed.hash)


def availability_of(text: str | None) -> tuple[Availability, ...]:
    """Read an availability from its text form, or from a TOML or CSV file."""
    if text is None:
        return ()
    return Availability.load(text) if text.endswith((".toml", ".csv")) else (Availability.parse(text),)


def scenario_of(dispatcher: str, local_steps: int, server_rate: float | None, availability: str | None) -> Scenario:
    """Return the scenario that these texts describe."""
    return Scenario(
        dispatcher=Dispatcher.parse(dispatcher),
        local_steps=local_steps,
        server_rate=math.inf if server_rate is None else server_rate,
        availability=availability_of(availability),
    )


def filled(
    needed: Scenario, algorithm: str, dispatcher: str | None, server_rate: float | None, availability: str | None
) -> Scenario:
    """Return the scenario that an algorithm needs; these texts fill in what it leaves open, and may not contradict it.

    >>> filled(Scenario(local_steps=3), "fedasync", "pure", 20.0, None)  # doctest: +ELLIPSIS
    Scenario(dispatcher=Dispatcher(name='pure', ...), local_steps=3, one_draw=False, server_rate=20.0, ...)
    """
    changes: dict[str, Any] = {}
    if dispatcher is not None:
        changes["dispatcher"] = _dispatcher(needed.dispatcher, algorithm, Dispatcher.parse(dispatcher))
    if server_rate is not None:
        changes["server_rate"] = server_rate
    if availability is not None:
        changes["availability"] = availability_of(availability)
    return replace(needed, **changes) if changes else needed


def _dispatcher(needed: Dispatcher, algorithm: str, given: Dispatcher) -> Dispatcher:
    """Accept any dispatcher with queues if queues are needed; for rounds and periods, what the algorithm has not set
    itself.
    """
    if needed.queued and given.queued:
        return given
    if needed.name != given.name:
        open_to = f"one of {', '.join(QUEUED)}" if needed.queued else needed.name
        raise InvalidInput(
            f"{algorithm} needs dispatcher {open_to}, got {given.name}; leave it out, or choose another algorithm"
        )
    if needed.own is not None:
        if given != needed:
            raise InvalidInput(
                f"{algorithm} has dispatcher {needed}, got {given}; leave it out, or set the options of the algorithm"
            )
        return needed
    for item in fields(needed)[1:]:
        mine, asked = getattr(needed, item.name), getattr(given, item.name)
        if item.default not in (mine, asked) and mine != asked:
            raise InvalidInput(
                f"{algorithm} has {item.name} {mine:g}, but dispatcher {given.name} has {asked:g}; give it once"
            )
    set_by = {item.name for item in fields(needed)[1:] if getattr(needed, item.name) != item.default}
    return replace(given, **{key: getattr(needed, key) for key in set_by})


def _parts(texts: Texts) -> Iterator[str]:
    if isinstance(texts, str):
        yield from (part.strip() for part in texts.split(";") if part.strip())
    else:
        yield from texts or ()


def _addressed(fleet: Fleet, text: str) -> tuple[list[int], str]:
    """Return the groups that a text is for, and its value: `name=value`, or `value` for all."""
    name, separator, value = text.partition("=")
    if separator and name.strip() in fleet.name:
        return [fleet.index(name.strip())], value.strip()
    return list(range(fleet.groups)), text.strip()


def _rate(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(
            f"{name} must be a rate, optionally with :law, got '{text}'; write 5 or 5:gamma(shape=2)"
        ) from None
