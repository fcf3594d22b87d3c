"""The work of one process: it trains a lot, which is one cell, or on a GPU several cells that share their waves.

Cells that do the same local work with the same model can share waves, so that one lot can hold several seeds and
algorithms.
"""

import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sojourn.errors import SojournError
from sojourn.experiments.cells import DIVERGED, Cell, Cells, code_texts, ended
from sojourn.experiments.own_source import check_unchanged
from sojourn.files import Busy, busy, no_links, write_json
from sojourn.frozen import ReadOnly
from sojourn.learning.run.config import TrainConfig
from sojourn.own_code import objects_of, take_over

if TYPE_CHECKING:
    from sojourn.learning.replay.replay import Diverged
    from sojourn.learning.run.trainer import Trainer

STOPPED, BUSY = "stopped", "busy"
LOOK = 0.2  # seconds between two checks whether to stop
_SHARED = ("data", "holdout", "judged_on", "model", "execution", "device", "precision", "dtype", "augment")
_WORK = ("local_steps", "local_epochs", "batch_size", "momentum", "weight_decay", "proximal", "clip")


class Member(NamedTuple):
    """A cell of a lot."""

    hash: str
    """The cell's."""
    config: TrainConfig
    """Its run."""
    folder: Path
    """The folder that it is trained in."""
    sources: Mapping[str, str] = ReadOnly()
    """Fingerprints of the user's own code, when the work was planned."""


class Lot(NamedTuple):
    """Cells to be trained in one process."""

    members: tuple[Member, ...]
    """The cells."""
    objects: Mapping[str, Any] = ReadOnly()
    """Objects of the program that the cells' texts name, for the process that trains the cells."""

    @property
    def key(self) -> str:
        """The name of the lot."""
        return self.members[0].hash


class Ending(NamedTuple):
    """How a cell ended."""

    word: str
    """`complete`, `diverged`, `stopped` (can be resumed), `busy` (another process trains it), `failed`, `died`."""
    error: str = ""
    """What went wrong, in a sentence."""
    details: str = ""
    """The traceback, to find the cause."""


def lots_of(cells: Sequence[Cell], where: Cells, together: int) -> list[Lot]:
    """Lots of at most `together` cells that can share their waves, in the order of the cells."""
    sorted_out: dict[tuple[Any, ...], list[Member]] = {}
    for number, cell in enumerate(cells):
        alike = tuple(getattr(cell.config, key) for key in (*_SHARED, *_WORK)) if together > 1 else (number,)
        sorted_out.setdefault(alike, []).append(Member(cell.hash, cell.config, where.of(cell), cell.sources))
    lots = []
    for members in sorted_out.values():
        for begin in range(0, len(members), together):
            mine = tuple(members[begin : begin + together])
            lots.append(Lot(mine, objects_of(text for one in mine for text in one.config.texts)))
    return lots


def check_cells(cells: Sequence[Cell], on: str) -> None:
    """Refuse mistakes before any work begins, instead of once per cell; only here are data and model checked."""
    from sojourn.learning.run.build import build, check

    for cell in cells:
        check(cell.config)
    if cells and on == "here":
        build(cells[0].config)


def train_lot(lot: Lot, halted: Callable[[], bool], seconds: float) -> dict[str, Ending]:
    """Train the cells of a lot to their ends, or until `halted`; an error in one is reported, and the others go on."""
    told: dict[str, Ending] = {}
    take_over(lot.objects)
    if halted():
        return {member.hash: Ending(STOPPED) for member in lot.members}
    runs = dict(_begun(lot, told))
    if runs:
        try:
            _train(list(runs.values()), halted, seconds)
        except Busy:
            told |= {key: Ending(BUSY) for key, run in runs.items() if ended(run.folder) is None}
        except (Exception, SystemExit) as error:
            failed = _failure(error)
            told |= {key: failed for key, run in runs.items() if ended(run.folder) is None}
    for key, folder in {key: run.folder for key, run in runs.items()}.items():
        word = ended(folder)
        if word is not None:
            told[key] = Ending(word)
        told.setdefault(key, Ending(STOPPED))
    runs.clear()
    _free_device()
    return told


def _begun(lot: Lot, told: dict[str, Ending]) -> "Iterator[tuple[str, Trainer]]":
    """The runs of a lot, new or resumed; cells that have ended or cannot begin are reported."""
    from sojourn.experiments.training import open_run

    first: Trainer | None = None
    for member in lot.members:
        word = ended(member.folder)
        if word is not None:  # another process ended it in the meantime
            told[member.hash] = Ending(word)
            continue
        try:
            no_links(member.folder)
            if busy(member.folder):
                raise Busy
            check_unchanged(member.sources, code_texts(member.config))
            run = open_run(member.config, member.folder, resume=True, like=first.built if first else None)
        except Busy:
            told[member.hash] = Ending(BUSY)
            continue
        except (Exception, SystemExit) as error:
            told[member.hash] = _failure(error)
            continue
        first = first or run
        yield member.hash, run


def _train(runs: "list[Trainer]", halted: Callable[[], bool], seconds: float) -> None:
    import torch

    from sojourn.learning.run.trainer import together

    torch.set_num_threads(1)  # so that sums have the same order wherever the cell is trained
    stop, looked = threading.Event(), time.monotonic()

    def look(done: int, total: int, facts: dict[str, Any]) -> None:
        nonlocal looked
        if time.monotonic() - looked > LOOK:
            looked = time.monotonic()
            if halted():
                stop.set()

    together(runs, seconds, progress=look, stop=stop, diverged=_note)


def _free_device() -> None:
    """Give the memory of the GPU back, because the next lot may run in another process."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def _note(run: "Trainer", error: "Diverged") -> None:
    """Mark a run that diverged as ended: it would diverge again."""
    facts = {"diverged": True, "received": run.replay.received, "time": run.replay.time, "error": str(error)}
    write_json(run.folder / DIVERGED, facts, "report")
    run.store.forget()


def _failure(error: BaseException) -> Ending:
    said = str(error) if isinstance(error, SojournError) else f"{type(error).__name__}: {error}"
    return Ending("failed", said.replace("\n", " "), "".join(traceback.format_exception(error)))


def deaf_to_interrupts() -> None:
    """Ignore Ctrl-C: the process that hands out the work handles it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
