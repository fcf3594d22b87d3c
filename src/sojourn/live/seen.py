"""What is seen of a live run from outside: one line, a picture, and watching both."""

import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from sojourn.errors import InvalidInput, SojournError
from sojourn.watched import RUNNING

PARTS = ("state", "time", "updates", "throughput", "staleness")
RECENT = 30.0  # seconds of the run over which the present throughput is measured


class Seen:
    """What both ways of attaching share: a line, a picture, and watching."""

    def refresh(self) -> Any:
        """Look again, and return this object."""
        raise NotImplementedError

    @property
    def line(self) -> str:
        """What there is to see, in one line."""
        said = {name: getattr(self, name) for name in PARTS}
        faults = ", ".join(f"{many:,.0f} {kind}" for kind, many in self._faults().items() if many) or "no faults"
        judged = f", accuracy {self._accuracy():.3f}" if self._accuracy() == self._accuracy() else ""
        return (
            f"{said['state']}, {said['time']:.1f} s: {said['updates']:,} updates, {said['throughput']:.1f} per second, "
            f"staleness {said['staleness']:.1f}, {self._there()} clients, {self._flying()} tasks in flight{judged}; "
            f"{faults}"
        )

    def _faults(self) -> Mapping[str, float]:
        raise NotImplementedError

    def _accuracy(self) -> float:
        raise NotImplementedError

    def _there(self) -> int:
        raise NotImplementedError

    def _flying(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.line}>"

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw what there is to see, as a matplotlib figure; with a `path`, it is also written."""
        figure = import_module("sojourn.report.live_figures").attached_figure(self.curves(), self.line)
        if path is not None:
            import_module("sojourn.report.figures").save(figure, path)
        return figure

    def curves(self) -> dict[str, tuple[Any, Any]]:
        """Return the curves of the picture: times and values, by what they are."""
        raise NotImplementedError

    def watch(
        self, every: float = 2.0, seconds: float | None = None, show: Callable[[Any], None] | None = None
    ) -> None:
        """Look again every few seconds until the run is no longer running, or for so many seconds; Ctrl-C ends it.

        In a notebook the picture is drawn anew each time; elsewhere a line is printed. `show` is called instead, with
        this object.
        """
        if not every > 0:
            raise InvalidInput(f"every must be a positive number of seconds, got {every}")
        shown = show or _shown()
        until = time.monotonic() + (float("inf") if seconds is None else seconds)
        try:
            while True:
                shown(self.refresh())
                if getattr(self, "state", RUNNING) != RUNNING or time.monotonic() + every > until:
                    return
                time.sleep(every)
        except KeyboardInterrupt:
            return


def frame(content: Any) -> Any:
    """Return columns or rows as a pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise SojournError("this table needs pandas, which is not installed; pip install pandas") from None
    return pandas.DataFrame(content)


def _shown() -> Callable[[Any], None]:
    """Return what shows a run: a picture in a notebook, elsewhere a line."""
    try:
        from IPython import get_ipython
        from IPython.display import clear_output, display

        if get_ipython() is None or "IPKernelApp" not in get_ipython().config:
            raise ImportError
    except ImportError:
        return _say

    def draw(seen: Any) -> None:
        clear_output(wait=True)
        display(seen.plot())

    return draw


def _say(seen: Any) -> None:
    sys.stdout.write(f"{seen.line}\n")
    sys.stdout.flush()
