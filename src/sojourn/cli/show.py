"""What a person sees: tables, a progress bar on anything slow, JSON at full precision."""

import codecs
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import typer

from sojourn.errors import UnwritableFile
from sojourn.files import Busy

PATIENCE = 1.5  # seconds before a progress bar appears
MOST_ROWS = 24
SPELT = {"±": "+-", "…": "...", "×": "x", "−": "-", "→": "->", "²": "^2"}
"""How characters are written where the screen does not know them; others by their numbers."""


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    said = (SPELT.get(one) or one.encode("ascii", "backslashreplace").decode("ascii") for one in unknown)
    return "".join(said), error.end


codecs.register_error("sojourn.spell", _spell)


def spell_out() -> None:
    """Let nothing that is printed fail for a character that the screen, or the file behind it, does not know."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="sojourn.spell")


def spelt(text: str, encoding: str) -> str:
    """A text as it will be printed.

    >>> spelt("48.8 ± 0.2", "ascii")
    '48.8 +- 0.2'
    """
    return text.encode(encoding, "sojourn.spell").decode(encoding)


@contextmanager
def attempts() -> Iterator[Callable[..., None]]:
    """A function that calls others, which write; what they cannot write is said after all else that the block does.

    So work that is done is shown, whatever becomes of its files.
    """
    failed: list[str] = []

    def attempt(write: Callable[..., object], *arguments: object) -> None:
        try:
            write(*arguments)
        except (UnwritableFile, Busy) as error:
            failed.append(str(error))

    try:
        yield attempt
    except BaseException:
        for sentence in failed:
            typer.echo(f"error: {sentence}", err=True)
        raise
    if failed:
        raise UnwritableFile("; ".join(failed))


def number(value: float, digits: int = 6) -> str:
    """A number for a table."""
    return "-" if np.isnan(value) else f"{value:.{digits}g}"


def plural(many: int, word: str) -> str:
    """A number of things.

    >>> plural(1, "run"), plural(20, "run")
    ('1 run', '20 runs')
    """
    return f"{many} {word}" if many == 1 else f"{many} {word}s"


def with_error(value: float, error: float) -> str:
    """An estimate with its standard error."""
    return number(value) if np.isnan(error) else f"{number(value)} ± {number(error, 2)}"


def table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    most: int = MOST_ROWS,
) -> None:
    """Print a table, the middle left out when it has more rows than `most`."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False)
    grid = Table(title=spelt(title, console.encoding), title_justify="left", title_style="bold", show_edge=False)
    for index, head in enumerate(heads):
        grid.add_column(spelt(head, console.encoding), justify="left" if index == 0 else "right")
    shown = list(rows)
    if len(shown) > most:
        half = most // 2
        gap = [f"... {len(shown) - 2 * half} more", *[""] * (len(heads) - 1)]
        shown = [*shown[:half], gap, *shown[-half:]]
    for row in shown:
        grid.add_row(*(spelt(cell, console.encoding) for cell in row))
    console.print(grid)
    for note in notes:
        console.print(note, markup=False, highlight=False)


def to_json(content: dict[str, Any]) -> str:
    """Full-precision JSON; NaN and infinity, which JSON does not have, become null."""
    return json.dumps(_plain(content), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not np.isfinite(value) else value


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A callback(done, total) that draws a bar on a terminal once the work has taken a while."""
    from rich.console import Console
    from rich.progress import Progress, TimeRemainingColumn

    console = Console(stderr=True)
    began = time.monotonic()
    bar: list[Progress] = []

    def report(done: int, total: int) -> None:
        if not bar:
            if not console.is_terminal or time.monotonic() - began < PATIENCE:
                return
            bar.append(Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console))
            bar[0].start()
            bar[0].add_task(label, total=total)
        bar[0].update(bar[0].task_ids[0], completed=done, total=total)

    try:
        yield report
    finally:
        if bar:
            bar[0].stop()
