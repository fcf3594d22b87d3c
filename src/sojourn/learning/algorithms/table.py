"""The table of algorithms, by their names on the command line."""

from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.base import Algorithm
from sojourn.learning.algorithms.favano import Favano
from sojourn.learning.algorithms.fedasync import FedAsync
from sojourn.learning.algorithms.fedavg import FedAvg
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.algorithms.quafl import Quafl
from sojourn.learning.replay.server_step import ServerStep
from sojourn.own_code import names_code, own_call
from sojourn.text import parse_choice

FACTS = ("name", "sends", "remembers", "weighs", "uses_prob", "corrects", "correction")
CALLS = ("init", "send", "start", "finish", "apply", "tick", "timing", "bits_each_way")
ALGORITHMS: dict[str, Any] = {
    "generalized-asyncsgd": GeneralizedAsyncSGD,
    "asyncsgd": AsyncSGD,
    "fedavg": FedAvg,
    "fedbuff": FedBuff,
    "favano": Favano,
    "quafl": Quafl,
    "fedasync": FedAsync,
}


def algorithm(text: str, server: ServerStep | None = None) -> Algorithm:
    """Return the algorithm of a text: `fedbuff(size=10, staleness=root)`, or your own `package.module:Class(size=3)`.

    `server` says how the server steps; it is for algorithms that step along a gradient.

    >>> algorithm("asyncsgd(assignment=pure)").assignment
    'pure'
    """
    if names_code(text):
        return with_server(checked(own_call("algorithm", text), text), server)
    name, options = parse_choice("algorithm", text, {key: _options(kind) for key, kind in ALGORITHMS.items()})
    made: Algorithm = ALGORITHMS[name](**options)
    return with_server(made, server)


def with_server(made: Any, server: ServerStep | None) -> Algorithm:
    """Return the algorithm with this server step, if it has a field for one."""
    found: Algorithm = made
    if server is not None and is_dataclass(made) and "server" in {item.name for item in fields(made)}:
        found = replace(made, server=server)  # type: ignore[type-var, assignment]
    return found


def checked(made: Any, text: str) -> Algorithm:
    """Return the algorithm; raise an error that names the parts of an Algorithm that it lacks."""
    if isinstance(made, type):
        raise InvalidInput(
            f"algorithm {text} must be an object, got the class {made.__name__}; write {made.__name__}()"
        )
    missing = [name for name in (*FACTS, *CALLS) if not hasattr(made, name)]
    missing += [name for name in CALLS if hasattr(made, name) and not callable(getattr(made, name))]
    if missing:
        raise InvalidInput(
            f"algorithm {text}: {type(made).__name__} must define {', '.join(missing)}; "
            "inherit from sojourn.algorithms.Standard to get what most algorithms do"
        )
    if made.sends not in ("gradient", "delta"):
        raise InvalidInput(f"algorithm {text}: sends must be 'gradient' or 'delta', got '{made.sends}'")
    found: Algorithm = made
    return found


def _options(kind: Any) -> dict[str, Any]:
    readers = {"int": int, "float": float, "str": str, "float | None": float}
    types = {item.name: _type(item.type) for item in fields(kind) if item.name != "server"}
    return {key: partial(_truth, kind.name, key) if word == "bool" else readers[word] for key, word in types.items()}


def _type(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _truth(algorithm: str, key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidInput(f"algorithm {algorithm}: {key} must be true or false, got '{text}'")
    return text == "true"
