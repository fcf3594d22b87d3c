"""What a person sees: tables, a progress bar on anything slow, JSON at full precision."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

PATIENCE = 1.5  # seconds before a progress bar appears
MOST_ROWS = 24


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

    console = Console(width=None if sys.stdout.isatty() else 160)
    grid = Table(title=title, title_justify="left", title_style="bold", show_edge=False)
    for index, head in enumerate(heads):
        grid.add_column(head, justify="left" if index == 0 else "right")
    shown = list(rows)
    if len(shown) > most:
        half = most // 2
        gap = [f"... {len(shown) - 2 * half} more", *[""] * (len(heads) - 1)]
        shown = [*shown[:half], gap, *shown[-half:]]
    for row in shown:
        grid.add_row(*row)
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
