"""The text form `name(key=value, ...)` in which dispatchers and availabilities are written."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from sojourn.errors import InvalidInput

_TEXT = re.compile(r"^\s*([a-z-]+)\s*(?:\((.*)\))?\s*$")


def parse_call(noun: str, text: str, options: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any]]:
    """Read the name and its options; `options` maps each key to how its value is read.

    >>> parse_call("dispatcher", "rounds(wait=8)", {"wait": int})
    ('rounds', {'wait': 8})
    """
    match = _TEXT.match(text)
    if match is None:
        raise InvalidInput(f"{noun} must read like name or name(key=value, ...), got '{text}'")
    name, inside = match.groups()
    found: dict[str, Any] = {}
    for part in (inside or "").split(","):
        if not part.strip():
            continue
        key, separator, value = (word.strip() for word in part.partition("="))
        if not separator or key not in options:
            raise InvalidInput(f"{noun} {name}: options are {', '.join(options)}, got '{part.strip()}'")
        try:
            found[key] = options[key](value)
        except ValueError:
            raise InvalidInput(f"{noun} {name}: {key} must be a number, got '{value}'") from None
    return name, found
