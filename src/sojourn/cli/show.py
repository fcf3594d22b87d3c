"""What a person sees: sentences, tables, a progress bar on anything slow, JSON at full precision.

Names and texts in them come from files of others. They are shown as they are written: nothing in them is markup, and
what would not print is shown as what it is.
"""

import codecs
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import typer

from sojourn.errors import UnwritableFile
from sojourn.files import Busy, written
from sojourn.shown import short, visible

PATIENCE = 1.5  # seconds before a progress bar appears
MOST_ROWS = 24
MOST_CELL = 500  # characters
MANY = 1000  # pieces of JSON that are written together
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


def called(words: Sequence[str]) -> str:
    """The program that runs with these words, as one types it: `sojourn ...`, or `python -m package ...`."""
    program = Path(sys.argv[0])
    package = program.parent.name if program.name == "__main__.py" else "sojourn"
    return shlex.join([*(["sojourn"] if package == "sojourn" else ["python", "-m", package]), *words])


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


def say(text: str, err: bool = False) -> None:
    """A sentence, with what would not print shown as what it is."""
    typer.echo(visible(text), err=err)


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
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 160)

    def shown_as(text: str) -> Text:
        return Text(spelt(short(text, MOST_CELL), console.encoding))

    grid = Table(title=shown_as(title), title_justify="left", title_style="bold", show_edge=False)
    for index, head in enumerate(heads):
        grid.add_column(shown_as(head), justify="left" if index == 0 else "right")
    shown = list(rows)
    if len(shown) > most:
        half = most // 2
        gap = [f"... {len(shown) - 2 * half} more", *[""] * (len(heads) - 1)]
        shown = [*shown[:half], gap, *shown[-half:]]
    for row in shown:
        grid.add_row(*(shown_as(cell) for cell in row))
    console.print(grid)
    for note in notes:
        console.print(visible(note), markup=False, highlight=False, emoji=False)


class Rows:
    """Items of a list that are made one after the other, when they are written."""

    def __init__(self, items: Iterable[dict[str, Any]]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._items)


def to_json(content: dict[str, Any]) -> str:
    """Full-precision JSON; NaN and infinity, which JSON does not have, become null."""
    return "".join(json_pieces(content))


def json_pieces(content: dict[str, Any]) -> Iterator[str]:
    """The same piece by piece: of `Rows` one at a time is held.

    >>> "".join(json_pieces({"a": 1, "rows": Rows({"n": n} for n in range(2))})) == to_json(
    ...     {"a": 1, "rows": [{"n": 0}, {"n": 1}]}
    ... )
    True
    """
    before = "{\n  "
    for key, value in content.items():
        yield f"{before}{json.dumps(key)}: "
        yield from _rows(value) if isinstance(value, Rows) else (_indented(value, 1),)
        before = ",\n  "
    yield "\n}" if content else "{}"


def _rows(rows: Rows) -> Iterator[str]:
    before = "[\n    "
    for row in rows:
        yield f"{before}{_indented(row, 2)}"
        before = ",\n    "
    yield "\n  ]" if before.startswith(",") else "[]"


def _indented(value: Any, level: int) -> str:
    return json.dumps(_plain(value), indent=2, allow_nan=False).replace("\n", "\n" + "  " * level)


def print_json(content: dict[str, Any], to: Path | None = None) -> None:
    """Write JSON piece by piece, to a file or for whoever reads the output."""
    if to is None:
        pieces = json_pieces(content)
        while many := list(islice(pieces, MANY)):
            typer.echo("".join(many), nl=False)
        typer.echo("")
        return
    with written(to, "file") as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(json_pieces(content))
        file.write("\n")


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
