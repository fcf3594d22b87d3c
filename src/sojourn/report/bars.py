"""Progress of a training run: bars while loading and training, and event files for TensorBoard."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sojourn.errors import SojournError
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


@contextmanager
def board(folder: Path | None, received: int) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A callback(metrics) that writes each new row of metrics to event files; without a folder it does nothing.

    When a run is resumed, events later than the updates received so far are removed.
    """
    if folder is None:
        yield lambda facts: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise SojournError("--tensorboard needs the package tensorboard; pip install tensorboard") from None
    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=received + 1 if received else None)
    last: list[float] = [received] if received else []

    def write(facts: dict[str, Any]) -> None:
        if facts and last != [facts["received"]]:
            last[:] = [facts["received"]]
            for key, value in facts.items():
                writer.add_scalar(key, value, int(facts["received"]))

    try:
        yield write
    finally:
        writer.close()
