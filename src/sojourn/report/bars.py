"""Progress of a training run: bars while loading and training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sojourn.shown import visible


@contextmanager
def training_bar() -> Iterator[Callable[[int, int, dict[str, Any]], None]]:
    """A callback(done, total, metrics) that draws a bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("training", total=None)

        def report(done: int, total: int, facts: dict[str, Any]) -> None:
            known = facts["accuracy"] == facts["accuracy"]
            first = f"accuracy {facts['accuracy']:.3f}" if known else f"loss {facts['test_loss']:.4g}"
            said = f"{first}, staleness {facts['staleness']:.1f}"
            progress.update(task, completed=done, total=total, description=said)

        yield report


@contextmanager
def loading_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A callback(what, done, total) that draws a bar on a terminal.

    With a total of 0, `what` is a message: it is printed as a line, on a terminal or not.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("loading", total=None, visible=False)
        last: list[str] = []

        def report(what: str, done: int, total: int) -> None:
            if total == 0:
                console.print(visible(what), markup=False, highlight=False, soft_wrap=True)
                return
            if last != [what]:
                last[:] = [what]
                progress.reset(task, description=visible(what), total=total, visible=True)
            progress.update(task, completed=done, total=total)

        yield report
