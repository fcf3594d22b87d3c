"""The keys of a run, with a text in place of each object."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.facade.algorithm_text import algorithm_text, unwrapped, wrapper_text
from sojourn.facade.objects import begin_call, handed, label
from sojourn.fleet import Fleet
from sojourn.learning.data.given import dataset_of
from sojourn.own_code import handed_over
from sojourn.plan import Plan, plan_for
from sojourn.shown import quoted, short


def run_keys(fleet: Any, plan: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a run, with a text in place of each object. Every call of the front door begins here."""
    begin_call()
    keys = unwrapped(keys)
    given = {"fleet": fleet_text(fleet), **{key: text_of(key, keys[key]) for key in sorted(keys)}}
    if plan is not None:
        given["plan"] = plan_text(fleet, plan)
    return given


def fleet_text(given: Any) -> str:
    """Return the text of a Fleet, or the name of its file."""
    if isinstance(given, str | Path):
        return str(given)
    if not isinstance(given, Fleet):
        way = "write Fleet.of(fast=(90, 8.0), slow=(10, 1.0)), or name a fleet file"
        raise InvalidInput(f"fleet must be a Fleet or the name of its file, got {quoted(given)}; {way}")
    return handed_over(given, f"fleet-{given.hash}")


def plan_text(fleet: Any, given: Any) -> str:
    """Return the text of a Plan, or of what holds one, or the name of its file."""
    if isinstance(given, str | Path):
        return str(given)
    if isinstance(fleet, Fleet):
        made = plan_for(fleet, given)
    else:
        made = getattr(given, "plan", given)
        if not isinstance(made, Plan):
            raise InvalidInput(f"plan must be a Plan, got {quoted(given)}; write for example Plan.uniform(fleet, 20)")
    return handed_over(made, f"plan-{made.hash}")


def text_of(key: str, value: Any) -> Any:
    """Return what stands for a value in a configuration: the value itself, or the text of an object."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Path):
        return str(value)
    if key == "data":
        data = dataset_of(value)
        return handed_over(data, f"{short(data.name, 60)}-{data.hash}")
    if key == "algorithm":
        return algorithm_text(value)
    if key == "wrap":
        many = value if isinstance(value, Sequence) else [value]
        return "; ".join(wrapper_text(one) for one in many)
    if key == "plan":
        return plan_text(None, value)
    if key == "fleet":
        return fleet_text(value)
    if key == "metrics" and isinstance(value, Sequence):
        return ", ".join(text_of(key, one) for one in value)
    if key in ("model", "partition", "loss", "metrics"):
        return handed(value, label(value))
    if isinstance(value, int | float):
        return value
    raise InvalidInput(
        f"{key} must be a number or a text, got {quoted(value)}; see docs/files.md for the keys of a run"
    )
