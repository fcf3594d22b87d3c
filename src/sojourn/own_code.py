"""The user's own code, named by a text: `package.module:name`, or with arguments `package.module:name(key=value)`.

Importing a module runs it. Therefore a text that names code is recognised before anything is imported, so that a caller
who read it from a file of unknown origin can ask the user first.

An object that a program hands over also has a text, `object:name`. It can be looked up under this text as long as the
program runs, also in its worker processes.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from sojourn.errors import InvalidInput
from sojourn.shown import short
from sojourn.text import nearest, parts

OBJECT = "object:"
_OBJECTS: dict[str, Any] = {}
_PLACE = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*:[A-Za-z_]")
_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None}


def names_code(text: str) -> bool:
    """Whether a text names code of the user's own, and not one of sojourn's names with its options.

    >>> names_code("mine:make"), names_code("digits"), names_code("cifar10(folder=C:/images)")
    (True, False, False)
    """
    return ":" in text.partition("(")[0]


def mentions_code(text: str) -> bool:
    """Whether a text names code anywhere; the text may give several groups, or a rate before a law.

    >>> mentions_code("5:gamma(shape=2); slow=1e5:exponential"), mentions_code("gamma(shape=2); slow=mine:Law(a=1)")
    (False, True)
    """
    return _PLACE.search(text) is not None


def own_call(noun: str, text: str, *first: Any) -> Any:
    """Import what a text names and call it, with the arguments `first` and then with the arguments in the text.

    An argument is read as the type that the function's annotation says (`size: int`); without one, as a number if it
    looks like a number.

    >>> own_call("fraction", "fractions:Fraction(numerator=3, denominator=4)")
    Fraction(3, 4)
    """
    if text.strip().startswith(OBJECT):
        found = own_function(noun, text)
        made = inspect.isclass(found) or inspect.isroutine(found) or isinstance(found, partial)
        return call_with(f"{noun} {text.strip()}", found, *first) if made else found
    home, inside = _split(noun, text)
    function = own_function(noun, home)
    options = _options(f"{noun} {home}", inside, function)
    return call_with(f"{noun} {text.strip()}", function, *first, **options)


def call_with(what: str, function: Callable[..., Any], *first: Any, **options: Any) -> Any:
    """Call a user's function with as many of `first` as it has positional arguments without a default."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # its signature cannot be read
        return function(*first, **options)
    handed = first[: _places(signature, options)]
    try:
        signature.bind(*handed, **options)
    except TypeError as error:
        given = f", which is called with {_kinds(first)} and the arguments in brackets" if first else ""
        raise InvalidInput(f"{what}: {short(str(error))}{given}; change its arguments") from None
    return function(*handed, **options)


def _places(signature: inspect.Signature, options: Mapping[str, Any]) -> int:
    """Return how many arguments must be given by position."""
    places = 0
    for one in signature.parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            return sys.maxsize
        by_place = one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        places += by_place and one.default is one.empty and one.name not in options
    return places


def handed_over(thing: Any, name: str) -> str:
    """Register an object and return its text; a later object of the same name replaces it.

    >>> own_function("number", handed_over(abs, "abs"))(-3)
    3
    """
    text = f"{OBJECT}{name}"
    _OBJECTS[text] = thing
    return text


def object_or(text: str | Path, load: Callable[[str | Path], Any]) -> Any:
    """Return the object that a text names; if it names none, return what `load` reads at this path."""
    return own_function("object", str(text)) if str(text).startswith(OBJECT) else load(text)


def objects_of(texts: Iterable[str]) -> dict[str, Any]:
    """Return the objects of this program that the texts name, to be sent to another process along with its work."""
    found = (one.strip() for text in texts for part in text.split(";") for one in (part, *parts(part)))
    return {one: _OBJECTS[one] for one in found if one in _OBJECTS}


def take_over(objects: Mapping[str, Any]) -> None:
    """Register the objects of another process here, under their texts."""
    _OBJECTS.update(objects)


def own_function(noun: str, text: str) -> Callable[..., Any]:
    """Import the function or class that a text names; `noun` says in errors what it should make."""
    if text.strip().startswith(OBJECT):
        if text.strip() not in _OBJECTS:
            raise InvalidInput(
                f"{noun} {text.strip()} was handed over by another Python program, not by this one; continue in that "
                "program"
            )
        handed: Callable[..., Any] = _OBJECTS[text.strip()]
        return handed
    home, _, name = text.strip().partition(":")
    what = f"{noun} {text.strip()}"
    try:
        module = import_module(home)
    except Exception as error:  # whatever a user's module raises, the message says which module and why
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
        raise InvalidInput(f"{noun} must read like package.module:name(key=value, ...), got '{short(text)}'")
    return home, rest[:-1]


def _options(what: str, inside: str, function: Callable[..., Any]) -> dict[str, Any]:
    kinds = _annotations(function)
    found: dict[str, Any] = {}
    for part in parts(inside):
        key, separator, value = (word.strip() for word in part.partition("="))
        if not separator or not key.isidentifier():
            raise InvalidInput(f"{what}: arguments must read like key=value, got '{short(part)}'")
        if key in found:
            raise InvalidInput(f"{what}: {key} must be given once, got it twice; keep one")
        found[key] = _value(f"{what}: {key}", value, kinds.get(key))
    return found


def _annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the type of each argument; nothing where a type is not given or cannot be read."""
    found: dict[str, Any] = {}
    for one in (function, function.__init__) if inspect.isclass(function) else (function,):
        try:
            found |= get_type_hints(one)
        except Exception:  # annotations may name anything
            continue
    return found


def _value(what: str, text: str, kind: Any) -> Any:
    """Return a text as the given type; without one, as a number, a truth value or None if it looks like one."""
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
        raise InvalidInput(f"{what} must be {' or '.join(words[one] for one in said)}, got '{short(text)}'")
    for one in (int, float):
        try:
            return one(text)
        except ValueError:
            continue
    return text


def _kinds(values: tuple[Any, ...]) -> str:
    return " and ".join(f"a {type(value).__name__}" for value in values)
