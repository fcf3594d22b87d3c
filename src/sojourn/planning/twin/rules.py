"""Linear rules of the server: each turns updates into changes of the model and weights of gradients.

To add a rule, write one more function and one more line of RULES. FAVANO and QuAFL are not here, because their clients
keep their own models. Ringleader is not, because it sends models in phases of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.planning.twin.updates import Rows, Updates
from sojourn.types import Integers

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """How the server of an algorithm changes its model."""

    rows: Callable[[Updates, Options], Rows]
    """Function from updates to changes of the model."""
    options: Mapping[str, Callable[[str], Any]]
    """Options that the rule uses, with how they are read."""
    defaults: Options
    """Their default values."""
    correction: float | None = 0.0
    """Its default exponent of the correction; None = it does not use one."""
    uniform: bool = False
    """Whether clients are drawn uniformly, whatever the plan says (AsyncSGD)."""
    rounds: bool = False
    """Whether the server waits for rounds."""
    at: str = "size"
    """Option that the plan's buffer sets."""


def plain(updates: Updates, options: Options) -> Rows:
    """Apply every gradient as it arrives; very stale ones with a smaller weight (adaptive) or not at all (drop)."""
    steps = options.get("steps", "constant")
    weight = updates.counts * updates.level
    most = updates.concurrency
    if steps == "constant":
        return Rows.of(np.arange(len(updates)), updates.sent, weight, updates)
    if steps == "adaptive":
        return Rows.of(
            np.arange(len(updates)),
            updates.sent,
            weight * np.minimum(1.0, most / np.maximum(updates.stale, 1)),
            updates,
        )
    if steps != "drop":
        raise InvalidInput(f"asyncsgd: steps must be one of constant, adaptive, drop, got '{steps}'")
    used, versions = _fresh(updates.sent, most)
    kept = np.flatnonzero(used)
    return Rows.of(np.arange(kept.size), versions[updates.sent[kept]], weight[kept], _picked(updates, kept))


def gathered(updates: Updates, options: Options) -> Rows:
    """Generalized AsyncSGD: apply the mean of `size` weighted gradients, at the step size of the last one."""
    size, steps = options["size"], options["steps"]
    if size < 1:
        raise InvalidInput(f"generalized-asyncsgd: size must be at least 1, got {size}")
    if steps not in ("constant", "adaptive"):
        raise InvalidInput(f"generalized-asyncsgd: steps must be one of constant, adaptive, got '{steps}'")
    if size == 1:
        return plain(updates, options)
    together = max(1, round(size / updates.many))
    whole = len(updates) // together * together
    kept = np.arange(whole)
    place, sent = kept // together, updates.sent[:whole] // together
    weight = updates.counts[:whole] * updates.level[together - 1 : whole : together].repeat(together) / size
    if steps == "adaptive":
        tau = (place - sent) * (together * updates.many / size)
        weight = weight * np.minimum(1.0, updates.concurrency * updates.many / np.maximum(tau, 1))
    return Rows.of(place, sent, weight, _picked(updates, kept))


def _fresh(sent: Integers, most: int) -> tuple[Any, Integers]:
    """Return which updates are not too stale, in changes of the model, and the number of changes before each update."""
    versions = np.zeros(sent.size + 1, dtype=np.int64)
    used = np.zeros(sent.size, dtype=bool)
    for k, began in enumerate(sent.tolist()):
        used[k] = versions[k] - versions[began] <= most
        versions[k + 1] = versions[k] + used[k]
    return used, versions


def _picked(updates: Updates, kept: Integers) -> Updates:
    return replace(updates, client=updates.client[kept], time=updates.time[kept])


def buffered(updates: Updates, options: Options) -> Rows:
    """FedBuff: apply the mean of `size` updates; the step size is the clients', as of when the model was sent."""
    size = options["size"]
    if size < 1:
        raise InvalidInput(f"fedbuff: size must be at least 1, got {size}")
    kept = np.arange(len(updates)) if not options["distinct"] else _distinct(updates.client, size)
    together = max(1, round(size / updates.many))
    whole = kept.size // together * together
    kept = kept[:whole]
    versions = np.searchsorted(kept, np.arange(len(updates) + 1)) // together
    place = np.arange(whole) // together
    sent = versions[updates.sent[kept]]
    weight = (updates.counts * updates.sent_level)[kept] / size * options["server_step_size"]
    if options["staleness"] == "root":
        weight = weight / np.sqrt(1.0 + (place - sent) * together * updates.many / size)
    elif options["staleness"] != "none":
        raise InvalidInput(f"fedbuff: staleness must be none or root, got '{options['staleness']}'")
    return Rows.of(place, sent, weight, _picked(updates, kept))


