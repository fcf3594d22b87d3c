"""Code of the user's own, named by a text `package.module:name`, with arguments `package.module:name(key=value)`.

Importing a module runs it. So a text that names code is recognised before anything is imported, and whoever took it
from a file that may be a stranger's can ask first.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, get_args, get_type_hints

from sojourn.errors import InvalidInput, cut
from sojourn.text import nearest, parts

_PLACE = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*:[A-Za-z_]")
_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None}


def names_code(text: str) -> bool:
    """Whether a text names code, and not one of ours with its options.

    >>> names_code("mine:make"), names_code("digits"), names_code("cifar10(folder=C:/images)")
    (True, False, False)
    """
    return ":" in text.partition("(")[0]


def mentions_code(text: str) -> bool:
    """Whether code is named anywhere in a text that may speak of several groups, or of a rate before a law.

    >>> mentions_code("5:gamma(shape=2); slow=1e5:exponential"), mentions_code("gamma(shape=2); slow=mine:Law(a=1)")
    (False, True)
    """
    return _PLACE.search(text) is not None


def own_call(noun: str, text: str, *first: Any) -> Any:
    """Import what a text names and call it: with what it is handed first, then with the arguments in the text.

    An argument is read as what the function says that it is (`size: int`), or else as a number where it looks like one.

    >>> own_call("fraction", "fractions:Fraction(numerator=3, denominator=4)")
    Fraction(3, 4)
    """
    home, inside = _split(noun, text)
    function = own_function(noun, home)
    options = _options(f"{noun} {home}", inside, function)
    return call_with(f"{noun} {text.strip()}", function, *first, **options)


def call_with(what: str, function: Callable[..., Any], *first: Any, **options: Any) -> Any:
    """Call a function of the user's own with as much of `first` as it has arguments without a default for."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # it does not tell its arguments
        return function(*first, **options)
    handed = first[: _places(signature, options)]
    try:
        signature.bind(*handed, **options)
    except TypeError as error:
        given = f", which is handed {_kinds(first)} and what stands in brackets" if first else ""
        raise InvalidInput(f"{what}: {cut(str(error))}{given}; change its arguments") from None
    return function(*handed, **options)


def _places(signature: inspect.Signature, options: Mapping[str, Any]) -> int:
    """How many arguments must be given by their place."""
    places = 0
    for one in signature.parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            return sys.maxsize
        by_place = one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        places += by_place and one.default is one.empty and one.name not in options
    return places


def own_function(noun: str, text: str) -> Callable[..., Any]:
    """Import the function or class that a text names; `noun` says what it is to make."""
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


def _split(noun: str, text: str) -> tuple[str, str]:
    home, bracket, rest = (part.strip() for part in text.partition("("))
    if bracket and not rest.endswith(")"):
        raise InvalidInput(f"{noun} must read like package.module:name(key=value, ...), got '{cut(text)}'")
    return home, rest[:-1]


def _options(what: str, inside: str, function: Callable[..., Any]) -> dict[str, Any]:
    kinds = _annotations(function)
    found: dict[str, Any] = {}
    for part in parts(inside):
        key, separator, value = (word.strip() for word in part.partition("="))
        if not separator or not key.isidentifier():
            raise InvalidInput(f"{what}: arguments must read like key=value, got '{cut(part)}'")
        if key in found:
            raise InvalidInput(f"{what}: {key} must be given once, got it twice; keep one")
        found[key] = _value(f"{what}: {key}", value, kinds.get(key))
    return found


def _annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    """What kind each argument is; nothing where that is not said or cannot be read."""
    found: dict[str, Any] = {}
    for one in (function, function.__init__) if inspect.isclass(function) else (function,):
        try:
            found |= get_type_hints(one)
        except Exception:  # annotations of a stranger may name anything
            continue
    return found


def _value(what: str, text: str, kind: Any) -> Any:
    """A text as the kind that was said, else as a number, a truth value or None where it looks like one."""
    said = [one for one in (get_args(kind) or (kind,)) if one in (int, float, bool, str)]
    for one in said:
        if one is bool:
            if text in ("true", "false"):
                return text == "true"
            continue
        try:
            return one(text)
        except ValueError:
            continue
    if text in _WORDS and (not said or type(None) in get_args(kind)):
        return _WORDS[text]
    if said:
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise InvalidInput(f"{what} must be {' or '.join(words[one] for one in said)}, got '{cut(text)}'")
    for one in (int, float):
        try:
            return one(text)
        except ValueError:
            continue
    return text


def _kinds(values: tuple[Any, ...]) -> str:
    return " and ".join(f"a {type(value).__name__}" for value in values)
