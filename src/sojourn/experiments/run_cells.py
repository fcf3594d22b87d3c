"""Many cells to their ends: those that have ended are left alone, those that fail are tried once more."""

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
ON_GPU = 16  # cells that share the waves of one GPU
PATIENCE = 2.0  # seconds between two looks at cells that another sweep is training
Watch = Callable[[str, int, int], None]
"""Told what happened, how many cells have ended, and how many there are."""


@dataclass
class Swept:
    """How a sweep went."""

    cells: int
    """Different cells asked for."""
    ended: int = 0
    """Those that have ended, before or now."""
    failures: dict[str, str] = field(default_factory=dict)
    """Error of each cell that failed twice, by its name."""
    retried: list[str] = field(default_factory=list)
    """Names of those that were tried a second time."""
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
    """Train what has not ended yet.

    `jobs` processes at a time (default: one a core; of GPU cells one); `on` is `here` or `ray`, at an `address` or
    wherever a cluster runs. `together` cells share the waves of a GPU.
    """
    if on not in PLACES:
        raise InvalidInput(f"on must be {listed(PLACES)}, got '{on}'")
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"jobs must be a whole number of at least 1, got {jobs}")
    where, distinct = Cells(Path(folder)), without_twins(cells)
    done = {cell.hash for cell in where.finished(distinct)}
    left = [cell for cell in distinct if cell.hash not in done]
    for cell in distinct:
        if cell.hash in done:  # left by a process that was killed at the very end
            shutil.rmtree(where.of(cell) / "checkpoints", ignore_errors=True)
    swept = Swept(len(distinct), len(done))
    if left:
        _Sweeper(where, left, swept, watch or (lambda *_: None)).run(jobs, on, address, checkpoint_seconds, together)
    return swept


class _Sweeper:
    """The account of who was tried how often."""

    def __init__(self, where: Cells, cells: list[Cell], swept: Swept, watch: Watch) -> None:
        self._where, self._cells, self._swept, self._watch = where, {cell.hash: cell for cell in cells}, swept, watch
        self._attempts = dict.fromkeys(self._cells, 0)
        self._again: list[Cell] = []  # raised an error: in the next pass
        self._alone: list[Cell] = []  # died: by itself, so that another death is its own
        self._unheard: list[Lot] = []  # not begun when the others died
        self._exact = False
        self._idle = True  # nothing has happened in this pass

    def run(self, jobs: int | None, on: str, address: str | None, seconds: float, together: int | None) -> None:
        gpu = _uses_gpu(list(self._cells.values()))
        share = together or (ON_GPU if gpu else 1)
        many = jobs or (1 if gpu else _cores())
        self._exact = on == "ray" and share == 1  # there a process dies alone
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
            held.enter_context(_halting(ticket))
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
        """Write down what became of the cells of a lot; a death in company convicts nobody."""
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
                with suppress(OSError):  # mostly there is none
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
        """Who is next: the suspects one by one, then those of whom nothing was heard, then those that raised errors."""
        self._unheard += unheard
        if self._alone:
            return lots_of([self._alone.pop(0)], self._where, 1)
        if self._unheard:
            waiting, self._unheard = self._unheard, []
            return waiting
        again, self._again = self._again, []
        if again and self._idle:  # all that is left is being trained by others
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
        except UnwritableFile as error:  # the others go on
            self._tell(f"{cell.name}: {error}")

    def _report(self, cell: Cell) -> Path:
        return self._where.folder / "failures" / f"{cell.folder_name}.txt"

    def _tell(self, text: str) -> None:
        self._watch(text, self._swept.ended, self._swept.cells)


def _uses_gpu(cells: list[Cell]) -> bool:
    asked = {cell.config.device for cell in cells}
    if asked == {"cpu"}:
        return False
    import torch

    return "cuda" in asked or torch.cuda.is_available()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _ticket(folder: Path) -> Iterator[Path]:
    """A folder for words between the processes, on the disk that a cluster may share; locked while it is used.

    What killed commands left behind is cleared away.
    """
    with ExitStack() as held, writing(folder, "to"):
        with claimed(folder / f"{TICKET}.lock", f"another process begins to work in {folder}; try again"):
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
def _halting(ticket: Path) -> Iterator[None]:
    """Ctrl-C asks the processes to stop, with checkpoints; a second Ctrl-C interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        if (ticket / STOP).exists():
            raise KeyboardInterrupt
        (ticket / STOP).touch()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def prepare(texts: Iterable[str]) -> None:
    """Load each dataset of images once, so that its decoded arrays lie in the cache and are mapped from then on."""
    for text in dict.fromkeys(texts):
        if text.partition("(")[0].strip() in KINDS:
            load_dataset(text)
