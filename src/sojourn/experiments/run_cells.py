"""Train many cells to their ends: those that have ended are left alone, those that fail are tried once more."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType

from sojourn.errors import InvalidInput, SojournError, UnwritableFile
from sojourn.experiments.cells import Cell, Cells, without_twins
from sojourn.experiments.processes import STOP, check_joblib, here
from sojourn.experiments.train_cells import BUSY, STOPPED, Ending, Lot, lots_of
from sojourn.files import alone, busy, claimed, tidy, write_text, writing
from sojourn.folders import made
from sojourn.learning.data.images.load import KINDS
from sojourn.learning.data.load import load_dataset
from sojourn.text import listed

PLACES = ("here", "ray")
TICKET = ".in-progress"
ATTEMPTS = 2
ON_GPU = 16  # cells that share the waves of a GPU
PATIENCE = 2.0  # seconds between two checks of cells that another sweep is training
Watch = Callable[[str, int, int], None]
"""A function that is told what happened, how many cells have ended, and how many there are."""


@dataclass
class Swept:
    """The outcome of a sweep."""

    cells: int
    """How many different cells were to be trained."""
    ended: int = 0
    """How many have ended, before or now."""
    failures: dict[str, str] = field(default_factory=dict)
    """Error of each cell that failed twice, by its name."""
    retried: list[str] = field(default_factory=list)
    """Names of the cells that were tried a second time."""
    interrupted: bool = False
    """Whether Ctrl-C ended it early."""


def run_cells(
    cells: Sequence[Cell],
    folder: str | Path,
    jobs: int | None = None,
    on: str = "here",
    address: str | None = None,
    watch: Watch | None = None,
    checkpoint_seconds: float = 60.0,
    together: int | None = None,
) -> Swept:
    """Train the cells that have not ended yet.

    `jobs` is the number of processes at a time (default: one per core; one for GPU cells). `on` is `here` or `ray`;
    `address` names the Ray cluster, by default the one that is running. `together` cells share the waves of a GPU.
    """
    if on not in PLACES:
        raise InvalidInput(f"on must be {listed(PLACES)}, got '{on}'")
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"jobs must be a whole number of at least 1, got {jobs}")
    where, distinct = Cells(Path(folder)), without_twins(cells)
    done = {cell.hash for cell in where.finished(distinct)}
    left = [cell for cell in distinct if cell.hash not in done]
    for cell in distinct:
        if cell.hash in done:  # left by a process that was killed just before it ended
            shutil.rmtree(where.of(cell) / "checkpoints", ignore_errors=True)
    swept = Swept(len(distinct), len(done))
    if left:
        _Sweeper(where, left, swept, watch or (lambda *_: None)).run(jobs, on, address, checkpoint_seconds, together)
    return swept


class _Sweeper:
    """Trains cells pass by pass, and counts how often each was tried."""

    def __init__(self, where: Cells, cells: list[Cell], swept: Swept, watch: Watch) -> None:
        self._where, self._cells, self._swept, self._watch = where, {cell.hash: cell for cell in cells}, swept, watch
        self._attempts = dict.fromkeys(self._cells, 0)
        self._again: list[Cell] = []  # they raised an error and run in the next pass
        self._alone: list[Cell] = []  # they died; each runs alone now, so that another death has a known cause
        self._unheard: list[Lot] = []  # they were not begun when others died
        self._exact = False
        self._idle = True  # nothing has happened in this pass

    def run(self, jobs: int | None, on: str, address: str | None, seconds: float, together: int | None) -> None:
        share, many = pace(list(self._cells.values()), jobs, together)
        self._exact = on == "ray" and share == 1  # on Ray, a process that dies affects no other
        with ExitStack() as held:
            if on == "here":
                check_joblib()
                prepare(cell.config.data for cell in self._cells.values())
                place, limit = here, many
            else:
                from sojourn.experiments.on_ray import cluster, on_ray

                held.enter_context(cluster(address, jobs))
                place, limit = on_ray, jobs  # type: ignore[assignment]
            held.enter_context(made(self._where.folder))
            ticket = held.enter_context(_ticket(self._where.folder))
            held.enter_context(_halting(ticket, self._tell))
            halted = (ticket / STOP).exists
            waiting, silent = lots_of(list(self._cells.values()), self._where, share), 0
            while waiting and not halted():
                company = on == "here" and len(waiting) > 1 and limit != 1
                before = len(waiting)
                for lot, told in place(list(waiting), limit, ticket, seconds):
                    waiting.remove(lot)
                    if not (halted() and any(ending.word == "died" for ending in told.values())):
                        self._book(lot, told, company)
                silent = silent + 1 if len(waiting) == before and not halted() else 0
                if silent == ATTEMPTS:
                    raise SojournError("the processes die before they begin a cell; is there memory for so many jobs?")
                waiting = self._next(waiting, share)
            self._swept.interrupted = halted()

    def _book(self, lot: Lot, told: dict[str, Ending], company: bool) -> None:
        """Record how the cells of a lot ended; a death counts as a failure only if the cell ran alone."""
        for key, ending in told.items():
            cell = self._cells[key]
            if ending.word == STOPPED:
                continue
            if ending.word == BUSY:
                self._again.append(cell)
                continue
            self._idle = False
            if ending.word in ("complete", "diverged"):
                self._swept.ended += 1
                with suppress(OSError):  # mostly there is no report
                    self._report(cell).unlink()
                self._tell(f"{cell.name}: {ending.word}" if ending.word == "diverged" else cell.name)
                continue
            died = ending.word == "died"
            self._attempts[key] += not (died and (company or len(lot.members) > 1))
            if self._attempts[key] >= ATTEMPTS:
                self._fail(cell, ending)
                continue
            (self._alone if died and not self._exact else self._again).append(cell)
            if cell.name not in self._swept.retried:
                self._swept.retried.append(cell.name)
            self._tell(f"{cell.name}: {ending.error}; it is tried once more")

    def _next(self, unheard: list[Lot], share: int) -> list[Lot]:
        """What runs next: cells that died, one by one; lots that were not reported; cells that raised errors."""
        self._unheard += unheard
        if self._alone:
            return lots_of([self._alone.pop(0)], self._where, 1)
        if self._unheard:
            waiting, self._unheard = self._unheard, []
            return waiting
        again, self._again = self._again, []
        if again and self._idle:  # others are training all that is left
            time.sleep(PATIENCE)
        self._idle = True
        return lots_of(again, self._where, share)

    def _fail(self, cell: Cell, ending: Ending) -> None:
        self._swept.failures[cell.name] = ending.error
        self._tell(f"{cell.name}: failed, {ending.error}")
        path = self._report(cell)
        try:
            with made(path.parent):
                write_text(path, f"{cell.name}\n{ending.error}\n{ending.details}", "report")
        except UnwritableFile as error:  # the other cells go on
            self._tell(f"{cell.name}: {error}")

    def _report(self, cell: Cell) -> Path:
        return self._where.folder / "failures" / f"{cell.folder_name}.txt"

    def _tell(self, text: str) -> None:
        self._watch(text, self._swept.ended, self._swept.cells)


def pace(cells: Sequence[Cell], jobs: int | None, together: int | None) -> tuple[int, int]:
    """How many cells share a process, and how many processes run at a time."""
    gpu = uses_gpu(cells)
    return together or (ON_GPU if gpu else 1), jobs or (1 if gpu else cores())


def uses_gpu(cells: Sequence[Cell]) -> bool:
    """Whether one of the cells will be trained on a GPU."""
    asked = {cell.config.device for cell in cells}
    if asked == {"cpu"}:
        return False
    import torch

    return "cuda" in asked or torch.cuda.is_available()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _ticket(folder: Path) -> Iterator[Path]:
    """A folder for messages between the processes, on the disk that a cluster may share; it is locked while in use.

    Files that killed commands left behind are removed.
    """
    with ExitStack() as held, writing(folder, "to"):
        with claimed(folder / f"{TICKET}.lock", f"another process is just starting to work in {folder}; try again"):
            tidy(folder)
            for old in folder.glob(f"{TICKET}-*"):
                if not busy(old):
                    shutil.rmtree(old, ignore_errors=True)
            path = Path(mkdtemp(prefix=f"{TICKET}-", dir=folder.resolve()))
            held.callback(shutil.rmtree, path, ignore_errors=True)
            held.enter_context(alone(path))
        mine = held.pop_all()
    with mine:
        yield path


@contextmanager
def _halting(ticket: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C asks the processes to stop, with checkpoints, and says so; a second Ctrl-C interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        if (ticket / STOP).exists():
            raise KeyboardInterrupt
        (ticket / STOP).touch()
        with suppress(RuntimeError):  # if a line is just being printed, this one is left out
            tell("stopping: every run writes a checkpoint first; Ctrl-C again stops at once")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def prepare(texts: Iterable[str]) -> None:
    """Load each image dataset once, so that its decoded arrays are cached and every process maps them from there."""
    for text in dict.fromkeys(texts):
        if text.partition("(")[0].strip() in KINDS:
            load_dataset(text)
