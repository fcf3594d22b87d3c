"""The configuration of a training run: everything that decides its result, as plain values, from
flags or a TOML file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.files import read_toml
from sojourn.learning.run.tuned_for import with_tuned_algorithm
from sojourn.own_code import mentions_code, names_code
from sojourn.run_keys import Key, keys_of, run_key
from sojourn.shown import quoted
from sojourn.text import nearest, parts
from sojourn.values import LARGEST

TIMED_BY = ("law", "uplink", "downlink", "dispatcher")  # keys that may name the user's own law or dispatcher
INSIDE = (*TIMED_BY, "algorithm", "wrap")  # keys that may name code anywhere in their text
OLD_KEYS = {"rate": "step_size", "local_rate": "local_step_size"}
"""Old names of keys, and their present names."""
_OLD_OPTION = re.compile(r"(?<=[(,\s])server_rate(?=\s*=)")  # of fedavg and fedbuff; now server_step_size
LINK_HELP = (
    "{} rate, with its law after a colon if not exponential: `5`, `5:gamma(shape=2)`, `name=5`; may be repeated."
)
CALLBACKS = "callbacks"  # key of a run file for what is told of the run
_UNKNOWN = re.compile(r"\s*unknown\(\s*([0-9]{1,12})\s*\)\s*")  # a fleet of which only the number of clients is known
LARGEST_STEP_SIZE = 1e30  # its product with a weight must be finite in single precision


@dataclass(frozen=True)
class TrainConfig:
    """The keys of a run, with their defaults and help texts."""

    fleet: str = run_key("fleet", "Fleet file; the run file may name it instead.", path=True)
    plan: str | None = run_key(
        "plan", "Plan file (JSON) with sampling, concurrency, step size.", default=None, path=True
    )
    sampling: str | None = run_key(
        "plan",
        "Whom to sample: `uniform`, `speed` (in proportion to the rate), `root-speed`, any power of "
        "the speed as `speed^0.5`, a weight per client of each group as `fast=3,slow=1` (divided by their sum), or a "
        "CSV "
        "file with the columns name,weight.",
        default=None,
        instead="plan",
    )
    concurrency: int | None = run_key("plan", "Tasks in flight (default: one per client).", default=None, short="-C")
    cap: str | None = run_key(
        "plan",
        "Most tasks that a client may hold: `1` (nobody waits), `2`, `none` (tasks queue), or `name=2,name=none` by "
        "group (default: the plan's, or none).",
        default=None,
        later=True,
    )
    correction: float | None = run_key(
        "plan",
        "Exponent c of an update's weight (q/s)^c: `1` = unbiased, `0` = all count alike, `0.5` between (default: the "
        "plan's, or the algorithm's own).",
        default=None,
        later=True,
    )
    trace: str | None = run_key(
        "timing",
        "Trace file (Parquet) to train along, simulated or recorded (default: simulate one now).",
        default=None,
        path=True,
    )
    law: str | None = run_key(
        "world",
        "Service law for all groups, `lognormal(sigma=1)`, or for one, `name=deterministic`; may be repeated.",
        default=None,
        several=True,
        later=True,
    )
    uplink: str | None = run_key("world", LINK_HELP.format("Uplink"), default=None, several=True, later=True)
    downlink: str | None = run_key("world", LINK_HELP.format("Downlink"), default=None, several=True, later=True)
    server_rate: float | None = run_key(
        "world",
        "Updates that the server applies per second, one after the other (default: at once).",
        default=None,
        later=True,
    )
    dispatcher: str | None = run_key(
        "timing",
        "Who gets the next task, as for `sojourn simulate` (default: the algorithm's own): `routed`, "
        "`pure`, `shuffled`, `idle`; `rounds(wait=8)`.",
        default=None,
        later=True,
    )
    availability: str | None = run_key(
        "world",
        "`churn(on=100, off=20)`, `diurnal(on=8, period=24)`, with `leave=lose`, `loss=0.01`, `drift=-0.001`; "
        "or a TOML or CSV file.",
        default=None,
    )
    algorithm: str = run_key(
        "algorithm",
        "`generalized-asyncsgd` (default), `asyncsgd(assignment=pure, steps=adaptive)`, `fedavg`, "
        "`fedbuff(size=10, staleness=root)`, `favano(contacts=20)`, `quafl(bits=14)`, "
        "`fedasync(alpha=0.6)`, or `package.module:Class`.",
        default="generalized-asyncsgd",
        code=True,
    )
    wrap: str | None = run_key(
        "algorithm",
        "What updates pass through on their way, innermost first: `topk(share=0.01)`, `qsgd(levels=15)`, `sign`, "
        "`lowrank(rank=2)`, `subset(names=*.bias)`, `lora(rank=4)`, `gaussian(clip=1, noise=1)`, or "
        "`package.module:Class`; may be repeated.",
        default=None,
        code=True,
        several=True,
        later=True,
    )
    data: str = run_key(
        "data",
        "`digits` (default), `fashion-mnist`, `cifar10`, `tiny-imagenet(per_class=100)`, "
        "`quadratic(...)`, `logistic(...)`, or `package.module:function`.",
        default="digits",
        code=True,
    )
    holdout: float = run_key("data", "Share of the training examples that no client gets (default 0).", default=0.0)
    judged_on: str = run_key(
        "data",
        "Examples that the model is evaluated on: `test` (default) or `holdout`.",
        default="test",
        choices=("test", "holdout"),
    )
    partition: str | None = run_key(
        "partition",
        "Who holds which examples: `iid`, `classes(k=2)`, `dirichlet(alpha=0.3)`, `shards(k=2)`, "
        "`by-speed(k=2)`, `natural`, or `package.module:function` (default: by the dataset's owners, else `iid`).",
        default=None,
        code=True,
    )
    model: str = run_key(
        "model",
        "`mlp(hidden=64)` (default), `logistic`, `cnn(channels=16)`, `resnet20(norm=group)`, `resnet18`,"
        " `problem`, `package.module:function`.",
        default="mlp",
        code=True,
    )
    loss: str | None = run_key(
        "model",
        "`cross-entropy`, `mse`, `binary-cross-entropy`, `own`, or `package.module:function` (default: "
        "the model's own, or what the labels suggest).",
        default=None,
        code=True,
        later=True,
    )
    metrics: str | None = run_key(
        "judging",
        "Metrics besides the loss: `mae`, `rmse`, `perplexity`, ..., or "
        "`package.module:function` (default: the usual ones for the loss).",
        default=None,
        code=True,
        later=True,
    )
    steps: int | None = run_key(
        "length", "Updates to receive (default: 1000; with --trace, all of the trace).", default=None
    )
    time: float | None = run_key(
        "length",
        "Instead of steps: simulated time to run for, in seconds or with a unit, `90s`, `1h`, `2 days`.",
        default=None,
        instead="steps",
        duration=True,
    )
    step_size: float | None = run_key(
        "algorithm",
        "Step size of the server, or of the local steps if clients send models (default: the plan's, or 0.1).",
        default=None,
    )
    server: str = run_key(
        "algorithm", "How the server steps: `sgd` (default), `momentum`, `adam`, `yogi`.", default="sgd"
    )
    schedule: str | None = run_key(
        "algorithm",
        "`linear(end=budget)`, `drops(at=500/800, by=0.1)`, `cosine(end=1000)`, with `over=time` "
        "(default: the plan's, or constant).",
        default=None,
    )
    local_steps: int = run_key("local work", "Local steps per task.", default=1)
    local_epochs: int | None = run_key(
        "local work", "Instead of local steps: passes through a client's examples.", default=None, instead="local_steps"
    )
    local_step_size: float | None = run_key(
        "local work", "Step size of the local steps (default: --step-size).", default=None
    )
    batch_size: int = run_key("local work", "Examples per local step (default 32).", default=32)
    order: str = run_key(
        "local work",
        "A client's batches: `shuffled` (default), without replacement, or `independent`.",
        default="shuffled",
    )
    momentum: float = run_key("local work", "Momentum of the local steps.", default=0.0)
    weight_decay: float = run_key("local work", "Weight decay of the local steps.", default=0.0)
    proximal: float = run_key(
        "local work", "Proximal term: pull of the local steps towards the model received.", default=0.0
    )
    clip: float | None = run_key("local work", "Largest norm of a stochastic gradient.", default=None)
    weights: str = run_key(
        "algorithm",
        "Weight of a client in the objective: `equal` (default) or `data` (examples held).",
        default="equal",
        choices=("equal", "data"),
    )
    start: str | None = run_key(
        "timing", "Where the tasks are at the start: one-each, even, routed, stationary.", default=None
    )
    seed: int = run_key("seed", "Seed of timing, batches, partition and first model.", default=0)
    dtype: str = run_key(
        "arithmetic", "`float32` (default) or `float64`.", default="float32", choices=("float32", "float64")
    )
    augment: str = run_key(
        "arithmetic", "Augmentation of images: `none` (default), `flip`, `crop(pad=4)`, `crop-flip`.", default="none"
    )
    device: str = run_key(
        "arithmetic",
        "`cpu` or `cuda` (default: cuda if there is a GPU).",
        default="auto",
        choices=("auto", "cpu", "cuda"),
    )
    precision: str = run_key(
        "arithmetic",
        "Precision of products: `fp32` (default), `tf32`, `bf16`.",
        default="fp32",
        choices=("fp32", "tf32", "bf16"),
    )
    execution: str = run_key(
        "execution",
        "How tasks are computed: `one-by-one`, `waves`, or `auto` (default): waves where they are faster.",
        default="auto",
        choices=("auto", "one-by-one", "waves"),
    )
    evaluate_every: int | None = run_key(
        "judging", "Updates between two evaluations (default: fifty over the run).", default=None
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
                raise InvalidInput(f"{item.name} must be at most 2^63 - 1 in size, got {quoted(value)}")
        for name, one in keys().items():
            if one.choices and getattr(self, name) not in one.choices:
                raise InvalidInput(f"{name} must be one of {', '.join(one.choices)}, got '{getattr(self, name)}'")
        if renamed({"algorithm": self.algorithm})["algorithm"] != self.algorithm:
            raise InvalidInput(
                f"algorithm: its option server_rate is now called server_step_size, got '{self.algorithm}'; write that"
            )
        if self.steps is not None and self.time is not None:
            raise InvalidInput("steps and time exclude each other, got both; give one of them")
        for key in ("availability", "server_rate", "start"):
            if self.trace is not None and getattr(self, key) is not None:
                raise InvalidInput(f"a trace already has its timing: {key} must not be given with it; leave it out")
        for key in ("steps", "time", "step_size", "local_step_size", "evaluate_every", "concurrency"):
            value = getattr(self, key)
            if value is not None and not (isfinite(value) and value > 0):
                raise InvalidInput(f"{key} must be positive and finite, got {value}")
        for key in ("step_size", "local_step_size"):
            if (getattr(self, key) or 0.0) > LARGEST_STEP_SIZE:
                raise InvalidInput(f"{key} must be at most {LARGEST_STEP_SIZE:g}, got {getattr(self, key)}")
        if self.local_epochs is not None and self.local_steps != 1:
            raise InvalidInput("local_steps and local_epochs exclude each other, got both; give one of them")
        if self.seed < 0:
            raise InvalidInput(f"seed must be a whole number of at least 0, got {self.seed}")
        if not 0 <= self.holdout < 1:
            raise InvalidInput(f"holdout must be a share from 0 to below 1, got {self.holdout}")
        if self.judged_on == "holdout" and self.holdout == 0:
            raise InvalidInput(
                "judged_on holdout needs examples held out, got holdout 0; write for example holdout 0.1"
            )

    @classmethod
    def load(cls, path: str | Path, **overriding: Any) -> "TrainConfig":
        """Read a TOML file whose keys are the fields; keyword arguments override it."""
        content = read_toml(path, "run file")
        content.pop(CALLBACKS, None)  # they have no part in what is trained
        return cls.of(put_over(content, overriding), f"run file {path}")

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str) -> "TrainConfig":
        """Make a configuration from keys and values; `where` names their place in error messages."""
        content = {key: worded(key, value, where) for key, value in content.items()}
        check_keys(content, where)
        if "fleet" not in content:
            raise InvalidInput(f"{where}: key fleet is required and missing; add it")
        return cls(**with_tuned_algorithm(content))

    def resolved(self, **found: Any) -> "TrainConfig":
        """Return the configuration with these values filled in."""
        return replace(self, **found)

    @property
    def texts(self) -> list[str]:
        """All values that are texts: files, names, code."""
        return [value for value in (getattr(self, item.name) for item in fields(self)) if isinstance(value, str)]

    @property
    def code(self) -> dict[str, str]:
        """The values that name the user's own code, `package.module:function`, by key.

        >>> TrainConfig("fleet.csv", data="mine:make", model="cnn").code
        {'data': 'mine:make'}
        """
        texts = {key: getattr(self, key) for key in keys(code=True) if getattr(self, key) is not None}
        found = {key: text for key, text in texts.items() if any(names_code(one) for one in parts(text))}
        inside = {key: getattr(self, key) for key in INSIDE if getattr(self, key) is not None}
        return found | {key: text for key, text in inside.items() if mentions_code(text)}


def callbacks_in(path: str | Path) -> list[str]:
    """Return the texts of the callbacks that a run file names."""
    found = read_toml(path, "run file").get(CALLBACKS, [])
    if not (isinstance(found, list) and all(isinstance(one, str) for one in found)):
        raise InvalidInput(f"run file {path}: {CALLBACKS} must be a list of texts, got {quoted(found)}")
    return found


def keys(**asked: Any) -> dict[str, Key]:
    """Return the keys of a run by name; only those whose facts equal everything in `asked`.

    >>> list(keys(code=True))
    ['algorithm', 'wrap', 'data', 'partition', 'model', 'loss', 'metrics']
    """
    return keys_of(TrainConfig, **asked)


def values(config: TrainConfig, **asked: Any) -> tuple[Any, ...]:
    """Return the values of such keys in a configuration.

    >>> values(TrainConfig("fleet.csv", holdout=0.1), part="data")
    ('digits', 0.1, 'test')
    """
    return tuple(getattr(config, key) for key in keys(**asked))


def put_over(content: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a file overridden by `given`; a given key also removes the keys that it excludes."""
    pairs = [(name, one.instead) for name, one in keys().items() if one.instead]
    excluded = [other for pair in pairs for key, other in (pair, pair[::-1]) if key in given]
    return {key: value for key, value in content.items() if key not in excluded} | dict(given)


