"""Running an experiment into its folder, which is complete or absent."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.errors import InvalidInput, SojournError, UnreadableFile
from sojourn.files import read_json
from sojourn.interrupts import noted
from sojourn.paper.claim import Claim, read_claims, write_claims
from sojourn.paper.experiment import Experiment, Watch
from sojourn.paper.page import whole_page
from sojourn.values import number, table
from sojourn.version import __version__

FACTS = "experiment.json"


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment."""

    experiment: Experiment
    """Which."""
    folder: Path
    """Where its files are."""
    claims: list[Claim]
    """What was found."""
    seconds: float
    """How long it took."""
    kept: bool
    """Whether it was there already."""


def check(experiments: Sequence[Experiment], out: Path, fast: bool, overwrite: bool = False) -> None:
    """Refuse, before any of them runs, what could not take its place in `out` afterwards."""
    if out.exists() and not out.is_dir():
        raise UnreadableFile(f"cannot write to {out}: it is a file; name a folder")
    for experiment in experiments:
        folder = out / experiment.name
        if _stays(folder, overwrite):
            _kept(experiment, folder, fast)


def _stays(folder: Path, overwrite: bool) -> bool:
    """Whether what is there is not to be replaced."""
    return folder.exists() and not (overwrite and (folder / FACTS).is_file())


def reproduce(experiment: Experiment, out: Path, fast: bool, watch: Watch, overwrite: bool = False) -> Outcome:
    """Run an experiment into `out`/name; one that is there, made the same way, is kept unless told otherwise."""
    folder = out / experiment.name
    if _stays(folder, overwrite):
        return _kept(experiment, folder, fast)
    work = out / f".{experiment.name}-{os.getpid()}"
    _make(work)
    try:
        began = time.monotonic()
        claims = experiment.run(work, fast, watch)
        seconds = time.monotonic() - began
        write_claims(work / "claims.csv", claims)
        facts = {"experiment": experiment.name, "sojourn": __version__, "fast": fast, "seconds": round(seconds, 3)}
        (work / FACTS).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
        _put(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Outcome(experiment, folder, claims, seconds, kept=False)


def _make(work: Path) -> None:
    try:
        work.mkdir(parents=True)
    except OSError as error:
        raise UnreadableFile(f"cannot make a folder in {work.parent}: {error.strerror}; name another --out") from None


def _put(work: Path, folder: Path) -> None:
    """Let the finished folder take its place; where that fails in the middle, the old one has its place again."""
    old = work.with_name(f"{work.name}-old")
    with noted(twice=False) as stop:  # Ctrl-C waits for both renames
        try:
            if folder.exists():
                folder.rename(old)
            work.rename(folder)
        except BaseException:
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
    if stop.is_set():
        raise KeyboardInterrupt


def _kept(experiment: Experiment, folder: Path, fast: bool) -> Outcome:
    try:
        facts = table(read_json(folder / FACTS, "facts"), "facts")
        made = (facts.get("sojourn"), facts.get("fast"))
        seconds = number(facts.get("seconds"), "seconds")
    except SojournError:
        raise InvalidInput(f"{folder} exists and is no finished experiment; name another --out") from None
    if made != (__version__, fast):
        what = f"{'a fast' if made[1] else 'a full'} run of sojourn {made[0]}"
        raise InvalidInput(f"{folder} holds {what}; name another --out, or give --overwrite to replace it")
    return Outcome(experiment, folder, read_claims(folder / "claims.csv"), seconds, kept=True)


def write_all(outcomes: Sequence[Outcome], out: Path, fast: bool) -> list[Path]:
    """Write the claims of several experiments as one CSV and one page."""
    claims = [(one.experiment.name, each) for one in outcomes for each in one.claims]
    paths = [out / "claims.csv", out / "claims.md"]
    parts = [path.with_name(f".{path.name}-{os.getpid()}") for path in paths]
    write_claims(parts[0], [each for _, each in claims], [name for name, _ in claims])
    parts[1].write_text(whole_page([(one.experiment, one.claims) for one in outcomes], fast), "utf-8")
    for part, path in zip(parts, paths, strict=True):
        part.replace(path)
    return paths
