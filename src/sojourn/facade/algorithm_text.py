"""Algorithms and wrappers as texts, from which the same objects can be made again."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.facade.objects import handed, label
from sojourn.learning.algorithms.base import Algorithm
from sojourn.learning.algorithms.table import ALGORITHMS, checked
from sojourn.learning.replay.server_step import ServerStep
from sojourn.learning.wrappers.table import WRAPPERS
from sojourn.learning.wrappers.table import checked as checked_wrapper
from sojourn.learning.wrappers.wrapped import Wrapped, bare, wrappers_of
from sojourn.shown import short

MOST_LABEL = 200


def algorithm_text(given: Any) -> str:
    """Return the text of an algorithm, from which the same object can be made again; your own is handed over as it is.

    >>> from sojourn.learning.algorithms.fedbuff import FedBuff
    >>> algorithm_text(FedBuff(size=3)), algorithm_text("asyncsgd")
    ('fedbuff(size=3)', 'asyncsgd')
    """
    if isinstance(given, str):
        return given
    made: Algorithm = checked(given, short(repr(given), MOST_LABEL))
    if getattr(made, "server", ServerStep()) != ServerStep():
        raise InvalidInput(
            f"the server step of {made.name} belongs to the run: leave server out of it, and give step_size, server "
            "and schedule"
        )
    return _text(made, ALGORITHMS)


def wrapper_text(given: Any) -> str:
    """Return the text of a wrapper, from which the same object can be made again; your own is handed over as it is.

    >>> from sojourn.learning.wrappers.topk import TopK
    >>> wrapper_text(TopK(share=0.1)), wrapper_text("sign")
    ('topk(share=0.1)', 'sign')
    """
    if isinstance(given, str):
        return given
    return _text(checked_wrapper(given, short(repr(given), MOST_LABEL)), WRAPPERS)


def _text(made: Any, known: Mapping[str, Any]) -> str:
    """Return the name and the changed options of an object whose class is known by its name; others are handed over."""
    options = ", ".join(f"{key}={_word(value)}" for key, value in _changed(made).items())
    if known.get(made.name) is type(made):
        return f"{made.name}({options})" if options else made.name
    return handed(made, f"{label(type(made))}({short(options, MOST_LABEL)})")


def unwrapped(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a run, with an algorithm that has wrappers around it as two: algorithm and wrap."""
    given = keys.get("algorithm")
    if not isinstance(given, Wrapped):
        return dict(keys)
    if keys.get("wrap") is not None:
        raise InvalidInput("wrap and an algorithm that is wrapped already exclude each other, got both; give one")
    return {**keys, "algorithm": bare(given), "wrap": wrappers_of(given)}


def _changed(made: Any) -> dict[str, Any]:
    """Return the fields whose values differ from their defaults."""
    found = {}
    for item in fields(made) if is_dataclass(made) else ():
        default = item.default if item.default_factory is MISSING else item.default_factory()
        if item.name != "server" and getattr(made, item.name) != default:
            found[item.name] = getattr(made, item.name)
    return found


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
