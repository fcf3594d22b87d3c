"""Code of the user's own, named by a text `package.module:name`, with arguments `package.module:name(key=value)`.

Importing a module runs it. So a text that names code is recognised before anything is imported, and whoever took it
from a file that may be a stranger's can ask first.

What a program hands over as an object has a text too, `object:name`, under which it is found as long as the program
runs, and in the processes that work for it.
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
    if text.strip().startswith(OBJECT):
        found = own_function(noun, text)
        made = inspect.isclass(found) or inspect.isroutine(found) or isinstance(found, partial)
        return call_with(f"{noun} {text.strip()}", found, *first) if made else found
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
        raise InvalidInput(f"{what}: {short(str(error))}{given}; change its arguments") from None
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


def handed_over(thing: Any, name: str) -> str:
    """The text of an object that a program hands over; one of the same name takes its place.

    >>> own_function("number", handed_over(abs, "abs"))(-3)
    3
    """
    text = f"{OBJECT}{name}"
    _OBJECTS[text] = thing
    return text


def object_or(text: str | Path, load: Callable[[str | Path], Any]) -> Any:
    """The object of a text, where it names one; otherwise what `load` reads at this place."""
    return own_function("object", str(text)) if str(text).startswith(OBJECT) else load(text)


def objects_of(texts: Iterable[str]) -> dict[str, Any]:
    """Those of the texts that are objects of this program, to be sent to another process with what needs them."""
    return {one: _OBJECTS[one] for text in texts for one in parts(text) if one in _OBJECTS}


def take_over(objects: Mapping[str, Any]) -> None:
    """Find objects of another process under their texts here."""
    _OBJECTS.update(objects)


def own_function(noun: str, text: str) -> Callable[..., Any]:
    """Import the function or class that a text names; `noun` says what it is to make."""
    if text.strip().startswith(OBJECT):
        if text.strip() not in _OBJECTS:
            raise InvalidInput(
                f"{noun} {text.strip()} was handed over by a Python program, which is not this one; go on there"
            )
        handed: Callable[..., Any] = _OBJECTS[text.strip()]
        return handed
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
        raise InvalidInput(f"{what} must be {' or '.join(words[one] for one in said)}, got '{short(text)}'")
    for one in (int, float):
        try:
            return one(text)
        except ValueError:
            continue
    return text


def _kinds(values: tuple[Any, ...]) -> str:
    return " and ".join(f"a {type(value).__name__}" for value in values)
