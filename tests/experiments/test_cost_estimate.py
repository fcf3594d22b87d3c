"""What cells will cost is told before they are trained, from cells that are begun, timed and forgotten."""

from dataclasses import replace

import pytest
from pretended import pretend, row
from some_cells import fleet_file

from sojourn.experiments import estimate
from sojourn.experiments.cells import Cell, Cells
from sojourn.experiments.estimate import Measured, Timed, estimated, kind_of, time_lot
from sojourn.experiments.train_cells import lots_of
from sojourn.learning.run.config import TrainConfig


@pytest.fixture
def cells(tmp_path):
    def make(*seeds, **keys):
        fleet = fleet_file(tmp_path)
        settings = {"fleet": fleet, "steps": 60, "model": "logistic", **keys}
        words = " ".join(f"{key} {value}" for key, value in keys.items())
        return [Cell(f"{words} seed {seed}", TrainConfig(**settings, seed=seed)) for seed in seeds]

    return make


@pytest.fixture
def pretended(monkeypatch):
    """A process in which a lot takes a second to begin and a hundredth of a second for each update."""
    asked = []

    def timed(lots, names, place):
        asked.extend(names[lot.key] for lot in lots)
        steps = [lot.members[0].config.steps for lot in lots]
        found = tuple(Timed(names[lot.key], 1.0, 0.2, 20, many) for lot, many in zip(lots, steps, strict=True))
        return Measured(4.0, found, 500e6)

    monkeypatch.setattr(estimate, "_in_a_process", timed)
    return asked


def test_time_is_that_of_the_cells_over_the_processes_and_of_a_start(cells, pretended, tmp_path):
    found = estimated({"cells": cells(0, 1, 2, 3)}, tmp_path / "out", jobs=2)
    (phase,) = found.phases
    assert pretended == [" seed 0"]  # cells that differ in their seeds cost the same
    assert phase.updates == 4 * 60
    assert phase.seconds == pytest.approx(4.0 + 4 * (1 + 0.6))  # a start, as with several processes
    assert found.wall == pytest.approx(4.0 + 2 * 1.6)
    assert found.facts()["memory"] == 2 * 500e6


def test_a_phase_is_not_shorter_than_its_longest_cell_and_needs_no_more_processes_than_cells(
    cells, pretended, tmp_path
):
    found = estimated({"cells": cells(0, steps=1000)}, tmp_path / "out", jobs=8)
    assert found.jobs == 1
    assert found.wall == pytest.approx(4.0 + 1 + 10)


def test_what_has_ended_costs_nothing_and_nothing_is_begun_where_all_has(cells, pretended, tmp_path):
    both = cells(0, 1)
    pretend(both[0], tmp_path / "out", [row(0), row(60)])
    found = estimated({"cells": both}, tmp_path / "out", jobs=1)
    assert (found.phases[0].ended, found.left) == (1, 1)
    assert found.phases[0].updates == 60
    pretend(both[1], tmp_path / "out", [row(0), row(60)])
    pretended.clear()
    assert estimated({"cells": both}, tmp_path / "out").wall == 0
    assert not pretended


def test_kinds_that_are_not_timed_cost_as_much_per_gradient_as_those_that_are(cells, pretended, tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "MOST", 2)
    different = [cell for steps in (100, 400, 200) for cell in cells(0, steps=steps)]
    found = estimated({"cells": different}, tmp_path / "out", jobs=1)
    assert pretended == ["steps 100 seed 0", "steps 200 seed 0"]
    assert found.phases[0].updates == 700
    assert found.phases[0].seconds == pytest.approx(4.0 + 3 * 1.0 + 700 * 0.01)


def test_seeds_and_step_sizes_make_no_kind_of_their_own(cells, tmp_path):
    one, other = cells(0, 1)
    other = replace(other, config=replace(other.config, step_size=0.3))
    longer = cells(0, steps=70)[0]
    kinds = [kind_of(lot) for lot in lots_of([one, other, longer], Cells(tmp_path), 1)]
    assert kinds[0] == kinds[1]
    assert kinds[0] != kinds[2]


@pytest.mark.slow
def test_a_cell_is_really_trained_and_its_updates_are_counted(cells, tmp_path):
    (lot,) = lots_of(cells(0, steps=200), Cells(tmp_path), 1)
    begun = time_lot(lot, {}, tmp_path / "begun", patience=0.0)
    assert 0 < begun.updates < 200  # one look at the clock
    whole = time_lot(lot, {}, tmp_path / "whole", patience=1000.0)
    assert (whole.updates, whole.total) == (200, 200)
    assert whole.whole == pytest.approx(whole.setup + whole.seconds)


def test_a_cell_that_cannot_be_trained_is_named(cells, tmp_path):
    (lot,) = lots_of(cells(0, start="nowhere"), Cells(tmp_path), 1)
    found = time_lot(lot, {lot.key: "lost"}, tmp_path / "begun", patience=0.0)
    assert found.name == "lost"
    assert "start must be one of" in found.error
    assert found.whole != found.whole
