"""Whether a folder holds this very live run: what may differ when it is resumed, and what may not."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.learning.run.build import Built
from sojourn.learning.run.run_config import facts_of
from sojourn.learning.run.trainer import PATHS, identity
from sojourn.schedule import ended

LENGTH = ("steps", "time")
HASHED = (*PATHS, "data", "holdout", "partition")  # what they name is compared by hash
FREE = (*LENGTH, *HASHED, "schedule", "device", "execution", "evaluate_every", "judged_on", "metrics")
"""Keys of a run that may differ: its length, where it is computed, and what judges models."""


def check_same(folder: Path, built: Built) -> None:
    """Refuse a folder whose run differs in anything that decides what is trained, so that its replay stays exact."""
    found, now = facts_of(folder), identity(built, None)
    before, after = found.get("config"), asdict(built.config)
    if not isinstance(before, Mapping):
        raise InvalidInput(f"the folder {folder} holds another run: it has no config; name another folder")
    differing = [(key, before.get(key), one) for key, one in after.items() if key not in FREE]
    differing += [(key, found.get(key), one) for key, one in now.items() if key != "config"]
    for key, was, one in differing:
        if was != one:
            raise InvalidInput(
                f"the folder {folder} holds another run: its {key} is {was!r} (now {one!r}); "
                "name another folder, or give the same configuration"
            )
    was, one = _schedule(before), _schedule(after)
    if was != one:
        raise InvalidInput(
            f"the folder {folder} holds a run whose steps follow the schedule {was} (now {one}); give the same "
            "schedule and, where it ends with the run, the same steps or time, or name another folder"
        )


def _schedule(config: Mapping[str, Any]) -> str:
    """Return the schedule with its end written out."""
    return ended(config.get("schedule") or "constant", config.get("steps"), config.get("time"))
