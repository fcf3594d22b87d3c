"""Run an experiment into its folder, which is either complete or absent."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.errors import InvalidInput, SojournError, UnwritableFile
from sojourn.files import read_json, write_json, write_text
from sojourn.folders import check_folder, filled
from sojourn.report.reproduction.claim import Claim, read_claims, write_claims
from sojourn.report.reproduction.experiment import Experiment, Watch
from sojourn.report.reproduction.page import whole_page
from sojourn.values import number, table
from sojourn.version import __version__

FACTS = "experiment.json"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment."""

    experiment: Experiment
    """Which."""
    folder: Path
    """The folder with its files."""
    claims: list[Claim]
    """The claims with their verdicts."""
    seconds: float
    """How long it took."""
    kept: bool
    """Whether its results existed already."""


class NotKept(UnwritableFile):
    """An experiment has ended, but its folder cannot be written."""

    def __init__(self, error: UnwritableFile, outcome: Outcome) -> None:
        super().__init__(str(error))
        self.outcome = outcome


def check(experiments: Sequence[Experiment], out: Path, fast: bool, overwrite: bool = False) -> None:
    """Refuse, before any experiment runs, a folder in `out` that could not be replaced afterwards."""
    check_folder(out)
    for experiment in experiments:
        folder = out / experiment.name
        if _stays(folder, overwrite):
            _kept(experiment, folder, fast)


def _stays(folder: Path, overwrite: bool) -> bool:
    """Whether the existing results are kept."""
    return folder.exists() and not (overwrite and (folder / FACTS).is_file())


def reproduce(experiment: Experiment, out: Path, fast: bool, watch: Watch, overwrite: bool = False) -> Outcome:
    """Run an experiment into `out`/name; existing results made the same way are kept unless `overwrite` is given."""
    folder = out / experiment.name
    if _stays(folder, overwrite):
        return _kept(experiment, folder, fast)
    made: list[Outcome] = []
    try:
        with filled(folder) as work:
            began = time.monotonic()
            claims = experiment.run(work, fast, watch)
            made.append(Outcome(experiment, folder, claims, time.monotonic() - began, kept=False))
            write_claims(work / "claims.csv", claims)
            facts = {"experiment": experiment.name, "sojourn": __version__, "fast": fast}
            write_json(work / FACTS, {**facts, "seconds": round(made[0].seconds, 3)}, "facts")
    except UnwritableFile as error:
        if made:
            raise NotKept(error, made[0]) from error
        raise
    return made[0]


def _kept(experiment: Experiment, folder: Path, fast: bool) -> Outcome:
    try:
        facts = table(read_json(folder / FACTS, "facts"), "facts")
        made = (facts.get("sojourn"), facts.get("fast"))
        seconds = number(facts.get("seconds"), "seconds")
    except SojournError:
        raise InvalidInput(f"{folder} exists and is not a finished experiment; name another --out") from None
    if made != (__version__, fast):
        what = f"{'a fast' if made[1] else 'a full'} run of sojourn {made[0]}"
        raise InvalidInput(f"{folder} holds {what}; name another --out, or give --overwrite to replace it")
    return Outcome(experiment, folder, read_claims(folder / "claims.csv"), seconds, kept=True)


def write_all(outcomes: Sequence[Outcome], out: Path, fast: bool) -> list[Path]:
    """Write the claims of several experiments as one CSV file and one page."""
    claims = [(one.experiment.name, each) for one in outcomes for each in one.claims]
    paths = [out / "claims.csv", out / "claims.md"]
    write_claims(paths[0], [each for _, each in claims], [name for name, _ in claims])
    write_text(paths[1], whole_page([(one.experiment, one.claims) for one in outcomes], fast), "page")
    return paths
