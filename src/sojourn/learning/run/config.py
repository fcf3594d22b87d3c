"""What a training run is: everything that decides its bits, as plain values, from flags or from one TOML file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.files import read_toml
from sojourn.own_code import mentions_code, names_code
from sojourn.shown import quoted
from sojourn.text import nearest, parts
from sojourn.values import LARGEST

CHOICES = {
    "dtype": ("float32", "float64"),
    "weights": ("equal", "data"),
    "device": ("auto", "cpu", "cuda"),
    "precision": ("fp32", "tf32", "bf16"),
    "execution": ("auto", "one-by-one", "waves"),
    "judged_on": ("test", "holdout"),
}
EXCLUDING = (("steps", "time"), ("plan", "sampling"), ("local_steps", "local_epochs"))
CODE = ("algorithm", "data", "partition", "model", "loss", "metrics")  # keys whose text may name code of the user's own
TIMED_BY = ("law", "uplink", "downlink", "dispatcher")  # the same of timing: laws and dispatchers
OLD_KEYS = {"rate": "step_size", "local_rate": "local_step_size"}
"""What keys were called before, and what they are called now."""
_OLD_OPTION = re.compile(r"(?<=[(,\s])server_rate(?=\s*=)")  # of fedavg and fedbuff; now server_step_size
LARGEST_STEP_SIZE = 1e30  # times a weight it must still be a number in single precision


@dataclass(frozen=True)
class TrainConfig:
    """A run, in words and numbers."""

    fleet: str
    """Fleet file."""
    plan: str | None = None
    """Plan file; None = `sampling` and `concurrency`."""
    sampling: str | None = None
    """uniform, speed, or name=probability,... as elsewhere; None = the plan's, or uniform."""
    concurrency: int | None = None
    """Tasks in flight; None = the plan's, or one a client."""
    trace: str | None = None
    """Trace file to learn along; None = the timing is simulated."""
    law: str | None = None
    """Service law for all groups, or `name=law` for one, several with `;` between; None = those of the fleet."""
    uplink: str | None = None
    """Uplink rates, as `law`: `5`, `5:gamma(shape=2)`, `name=5`; None = those of the fleet."""
    downlink: str | None = None
    """Downlink rates, as `uplink`."""
    server_rate: float | None = None
    """Updates that the server applies per unit of time, one after the other; None = at once."""
    dispatcher: str | None = None
    """Who gets the next task; None = as the algorithm has it."""
    availability: str | None = None
    """When clients are there, what gets lost: a text form, or a TOML or CSV file; None = always there."""
    algorithm: str = "generalized-asyncsgd"
    """The algorithm and its options, `fedbuff(size=10)`."""
    data: str = "digits"
    """The dataset."""
    holdout: float = 0.0
    """Share of the training examples that no client gets, of each class and owner alike, the same for every seed."""
    judged_on: str = "test"
    """What the model is judged on: test, or holdout, to choose step sizes by."""
    partition: str | None = None
    """Who holds which examples; None = the dataset's owners, where it has some, else iid."""
    model: str = "mlp"
    """The model."""
    loss: str | None = None
    """cross-entropy, mse, binary-cross-entropy, or a function; None = the model's own, or what the labels suggest."""
    metrics: str | None = None
    """What the model is judged by beside its loss: mae, rmse, perplexity, ..., or functions; None = what is usual."""
    steps: int | None = None
    """Updates to receive; None = until `time`, all of the `trace`, or 1000."""
    time: float | None = None
    """Virtual time to run for."""
    step_size: float | None = None
    """Step size of the server; None = the plan's, or 0.1. Of the local steps, where clients send models."""
    server: str = "sgd"
    """How the server moves: sgd, momentum or adam."""
    schedule: str = "constant"
    """Of the step sizes, over steps or time."""
    local_steps: int = 1
    """Local steps of a task."""
    local_epochs: int | None = None
    """Passes through a client's examples, instead."""
    local_step_size: float | None = None
    """Step size of the local steps; None = `step_size`."""
    batch_size: int = 32
    """Examples of a local step."""
    order: str = "shuffled"
    """Order of a client's batches: shuffled or independent."""
    momentum: float = 0.0
    """Of the local steps."""
    weight_decay: float = 0.0
    """Of the local steps."""
    proximal: float = 0.0
    """Of the local steps."""
    clip: float | None = None
    """Largest norm of a stochastic gradient."""
    weights: str = "equal"
    """Weight of a client in the objective: equal or data (examples held)."""
    start: str | None = None
    """Where the tasks begin; None = one each where there are enough clients, else even."""
    seed: int = 0
    """Of the timing, the batches, the partition and the first model."""
    dtype: str = "float32"
    """float32 or float64."""
    augment: str = "none"
    """What happens to images: none, flip, crop(pad=4), crop-flip(pad=4)."""
    device: str = "auto"
    """cpu or cuda; auto = cuda where there is one."""
    precision: str = "fp32"
    """Of products on the device: fp32, tf32, or bf16."""
    execution: str = "auto"
    """one-by-one, or in waves; auto = waves where they are faster."""
    evaluate_every: int | None = None
    """Updates between two evaluations; None = fifty over the run."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
                raise InvalidInput(f"{item.name} must be at most 2^63 - 1 in size, got {quoted(value)}")
        for key, words in CHOICES.items():
            if getattr(self, key) not in words:
                raise InvalidInput(f"{key} must be one of {', '.join(words)}, got '{getattr(self, key)}'")
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
        check_keys(content, where)
        if "fleet" not in content:
            raise InvalidInput(f"{where}: key fleet is required and missing; add it")
        return cls(**content)

    def resolved(self, **found: Any) -> "TrainConfig":
        """With what was left open filled in."""
        return replace(self, **found)

    @property
    def code(self) -> dict[str, str]:
        """What of it is code of the user's own, `package.module:function`, by key.

        >>> TrainConfig("fleet.csv", data="mine:make", model="cnn").code
        {'data': 'mine:make'}
        """
        texts = {key: getattr(self, key) for key in CODE if getattr(self, key) is not None}
        found = {key: text for key, text in texts.items() if any(names_code(one) for one in parts(text))}
        timed = {key: getattr(self, key) for key in TIMED_BY if getattr(self, key) is not None}
        return found | {key: text for key, text in timed.items() if mentions_code(text)}


def put_over(content: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file with what is given beside it, which takes precedence over them and over what it excludes."""
    excluded = [other for pair in EXCLUDING for key, other in (pair, pair[::-1]) if key in given]
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


def check_keys(content: Mapping[str, Any], where: str) -> None:
    """Refuse what is no field of a configuration, or of another kind."""
    known = {item.name: str(item.type) for item in fields(TrainConfig)}
    for key, value in content.items():
        if key not in known:
            raise InvalidInput(f"{where}: {_unknown(key, known)}")
        if not _fits(value, known[key]):
            raise InvalidInput(f"{where}: {key} must be {_said(known[key])}, got {value!r}")


def value_of(key: str, text: str, where: str) -> Any:
    """The value of a field from its text on the command line.

    >>> value_of("local_steps", "1e1", "--set"), value_of("step_size", "0.1", "--set")
    (10, 0.1)
    """
    known = {item.name: str(item.type) for item in fields(TrainConfig)}
    if key not in known:
        raise InvalidInput(f"{where}: {_unknown(key, known)}")
    if "str" in known[key]:
        return text
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
