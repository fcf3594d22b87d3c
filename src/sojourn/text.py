"""The text form `name(key=value, ...)` in which dispatchers, availabilities, datasets and partitions are written."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.shown import short

Options = Mapping[str, Callable[[str], Any]]

MOST_CHARACTERS = 1000

_NAME = re.compile(r"[a-z][a-z0-9-]*")


def parse_call(noun: str, text: str, options: Options) -> tuple[str, dict[str, Any]]:
    """Read a name and its options; `options` maps each key to a function that reads its value.

    >>> parse_call("dispatcher", "rounds(wait=8)", {"wait": int})
    ('rounds', {'wait': 8})
    """
    name, inside = _split(noun, text)
    return name, _read(f"{noun} {name}", inside, options)


def parse_choice(noun: str, text: str, choices: Mapping[str, Options]) -> tuple[str, dict[str, Any]]:
    """Read a name, which must be one of the choices, and its options; each choice has its own options.

    >>> parse_choice("partition", "shards(k=2)", {"iid": {}, "shards": {"k": int}})
    ('shards', {'k': 2})
    """
    name, inside = _split(noun, text)
    if name not in choices:
        raise InvalidInput(f"{noun} must be {listed(choices)}, got '{name}'{nearest(name, choices)}")
    return name, _read(f"{noun} {name}", inside, choices[name])


def listed(names: Iterable[str]) -> str:
    """Return the names as a phrase: `a`, or `one of a, b`."""
    words = list(names)
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the names closest to `name` as the end of a sentence; empty if none is close."""
    near = difflib.get_close_matches(name, list(names))
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _split(noun: str, text: str) -> tuple[str, str]:
    """Return the name, and the text between the brackets."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"{noun} must have at most {MOST_CHARACTERS:,} characters, got '{short(text)}'; shorten it")
    name, bracket, rest = (part.strip() for part in text.partition("("))
    closed = rest.endswith(")") if bracket else not rest
    if not (_NAME.fullmatch(name) and closed and "\n" not in text.strip()):
        raise InvalidInput(f"{noun} must read like name or name(key=value, ...), got '{short(text)}'")
    return name, rest[:-1]


def parts(inside: str) -> list[str]:
    """Split the options at commas that are not inside the brackets of a value."""
    parts, depth = [""], 0
    for piece in re.split("([,()])", inside):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()]


def _read(what: str, inside: str, options: Options) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts(inside):
        key, separator, value = (word.strip() for word in part.partition("="))
        if not options:
            raise InvalidInput(f"{what} takes no options, got '{short(part)}'")
        if not separator or key not in options:
            raise InvalidInput(f"{what}: options are {', '.join(options)}, got '{short(part)}'")
        if key in found:
            raise InvalidInput(f"{what}: {key} must be given once, got it twice; keep one")
        try:
            found[key] = options[key](value)
        except InvalidInput:
            raise
        except ValueError:
            kind = "a whole number" if options[key] is int else "a number"
            raise InvalidInput(f"{what}: {key} must be {kind}, got '{short(value)}'") from None
    return found