def _distinct(client: Integers, size: int) -> Integers:
    """Return the updates that are not a second one of the same client in a buffer."""
    kept, inside = [], set[int]()
    for k, one in enumerate(client.tolist()):
        if one in inside:
            continue
        kept.append(k)
        inside.add(one)
        if len(inside) == size:
            inside.clear()
    return np.array(kept, dtype=np.int64)


def rounds(updates: Updates, options: Options) -> Rows:
    """FedAvg: apply the mean of a round; all its updates start from the same model."""
    begun, place = np.unique(updates.sent, return_inverse=True)
    if place.size and int((place == begun.size - 1).sum()) < updates.concurrency:  # the last round is incomplete
        place = place[place < begun.size - 1]
    kept = np.arange(place.size)
    many = updates.many * updates.concurrency
    weight = (updates.counts * updates.sent_level)[kept] / many * options["server_step_size"]
    return Rows.of(place, place, weight, _picked(updates, kept))


def calibrated(updates: Updates, options: Options) -> Rows:
    """CA2FL: apply the mean of what clients sent last, plus the mean of how the updates in a buffer differ from it.

    Clients send gradients; the step size is the server's at the change.
    """
    size = options["size"]
    if size < 1:
        raise InvalidInput(f"ca2fl: size must be at least 1, got {size}")
    together = max(1, round(size / updates.many))
    whole = len(updates) // together * together
    kept = np.arange(whole)
    level = updates.level[together - 1 : whole : together]
    return Rows.of(
        kept // together,
        updates.sent[kept] // together,
        updates.counts[kept] * level.repeat(together) / size,
        _picked(updates, kept),
        step=level * (together * updates.many / size),
        entry=updates.share,
        inclusive=False,
        warm=updates.warm,
    )


def latest(updates: Updates, options: Options) -> Rows:
    """Apply the mean of each client's latest gradient at every arrival; with a warm-up, once all have sent one."""
    number, begin = len(updates), 0
    if options["warmup"] and not updates.warm:
        _, firsts = np.unique(updates.client, return_index=True)
        begin = int(firsts.max()) if firsts.size == updates.share.size else number
    kept = np.arange(number if begin < number else 0)  # if the table is never full, the model does not change
    return Rows.of(
        np.maximum(kept - begin, 0),
        np.maximum(updates.sent[kept] - begin, 0),
        np.zeros(kept.size),
        _picked(updates, kept),
        step=updates.level[begin:] * updates.many,
        entry=updates.share,
        inclusive=True,
        warm=updates.warm,
    )


def mixed(updates: Updates, options: Options) -> Rows:
    """FedAsync: mix the client's model into the server's; the staler it is, the smaller its share."""
    tau = updates.stale * updates.many
    share = np.full(len(updates), float(options["alpha"]))
    if options["staleness"] == "polynomial":
        share = share * (1.0 + tau) ** -options["a"]
    elif options["staleness"] == "hinge":
        share = np.where(tau > options["b"], share / (options["a"] * np.maximum(tau - options["b"], 0) + 1), share)
    elif options["staleness"] != "constant":
        raise InvalidInput(
            f"fedasync: staleness must be one of constant, polynomial, hinge, got '{options['staleness']}'"
        )
    share = np.minimum(1.0, share * updates.counts / updates.many)
    taken = 1 - (1 - share) ** updates.many
    place = np.arange(len(updates))
    return Rows.of(place, updates.sent, taken * updates.sent_level, updates, keep=1 - taken)


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


RULES: dict[str, Rule] = {
    "asyncsgd": Rule(plain, {"assignment": str, "steps": str}, {"steps": "constant"}, uniform=True),
    "generalized-asyncsgd": Rule(
        gathered, {"size": int, "steps": str}, {"size": 1, "steps": "constant"}, correction=1.0
    ),
    "fedbuff": Rule(
        buffered,
        {"size": int, "staleness": str, "distinct": _truth, "dispatch": str, "server_step_size": float},
        {"size": 10, "staleness": "none", "distinct": False, "server_step_size": 1.0},
    ),
    "fedavg": Rule(
        rounds,
        {"server_step_size": float, "weights": str, "interaction": float},
        {"server_step_size": 1.0, "interaction": 0.0},
        correction=None,
        rounds=True,
    ),
    "ca2fl": Rule(calibrated, {"size": int, "dispatch": str}, {"size": 10}, correction=None),
    "ia2sgd": Rule(latest, {"warmup": _truth}, {"warmup": True}, correction=None),
    "fedasync": Rule(
        mixed,
        {"alpha": float, "staleness": str, "a": float, "b": float, "dispatch": str},
        {"alpha": 0.6, "staleness": "polynomial", "a": 0.5, "b": 4.0},
    ),
}
