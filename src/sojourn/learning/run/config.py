"""What a training run is: everything that decides its bits, as plain values, from flags or from one TOML file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.files import read_toml
from sojourn.own_code import mentions_code, names_code
from sojourn.run_keys import Key, keys_of, run_key
from sojourn.shown import quoted
from sojourn.text import nearest, parts
from sojourn.values import LARGEST

TIMED_BY = ("law", "uplink", "downlink", "dispatcher")  # keys that may name a law or a dispatcher of the user's own
OLD_KEYS = {"rate": "step_size", "local_rate": "local_step_size"}
"""What keys were called before, and what they are called now."""
_OLD_OPTION = re.compile(r"(?<=[(,\s])server_rate(?=\s*=)")  # of fedavg and fedbuff; now server_step_size
LINK_HELP = (
    "{} rate, with its law after a colon if not exponential: `5`, `5:gamma(shape=2)`, `name=5`; may be repeated."
)
LARGEST_STEP_SIZE = 1e30  # times a weight it must still be a number in single precision


@dataclass(frozen=True)
class TrainConfig:
    """A run, in words and numbers."""

    fleet: str = run_key("fleet", "Fleet file; may stand in the run file instead.", path=True)
    plan: str | None = run_key(
        "plan", "Plan file (JSON) with sampling, concurrency, step size.", default=None, path=True
    )
    sampling: str | None = run_key(
        "plan",
        "Whom to sample: `uniform`, `speed` (in proportion to the rate), a CSV file with the columns "
        "name,probability, or `name=probability of each client of that group,...` for every group.",
        default=None,
        instead="plan",
    )
    concurrency: int | None = run_key("plan", "Tasks in flight (default: one a client).", default=None, short="-C")
    cap: str | None = run_key(
        "plan",
        "Most tasks that a client may hold: `1` (nobody waits), `2`, `none` (tasks queue), or `name=2,name=none` by "
        "group (default: the plan's, or none).",
        default=None,
        later=True,
    )
    correction: float | None = run_key(
        "plan",
        "Exponent c of the weight (q/s)^c of an update: `1` unbiased, `0` as they come, `0.5` between (default: the "
        "plan's, or the algorithm's own).",
        default=None,
        later=True,
    )
    trace: str | None = run_key(
        "timing",
        "Trace file (Parquet) to learn along, simulated or recorded (default: simulated now).",
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
        "Updates that the server applies per unit of time, one after the other (default: at once).",
        default=None,
        later=True,
    )
    dispatcher: str | None = run_key(
        "timing",
        "Who gets the next task, as for `sojourn simulate` (default: as the algorithm has it): `routed`, "
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
        "What the model is judged on: `test` (default) or `holdout`.",
        default="test",
        choices=("test", "holdout"),
    )
    partition: str | None = run_key(
        "partition",
        "Who holds which examples: `iid`, `classes(k=2)`, `dirichlet(alpha=0.3)`, `shards(k=2)`, "
        "`natural`, or `package.module:function` (default: by the dataset's owners, else `iid`).",
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
        "What the model is judged by beside its loss: `mae`, `rmse`, `perplexity`, ..., or "
        "`package.module:function` (default: what is usual).",
        default=None,
        code=True,
        later=True,
    )
    steps: int | None = run_key("length", "Updates to receive (default 1000; with --trace, all of it).", default=None)
    time: float | None = run_key(
        "length",
        "Virtual time to run for, instead: a number, or with units, `90s`, `1h`, `2 days`.",
        default=None,
        instead="steps",
        duration=True,
    )
    step_size: float | None = run_key(
        "algorithm",
        "Step size of the server, or of the local steps where clients send models (default: the plan's, or 0.1).",
        default=None,
    )
    server: str = run_key("algorithm", "How the server moves: `sgd` (default), `momentum`, `adam`.", default="sgd")
    schedule: str | None = run_key(
        "algorithm",
        "`linear(end=budget)`, `drops(at=500/800, by=0.1)`, `cosine(end=1000)`, with `over=time` "
        "(default: the plan's, or constant).",
        default=None,
    )
    local_steps: int = run_key("local work", "Local steps of a task.", default=1)
    local_epochs: int | None = run_key(
        "local work", "Passes through a client's examples, instead.", default=None, instead="local_steps"
    )
    local_step_size: float | None = run_key(
        "local work", "Step size of the local steps (default: --step-size).", default=None
    )
    batch_size: int = run_key("local work", "Examples of a local step (default 32).", default=32)
    order: str = run_key(
        "local work",
        "A client's batches: `shuffled` (default), without replacement, or `independent`.",
        default="shuffled",
    )
    momentum: float = run_key("local work", "Momentum of the local steps.", default=0.0)
    weight_decay: float = run_key("local work", "Weight decay of the local steps.", default=0.0)
    proximal: float = run_key("local work", "Pull of the local steps to the model sent.", default=0.0)
    clip: float | None = run_key("local work", "Largest norm of a stochastic gradient.", default=None)
    weights: str = run_key(
        "algorithm",
        "Weight of a client in the objective: `equal` (default) or `data` (examples held).",
        default="equal",
        choices=("equal", "data"),
    )
    start: str | None = run_key("timing", "Where the tasks begin: one-each, even, routed, stationary.", default=None)
    seed: int = run_key("seed", "Of timing, batches, partition and first model.", default=0)
    dtype: str = run_key(
        "arithmetic", "`float32` (default) or `float64`.", default="float32", choices=("float32", "float64")
    )
    augment: str = run_key(
        "arithmetic", "What happens to images: `none` (default), `flip`, `crop(pad=4)`, `crop-flip`.", default="none"
    )
    device: str = run_key(
        "arithmetic",
        "`cpu` or `cuda` (default: cuda where there is one).",
        default="auto",
        choices=("auto", "cpu", "cuda"),
    )
    precision: str = run_key(
        "arithmetic", "Of products: `fp32` (default), `tf32`, `bf16`.", default="fp32", choices=("fp32", "tf32", "bf16")
    )
    execution: str = run_key(
        "execution",
        "`one-by-one`, `waves`, or `auto` (default): waves where they are faster.",
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
                f"algorithm: its option server_rate is called server_step_size now, got '{self.algorithm}'; write that"
            )
        if self.steps is not None and self.time is not None:
            raise InvalidInput("steps and time exclude each other, got both; give one of them")
        for key in ("availability", "server_rate", "start"):
            if self.trace is not None and getattr(self, key) is not None:
                raise InvalidInput(f"a trace has its timing already: {key} must not be given beside it; leave it out")
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
        """Read a TOML file whose keys are the fields; what is given beside it takes precedence."""
        return cls.of(put_over(read_toml(path, "run file"), overriding), f"run file {path}")

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str) -> "TrainConfig":
        """From keys and values; `where` they stand goes into the sentence about what is wrong."""
        content = {key: worded(key, value, where) for key, value in content.items()}
        check_keys(content, where)
        if "fleet" not in content:
            raise InvalidInput(f"{where}: key fleet is required and missing; add it")
        return cls(**content)

    def resolved(self, **found: Any) -> "TrainConfig":
        """With what was left open filled in."""
        return replace(self, **found)

    @property
    def texts(self) -> list[str]:
        """All of it that is text: files, names, code."""
        return [value for value in (getattr(self, item.name) for item in fields(self)) if isinstance(value, str)]

    @property
    def code(self) -> dict[str, str]:
        """What of it is code of the user's own, `package.module:function`, by key.

        >>> TrainConfig("fleet.csv", data="mine:make", model="cnn").code
        {'data': 'mine:make'}
        """
        texts = {key: getattr(self, key) for key in keys(code=True) if getattr(self, key) is not None}
        found = {key: text for key, text in texts.items() if any(names_code(one) for one in parts(text))}
        timed = {key: getattr(self, key) for key in TIMED_BY if getattr(self, key) is not None}
        return found | {key: text for key, text in timed.items() if mentions_code(text)}


def keys(**asked: Any) -> dict[str, Key]:
    """What is known of each key of a run, by name; those alone of which everything asked for is true.

    >>> list(keys(code=True))
    ['algorithm', 'data', 'partition', 'model', 'loss', 'metrics']
    """
    return keys_of(TrainConfig, **asked)


def values(config: TrainConfig, **asked: Any) -> tuple[Any, ...]:
    """What a configuration says of such keys.

    >>> values(TrainConfig("fleet.csv", holdout=0.1), part="data")
    ('digits', 0.1, 'test')
    """
    return tuple(getattr(config, key) for key in keys(**asked))


def put_over(content: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file with what is given beside it, which takes precedence over them and over what it excludes."""
    pairs = [(name, one.instead) for name, one in keys().items() if one.instead]
    excluded = [other for pair in pairs for key, other in (pair, pair[::-1]) if key in given]
    return {key: value for key, value in content.items() if key not in excluded} | dict(given)


