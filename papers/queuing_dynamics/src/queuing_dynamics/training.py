"""Training what no ledger holds yet, stage after stage; from a command line, or from an experiment.

`python -m sojourn.paper.cifar10 search --results results`, and the same with `tinyimagenet` and its stages.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import typer

from sojourn.errors import InvalidInput, SojournError
from sojourn.paper.experiment import Watch
from sojourn.paper.ledger import Ledger, Marked, train

Size = TypeVar("Size")


@dataclass(frozen=True)
class Training(Generic[Size]):
    """Stages of runs, of which each may follow from what came of those before."""

    name: str
    """Of the experiment and of its package."""
    stages: tuple[str, ...]
    """In their order."""
    cells_of: Callable[[str, Size, Path, Path], list[Marked]]
    """Cells of a stage at a size, with the folders of the runs and of the ledgers, as far as these can tell."""
    ledger_of: Callable[[str, Path], Ledger]
    """Ledger of a stage, from the folder of the ledgers."""
    full: Size
    """As in the paper."""
    fast: Size
    """Small, on digits."""

    def train(self, size: Size, work: Path, results: Path, watch: Watch) -> None:
        """Train every stage, one after the other."""
        for stage in self.stages:

            def tell(done: int, many: int, name: str, stage: str = stage) -> None:
                watch(stage, done, many)

            if not self.train_stage(stage, size, work, results, watch=tell):  # Ctrl-C had ended it
                raise KeyboardInterrupt

    def train_stage(
        self,
        stage: str,
        size: Size,
        work: Path,
        results: Path,
        together: int | None = None,
        going: Callable[[], bool] = lambda: True,
        watch: Callable[[int, int, str], None] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> bool:
        """Train a stage as long as `going`; whether it is whole. What came of some cells may ask for more of them."""
        ledger, how = self.ledger_of(stage, results), (together, going, watch, checkpoint_seconds)
        while train(self.cells_of(stage, size, work, results), ledger, work / stage, *how):
            if not ledger.missing(self.cells_of(stage, size, work, results)):
                return True
        return False

    def check(self, size: Size, work: Path, results: Path) -> None:
        """Say of which stage runs are missing, and how they are made."""
        for stage in self.stages:
            cells = self.cells_of(stage, size, work, results)
            left = len(self.ledger_of(stage, results).missing(cells))
            if left:
                raise SojournError(
                    f"{left} of the {len(cells)} runs of stage {stage} are not among the kept results of {self.name}; "
                    f"train them, on a GPU, with python -m sojourn.paper.{self.name} {stage} --results {results}"
                )

    def command(self) -> None:
        """Go on with a stage, as long as there is time."""
        parser = _parser(f"python -m sojourn.paper.{self.name}", self.stages)
        arguments = parser.parse_args()
        began, size = time.monotonic(), self.fast if arguments.fast else self.full

        def say(done: int, many: int, name: str) -> None:
            typer.echo(f"{time.monotonic() - began:6.0f} s: {done} of {many}, {name}")

        def going() -> bool:
            return time.monotonic() - began < 60 * float(arguments.minutes)

        folders = (arguments.work, arguments.results)
        try:
            _check(arguments)
            how = {"together": arguments.together, "checkpoint_seconds": arguments.checkpoint_seconds}
            whole = self.train_stage(arguments.stage, size, *folders, going=going, watch=say, **how)
        except SojournError as error:
            parser.exit(2, f"error: {error}\n")
        typer.echo("all is done" if whole else "there is more to do: call it again")


def _check(arguments: argparse.Namespace) -> None:
    if arguments.together is not None and arguments.together < 1:
        raise InvalidInput(f"--together must be at least 1, got {arguments.together}")
    for key in ("minutes", "checkpoint_seconds"):
        value = getattr(arguments, key)
        if not value >= 0:
            raise InvalidInput(f"--{key.replace('_', '-')} must not be negative, got {value:g}")
    for key in ("work", "results"):
        path = getattr(arguments, key)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"--{key} must be a folder, {path} cannot be one ({error.strerror}); name another"
            ) from None


def _parser(command: str, stages: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(command, description="Train the runs of a stage that no ledger holds yet.")
    parser.add_argument("stage", choices=stages)
    parser.add_argument("--fast", action="store_true", help="small, on digits")
    parser.add_argument("--results", type=Path, required=True, help="folder of the ledgers")
    parser.add_argument("--work", type=Path, default=Path("paper-runs"), help="folder of the runs")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many")
    parser.add_argument("--together", type=int, help="cells in common waves")
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0, help="time between two checkpoints of a run")
    return parser
