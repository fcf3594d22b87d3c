"""Train runs that no ledger holds yet, stage after stage, from the command line or from an experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from queuing_dynamics.ledger import Ledger, Marked, train
from sojourn.errors import SojournError
from sojourn.report.reproduction.experiment import Watch

Size = TypeVar("Size")


@dataclass(frozen=True)
class Training(Generic[Size]):
    """Stages of runs; each may depend on the results of those before."""

    name: str
    """Name of the experiment and of its package."""
    stages: tuple[str, ...]
    """The stages in their order."""
    cells_of: Callable[[str, Size, Path, Path], list[Marked]]
    """Function that returns the cells of a stage, from a size and the folders of the runs and of the ledgers."""
    ledger_of: Callable[[str, Path], Ledger]
    """Ledger of a stage, from the folder of the ledgers."""
    full: Size
    """The size as in the paper."""
    fast: Size
    """A small size, on digits."""

    def train(self, size: Size, work: Path, results: Path, watch: Watch) -> None:
        """Train every stage, one after the other."""
        for stage in self.stages:

            def tell(name: str, done: int, many: int, stage: str = stage) -> None:
                watch(stage, done, many)

            if not self.train_stage(stage, size, work, results, watch=tell):  # Ctrl-C ended it
                raise KeyboardInterrupt

    def train_stage(
        self,
        stage: str,
        size: Size,
        work: Path,
        results: Path,
        together: int | None = None,
        going: Callable[[], bool] = lambda: True,
        watch: Callable[[str, int, int], None] | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> bool:
        """Train a stage as long as `going` says so; return whether it is complete. Results may require more cells."""
        ledger, how = self.ledger_of(stage, results), (together, going, watch, checkpoint_seconds)
        while train(self.cells_of(stage, size, work, results), ledger, work / stage, *how):
            if not ledger.missing(self.cells_of(stage, size, work, results)):
                return True
        return False

    def check(self, size: Size, work: Path, results: Path) -> None:
        """Raise an error that names the stage with missing runs, and how to train them."""
        for stage in self.stages:
            cells = self.cells_of(stage, size, work, results)
            left = len(self.ledger_of(stage, results).missing(cells))
            if left:
                raise SojournError(
                    f"{left} of the {len(cells)} runs of stage {stage} are not among the kept results of {self.name}; "
                    f"train them, on a GPU, with python -m queuing_dynamics train {self.name} {stage} "
                    f"--results {results}"
                )
