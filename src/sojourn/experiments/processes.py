"""Lots in parallel processes on this machine.

A process that dies takes the whole pool with it, and nobody can tell which of the running lots was the cause. Each
running lot is then reported as `died`; lots that were not begun are not reported. The caller runs both kinds again.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import chdir
from functools import lru_cache
from pathlib import Path
from typing import Any

from sojourn.errors import SojournError
from sojourn.experiments.train_cells import Ending, Lot, deaf_to_interrupts, train_lot

STOP = "stop"
IDLE = 300  # seconds that a process waits for another lot
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
_Work = tuple[Lot, Path, Path, int, float]
_Told = tuple[str, dict[str, Ending]]


def check_joblib() -> None:
    """Report that joblib is missing before any work begins."""
    try:
        import joblib  # noqa: F401
    except ImportError:
        raise SojournError("parallel cells need joblib, which is not installed; pip install 'sojourn[sweep]'") from None


def here(lots: Sequence[Lot], jobs: int, ticket: Path, seconds: float) -> Iterator[tuple[Lot, dict[str, Ending]]]:
    """Yield the endings of lots as they end; each process notes in the folder `ticket` what it is working on."""
    # a process that has grown is replaced between two lots; that needs no warning
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given", category=UserWarning)
    waiting = {lot.key: lot for lot in lots}
    work = [(lot, ticket, Path.cwd(), os.getpid(), seconds) for lot in lots]
    try:
        for key, told in _one_by_one(work) if jobs == 1 or len(lots) == 1 else _side_by_side(work, jobs):
            yield waiting.pop(key), told
    except BrokenProcessPool as error:
        begun = [lot for lot in waiting.values() if (ticket / lot.key).exists()]
        for lot in begun:
            (ticket / lot.key).unlink()
            died = Ending("died", f"its process died ({_short(error)})")
            yield lot, {member.hash: died for member in lot.members}


def _side_by_side(work: list[_Work], jobs: int) -> Iterator[_Told]:
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
        yield from pool(delayed(_work)(*one) for one in work)


def _one_by_one(work: list[_Work]) -> Iterator[_Told]:
    process = _other_process(tuple(sorted(os.environ.items())))
    for one in work:
        try:
            told = process.submit(_work, *one).result()
        except BaseException:  # mostly a second Ctrl-C: then nobody waits for the lot
            _other_process.cache_clear()
            process.shutdown(wait=False, kill_workers=True)
            raise
        yield told


@lru_cache(maxsize=1)
def _other_process(environment: tuple[tuple[str, str], ...]) -> Any:
    """A process that is kept while the environment stays the same: GPU code compiled for one lot serves the next.

    This is the only place that uses private parts of joblib. `joblib.Parallel` runs a single job in this process. The
    executor of `concurrent.futures` runs the caller's script again in the new process, keeps that process until the end
    and cannot kill it.
    """
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(max_workers=1, timeout=IDLE, env=dict(environment) | ONE_THREAD)


def _work(lot: Lot, ticket: Path, home: Path, parent: int, seconds: float) -> _Told:
    deaf_to_interrupts()
    begun = ticket / lot.key
    begun.write_text(str(os.getpid()), "utf-8")
    with chdir(home):
        told = train_lot(
            lot, lambda: (ticket / STOP).exists() or not ticket.exists() or os.getppid() != parent, seconds
        )
    if os.getppid() != parent:  # the parent has ended: nobody takes the report or hands out work
        os._exit(1)
    begun.unlink(missing_ok=True)
    return lot.key, told


def _short(error: BaseException) -> str:
    text = str(error)
    codes = text.partition("The exit codes of the workers are")[2].strip()
    return (codes or text).splitlines()[0]
