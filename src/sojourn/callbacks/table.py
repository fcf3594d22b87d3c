"""The table of callbacks, by their names on the command line."""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, get_args, get_type_hints

from sojourn.callbacks.callback import Callback
from sojourn.callbacks.checkpoints import Checkpoints
from sojourn.callbacks.early_stop import DOWN, UP, EarlyStop
from sojourn.callbacks.event_files import TensorBoard
from sojourn.callbacks.mlflow_run import MLflow
from sojourn.callbacks.wandb_run import WandB
from sojourn.errors import InvalidInput
from sojourn.own_code import names_code, own_call
from sojourn.shown import quoted
from sojourn.text import Options, parse_choice

CALLBACKS: dict[str, Any] = {one.name: one for one in (Checkpoints, EarlyStop, MLflow, TensorBoard, WandB)}
"""The package's own callbacks, by name."""
CALLS = ("check", "begin", "evaluated", "updated", "end")
_TARGET = re.compile(r"([\w-]+)\s*(>=|<=)\s*([^,()=]+)")


def callback(text: str) -> Callback:
    """Return the callback of a text: `checkpoints(every=1000)`, or your own `package.module:Class(option=3)`.

    A target may be written as it is said:

    >>> callback("early-stop(accuracy>=0.9)").target
    0.9
    """
    if names_code(text):
        return checked(own_call("callback", text), text)
    said = text
    if text.strip().startswith(EarlyStop.name):
        said = _TARGET.sub(lambda found: _target(*found.groups()), text)
    name, options = parse_choice("callback", said, {key: _options(kind) for key, kind in CALLBACKS.items()})
    wanted = inspect.signature(CALLBACKS[name]).parameters.values()
    missing = [one.name for one in wanted if one.default is one.empty and one.name not in options]
    if missing:
        raise InvalidInput(f"callback {name} needs {' and '.join(missing)}, got '{text}'; write {name}({missing[0]}=…)")
    made: Callback = CALLBACKS[name](**options)
    return made


def callbacks(given: Iterable[Any]) -> list[Callback]:
    """Return the callbacks of a list of texts and objects."""
    if isinstance(given, str | Callback):
        raise InvalidInput(f"callbacks must be a list, got {quoted(given)}; put it in brackets")
    return [callback(one) if isinstance(one, str) else checked(one, quoted(one)) for one in given]


def checked(made: Any, text: str) -> Callback:
    """Return the callback; raise an error that names what it lacks."""
    if isinstance(made, type):
        raise InvalidInput(f"callback {text} must be an object, got the class {made.__name__}; write {made.__name__}()")
    missing = [name for name in CALLS if not callable(getattr(made, name, None))]
    missing += [name for name in ("name", "every") if not hasattr(made, name)]
    if missing:
        raise InvalidInput(
            f"callback {text}: {type(made).__name__} must define {', '.join(missing)}; inherit from "
            "sojourn.callbacks.Callback to get methods that do nothing"
        )
    if made.every is not None and not (isinstance(made.every, int) and made.every >= 1):
        raise InvalidInput(f"callback {text}: every must be a whole number of at least 1, or None, got {made.every!r}")
    found: Callback = made
    return found


def _target(metric: str, sign: str, value: str) -> str:
    return f"metric={metric}, target={value}, direction={UP if sign == '>=' else DOWN}"


def _options(kind: Any) -> Options:
    """Return how each option of a callback is read, by the annotation of its argument."""
    return {key: _reader(one) for key, one in get_type_hints(kind.__init__).items() if key != "return"}


def _reader(annotated: Any) -> Callable[[str], Any]:
    kinds: tuple[Any, ...] = get_args(annotated) or (annotated,)
    found: Callable[[str], Any] = next(one for one in (int, float, str) if one in kinds)
    return found
