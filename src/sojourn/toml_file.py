"""Reading a TOML file, with one sentence about what is wrong with it."""

import tomllib
from pathlib import Path
from typing import Any

from sojourn.errors import UnreadableFile


def read_toml(what: str, path: str | Path) -> dict[str, Any]:
    """The content of a file; `what` it is goes into the sentence, "run file"."""
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise UnreadableFile(f"{what} {path} does not exist; check the path") from None
    except OSError as error:
        raise UnreadableFile(f"{what} {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnreadableFile(f"{what} {path} is not valid TOML: {error}") from None
