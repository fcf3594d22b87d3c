"""Tabular: how a result is shown in a notebook: a short repr, a table, a pandas DataFrame."""

import html
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from sojourn.errors import SojournError
from sojourn.shown import visible

MOST_ROWS = 20


class Tabular:
    """Base of results; a subclass defines a title (`_title`) and columns (`_table`)."""

    def _title(self) -> str:
        """Return one line that says what the result is."""
        raise NotImplementedError

    def _table(self) -> Mapping[str, Sequence[Any]]:
        """Return the columns by name, all of the same length."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{visible(self._title())}>"

    def _repr_html_(self) -> str:
        columns = {key: list(values) for key, values in self._table().items()}
        rows = list(zip(*columns.values(), strict=True))
        head = "".join(f"<th>{_cell(key)}</th>" for key in columns)
        body = "".join("<tr>" + "".join(f"<td>{_cell(one)}</td>" for one in row) + "</tr>" for row in rows[:MOST_ROWS])
        more = f"<p>and {len(rows) - MOST_ROWS:,} more rows</p>" if len(rows) > MOST_ROWS else ""
        return f"<p>{_cell(self._title())}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def report(self, path: str | Path | None = None, *, figures: str | Path | None = None, **known: Any) -> Any:
        """Return a page about the result, one HTML file that explains itself; with a `path`, it is also written.

        `figures` is a folder in which each figure is written too, as SVG and PDF. `known` may have the `fleet` and the
        `plan` of a trace, as objects or files. The page has its text in `.html`, is shown by a notebook, and is written
        by `.save("report.html")`.
        """
        # pages lie above results in the layers, so they are looked up when one is asked for
        return import_module("sojourn.report.page.write").report_of(self, path, figures, **known)

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise SojournError("to_pandas needs pandas, which is not installed; pip install pandas") from None
        return pandas.DataFrame(dict(self._table()))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return html.escape(visible(str(value)))
