"""A notebook kept as text (the percent format of jupytext) as a page: its words, its code, and what the code shows."""

import ast
import io
import re
import warnings
from contextlib import chdir, redirect_stdout
from tempfile import TemporaryDirectory
from typing import Any

_CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)
_FOR_LINTERS = re.compile(r"  # noqa\b.*$", re.MULTILINE)


class NotebookPage:
    """A notebook that is run from its first cell to its last; its page, and the pictures on it.

    Without `run` the page has the words and the code alone.
    """

    def __init__(self, name: str, text: str, run: bool = True) -> None:
        self.name, self.run = name, run
        self.pictures: dict[str, bytes] = {}
        self._names: dict[str, Any] = {"__name__": "__main__"}
        pieces = _CELL.split(text)[1:]  # what stands above the first cell is for jupytext
        if self.run:
            from matplotlib import pyplot

            pyplot.close("all")  # figures that others have left open are not the notebook's
        cells = zip(pieces[::2], pieces[1::2], strict=True)
        with TemporaryDirectory(ignore_cleanup_errors=True) as place, chdir(place):  # a notebook may write files
            shown = [_words(body) if "[markdown]" in head else self._code(body.strip()) for head, body in cells]
        self.text = "\n\n".join(one for one in shown if one) + "\n"

    def _code(self, code: str) -> str:
        if not code:
            return ""
        shown = f"```python\n{_FOR_LINTERS.sub('', code)}\n```"
        return "\n\n".join([shown, *self._output(code), *self._drawn()] if self.run else [shown])

    def _output(self, code: str) -> list[str]:
        """Run a cell: what it prints, and the value of its last expression."""
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        value = None
        with redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
            exec(compile(tree, self.name, "exec"), self._names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), self.name, "eval"), self._names)
        text = printed.getvalue().rstrip()
        return [*([f"```text\n{text}\n```"] if text else []), *([] if value is None else [_value(value)])]

    def _drawn(self) -> list[str]:
        """Save the figures that the cell has drawn."""
        from matplotlib import pyplot

        names = []
        for number in pyplot.get_fignums():
            names.append(f"{self.name}-{len(self.pictures) + 1}.png")
            place = io.BytesIO()
            pyplot.figure(number).savefig(place, format="png", dpi=150)
            self.pictures[names[-1]] = place.getvalue()
        pyplot.close("all")
        return [f"![What the code draws]({name})" for name in names]


def _value(value: Any) -> str:
    """A value as a notebook shows it: as a table where it is one."""
    if hasattr(value, "_repr_html_"):
        return f"<div>{value._repr_html_()}</div>"
    return f"```text\n{value!r}\n```"


def _words(body: str) -> str:
    lines = body.strip().splitlines()
    if lines and lines[0].startswith('"""'):  # the other way to write words: one string
        return body.strip().strip('"').strip()
    return "\n".join(re.sub(r"^# ?", "", line) for line in lines).strip()
