"""Flags made from the keys of a run, so that each key is described once, in `learning/run/config.py`."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.cli.arguments import joined, whole
from sojourn.durations import seconds
from sojourn.learning.run.config import keys
from sojourn.run_keys import Key

HERE = "given"  # the argument of a command that its flags replace


def takes_keys(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: replace a command's argument `given` by flags for these keys; `given` receives those that the user
    gave.

    The key `fleet` becomes an argument, the others become flags. `--help` groups them by the part of a run that they
    decide.
    """
    known = keys()
    flags = [_parameter(known[name]) for name in names]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)

        def called(**arguments: Any) -> None:
            said = [name for name in names if arguments[name] not in (None, "", [])]  # 0 counts as given
            given = {name: _value(known[name], arguments[name]) for name in said}
            rest = {name: value for name, value in arguments.items() if name not in names}
            command(**rest, **{HERE: given})

        before = [one for one in own.parameters.values() if one.name != HERE]
        made = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*flags[:1], *before, *flags[1:])]
        called.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
        called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
        called.__annotations__ = {one.name: one.annotation for one in made}
        return called

    return decorated


def _parameter(key: Key) -> inspect.Parameter:
    """Return a key as a typer parameter; whole numbers and times are read as text, since `1e6` and `1h` are allowed."""
    plain: Any = float if "float" in key.kind and not key.duration else str
    kind: Any = list[str] if key.several else Path if key.path else plain
    if key.name == "fleet":
        told: Any = typer.Argument(help=key.help)
    else:
        told = typer.Option(
            *([key.flag, key.short] if key.short else [key.flag]),
            help=key.help,
            rich_help_panel=f"The run: {key.part}",
        )
    return inspect.Parameter(
        key.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, told]
    )


def _value(key: Key, value: Any) -> Any:
    if key.several:
        return joined(value)
    if key.path:
        return str(value)
    if key.duration:
        return seconds(value, key.name.replace("_", "-"))
    return whole(key.name.replace("_", "-"), value) if key.whole else value
