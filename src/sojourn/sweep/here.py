"""Lots in parallel processes on this machine.

A process that dies takes the whole pool with it, and nobody can tell which of the lots in work was the cause. Each of
them is then said to have died in company, and those not begun are simply not spoken of: whoever called runs both again.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path

from sojourn.errors import SojournError
from sojourn.sweep.lot import Ending, Lot, deaf_to_interrupts, train_lot

STOP = "stop"


def check_joblib() -> None:
    """Say what is missing before anything is begun."""
    try:
        import joblib  # noqa: F401
    except ImportError:
        raise SojournError("parallel cells need joblib, which is not installed; pip install 'sojourn[sweep]'") from None


def here(lots: Sequence[Lot], jobs: int, ticket: Path, seconds: float) -> Iterator[tuple[Lot, dict[str, Ending]]]:
    """What became of the lots, as they end; `ticket` is a folder in which the processes leave word of what they do."""
    if jobs == 1 or len(lots) == 1:  # of two processes one has nothing to do; a single one would be this one
        for lot in lots:
            yield from _pool([lot], 2, ticket, seconds)
        return
    yield from _pool(lots, jobs, ticket, seconds)


def _pool(lots: Sequence[Lot], jobs: int, ticket: Path, seconds: float) -> Iterator[tuple[Lot, dict[str, Ending]]]:
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import BrokenProcessPool

    # a process that has grown is replaced between two lots, which is nothing to warn of
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given", category=UserWarning)
    waiting = {lot.key: lot for lot in lots}
    calls = (delayed(_work)(lot, ticket, Path.cwd(), os.getpid(), seconds) for lot in lots)
    try:
        with parallel_config(backend="loky", inner_max_num_threads=1):
            pool = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
            for key, told in pool(calls):
                yield waiting.pop(key), told
    except BrokenProcessPool as error:
        begun = [lot for lot in waiting.values() if (ticket / lot.key).exists()]
        for lot in begun:
            (ticket / lot.key).unlink()
            died = Ending("died", f"its process died ({_short(error)})")
            yield lot, {member.hash: died for member in lot.members}


def _work(lot: Lot, ticket: Path, home: Path, parent: int, seconds: float) -> tuple[str, dict[str, Ending]]:
    deaf_to_interrupts()
    begun = ticket / lot.key
    begun.write_text(str(os.getpid()), "utf-8")
    with chdir(home):
        told = train_lot(lot, lambda: (ticket / STOP).exists() or os.getppid() != parent, seconds)
    if os.getppid() != parent:  # nobody is left to report to, or to be given work by
        os._exit(1)
    begun.unlink(missing_ok=True)
    return lot.key, told


def _short(error: BaseException) -> str:
    text = str(error)
    codes = text.partition("The exit codes of the workers are")[2].strip()
    return (codes or text).splitlines()[0]
