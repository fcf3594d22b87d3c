"""Pictures: functions that draw one and write it as SVG and PNG, and what all pictures need."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sojourn.errors import SojournError
from sojourn.files import written
from sojourn.fleet import Fleet
from sojourn.shown import short
from sojourn.trace import Trace

COLOURS = ("#1b6ca8", "#d1495b", "#66a182", "#edae49", "#7768ae", "#5c6b73")
SINGLE, POINTS = (3.3, 2.5), 8  # inches of a figure with one panel, and its font size
FEW_NAMES, SHORT_NAME = 4, 28  # most names that a legend inside such a panel has room for, and most characters of one
SUFFIXES = (".svg", ".png", ".pdf")
MOST_WORDS, MOST_NAME = 160, 80  # most characters of a title, and of a name in a legend

Panel = Callable[[Any], None]
"""A function that draws on one pair of axes."""


def staleness_histograms(
    trace: Trace, fleet: Fleet, path: str | Path, title: str, exact: NDArray[np.float64] | None = None
) -> list[Path]:
    """A histogram of the staleness of each group's updates, with the exact mean if it is given."""
    plt = pyplot()
    group = fleet.group_of_client[trace.client[trace.applied]]
    figure, axes = plt.subplots(1, fleet.groups, figsize=(4.2 * fleet.groups, 3.4), squeeze=False)
    for index, axis in enumerate(axes[0]):
        values = trace.staleness[group == index]
        top = max(1.0, float(np.quantile(values, 0.99))) if values.size else 1.0
        bins = min(60, int(top) + 1)
        axis.hist(values, bins=np.linspace(-0.5, np.ceil(top) + 0.5, bins + 1), color=COLOURS[index % 6], alpha=0.8)
        axis.axvline(values.mean(), color="black", lw=1.2, label=f"simulated mean {values.mean():.4g}")
        if exact is not None:
            axis.axvline(exact[index], color="black", lw=1.2, ls=":", label=f"exact mean {exact[index]:.4g}")
        title_of = f"{fleet.name[index]}: {fleet.count[index]} clients at rate {fleet.rate[index]:g}"
        axis.set_title(words(title_of), fontsize=10)
        axis.set_xlabel("staleness (server steps; the oldest 1% lie beyond)")
        axis.set_ylabel("updates")
        axis.legend(frameon=False, fontsize=8)
    figure.suptitle(words(title), fontsize=11)
    return save(figure, path)


def who_holds_what(table: NDArray[np.int64], path: str | Path, title: str) -> list[Path]:
    """The examples of each class that each client holds, as a map, and above it each client's number of examples."""
    plt = pyplot()
    clients, classes = table.shape
    figure, (above, below) = plt.subplots(
        2,
        1,
        sharex=True,
        layout="constrained",
        figsize=(min(12.0, max(5.5, 2.4 + 0.32 * clients)), min(8.0, 2.2 + 0.22 * classes)),
        gridspec_kw={"height_ratios": [1, max(2.0, min(5.0, classes / 4))]},
    )
    above.bar(np.arange(clients), table.sum(axis=1), width=0.9, color=COLOURS[5])
    above.set_ylabel("examples")
    above.tick_params(bottom=False)
    shades = plt.matplotlib.colors.LinearSegmentedColormap.from_list("held", ["#d3e4f0", COLOURS[0]])
    shades = shades.with_extremes(under="#f7f8f8")  # zero has a colour of its own
    image = below.imshow(table.T, aspect="auto", cmap=shades, vmin=0.5, vmax=max(1, table.max()), interpolation="none")
    below.set(xlabel="client", ylabel="class")
    for axis, count in ((below.xaxis, clients), (below.yaxis, classes)):
        axis.set_major_locator(plt.MaxNLocator(min(count, 20), integer=True))
    if table.size <= 150:
        _write_counts(below, table)
    figure.colorbar(image, ax=below, label="examples of the class", pad=0.02)
    figure.suptitle(words(title), fontsize=11)
    return save(figure, path)


def _write_counts(axis: Any, table: NDArray[np.int64]) -> None:
    for (client, label), count in np.ndenumerate(table):
        if count:
            colour = "white" if count > 0.55 * table.max() else "black"
            axis.text(client, label, str(count), ha="center", va="center", fontsize=7, color=colour)


def words(text: str, most: int = MOST_WORDS) -> str:
    r"""A name or a title in a form that matplotlib draws exactly as it is written.

    Dollar signs do not start a formula, and a leading underscore does not keep a name out of the legend. Characters
    that cannot be printed are shown as escapes.

    >>> print(words("$x_1$"), words("_hidden"))
    \$x_1\$  _hidden
    """
    shown = short(text, most).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def save(figure: Any, path: str | Path, kinds: Sequence[str] = (".svg", ".png"), dpi: int = 130) -> list[Path]:
    """Write a figure under the given stem; the same figure always gives the same bytes."""
    stem = Path(path).with_suffix("") if Path(path).suffix in SUFFIXES else Path(path)
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    metadata: Mapping[str, Mapping[str, None]] = {".svg": {"Date": None}, ".png": {}, ".pdf": {"CreationDate": None}}
    paths = [stem.with_name(f"{stem.name}{kind}") for kind in kinds]
    try:
        for path in paths:
            with written(path, "picture") as partial:
                figure.savefig(partial, format=path.suffix[1:], dpi=dpi, metadata=metadata[path.suffix])
    finally:
        pyplot().close(figure)
    return paths


def single(draw: Panel) -> Any:
    """One panel as a separate figure, as wide as a column of a paper; with more than a few names it is taller."""
    plt = pyplot()
    with plt.rc_context({"font.size": POINTS, "axes.titlesize": POINTS, "lines.linewidth": 1.2}):
        figure, axis = plt.subplots(figsize=SINGLE, layout="constrained")
        draw(axis)
        axis.set_title("")
        handles, labels = axis.get_legend_handles_labels()
        if labels and (len(labels) > FEW_NAMES or axis.patches or max(map(len, labels)) > SHORT_NAME):
            if axis.get_legend() is not None:
                axis.get_legend().remove()
            height = legend_below(figure, handles, labels, POINTS)
            figure.set_size_inches(SINGLE[0], SINGLE[1] + height)
        elif labels:
            axis.legend(frameon=False, fontsize=POINTS, handlelength=1.4, borderaxespad=0.2, labelspacing=0.25)
    return figure


def save_single(figure: Any, path: str | Path) -> list[Path]:
    """Write a figure for a paper: PDF and SVG to be scaled, PNG at 300 dots per inch."""
    return save(figure, path, (".pdf", ".svg", ".png"), 300)


def singles(panels: Mapping[str, Panel], stem: Path) -> list[Path]:
    """Write every panel as a separate figure, in files `STEM-NAME`."""
    return [
        path
        for name, draw in panels.items()
        for path in save_single(single(draw), stem.with_name(f"{stem.name}-{name}"))
    ]


def legend_below(figure: Any, handles: Sequence[Any], labels: Sequence[str], size: float = 9) -> float:
    """Put a legend below the panels, in as many columns as fit, at most four; return its height in inches."""
    for columns in range(min(4, len(labels)), 0, -1):
        legend = figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=size)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return float(legend.get_window_extent().height / figure.dpi)
        legend.remove()
    return 0.0


def pyplot() -> Any:
    """Matplotlib without a display, in the style of this package."""
    try:
        import matplotlib
    except ImportError:
        raise SojournError("pictures need matplotlib, which is not installed; pip install 'sojourn[report]'") from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "sojourn"
    warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # names may be in any script
    import matplotlib.pyplot as plt

    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9})
    return plt
