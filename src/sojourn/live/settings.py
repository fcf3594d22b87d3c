"""The files of a live server and of a live client: one TOML file each, with a table [run] for what is trained."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_address
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.files import read_toml, write_text
from sojourn.learning.run.config import TrainConfig, put_over
from sojourn.live import GIVE_UP
from sojourn.live.run import Settings
from sojourn.shown import quoted
from sojourn.text import nearest

PORT = 7733
RUN = "run"
ENGINES = ("grpc", "ray")
USUAL = 600.0  # seconds after which a plan is worked out again, if nothing is said
WORDS = {
    "tuple": "a list of texts",
    "str": "text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number of seconds, or a time such as '2min'",
}
PATHS = ("keys", "out", "calibration")
DURATIONS = ("patience", "commit_seconds", "give_up")
AUTO, NEVER = "auto", "never"


@dataclass(frozen=True)
class ServerFile:
    """What a server file says, besides the table [run]."""

    address: str = f"127.0.0.1:{PORT}"
    """Address at which clients reach the server, HOST:PORT."""
    keys: str | None = None
    """Folder of the server's keys, as `sojourn live keys` makes it; None = no encryption."""
    insecure: bool = False
    """Whether to serve without keys beyond this machine."""
    out: str = "live"
    """Folder of the run."""
    begin_with: int | None = None
    """Clients that must be present before the first task is sent; None = one for each task in flight, or all."""
    patience: float = 30.0
    """Seconds that the server waits for an update at the least."""
    strikes: int = 3
    """Refused messages in a row after which a client is expelled."""
    commit_seconds: float = 0.1
    """Seconds between two commits at the least."""
    metrics_port: int | None = None
    """Port on 127.0.0.1 at which metrics can be read in the format of Prometheus; None = none."""
    durable: bool = True
    """Whether the run survives a kill of the server; False = it is on the disk only when it is stopped."""
    engine: str = "grpc"
    """What carries tasks: `grpc`, clients dial in; or `ray`, the server starts them as actors."""
    cluster: str | None = None
    """Ray only: address of the cluster, HOST:PORT or auto; None = an instance of its own on this machine."""
    processes: int = 2
    """Ray only: actors that the clients are spread over."""
    paced: bool = False
    """Ray only: whether service lasts as long as the fleet's laws say: artificial service times, for trials."""
    callbacks: tuple[str, ...] = ()
    """What is told of the run while it goes on: `mlflow`, `checkpoints(every=1000)`, `package.module:Class`."""
    replan: str | float = AUTO
    """Time after which the plan is worked out again at the latest; `never`; or `auto`: ten minutes if the policy or the
    speeds are left open, never if a policy is given.
    """
    calibration: str | None = None
    """Calibration file, with which the model of training chooses the policy whenever the plan is worked out again."""

    def __post_init__(self) -> None:
        check_address(self.address)
        if self.metrics_port is not None and not 0 <= self.metrics_port < 2**16:
            raise InvalidInput(f"metrics_port must lie between 0 and 65535, got {self.metrics_port}")
        _check_engine(self)
        if isinstance(self.replan, str) and self.replan not in (AUTO, NEVER):
            object.__setattr__(self, "replan", _interval(self.replan))
        if not isinstance(self.replan, str) and not self.replan > 0:
            raise InvalidInput(f"replan must be a positive time, never or auto, got {self.replan}; write 10min")
        if self.calibration is not None and self.replan == NEVER:
            raise InvalidInput("a calibration is for working out plans again, but replan is never; leave out one")
        if self.keys is None and not self.insecure and not local(self.address):
            raise InvalidInput(
                f"a server at {self.address} needs keys, because others can reach it, got none; make them with "
                "sojourn live keys, or write insecure = true if the network is safe"
            )

    @property
    def settings(self) -> Settings:
        """How the run is run."""
        return Settings(
            self.begin_with, self.patience, self.strikes, self.commit_seconds, self.durable, self.every(False)
        )

    def every(self, left_open: bool) -> float | None:
        """Return the seconds between two plans; None = the plan never changes. `left_open` = the run leaves the policy
        or the speeds open.

        >>> ServerFile().every(True), ServerFile().every(False), ServerFile(replan="2min").every(False)
        (600.0, None, 120.0)
        """
        if isinstance(self.replan, str):
            return USUAL if self.replan == AUTO and (left_open or self.calibration) else None
        return float(self.replan)


def _check_engine(file: ServerFile) -> None:
    """Refuse keys that do not go with the engine."""
    if file.engine not in ENGINES:
        raise InvalidInput(
            f"engine must be one of {', '.join(ENGINES)}, got '{file.engine}'{nearest(file.engine, ENGINES)}"
        )
    if file.processes < 1:
        raise InvalidInput(f"processes must be at least 1, got {file.processes}")
    default = {item.name: item.default for item in fields(ServerFile)}
    others = ("address", "keys", "insecure") if file.engine == "ray" else ("cluster", "processes", "paced")
    for key in others:
        if getattr(file, key) != default[key]:
            other = ENGINES[1 - ENGINES.index(file.engine)]
            raise InvalidInput(f"{key} belongs to the engine {other}, the engine is {file.engine}; leave {key} out")


