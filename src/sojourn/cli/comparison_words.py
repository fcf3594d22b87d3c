"""A comparison from the flags of the command line, in the form of a comparison file."""

import re
from pathlib import Path
from typing import Any

from sojourn.cli.arguments import whole
from sojourn.errors import InvalidInput
from sojourn.files import read_toml
from sojourn.learning.run.config import value_of

_NAME = re.compile(r"^\s*([^:=()]+):\s+(.*)$")


def content_of(
    path: Path | None,
    run: dict[str, Any],
    settings: list[str],
    tuning: dict[str, Any],
    top: dict[str, Any],
    algorithms: list[str],
    plans: list[str],
) -> dict[str, Any]:
    """The contents of a comparison file; values given by flags replace those of the file."""
    content: dict[str, Any] = {} if path is None else read_toml(path, "comparison file")
    given = {key: value_of(key, str(value), "compare") for key, value in run.items() if value is not None}
    given |= dict(_pair(text, "--set") for text in settings)
    before = dict(content.get("run", {})) if isinstance(content.get("run", {}), dict) else {}
    for one, other in (("steps", "time"), ("time", "steps")):
        if one in given:
            before.pop(other, None)
    content["run"] = {**before, **given}
    asked = {key: value for key, value in tuning.items() if value is not None}
    if "step_sizes" in asked:
        asked["step_sizes"] = numbers_of("step-sizes", asked["step_sizes"])
    if "seeds" in asked:
        asked["seeds"] = _seeds("tuning-seeds", asked["seeds"])
    if asked:
        content["tuning"] = {**content.get("tuning", {}), **asked}
    words = {key: value for key, value in top.items() if value is not None}
    if "seeds" in words:
        words["seeds"] = _seeds("seeds", words["seeds"])
    content |= words
    if algorithms:
        content["algorithm"] = [algorithm_of(text) for text in algorithms]
    if plans:
        content["plan"] = [_plan(text) for text in plans]
    return content


def algorithm_of(text: str) -> dict[str, Any]:
    """Read `[name:] algorithm [key=value ...]`.

    >>> algorithm_of("fedbuff(size=10, staleness=root)")
    {'name': 'fedbuff(size=10, staleness=root)', 'algorithm': 'fedbuff(size=10, staleness=root)'}
    >>> algorithm_of("planned: generalized-asyncsgd plan=plan.json concurrency=5")
    {'name': 'planned', 'algorithm': 'generalized-asyncsgd', 'plan': 'plan.json', 'concurrency': 5}
    """
    named = _NAME.match(text)
    name, rest = (named[1].strip(), named[2]) if named else (text.strip(), text)
    algorithm, *keys = _words(rest) or [""]
    return {"name": name, "algorithm": algorithm, **dict(_pair(key, f"algorithm {name}") for key in keys)}


def _words(text: str) -> list[str]:
    """Split at spaces that are neither inside brackets nor after a semicolon.

    >>> _words("fedbuff(size=9, combine=trimmed(share=0.2)) wrap=topk(share=0.1); sign  seed=1")
    ['fedbuff(size=9, combine=trimmed(share=0.2))', 'wrap=topk(share=0.1); sign', 'seed=1']
    """
    words, depth = [""], 0
    for piece in re.split(r"(\s+|[()])", text):
        depth += (piece == "(") - (piece == ")")
        if piece.isspace() and depth <= 0 and not words[-1].endswith(";"):
            words.append("")
        else:
            words[-1] += piece
    return [word for word in words if word]


def _plan(text: str) -> dict[str, Any]:
    """Read a plan file's name, or `name: key=value ...`."""
    named = _NAME.match(text)
    if named is None:
        return {"name": Path(text).stem, "plan": text}
    keys = _words(named[2])
    if len(keys) == 1 and "=" not in keys[0]:
        return {"name": named[1].strip(), "plan": keys[0]}
    return {"name": named[1].strip(), **dict(_pair(key, f"plan {named[1].strip()}") for key in keys)}


def _pair(text: str, where: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"{where}: settings must read like key=value, got '{text}'")
    key = key.strip().replace("-", "_")
    return key, value_of(key, value.strip(), where)


def _seeds(name: str, text: str) -> int | list[int]:
    if "," in text:
        return [whole(name, part) for part in text.split(",") if part.strip()]
    return whole(name, text)


def seeds_of_text(name: str, text: str) -> tuple[int, ...]:
    """The seeds of tuning: a number of seeds, or a list of them."""
    from sojourn.experiments.cells import seeds_of
    from sojourn.experiments.comparison import FIRST_TUNING_SEED

    return seeds_of(_seeds(name, text), name, FIRST_TUNING_SEED)


def numbers_of(name: str, text: str | None) -> list[float]:
    """Numbers separated by commas; an empty list if there is no text.

    >>> numbers_of("step-sizes", "0.1,0.3"), numbers_of("correction", None)
    ([0.1, 0.3], [])
    """
    return [] if text is None else [_number(name, one) for one in text.split(",")]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{name} must be numbers separated by commas, got '{text}'") from None
