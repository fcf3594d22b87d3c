"""Pictures: each function draws one and writes it as SVG and PNG."""

import warnings
from collections.abc import Mapping
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
MOST_WORDS, MOST_NAME = 160, 80  # characters of a title, and of a name in a legend


def staleness_histograms(
    trace: Trace, fleet: Fleet, path: str | Path, title: str, exact: NDArray[np.float64] | None = None
) -> list[Path]:
    """Histogram of the staleness of each group's updates, with the exact mean where given."""
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
    """Examples of each class that each client holds: a map of clients and classes, above it the clients' sizes."""
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
    shades = shades.with_extremes(under="#f7f8f8")  # none at all is no shade of few
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
    r"""A name or a title as a picture is given it, so that it is drawn as it is written.

    Dollars make no formula, an underscore in front does not keep a name out of the legend, and what would not print is
    shown as what it is.

    >>> print(words("$x_1$"), words("_hidden"))
    \$x_1\$  _hidden
    """
    shown = short(text, most).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def save(figure: Any, path: str | Path) -> list[Path]:
    """Write a figure as SVG and PNG under the given stem, the same bytes for the same figure."""
    stem = Path(path).with_suffix("")
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    metadata: Mapping[str, Mapping[str, None]] = {".svg": {"Date": None}, ".png": {}}
    paths = [stem.with_suffix(suffix) for suffix in metadata]
    try:
        for path in paths:
            with written(path, "picture") as partial:
                figure.savefig(partial, format=path.suffix[1:], dpi=130, metadata=metadata[path.suffix])
    finally:
        pyplot().close(figure)
    return paths


def pyplot() -> Any:
    """Matplotlib without a display, in the house style."""
    try:
        import matplotlib
    except ImportError:
        raise SojournError("pictures need matplotlib, which is not installed; pip install 'sojourn[report]'") from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "sojourn"
    warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # a name may be in any script
    import matplotlib.pyplot as plt

    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9})
    return plt
