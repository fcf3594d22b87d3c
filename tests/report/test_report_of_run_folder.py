"""Pages of run folders that stopped early or are damaged: made by hand, so that nothing is trained."""

import json
import os

import pytest

from sojourn import Fleet, Plan, simulate
from sojourn.errors import SojournError
from sojourn.experiments.results import Run
from sojourn.learning.run.metrics import NEEDED
from sojourn.report.page import of_run
from sojourn.report.page.of_run import count_events, part_of_run
from sojourn.report.page.write import parts_of

FLEET = Fleet.of(fast=(3, 4.0), slow=(2, 1.0))
ROW = dict.fromkeys(NEEDED, 0.5)


@pytest.fixture(scope="module")
def trace():
    return simulate(FLEET, Plan.uniform(FLEET, 5), 300, start="even", seed=1)


@pytest.fixture
def folder(tmp_path, trace):
    config = {"fleet": "fleet.csv", "steps": 300, "data": "digits", "algorithm": "asyncsgd"}
    (tmp_path / "config.json").write_text(json.dumps({"config": config}))
    trace.save(tmp_path / "trace.parquet")
    return tmp_path


def evaluated(folder, **changed):
    last = {**ROW, "received": 300, "time": 60.0, **changed}
    lines = [NEEDED, *([one[key] for key in NEEDED] for one in ({**ROW, "received": 0, "time": 0.0}, last))]
    (folder / "metrics.csv").write_text("".join(",".join(str(cell) for cell in line) + "\n" for line in lines))


def test_a_run_that_stopped_early_says_that_its_timing_was_known_beforehand(folder):
    evaluated(folder, received=1, time=0.1)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "000000000009.json").write_text("{}")
    part = part_of_run(folder)
    assert part.answer[0].endswith("after 1 update in 0.1 s of virtual time, and is not complete.")
    assert part.answer[2].startswith("9 of 300 updates were trained so far: what is said of the timing is about all")
    assert ("0.5", "test loss so far") in part.facts
    (folder / "summary.json").write_text("{}")
    part = part_of_run(folder)
    assert part.answer[2].startswith("9 of 300 updates were trained: what is said")  # its time was over before
    evaluated(folder)
    part = part_of_run(folder)
    assert len(part.answer) == 2
    assert ("0.5", "test loss at the end") in part.facts


@pytest.mark.parametrize("key", ["time", "received"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_what_is_not_known_of_the_last_evaluation_is_a_dash(folder, key, value):
    evaluated(folder, **{key: value})
    (folder / "summary.json").write_text("{}")
    assert len(part_of_run(folder).answer) == 2  # how many were trained is not known either, or it was all of them
    (folder / "trace.parquet").unlink()
    for thing in (folder, Run(folder)):
        (part,) = parts_of(thing)
        assert ("– updates in 1 min" if key == "received" else "300 updates in –") in part.answer[0]


@pytest.mark.parametrize("content", ["[1]", '"stopped"', "null"])
def test_a_summary_of_another_kind_is_refused_in_a_sentence(folder, content):
    evaluated(folder)
    (folder / "summary.json").write_text(content)
    with pytest.raises(SojournError, match=r"summary .*summary.json must be a table of keys and values, got "):
        part_of_run(folder)


@pytest.mark.parametrize("seeds", [["../../etc"], [None], [1.5], [True], [-1]])
def test_seeds_that_are_no_whole_numbers_are_refused_in_a_sentence(tmp_path, seeds):
    (tmp_path / "seeds.json").write_text(json.dumps({"seeds": seeds}))
    with pytest.raises(SojournError, match=r"a seed in the list of seeds .*seeds.json must be a whole number"):
        parts_of(tmp_path)


def test_a_pipe_is_no_file_to_report(tmp_path):
    os.mkfifo(tmp_path / "waits.json")  # reading it would never end
    for thing in (tmp_path / "waits.json", tmp_path):
        with pytest.raises(SojournError, match="is nothing that can be reported"):
            parts_of(thing)
    os.rename(tmp_path / "waits.json", tmp_path / "config.json")
    with pytest.raises(SojournError, match="is nothing that can be reported"):
        parts_of(tmp_path)


def test_every_line_of_a_long_log_is_counted_the_newest_too(tmp_path):
    old, new = tmp_path / "log.jsonl.1", tmp_path / "log.jsonl"
    old.write_text('{"at": 1.8e9, "what": "joined", "client": "a"}\n' * 250_000)
    new.write_text('{"at": 1.9e9, "what": "lost", "reason": "gone"}\n{"at": 1.9e9, "what": "jo')
    counts, since = count_events([old, new])
    assert counts == {("joined", ""): 250_000, ("lost", "gone"): 1}
    assert since.startswith("2027-01-15")


def test_reasons_without_end_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr(of_run, "MOST_REASONS", 2)
    (tmp_path / "log").write_text("".join(f'{{"what": "refused", "reason": "{n}"}}\n' for n in [0, 1, 2, 3, 0]))
    assert count_events([tmp_path / "log"])[0] == {
        ("refused", "0"): 2, ("refused", "1"): 1, ("refused", "other reasons"): 2,
    }  # fmt: skip


@pytest.mark.parametrize("line", ["[]", "3", '"what"', "{", "[" * 100_000, '{"at": 1}'])
def test_a_line_of_a_log_that_says_nothing_is_not_counted(tmp_path, line):
    (tmp_path / "log").write_text(f'{line}\n{{"at": 1e400, "what": "joined"}}\n')
    assert count_events([tmp_path / "log"]) == ({("joined", ""): 1}, "")
