"""Ledgers: whatever stands in one is read or refused in one sentence, and those kept are those of our cells."""

import pytest

import parsers
from queuing_dynamics.ledger import Ledger
from queuing_dynamics.tinyimagenet.experiment import KEPT
from queuing_dynamics.tinyimagenet.size import FULL
from queuing_dynamics.tinyimagenet.stages import ledger_of, trials
from sojourn.experiments.cells import Cell, EndedCell
from test_fuzz import FEW, MANY, check_folder

FILES = ("runs.csv", "curves.csv")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """The files of a ledger of one run."""
    home = tmp_path_factory.mktemp("home")
    parsers.run_folder(home)
    cell = Cell("one", parsers._config(home))
    one = EndedCell(cell, home / "run", False)
    Ledger(home / "ledger").add([({"method": "one", "seed": 3}, cell)], {cell.hash: one})
    return {name: (home / "ledger" / name).read_bytes() for name in FILES}


def read(folder):
    """What is done with kept results."""
    ledger = Ledger.load(folder)
    for cell in ledger.runs:
        assert ledger.curves[cell]


@pytest.mark.parametrize("name", FILES)
def test_any_ledger_is_read_or_refused_in_one_sentence(name, ledger, tmp_path):
    check_folder(name, ledger, read, tmp_path / "ledger", FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_any_ledger_is_read_or_refused_thousands_of_times(name, ledger, tmp_path):
    check_folder(name, ledger, read, tmp_path / "ledger", MANY)


def test_the_kept_runs_are_found_by_the_hashes_of_their_cells(tmp_path):
    """A key that is added to runs must not change the hash of those that do not have it."""
    assert ledger_of("trials", KEPT).missing(trials(FULL, tmp_path)) == []
