"""The table of algorithms, by their names on the command line."""

from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.aafl import Aafl
from sojourn.learning.algorithms.ace import Ace
from sojourn.learning.algorithms.asgrad import AsGrad
from sojourn.learning.algorithms.aso_fed import AsoFed
from sojourn.learning.algorithms.asyncfeded import AsyncFedED
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.base import Algorithm
from sojourn.learning.algorithms.ca2fl import Ca2fl
from sojourn.learning.algorithms.delay_adaptive import DelayAdaptive
from sojourn.learning.algorithms.fadas import Fadas
from sojourn.learning.algorithms.favano import Favano
from sojourn.learning.algorithms.fedasmu import FedAsmu
from sojourn.learning.algorithms.fedasync import FedAsync
from sojourn.learning.algorithms.fedavg import FedAvg
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.fedcompass import FedCompass
from sojourn.learning.algorithms.fedfix import FedFix
from sojourn.learning.algorithms.fedprox import FedProx
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.algorithms.ia2sgd import Ia2sgd
from sojourn.learning.algorithms.malenia import Malenia
from sojourn.learning.algorithms.quafl import Quafl
from sojourn.learning.algorithms.rennala import Rennala
from sojourn.learning.algorithms.ringleader import Ringleader
from sojourn.learning.algorithms.ringmaster import Ringmaster
from sojourn.learning.replay.server_step import ServerStep
from sojourn.own_code import names_code, own_call
from sojourn.text import parse_choice

FACTS = ("name", "sends", "remembers", "must_remember", "weighs", "uses_prob", "sets_steps", "corrects", "correction")
CALLS = ("init", "send", "start", "finish", "apply", "tick", "timing", "bits_each_way")
SAID = ("family", "waits_for", "client_keeps", "server_memory", "reference")  # texts; an own class may leave them out
ALGORITHMS: dict[str, Any] = {
    "generalized-asyncsgd": GeneralizedAsyncSGD,
    "asyncsgd": AsyncSGD,
    "fedavg": FedAvg,
    "fedbuff": FedBuff,
    "favano": Favano,
    "quafl": Quafl,
    "fedasync": FedAsync,
    "rennala": Rennala,
    "malenia": Malenia,
    "ringmaster": Ringmaster,
    "asgrad": AsGrad,
    "aafl": Aafl,
    "fedfix": FedFix,
    "fedcompass": FedCompass,
    "asyncfeded": AsyncFedED,
    "delay-adaptive": DelayAdaptive,
    "ringleader": Ringleader,
    "ia2sgd": Ia2sgd,
    "ace": Ace,
    "ca2fl": Ca2fl,
    "fadas": Fadas,
    "fedasmu": FedAsmu,
    "aso-fed": AsoFed,
    "fedprox": FedProx,
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
    for key in SAID:
        if not isinstance(getattr(made, key, ""), str):
            raise InvalidInput(f"algorithm {text}: {key} must be a text, got {getattr(made, key)!r}")
    if getattr(made, "unbiased", None) not in (True, False, None):
        raise InvalidInput(f"algorithm {text}: unbiased must be true, false or none, got {made.unbiased!r}")
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
