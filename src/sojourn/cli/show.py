"""What a user sees: sentences, tables, a progress bar for anything slow, and JSON at full precision.

Names and texts in the output come from files. They are shown literally: nothing in them is markup, and characters that
do not print are shown by their codes.
"""

import codecs
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

import numpy as np
import typer

from sojourn.cli.cells import amount as amount
from sojourn.cli.cells import count as count
from sojourn.cli.cells import interval as interval
from sojourn.cli.cells import number as number
from sojourn.cli.cells import percent as percent
from sojourn.cli.cells import with_error as with_error
from sojourn.cli.formats import Sheet, gathers, in_csv
from sojourn.errors import UnwritableFile
from sojourn.files import Busy, written
from sojourn.fleet import Fleet
from sojourn.folders import made
from sojourn.plan_text import sampling_note
from sojourn.shown import short, visible

if TYPE_CHECKING:
    from sojourn.cli.layout import Grid

PATIENCE = 1.5  # seconds before a progress bar appears
MOST_ROWS = 24
MOST_CELL = 500  # characters
WIDE = 160  # width of a table in characters where there is no terminal
MANY = 1000  # pieces of JSON that are written together
SPELT = {"±": "+-", "…": "...", "×": "x", "−": "-", "→": "->", "²": "^2"}
"""How characters are written if the terminal cannot show them; others are written by their codes."""


_COMMAND = re.compile(r": (?=(?:sojourn|python -m) (?!.*(?:\): |\.$)))")


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    said = (SPELT.get(one) or one.encode("ascii", "backslashreplace").decode("ascii") for one in unknown)
    return "".join(said), error.end


codecs.register_error("sojourn.spell", _spell)


def spell_out() -> None:
    """Make sure that printing never fails because the terminal or file cannot encode a character."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="sojourn.spell")


def spelt(text: str, encoding: str) -> str:
    """Return a text as it will be printed in this encoding.

    >>> spelt("48.8 ± 0.2", "ascii")
    '48.8 +- 0.2'
    """
    return text.encode(encoding, "sojourn.spell").decode(encoding)


def called(words: Sequence[str]) -> str:
    """Return the command line with these arguments as the user would type it: `sojourn ...`, or `python -m package
    ...`.
    """
    program = Path(sys.argv[0])
    package = program.parent.name if program.name == "__main__.py" else "sojourn"
    return shlex.join([*(["sojourn"] if package == "sojourn" else ["python", "-m", package]), *words])


@contextmanager
def attempts() -> Iterator[Callable[..., None]]:
    """Give a function that calls others, which write files; their errors are raised at the end of the block.

    So finished work is shown even if its files cannot be written.
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
            say(f"error: {sentence}", err=True)
        raise
    if failed:
        raise UnwritableFile("; ".join(failed))


def say_weights(fleet: Fleet, sampling: str | None, cap: str | None) -> None:
    """Print a note if the weights of a sampling were turned into probabilities."""
    note = sampling_note(fleet, sampling, cap)
    if note is not None:
        say(note, err=True)


def draw(pictures: Callable[..., list[Path]], *arguments: Any) -> None:
    """Draw pictures into the folder that is the last argument, create it if missing, and print their names."""
    with made(arguments[-1]):
        for path in pictures(*arguments):
            say(f"wrote {path}", err=True)


