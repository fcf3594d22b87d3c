"""Read the configuration in a run folder. It is data: code that it names is not run without the user's consent."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput, UnreadableFile
from sojourn.files import no_links, read_json
from sojourn.learning.run.config import TrainConfig, put_over, renamed

MOST = 2**24  # bytes of config.json


def facts_of(folder: str | Path) -> dict[str, Any]:
    """Return the content of config.json."""
    no_links(folder, "config.json")
    path = Path(folder) / "config.json"
    if not path.exists():
        raise UnreadableFile(f"there is no run to resume in {folder}: it has no config.json; check the path")
    found = read_json(path, "configuration", MOST)
    if not isinstance(found, dict):
        raise UnreadableFile(f"configuration {path} must be a table of keys, it is not; is it the right file?")
    if isinstance(found.get("config"), dict):
        found["config"] = renamed(found["config"])
    return found


def config_of(folder: str | Path, given: Mapping[str, Any] | None = None, trust: bool = False) -> TrainConfig:
    """Return the configuration of the run in a folder, combined with what the user gives.

    Code that the folder names, `package.module:function`, is refused unless the user gives the same, or gives `trust`.
    """
    facts, given = facts_of(folder).get("config"), given or {}
    if not isinstance(facts, dict):
        raise UnreadableFile(f"there is no run to resume in {folder}: its config.json holds no configuration")
    config = TrainConfig.of(put_over(facts, given), f"config.json in {folder}")
    strange = {key: text for key, text in config.code.items() if given.get(key) != text}
    if strange and not trust:
        code = " and ".join(f"{key} {text!a}" for key, text in strange.items())
        words = " ".join(f"--{key} {shlex.quote(text)}" for key, text in strange.items())
        again = f"repeat {words}, or give --trust" if words.isprintable() else "give --trust to run it anyway"
        raise InvalidInput(f"the run in {folder} names code to be run, {code}; {again}")
    return config
