"""What is compared: a list of algorithms, plans and pairs as the tables of a comparison file."""

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.facade.algorithm_text import unwrapped
from sojourn.facade.texts import plan_text, text_of
from sojourn.plan import Plan
from sojourn.shown import quoted


def entries_of(fleet: Any, given: Sequence[Any] | Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables [[algorithm]] of a comparison."""
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
        raise InvalidInput(f"algorithms must be a list of algorithms and plans, got {quoted(given)}; write [..., ...]")
    named = given.items() if isinstance(given, Mapping) else ((None, one) for one in given)
    entries: list[dict[str, Any]] = []
    for name, one in named:
        keys = _entry(fleet, one)
        number = sum("plan" in other for other in entries) + 1
        usual = _title(keys) or (f"plan {number}" if "plan" in keys else None)
        entries.append({"name": name or keys.pop("name", None) or usual, **keys})
    return entries


def _entry(fleet: Any, one: Any) -> dict[str, Any]:
    if isinstance(one, Mapping):
        return {key: value if key == "name" else text_of(key, value) for key, value in unwrapped(one).items()}
    if isinstance(one, tuple) and len(one) == 2:
        return {**_entry(fleet, one[0]), "plan": plan_text(fleet, one[1])}
    if isinstance(getattr(one, "plan", one), Plan):
        return {"plan": plan_text(fleet, one)}
    return {key: text_of(key, value) for key, value in unwrapped({"algorithm": one}).items()}


def _title(keys: Mapping[str, Any]) -> str | None:
    """Return what an entry of a comparison is called if it has no name."""
    words = [keys[key] for key in ("algorithm", "wrap") if keys.get(key)]
    return " + ".join(words) if "algorithm" in keys else None
