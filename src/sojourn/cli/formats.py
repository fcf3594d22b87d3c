r"""Tables for programs and papers: every verb that prints tables has flags for CSV, Markdown and LaTeX.

The output of a verb is collected while it runs, and written when it ends. CSV has only tables, with numbers at full
precision; sentences go to stderr. Markdown and LaTeX have the numbers as shown, and the sentences too.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click
import typer
from typer.core import TyperOption

from sojourn.cli.cells import Cell
from sojourn.csv_file import csv_text
from sojourn.errors import InvalidInput
from sojourn.shown import visible

_FLAGS, _PIECES = "sojourn.cli.formats.flags", "sojourn.cli.formats.pieces"
_LATEX = {mark: f"\\{mark}" for mark in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "→": r"$\to$",
    "²": "$^2$",
}


class Sheet(NamedTuple):
    """A table before it is formatted."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


Piece = Sheet | str


def as_csv(pieces: Sequence[Piece]) -> str:
    """Return the tables as CSV; if there are several, each has its title above it after a #."""
    sheets = [piece for piece in pieces if isinstance(piece, Sheet)]
    titles = [f"# {visible(sheet.title)}\n" if len(sheets) > 1 else "" for sheet in sheets]
    return "\n".join(title + csv_text(*_columns(sheet)) for title, sheet in zip(titles, sheets, strict=True))


def _columns(sheet: Sheet) -> tuple[list[str], Iterator[list[Any]]]:
    """Return heads and rows, with a column for each number behind a cell."""
    given = [[_parts(cell) for cell in row] for row in sheet.rows]
    keys = [
        (index, head, key)
        for index, head in enumerate(sheet.heads)
        for key in (dict.fromkeys(key for row in given for key in row[index]) or [""])
    ]
    heads = [", ".join(filter(None, (head, key))) for _, head, key in keys]
    return heads, ([row[index].get(key) for index, _, key in keys] for row in given)


def _parts(cell: str) -> Mapping[str, Any]:
    return cell.parts if isinstance(cell, Cell) else {"": None if cell == "-" else cell}


def as_markdown(pieces: Sequence[Piece]) -> str:
    """Return the tables in Markdown below their titles, and the sentences as paragraphs."""

    def text(words: str) -> str:
        return re.sub(r"([\\|*_`<\[])", r"\\\1", visible(words))

    def told(piece: Piece) -> str:
        if isinstance(piece, str):
            return text(piece) + "\n"
        lines = [list(piece.heads), ["---", *["---:"] * (len(piece.heads) - 1)]]
        cells = [[text(cell) for cell in line] for line in (lines[0], *piece.rows)]
        body = "".join(f"| {' | '.join(line)} |\n" for line in (cells[0], lines[1], *cells[1:]))
        return f"**{text(piece.title)}**\n\n{body}"

    return "\n".join(map(told, pieces))


def as_latex(pieces: Sequence[Piece]) -> str:
    """Return LaTeX tables, which need no packages, with their titles as captions, and the sentences as comments."""

    def text(words: str) -> str:
        return "".join(_LATEX.get(mark, mark) for mark in visible(words))

    def told(piece: Piece) -> str:
        if isinstance(piece, str):
            return f"% {visible(piece)}\n"
        head, *body = [" & ".join(map(text, line)) + r" \\" for line in (piece.heads, *piece.rows)]
        lines = [
            r"\begin{table}",
            rf"\caption{{{text(piece.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(piece.heads) - 1)}}}",
            *(r"\hline", head, r"\hline", *body, r"\hline"),
            *(r"\end{tabular}", r"\end{table}"),
        ]
        return "\n".join(lines) + "\n"

    return "\n".join(map(told, pieces))


FORMATS: dict[str, tuple[Callable[[Sequence[Piece]], str], str]] = {
    "--csv": (as_csv, "Print the tables as CSV, with every number at full precision."),
    "--markdown": (as_markdown, "Print the tables in Markdown."),
    "--latex": (as_latex, "Print the tables in LaTeX."),
}


def format_options() -> list[click.Option]:
    """Return the flags; a verb need not know about them."""

    def note(context: click.Context, option: click.Parameter, given: bool) -> None:
        if given:
            context.meta.setdefault(_FLAGS, []).append(option.opts[0])

    return [
        TyperOption(param_decls=[flag], is_flag=True, expose_value=False, callback=note, help=told)
        for flag, (_, told) in FORMATS.items()
    ]


@contextmanager
def one_format(context: click.Context) -> Iterator[None]:
    """Collect what is printed in this context, and write it at the end in the format that was asked for, if any."""
    flags = [*(["--json"] if context.params.get("as_json") else []), *context.meta.get(_FLAGS, [])]
    if len(flags) > 1:
        raise InvalidInput(f"{' and '.join(flags)} exclude each other, got {len(flags)} of them; give one")
    if not flags or flags == ["--json"]:
        yield
        return
    pieces: list[Piece] = []
    context.meta[_PIECES] = pieces
    try:
        yield
    finally:
        typer.echo(FORMATS[flags[0]][0](pieces), nl=False)


def gathers(piece: Piece) -> bool:
    """Keep a piece if another format was asked for, and return True; False = print it now."""
    context = click.get_current_context(silent=True)
    if context is None or _PIECES not in context.meta:
        return False
    context.meta[_PIECES].append(piece)
    return True


def in_csv() -> bool:
    """Whether the output is CSV, where sentences have no place."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_FLAGS) == ["--csv"]
