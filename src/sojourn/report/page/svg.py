"""Figures as SVG within a page: text stays text, colours follow the page, and no two figures share an id."""

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sojourn.report.figures import COLOURS, pyplot

TEXT, QUIET, LINE, GROUND = "#1d272c", "#55636b", "#d5dce0", "#ffffff"
COLOUR_OF = {
    TEXT: "var(--text)",
    QUIET: "var(--quiet)",
    LINE: "var(--line)",
    GROUND: "var(--ground)",
    "#000000": "var(--text)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(COLOURS, 1)},
}
"""Colours that figures are drawn with, and the variables of the style sheet that stand for them in a page."""
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), TEXT),
    **dict.fromkeys(("xtick.color", "ytick.color", "axes.edgecolor"), QUIET),
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "path.simplify_threshold": 0.3,
}


@contextmanager
def page_style() -> Iterator[Any]:
    """Draw in the colours of pages; gives something with a function `subplots`, as pyplot has."""
    plt = pyplot()
    with plt.rc_context(_STYLE):
        yield _Canvas()


class _Canvas:
    """Makes figures that pyplot does not hold on to."""

    def subplots(self, figsize: tuple[float, float], layout: Any) -> tuple[Any, Any]:
        """Return a figure with one pair of axes."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=figsize, layout=layout)
        FigureCanvasAgg(figure)
        return figure, figure.subplots()


def inline(figure: Any, alt: str, prefix: str) -> str:
    """Return a figure as an SVG element for a page; `prefix` begins all its ids."""
    file = io.StringIO()
    plt = pyplot()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    text = file.getvalue()
    text = re.sub(
        r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL
    )
    text = re.sub(r"<[^>]+>", lambda found: _tag(found[0], prefix), text)  # what stands between tags is left as it is
    return re.sub(r"\n\s*", "\n", text).replace("<svg", f'<svg role="img" aria-label="{html.escape(alt)}"', 1)


def _tag(tag: str, prefix: str) -> str:
    """Return a tag for use in a page: ids of its own, variables for colours, short numbers, the font of the page."""
    tag = re.sub(r' xmlns(?::\w+)?="[^"]*"| transform="rotate\(-0 [^"]*"| version="1.1"', "", tag)
    tag = tag.replace("xlink:href", "href")
    tag = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', tag)
    tag = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", tag)
    tag = re.sub(r"#[0-9a-f]{6}\b", lambda found: COLOUR_OF.get(found[0], found[0]), tag)
    tag = re.sub(r"font: (?:(\d+) )?([\d.]+px)[^;\"]*", _font, tag)
    tag = re.sub(r" font-family: [^;\"]*;?", "", tag)
    return re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), tag)


def _font(found: re.Match[str]) -> str:
    return f"font-size: {found[2]}" + (f"; font-weight: {found[1]}" if found[1] else "")
