"""The command that made what is reported, where it was kept: nothing is said of a result that was made in Python."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sojourn.errors import SojournError
from sojourn.files import read_json
from sojourn.report.page.parts import Section
from sojourn.shown import visible

FILE = "made_by.json"  # of a folder without a summary
MOST = 20_000  # characters


def say_command(section: Section, facts: Any) -> None:
    """Add the command to a section, if the facts have it."""
    told = facts.get("made_by") if isinstance(facts, Mapping) else None
    if isinstance(told, str) and told:
        section.said.append("The command that made it:")
        section.code.append(visible(told[:MOST]))


def kept_in(folder: Path) -> Any:
    """Return the facts that a folder keeps about its command; nothing where there are none."""
    path = folder / FILE
    try:
        return read_json(path, "command") if path.is_file() else {}
    except SojournError:
        return {}
