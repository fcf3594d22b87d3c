"""The table of wrappers, by their names on the command line."""

from dataclasses import fields
from functools import partial
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.learning.wrappers.base import Wrapper
from sojourn.learning.wrappers.gaussian import Gaussian
from sojourn.learning.wrappers.lora import Lora
from sojourn.learning.wrappers.lowrank import LowRank
from sojourn.learning.wrappers.qsgd import Qsgd
from sojourn.learning.wrappers.sign import Sign
from sojourn.learning.wrappers.subset import Subset
from sojourn.learning.wrappers.topk import TopK
from sojourn.own_code import names_code, own_call
from sojourn.text import parse_choice

WRAPPERS: dict[str, Any] = {
    "topk": TopK,
    "qsgd": Qsgd,
    "sign": Sign,
    "lowrank": LowRank,
    "subset": Subset,
    "lora": Lora,
    "gaussian": Gaussian,
}
READERS: dict[str, Any] = {"int": int, "float": float, "str": str, "float | None": float}
CALLS = ("of_module", "for_model", "leave", "begin", "arrive", "check_timing", "check_live", "columns", "measures")


def wrapper(text: str) -> Wrapper:
    """Return the wrapper of a text: `topk(share=0.01)`, or your own `package.module:Class(share=0.1)`.

    >>> wrapper("topk(share=0.1)").share
    0.1
    """
    if names_code(text):
        return checked(own_call("wrapper", text), text)
    name, options = parse_choice("wrapper", text, {key: _options(kind) for key, kind in WRAPPERS.items()})
    made: Wrapper = WRAPPERS[name](**options)
    return made


def wrappers(text: str | None) -> list[Wrapper]:
    """Return the wrappers of a run: `;` separates them, the innermost first.

    >>> [one.name for one in wrappers("gaussian(delta=0); topk(share=0.1)")]
    ['gaussian', 'topk']
    """
    return [wrapper(one.strip()) for one in (text or "").split(";") if one.strip()]


def checked(made: Any, text: str) -> Wrapper:
    """Return the wrapper; raise an error that names the parts of a Wrapper that it lacks."""
    if isinstance(made, type):
        raise InvalidInput(f"wrapper {text} must be an object, got the class {made.__name__}; write {made.__name__}()")
    missing = [name for name in CALLS if not callable(getattr(made, name, None))]
    missing += [name for name in ("name", "remembers", "secret") if not hasattr(made, name)]
    if missing:
        raise InvalidInput(
            f"wrapper {text}: {type(made).__name__} must define {', '.join(missing)}; inherit from "
            "sojourn.wrappers.Wrapper to get what most wrappers do"
        )
    found: Wrapper = made
    return found


def _options(kind: Any) -> dict[str, Any]:
    types = {item.name: str(getattr(item.type, "__name__", item.type)) for item in fields(kind)}
    known = {key: word for key, word in types.items() if word in READERS or word == "bool"}
    return {key: partial(_truth, kind.name, key) if word == "bool" else READERS[word] for key, word in known.items()}


def _truth(name: str, key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidInput(f"wrapper {name}: {key} must be true or false, got '{text}'")
    return text == "true"
