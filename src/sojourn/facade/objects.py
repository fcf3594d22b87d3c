"""Objects of a call, and the texts that stand for them in a configuration."""

import inspect
from contextvars import ContextVar
from typing import Any

from sojourn.own_code import handed_over

_CALLED: ContextVar[dict[str, Any] | None] = ContextVar("called", default=None)  # objects of this call, by their text


def begin_call() -> None:
    """Forget the objects of the call before, so that labels are numbered from the first."""
    _CALLED.set({})


def handed(thing: Any, label: str) -> str:
    """Hand an object over and return its text; objects that share a label in one call (two lambdas,
    say) are numbered.
    """
    called = _CALLED.get()
    name, number = label, 1
    while called is not None and called.setdefault(name, thing) is not thing:
        number += 1
        name = f"{label}-{number}"
    return handed_over(thing, name)


def label(thing: Any) -> str:
    """Return the label of an object: the module that defines it, and its name there."""
    named = thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    name = f"{named.__module__}.{named.__qualname__}".replace("<", "").replace(">", "")
    return name if named is thing else f"{name}-object"