def renamed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a run that was described before they were renamed, as they are called now.

    >>> renamed({"rate": 0.1, "algorithm": "fedbuff(size=3, server_rate=0.5)"})
    {'step_size': 0.1, 'algorithm': 'fedbuff(size=3, server_step_size=0.5)'}
    """
    found = {OLD_KEYS.get(key, key): value for key, value in content.items()}
    text = found.get("algorithm")
    if isinstance(text, str) and text.strip().startswith(("fedavg", "fedbuff")):
        found["algorithm"] = _OLD_OPTION.sub("server_step_size", text)
    return found


def worded(key: str, value: Any, where: str = "run") -> Any:
    """A cap is a text, since it may name groups; a plain number will do. A time is a number; one with units will do.

    >>> worded("cap", 1), worded("seed", 1), worded("time", "1h 30min")
    ('1', 1, 5400.0)
    """
    if key in keys(duration=True) and isinstance(value, str):
        return seconds(value, f"{where}: {key}")
    return str(value) if key == "cap" and isinstance(value, int) and not isinstance(value, bool) else value


def check_keys(content: Mapping[str, Any], where: str) -> None:
    """Refuse what is no field of a configuration, or of another kind."""
    known = {name: one.kind for name, one in keys().items()}
    for key, value in content.items():
        if key not in known:
            raise InvalidInput(f"{where}: {_unknown(key, known)}")
        if not _fits(worded(key, value, where), known[key]):
            raise InvalidInput(f"{where}: {key} must be {_said(known[key])}, got {value!r}")


def value_of(key: str, text: str, where: str) -> Any:
    """The value of a field from its text on the command line.

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
        return f"key {key} is called {OLD_KEYS[key]} now, got '{key}'; write {OLD_KEYS[key]}"
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
