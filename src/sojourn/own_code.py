"""Code of the user's own, named by a text `package.module:function`.

Importing a module runs it. So a text that names code is recognised before anything is imported, and whoever took it
from a file that may be a stranger's can ask first.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.text import nearest


def names_code(text: str) -> bool:
    """Whether a text names code, and not one of ours with its options.

    >>> names_code("mine:make"), names_code("digits"), names_code("cifar10(folder=C:/images)")
    (True, False, False)
    """
    return ":" in text.partition("(")[0]


def own_function(noun: str, text: str) -> Callable[..., Any]:
    """Import the function that a text names; `noun` says what it is to make."""
    home, _, name = text.strip().partition(":")
    what = f"{noun} {text.strip()}"
    try:
        module = import_module(home)
    except Exception as error:  # whatever a stranger's module raises, the user wants to know which and why
        raise InvalidInput(
            f"{what}: module '{home}' cannot be imported ({type(error).__name__}: {error}); "
            "put its folder on PYTHONPATH"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise InvalidInput(f"{what}: module '{home}' has no function '{name}'{nearest(name, dir(module))}")
    found: Callable[..., Any] = function
    return found
