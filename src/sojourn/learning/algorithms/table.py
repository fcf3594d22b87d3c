"""The table of algorithms, by the names that the command line knows."""

from dataclasses import fields
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
from sojourn.text import parse_choice

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
    """The algorithm of a text, `fedbuff(size=10, staleness=root)`; `server` for those that step along a gradient.

    >>> algorithm("asyncsgd(assignment=pure)").assignment
    'pure'
    """
    name, options = parse_choice("algorithm", text, {key: _options(kind) for key, kind in ALGORITHMS.items()})
    kind = ALGORITHMS[name]
    if server is not None and "server" in {item.name for item in fields(kind)}:
        options["server"] = server
    made: Algorithm = kind(**options)
    return made


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