def width_of(stream: TextIO) -> int | None:
    """Return the width of a line in characters: COLUMNS, or the terminal's; None if there is neither."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return shutil.get_terminal_size().columns if stream.isatty() else None


def say(text: str, err: bool = False, bold: bool = False) -> None:
    """Print a sentence, wrapped at the width of the terminal; characters that do not print are shown by their codes.

    A command at the end of the sentence stays on one line, so that it can be copied.
    """
    if not err and in_csv():
        err = True
    elif not err and gathers(text):
        return
    stream = sys.stderr if err else sys.stdout
    width = width_of(stream)
    said = spelt(visible(text), stream.encoding or "utf-8")
    lines = [said]
    if width is not None and len(said) > width:
        from sojourn.cli.layout import wrapped

        before, *command = _COMMAND.split(said, maxsplit=1)
        lines = [*wrapped(f"{before}:" if command else before, width), *command]
    for line in lines:
        typer.echo(typer.style(line, bold=True) if bold else line, err=err)


def plural(many: int, word: str) -> str:
    """Return a number of things, such as `20 runs`.

    >>> plural(1, "run"), plural(20, "run")
    ('1 run', '20 runs')
    """
    return f"{many} {word}" if many == 1 else f"{many:,} {word}s"


class Lazy(Sequence[Sequence[str]]):
    """Rows of a table that are made when they are shown, for there may be very many.

    >>> rows = Lazy(1_000_000, lambda at: [str(at)])
    >>> rows[:2], rows[-1]
    ([['0'], ['1']], ['999999'])
    """

    def __init__(self, many: int, row: Callable[[int], Sequence[str]]) -> None:
        self._places, self._row = range(many), row

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Sequence[str]: ...

    @overload
    def __getitem__(self, at: slice) -> list[Sequence[str]]: ...

    def __getitem__(self, at: int | slice) -> Sequence[str] | list[Sequence[str]]:
        if isinstance(at, slice):
            return [self._row(place) for place in self._places[at]]
        return self._row(self._places[at])


def table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] | Callable[[Sequence[str]], Sequence[str]] = (),
    most: int = MOST_ROWS,
    least: Sequence[str] = (),
) -> None:
    """Print a table without cutting numbers; if it has more rows than `most`, the middle is left out.

    If it is too wide for the terminal, the columns named in `least` are left out first, and a note says so. `notes` are
    sentences below it, or a function that gives them for the columns left out.
    """
    from sojourn.cli.layout import laid_out

    if gathers(Sheet(title, heads, rows)):
        for note in notes(()) if callable(notes) else notes:
            say(note)
        return
    shown, half = rows, most // 2
    if len(rows) > most:
        gap = [f"... {len(rows) - 2 * half} more", *[""] * (len(heads) - 1)]
        shown = [*rows[:half], gap, *rows[-half:]]
    width = width_of(sys.stdout) or WIDE
    encoding = sys.stdout.encoding or "utf-8"

    def plain(text: str) -> str:
        return spelt(short(text, MOST_CELL), encoding)

    grid = laid_out(
        [plain(head) for head in heads], [[plain(cell) for cell in row] for row in shown], width, [*map(plain, least)]
    )
    say(short(title, MOST_CELL), bold=True)
    if grid.widths:
        _draw(grid, width)
    else:
        _stack(grid)
    if grid.left_out:
        say(f"left out, as the terminal is too narrow: {', '.join(grid.left_out)}; --csv and --json have them")
    for note in notes(grid.left_out) if callable(notes) else notes:
        say(note)


def _draw(grid: "Grid", width: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sojourn.cli.layout import is_prose

    lines = Table(show_edge=False)
    for index, (head, wide) in enumerate(zip(grid.heads, grid.widths, strict=True)):
        side: Any = "left" if index == 0 or is_prose([row[index] for row in grid.rows]) else "right"
        lines.add_column(Text(head), justify=side, min_width=wide, max_width=wide, no_wrap=True, overflow="fold")
    for row in grid.rows:
        lines.add_row(*map(Text, row))
    Console(width=width).print(lines)


def _stack(grid: "Grid") -> None:
    for row in grid.rows:
        for index, (head, cell) in enumerate(zip(grid.heads, row, strict=True)):
            if cell:
                say(f"{'' if index == 0 else '  '}{head}: {cell}")


class Rows:
    """A list whose items are made one after the other, as they are written."""

    def __init__(self, items: Iterable[dict[str, Any]]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._items)


def to_json(content: dict[str, Any]) -> str:
    """Return JSON at full precision; NaN and infinity, which JSON does not have, become null."""
    return "".join(json_pieces(content))


def json_pieces(content: dict[str, Any]) -> Iterator[str]:
    """Return the same JSON piece by piece, so that only one item of `Rows` is in memory at a time.

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
    """Write JSON piece by piece, to a file or to stdout."""
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
    """Give a callback(done, total) that draws a bar on a terminal once the work has taken a while."""
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
