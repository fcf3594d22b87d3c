"""The page of a tuning: what was tried, which trial is best, whether from its folder or from its result."""

import pytest
from reading_pages import read

from sojourn import Fleet, InvalidInput, Plan, UnreadableFile
from sojourn.csv_file import write_csv
from sojourn.experiments.tuned_plan import Trial, TunedPlan, means_of
from sojourn.report.page.of_tuning import _answer
from sojourn.report.page.write import page, parts_of

INF = float("inf")
FLEET = Fleet.of(fast=(6, 4.0), slow=(4, 1.0))
LOSSES = [
    *[(1 / 9, 0.05, 1.2), (1 / 9, 0.1, 1.0), (1 / 9, 0.2, 0.9), (1 / 9, 0.4, INF)],
    *[(1.0, 0.1, 0.5), (1.0, 0.2, 0.4)],
]


def rows(losses, correction=None):
    return [
        {"rung": rung, "step_size": step, "correction": correction, "buffer": None, "seed": seed}
        | {"loss": loss + seed / 100, "accuracy": 0.7, "cell": f"{at}{seed}abc"}
        for at, (rung, step, loss) in enumerate(losses)
        for seed in (0, 2)
    ]


def folder(place, table):
    (place / "cells").mkdir()
    write_csv(place / "tuning.csv", table)
    return place


def reported(thing):
    return read(page(parts_of(thing)).html)


def test_the_folder_of_a_tuning_says_which_step_size_is_best(tmp_path):
    told = reported(folder(tmp_path, rows(LOSSES)))
    assert told.answer.startswith(
        "4 trials were trained in 12 runs: step size 0.2 is best, with a held-out loss of 0.41"
    )
    assert "The next best is step size 0.1, with 0.51." in told.answer
    assert told.row("Held-out losses", "0.2") == ["0.2", "0.91", "0.41", "best"]
    assert told.row("Held-out losses", "0.4") == ["0.4", "diverged", "", ""]
    assert len(told.tables["One row per run"]) == 13
    assert "Held-out loss over the step sizes of 4 trials: step size 0.2 is best at the end." in told.labels


def test_one_trial_was_trained():
    one = rows([(1.0, 0.1, 0.5)])[:1]
    assert _answer(one, means_of(one), None, "")[0].startswith("1 trial was trained in 1 run, and ")


def test_the_result_of_a_tuning_has_the_same_page_as_its_folder(tmp_path):
    found = TunedPlan(Plan.uniform(FLEET, 5), Trial(0.2), lengths=(1 / 9, 1.0), rows=rows(LOSSES))
    direct = read(found.report(tmp_path / "report.html").html)
    (tmp_path / "tuning").mkdir()
    told = reported(folder(tmp_path / "tuning", rows(LOSSES)))
    assert direct.answer == told.answer
    assert direct.tables["Held-out losses"] == told.tables["Held-out losses"]
    assert direct.row("Facts of the tuning", "plan_hash") == ["plan_hash", found.plan.hash]


def test_a_best_step_size_at_the_edge_is_said(tmp_path):
    told = reported(folder(tmp_path, rows([(1.0, 0.1, 0.5), (1.0, 0.2, 0.4)])))
    assert "It lies at the upper edge of what was tried: a better one may lie beyond." in told.answer


def test_combinations_are_named_and_told_apart(tmp_path):
    told = reported(folder(tmp_path, [*rows(LOSSES, 0.0), *rows([(1.0, 0.1, 0.3)], 1.0)]))
    assert "step size 0.1 with correction 1 is best" in told.answer
    assert told.row("Held-out losses", "0.1", "1")[-1] == "best"
    assert told.row("Held-out losses", "0.1", "0")[-1] == ""


def test_a_tuning_that_has_not_ended_says_so(tmp_path):
    told = reported(folder(tmp_path, rows(LOSSES[:4])))
    assert "no trial has ended well at the full length" in told.answer
    assert "Tune again to continue." in told.answer
    empty = read(TunedPlan(Plan.uniform(FLEET, 5), failures={"trial-1": "out of memory"}).report().html)
    assert empty.row("Why trials failed", "trial-1") == ["trial-1", "out of memory"]


@pytest.mark.parametrize("wrong", ["much", "", "nan", "-1"])
def test_a_table_with_a_wrong_step_size_is_refused(tmp_path, wrong):
    place = folder(tmp_path, rows(LOSSES[:1]))
    text = (place / "tuning.csv").read_text("utf-8").replace("0.05,", f"{wrong},", 1)
    (place / "tuning.csv").write_text(text, "utf-8")
    with pytest.raises(UnreadableFile, match="is it the table of a tuning"):
        reported(place)


def test_a_folder_of_cells_without_a_table_cannot_be_reported(tmp_path):
    (tmp_path / "cells").mkdir()
    with pytest.raises(InvalidInput, match="of a sweep or of a tuning"):
        reported(tmp_path)
