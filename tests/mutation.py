"""Mutation: what is right made wrong in many ways, the same ways for the same seed.

Texts lose, double and swap parts, and get what nobody expects in place of a number or a word. Contents of JSON and TOML
files are also changed as trees, those of CSV files as cells, so that most of the file stays right.
"""

import copy
import csv
import io
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

NUMBERS = (
    *("nan", "inf", "-inf", "0", "-1", "-0.0", "0.5", "1.5", "1e308", "-1e308", "1e-320", "1e999", "1e18", "1e12"),
    *(str(2**31), str(2**63), str(2**64), str(-(2**63) - 1), "9" * 400, "9" * 5000, "0." + "9" * 5000),
    *("1_0", "0x10", "+1", "01", "\u0663", "\u00b2", "\u00bd", "1e", ".", "-", "True", "1,5", "1/0"),
)
WORDS = (
    *("", " ", "\n", "\r", "\t", "\0", "\x1b[31mred\x1b[0m", "\x07", "\u202etxt", "\ufeff", "\u2028", "\x85"),
    *("[/]", "[red]x[/red]", "$x_1^2$", "\\", "'", '"', "#", ";", ",", "=", "(", ")", "()", ")(", "..", "/", "~", "%s"),
    *("=1+1", "@x", "name", "none", "null", "None", "{}", "{0}", "a" * 20_000, "(" * 20_000, "é", "\U0001f600"),
)
VALUES = (
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.5, 1e308, 1e-320, float("nan"), float("inf"), float("-inf")),
    *(2**31, 2**63, 2**64, -(2**63) - 1, 10**400, "", " ", "x", "1", "nan", "\x1b[31m", "[/]", "\0", "\n", "\ud800"),
    *([], {}, [[]], [None], [1], [1, 2], ["x"], {"x": 1}, {"": None}, [{}], [[1, 2], [3, 4]], "x" * 20_000),
)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def text(rng: random.Random, given: str) -> str:
    """A text with one to three parts changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        given = rng.choice(_TEXT)(rng, given)
    return given


def content(rng: random.Random, given: bytes, suffix: str) -> bytes:
    """The content of a file, changed as bytes, as text, or as what its kind of file holds."""
    ways: list[Callable[[random.Random, bytes], bytes]] = [_bytes, _decoded]
    ways += [{".json": _json, ".toml": _toml, ".csv": _csv}[suffix]] * 4 if suffix in (".json", ".toml", ".csv") else []
    return rng.choice(ways)(rng, given)


def tree(rng: random.Random, given: Any) -> Any:
    """Plain values with one to three of them replaced, left out, doubled or renamed."""
    changed = [copy.deepcopy(given)]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        home, key = rng.choice(list(_places(changed)))
        rng.choice(_TREE)(rng, home, key)
    return changed[0] if changed else None


def _replaced(rng: random.Random, given: str, pattern: re.Pattern[str], by: tuple[str, ...]) -> str:
    found = list(pattern.finditer(given))
    if not found:
        return given + rng.choice(by)
    one = rng.choice(found)
    return given[: one.start()] + rng.choice(by) + given[one.end() :]


def _cut(rng: random.Random, given: str) -> str:
    begin, end = sorted(rng.randrange(len(given) + 1) for _ in range(2))
    return given[:begin] + given[end:]


def _doubled(rng: random.Random, given: str) -> str:
    begin, end = sorted(rng.randrange(len(given) + 1) for _ in range(2))
    return given[:end] + given[begin:end] * rng.choice((1, 1, 50)) + given[end:]


def _inserted(rng: random.Random, given: str) -> str:
    at = rng.randrange(len(given) + 1)
    return given[:at] + rng.choice(WORDS + NUMBERS) + given[at:]


_TEXT: tuple[Callable[[random.Random, str], str], ...] = (
    *[lambda rng, given: _replaced(rng, given, _NUMBER, NUMBERS)] * 4,
    lambda rng, given: _replaced(rng, given, _WORD, WORDS),
    lambda rng, given: given[: rng.randrange(len(given) + 1)],
    lambda rng, given: "",
    _cut,
    _doubled,
    _inserted,
)


def _bytes(rng: random.Random, given: bytes) -> bytes:
    """Truncated, cut out, or with some bytes that are others."""
    changed = bytearray(given)
    way = rng.randrange(3)
    if way == 0:
        return given[: rng.randrange(len(given) + 1)]
    if way == 1:
        begin, end = sorted(rng.randrange(len(given) + 1) for _ in range(2))
        return given[:begin] + given[end:]
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if changed else 0):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _decoded(rng: random.Random, given: bytes) -> bytes:
    return text(rng, given.decode("utf-8", "replace")).encode("utf-8", "surrogatepass")


def _json(rng: random.Random, given: bytes) -> bytes:
    return json.dumps(tree(rng, json.loads(given))).encode()


def _toml(rng: random.Random, given: bytes) -> bytes:
    changed = tree(rng, tomllib.loads(given.decode()))
    if not isinstance(changed, dict):
        changed = {}
    lines = (f"{_quoted(str(key))} = {_toml_text(value)}" for key, value in changed.items())
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _toml_text(value: Any) -> str:
    if value is None:
        return date(1979, 5, 27).isoformat()  # TOML has dates, and no null
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_quoted(str(key))} = {_toml_text(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_text, value))}]"
    return _quoted(value) if isinstance(value, str) else str(value).lower()


def _quoted(given: str) -> str:
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def _csv(rng: random.Random, given: bytes) -> bytes:
    """Cells replaced, left out or added, columns left out, rows doubled or moved."""
    rows = list(csv.reader(io.StringIO(given.decode())))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        row = rng.choice(rows)
        at = rng.randrange(len(row)) if row else 0
        way = rng.randrange(8)
        if way < 4 and row:
            row[at] = rng.choice(NUMBERS + WORDS)
        elif way == 4 and row:
            del row[at]
        elif way == 5:
            row.insert(at, rng.choice(NUMBERS + WORDS))
        elif way == 6:
            rows.insert(rng.randrange(len(rows) + 1), list(row))
        else:
            for one in rows:
                del one[at : at + 1]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue().encode("utf-8", "surrogatepass")


def _places(home: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a tree, as the container and its key."""
    for key in range(len(home)) if isinstance(home, list) else list(home):
        yield home, key
        if isinstance(home[key], dict | list):
            yield from _places(home[key])


def _renamed(rng: random.Random, home: Any, key: Any) -> None:
    if isinstance(home, dict):
        home[rng.choice((*WORDS, *home))] = home.pop(key)


def _left_out(rng: random.Random, home: Any, key: Any) -> None:
    if isinstance(home, dict) or len(home) > 1:
        del home[key]


def _twice(rng: random.Random, home: Any, key: Any) -> None:
    if isinstance(home, list):
        home.insert(key, copy.deepcopy(home[key]))


def _other(rng: random.Random, home: Any, key: Any) -> None:
    home[key] = copy.deepcopy(rng.choice(VALUES))


def _from_elsewhere(rng: random.Random, home: Any, key: Any) -> None:
    """What stands at another key, which is right there."""
    other = rng.choice(list(home) if isinstance(home, dict) else range(len(home)))
    home[key] = copy.deepcopy(home[other])


def _text_of(rng: random.Random, home: Any, key: Any) -> None:
    if isinstance(home[key], str):
        home[key] = text(rng, home[key])
    else:
        home[key] = str(home[key])


_TREE: tuple[Callable[[random.Random, Any, Any], None], ...] = (
    *(_other, _other, _other, _other),
    *(_left_out, _renamed, _twice, _from_elsewhere, _text_of),
)