def _interval(text: str) -> float:
    try:
        return seconds(text, "replan")
    except InvalidInput:
        raise InvalidInput(f"replan must be a time such as 10min, never or auto, got {quoted(text)}") from None


@dataclass(frozen=True)
class ClientFile:
    """What a client file says, besides the table [run]."""

    server: str = f"127.0.0.1:{PORT}"
    """Address of the server, HOST:PORT."""
    keys: str | None = None
    """Folder of the client's keys; None = no encryption."""
    insecure: bool = False
    """Whether to dial a server beyond this machine without keys."""
    clients: tuple[str, ...] = ()
    """Names of the clients that this process runs."""
    holds: str = "all"
    """Which examples of [run] data each client holds: `all`, or `part`, its part of the partition of [run]."""
    paced: bool = False
    """Whether service lasts as long as the fleet's laws say: artificial service times, for trials."""
    give_up: float = GIVE_UP
    """Seconds without reaching the server after which it gives up; `never` in the file = inf."""

    def __post_init__(self) -> None:
        check_address(self.server)
        check_secure(self.server, self.keys is not None, self.insecure)
        if self.holds not in ("all", "part"):
            raise InvalidInput(f"holds must be all or part, got '{self.holds}'")
        if self.paced and self.holds != "part":
            raise InvalidInput("paced = true needs holds = 'part', got 'all'; a client with its own data is not paced")
        if not self.clients:
            raise InvalidInput('a client file must name its clients, got none; write clients = ["oslo"]')


File = TypeVar("File", ServerFile, ClientFile)


def read_file(
    kind: type[File], path: str | Path, given: Mapping[str, Any], over: Mapping[str, Any]
) -> tuple[File, TrainConfig]:
    """Read a server or client file; `given` overrides its keys, `over` those of its table [run]."""
    content = read_toml(path, "live file")
    run = content.pop(RUN, None)
    if not isinstance(run, dict):
        raise InvalidInput(f"live file {path} must have a table [run] with what is trained; add it")
    if kind is ClientFile and content.get("holds", ClientFile.holds) == "all":
        run.setdefault("fleet", "")  # such a client does not read it
    return made(kind, {**content, **given}, str(path)), TrainConfig.of(put_over(run, over), f"[run] of {path}")


def made(kind: type[File], content: Mapping[str, Any], where: str) -> File:
    """Make a file's content from its keys, and refuse keys that it does not have."""
    known = {item.name: item for item in fields(kind)}
    for key in content:
        if key not in known:
            raise InvalidInput(f"{where}: unknown key '{key}'{nearest(key, known)}")
    return kind(**{key: _value(key, str(known[key].type), value, where) for key, value in content.items()})


def _value(key: str, kind: str, value: Any, where: str) -> Any:
    if key == "give_up" and value == NEVER:
        return inf
    if key in DURATIONS and isinstance(value, str):
        return seconds(value, f"{where}: {key}")
    if key in PATHS and isinstance(value, str):
        return str(Path(value).expanduser())
    if "tuple" in kind and isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return tuple(value)
    fits = {
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
    }
    if not any(yes for name, yes in fits.items() if name in kind) or "tuple" in kind:
        wanted = next(words for name, words in WORDS.items() if name in kind)
        raise InvalidInput(f"{where}: {key} must be {wanted}, got {value!r}")
    return value


def write_file(path: Path, content: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Write a live file; values that are None are left out."""
    lines = [f"{key} = {_toml(value)}" for key, value in content.items() if value is not None]
    lines += ["", f"[{RUN}]", *(f"{key} = {_toml(value)}" for key, value in run.items() if value is not None)]
    write_text(path, "\n".join(lines) + "\n", "live file")


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def check_address(address: str) -> None:
    """Raise an error unless an address is HOST:PORT."""
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 2**16):
        raise InvalidInput(f"an address must be HOST:PORT, such as 127.0.0.1:{PORT}, got '{address}'")


def check_secure(address: str, keys: bool, insecure: bool) -> None:
    """Refuse to dial a server beyond this machine without keys, unless it is said that the network is safe."""
    if not keys and not insecure and not local(address):
        raise InvalidInput(
            f"a client of a server at {address} needs keys, because others can read and change what it sends, got "
            "none; name the folder that sojourn live keys made for it, or write insecure = true (insecure=True in "
            "Python) if the network is safe"
        )


def local(address: str) -> bool:
    """Whether only this machine can reach an address.

    >>> local("127.0.0.1:7733"), local("[::1]:7733"), local("0.0.0.0:7733"), local("fl.example.org:7733")
    (True, True, False, False)
    """
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
