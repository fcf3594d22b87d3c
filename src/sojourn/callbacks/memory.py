"""Memory of a callback: a few values in the run's folder, by which it goes on when the run is resumed."""

from pathlib import Path
from typing import Any

from sojourn.callbacks.callback import HOME
from sojourn.errors import UnreadableFile
from sojourn.files import no_links, read_json, write_json, writing

MOST = 2**20  # bytes


def remembered(folder: Path, name: str) -> dict[str, Any]:
    """Return what a callback kept in a run's folder; {} = nothing that can be read."""
    no_links(folder, HOME)
    try:
        found = read_json(folder / HOME / f"{name}.json", "memory of a callback", MOST)
    except UnreadableFile:
        return {}
    return found if isinstance(found, dict) else {}


def remember(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Keep a few values in a run's folder."""
    with writing(folder / HOME, "to"):
        (folder / HOME).mkdir(exist_ok=True)
    write_json(folder / HOME / f"{name}.json", content, "memory of a callback")