def renamed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an older run under their present names.

    >>> renamed({"rate": 0.1, "algorithm": "fedbuff(size=3, server_rate=0.5)"})
    {'step_size': 0.1, 'algorithm': 'fedbuff(size=3, server_step_size=0.5)'}
    """
    found = {OLD_KEYS.get(key, key): value for key, value in content.items()}
    text = found.get("algorithm")
    if isinstance(text, str) and text.strip().startswith(("fedavg", "fedbuff")):
        found["algorithm"] = _OLD_OPTION.sub("server_step_size", text)
    return found


def worded(key: str, value: Any, where: str = "run") -> Any:
    """Return a value in the form that its key has: a cap becomes a text, a time with units becomes seconds.

    >>> worded("cap", 1), worded("seed", 1), worded("time", "1h 30min")
    ('1', 1, 5400.0)
    """
    if key in keys(duration=True) and isinstance(value, str):
        return seconds(value, f"{where}: {key}")
    if key == "fleet" and isinstance(value, int) and not isinstance(value, bool):
        return f"unknown({value})"
    return str(value) if key == "cap" and isinstance(value, int) and not isinstance(value, bool) else value


def unknown_speeds(fleet: str) -> int | None:
    """Return the number of clients of a fleet whose speeds are unknown; None = it is another fleet.

    >>> unknown_speeds("unknown(100)"), unknown_speeds("fleet.csv")
    (100, None)
    """
    found = _UNKNOWN.fullmatch(fleet)
    if found is None:
        return None
    if int(found[1]) < 1:
        raise InvalidInput(f"a fleet of unknown speeds must have at least 1 client, got {found[1]}; write unknown(100)")
    return int(found[1])


def check_keys(content: Mapping[str, Any], where: str) -> None:
    """Raise an error for keys that a configuration does not have, and for values of another kind."""
    known = {name: one.kind for name, one in keys().items()}
    for key, value in content.items():
        if key not in known:
            raise InvalidInput(f"{where}: {_unknown(key, known)}")
        if not _fits(worded(key, value, where), known[key]):
            raise InvalidInput(f"{where}: {key} must be {_said(known[key])}, got {value!r}")


def value_of(key: str, text: str, where: str) -> Any:
    """Return the value of a field from its text on the command line.

    >>> value_of("local_steps", "1e1", "--set"), value_of("step_size", "0.1", "--set")
    (10, 0.1)
    """
    known = {name: one.kind for name, one in keys().items()}
    if key not in known:
        raise InvalidInput(f"{where}: {_unknown(key, known)}")
    if "str" in known[key]:
        return text
    if key in keys(duration=True):
        return seconds(text, f"{where}: {key}")
    try:
        number = float(text.replace("_", ""))
        if "float" in known[key]:
            return number
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"{where}: {key} must be {_said(known[key])}, got '{text}'")


def _unknown(key: str, known: Mapping[str, str]) -> str:
    if key in OLD_KEYS:
        return f"key {key} is now called {OLD_KEYS[key]}, got '{key}'; write {OLD_KEYS[key]}"
    return f"unknown key '{key}'{nearest(key, known)}"


def _fits(value: Any, kind: str) -> bool:
    if value is None:
        return "None" in kind
    if isinstance(value, bool):
        return "bool" in kind
    if isinstance(value, int):
        return "int" in kind or "float" in kind
    return type(value).__name__ in kind


def _said(kind: str) -> str:
    words = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}
    return next(word for key, word in words.items() if key in kind)
