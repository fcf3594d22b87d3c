"""The example that puts all methods under one clock: its page is made of its results, and a small one runs."""

import os
import re
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from runpy import run_path

import pytest

from sojourn import Law, Plan, simulate
from sojourn.algorithms import Local, algorithm

HOME = Path(__file__).parents[2]
EXAMPLE = HOME / "examples" / "field"
KEPT = HOME / "docs" / "results" / "field"
PAGE = HOME / "docs" / "field.md"
MODULES = {path.stem for path in EXAMPLE.glob("*.py")} - {"__main__"}


@pytest.fixture
def example(monkeypatch):
    """The folder of the example on the path, as Python has it when the example is run."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def test_the_tables_on_the_page_are_made_of_the_kept_results(example):
    from page import parts

    text = PAGE.read_text("utf-8")
    for name, part in parts(KEPT).items():
        assert f"<!-- made: {name} -->\n{part}\n<!-- end of {name} -->" in text


def test_every_method_is_in_the_field(example):
    from entries import ENTRIES

    from sojourn.learning.algorithms.table import ALGORITHMS

    assert {one.algorithm.partition("(")[0] for one in ENTRIES} == set(ALGORITHMS)
    assert sum(one.telling for one in ENTRIES) == 12


def test_every_entry_has_the_same_number_of_trials_and_seeds_in_every_cell(example):
    from cells import cells
    from entries import entries
    from results import load

    found = load(KEPT)
    small = [cell for cell in cells() if cell.problem != "cifar"]
    assert len(small) == 18
    assert {len(one.step_sizes(cell)) for cell in small for one in entries(cell) if cell.dealt == "iid"} == {7}
    for cell in small:
        expected = {one.name: (len(one.step_sizes(cell)), 5) for one in entries(cell)}
        assert {name: (one.trials, len(one.losses)) for name, one in found[cell.name].items()} == expected


def test_the_optimum_of_the_quadratic_problem_is_the_mean_of_the_clients_means(example):
    import numpy as np
    from apart import CLIENTS, optimum, points

    x, owner = points().train_x.astype(np.float64), points().owner
    means = np.array([x[owner == client].mean(axis=0) for client in range(CLIENTS)])
    assert optimum() == pytest.approx(means.mean(axis=0))
    assert means[: CLIENTS // 2].mean() > 0.5 > -0.5 > means[CLIENTS // 2 :].mean()


def test_methods_whose_limit_is_known_settle_there(example):
    from apart import settles
    from cells import cells
    from results import load
    from shares import shares
    from tables import CONSTANT, EXACT, SIMULATED, STEADY_LIMITS

    found = load(KEPT)
    known = {**EXACT, **{entry + CONSTANT: power for entry, power in STEADY_LIMITS.items()}}
    for cell in cells()[:3]:
        assert cell.problem == "quadratic"
        speeds = cell.fleet.rate[cell.fleet.group_of_client]
        limits = {entry: settles(speeds, power) for entry, power in known.items() if power}
        unbiased = {entry for entry, power in known.items() if not power}
        assert len(unbiased) == 7
        if cell.fleet_name != "mild":  # those that wait for everyone take few steps there, and are still on their way
            unbiased -= {"ringleader", "malenia"}
        for entry in unbiased:  # less than a fifth of where AsyncSGD to the finisher must end
            assert found[cell.name][entry].distance[0] < 0.2 * limits["asyncsgd, finisher"], entry
        limits |= {entry: settles(shares(cell, entry), 1.0) for entry in SIMULATED}
        for entry, limit in limits.items():
            mean, error = found[cell.name][entry].distance
            assert mean == pytest.approx(limit, abs=3 * error), entry


def test_shares_are_speeds_where_everybody_is_busy_and_less_of_those_who_wait_for_others(example):
    import numpy as np
    from cells import cells
    from shares import shares

    cell = cells()[1]
    busy, waiting = (shares(cell, entry) for entry in ("asyncsgd, finisher", "asgrad, waiting for 5"))
    assert busy == pytest.approx(np.repeat([10 / 220, 1 / 220], 20), rel=0.03)
    assert waiting.sum() == pytest.approx(1)
    assert waiting[20:].sum() > 1.05 * busy[20:].sum()


def test_by_hand_where_two_kinds_of_clients_pull_a_model(example):
    import numpy as np
    from apart import CLIENTS, settles

    speeds = np.where(np.arange(CLIENTS) < CLIENTS // 2, 3.0, 1.0)
    # weights 3/4 and 1/4 instead of 1/2 and 1/2: a quarter of the way between the two means, which are 2 apart in each
    # of ten dimensions, but for the random part of the centres
    assert settles(speeds, 1.0) == pytest.approx(0.25 * 2 * 10**0.5, rel=0.2)
    assert settles(speeds, 0.0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("words", "gradients", "message"),
    [(["nosuch"], None, "words must all be part of the name of a cell"), ([], -5, "gradients must be at least 1")],
)
def test_cells_that_are_not_there_are_refused_in_a_sentence(example, words, gradients, message):
    from cells import chosen

    from sojourn.errors import InvalidInput

    with pytest.raises(InvalidInput, match=message):
        chosen(words, gradients)


def test_a_table_of_cells_that_are_dealt_in_one_way_has_one_column_for_it(example):
    from cells import chosen
    from results import load
    from tables import summary_table

    head = summary_table(load(KEPT), chosen(["digits-mild-random"])).splitlines()[0]
    assert "random classes" in head
    assert "by speed" not in head


def test_cells_whose_data_is_alike_have_a_table_of_their_own_and_are_in_no_other(example):
    from cells import chosen
    from claims import alike_table
    from page import ALIKE_CELLS, _of

    assert [cell.name for cell in ALIKE_CELLS] == ["digits-mild-iid", "digits-10to1-iid", "digits-heavy-tailed-iid"]
    assert not set(ALIKE_CELLS) & set(_of("quadratic", "digits", "fashion", "cifar"))
    assert ALIKE_CELLS[0].partition() == "iid"
    (cell,) = chosen(["digits-mild-iid"])
    found = {cell.name: {"best": outcome("", "best", (1.0,) * 3), "mine": outcome("", "mine", (2.0,) * 3)}}
    rows = alike_table(found, [cell]).splitlines()
    assert rows[0] == "| entry | mild | accuracy | updates | discarded |"
    assert rows[-1] == "| mine | 2.00 ± 0.00 | 50.0% | 100 | 0% |"


def test_when_an_entry_is_where_another_one_ends_by_hand(example):
    from math import inf

    from cells import chosen
    from claims import times_table
    from times import Reached, first_below

    rows = [{"time": time, "test_loss": loss} for time, loss in ((0.0, 2.0), (1.0, 0.9), (2.0, 1.1), (3.0, 0.5))]
    assert [first_below(rows, loss) for loss in (3.0, 0.9, 0.8, 0.1)] == [0.0, 1.0, 3.0, inf]
    (cell,) = chosen(["digits-mild-iid"])
    shares = {"a": (0.1, 0.4, 0.3), "b": (0.1, inf, 0.3), "c": (inf, inf, 0.3)}
    table = times_table([Reached(cell.name, "mine", other, those) for other, those in shares.items()], [cell])
    assert table.splitlines()[-3:] == [
        "| c | iid | not reached (1 of 3) |",
        "| b | iid | 30% (2 of 3) |",
        "| a | iid | 30% |",
    ]


def test_the_page_judges_claims_about_time_and_about_data_that_is_alike_by_its_tables(example):
    from statistics import median

    from page import ALIKE_CELLS
    from results import load
    from tables import mean_over_best
    from times import load_times

    text, found = " ".join(PAGE.read_text("utf-8").split()), load(KEPT)
    for claim, entry in (("Ringmaster needs the least time", "ringmaster"), ("Rennala is optimal", "rennala")):
        mine = [mean_over_best(found, [cell.name], entry) for cell in ALIKE_CELLS]
        assert min(mine) > 1.05
        assert f"{claim} if data is alike at all clients | no: {', '.join(f'{one:.2f}' for one in mine)} |" in text
    times = [one for one in load_times(KEPT) if one.other == "asyncsgd, random"]
    for alike, words in ((False, "five of six cells"), (True, "two of three cells")):
        here = [one.shares for one in times if one.cell.endswith("iid") == alike]
        saved = [100 - round(100 * median(shares)) for shares in here]
        there = [max(shares) < 1 for shares in here]
        assert f"| the plan: {min(saved)} to {max(saved)}% | in {words} |" in text
        assert f"so it saves {min(saved)} to {max(saved)}%" in text
        assert sorted(there) == [False] + [True] * (len(here) - 1)


def test_the_page_begins_with_ten_sentences(example):
    text = PAGE.read_text("utf-8")
    section = text.partition("## What wins where\n")[2].partition("\n## ")[0]
    points = re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]
    assert [len(re.findall(r"[.!?](?:\s|$)", point)) for point in points] == [1] * 10


def test_the_page_says_how_many_step_sizes_lie_at_an_edge(example):
    from cells import cells
    from entries import ENTRIES
    from results import load

    found, text = load(KEPT), " ".join(PAGE.read_text("utf-8").split())
    names = [one.name for one in ENTRIES]
    quadratic, images = (
        [
            found[cell.name][name].edge
            for cell in cells()
            if cell.problem in problems and cell.dealt != "iid"
            for name in names
        ]
        for problems in (("quadratic",), ("digits", "fashion"))
    )
    assert f"In {sum(map(bool, quadratic))} of the {len(quadratic)} cases of the first table" in text
    assert f"of the {len(images)} cases on digits" in text
    assert f"In the {sum(map(bool, images))} cases that are left" in text


def test_the_page_says_what_the_warm_up_of_a_table_costs_on_cifar(example):
    from cells import chosen
    from results import load
    from tables import cifar_table

    found, cells, text = load(KEPT), chosen(["cifar"]), " ".join(PAGE.read_text("utf-8").split())
    heads = [line for line in cifar_table(found, cells).splitlines() if line.startswith("| entry")]
    assert len(heads) == 2
    assert all("| updates | discarded | MB up |" in head for head in heads)
    for cell, words in zip(cells, ("on the fleet 8:1, where", "on the heavy-tailed one, where"), strict=True):
        one = found[cell.name]["ia2sgd"]
        assert f"{one.unused:,.0f} of {one.gradients:,.0f}" in text
        assert re.search(rf"{100 * one.unused / one.gradients:.0f}% (of the gradients )?{words}", text)


def test_who_ends_near_the_optimum_and_who_further_away_than_asyncsgd_is_as_the_page_says(example):
    from cells import cells
    from results import load

    found = load(KEPT)
    for cell in cells()[:3]:
        away = {entry: one.distance[0] for entry, one in found[cell.name].items()}
        assert all(away[entry] < 0.2 for entry in ("asyncsgd, random", "asgrad, shuffled", "ia2sgd", "ace"))
        assert 1 < away["asyncsgd, finisher"] < 3
        assert all(away[entry] > away["asyncsgd, finisher"] for entry in ("delay-adaptive", "ringmaster", "rennala"))
    text = " ".join(PAGE.read_text("utf-8").split())
    assert "Random or shuffled assignment and tables of latest gradients (IA2SGD, ACE) end within 0.2" in text
    assert "besides (delay-adaptive, Ringmaster, Rennala) end further away" in text


def test_half_of_the_updates_of_fedasmu_send_nothing_as_the_page_says(example):
    from cells import cells
    from results import load

    found = load(KEPT)
    for cell in cells()[3:15]:
        mine, other = (found[cell.name][entry] for entry in ("fedasmu", "fedasync"))
        whole = mine.bytes_up * other.updates / other.bytes_up  # updates that take the bytes of a model
        assert whole == pytest.approx(mine.updates / 2, rel=0.03)
    assert "Half of FedASMU's updates are check-ins" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_steps_that_calls_interrupt_count_in_the_kept_gradients_whatever_the_data(example, number):
    from cells import cells
    from results import load

    found, cell, most = load(KEPT), cells()[number], 4  # the quadratic problem on each fleet, with four local steps
    favano = algorithm(found[cell.name]["favano"].algorithm)
    fleet = replace(cell.fleet, law=(Law.parse(cell.law or "exponential"),) * cell.fleet.groups)
    plan, scenario = favano.timing(fleet, Plan.uniform(fleet, fleet.clients), Local(most))
    steps = int(found[cell.name]["favano"].updates)
    traces = [simulate(fleet, plan, steps, seed=seed, scenario=scenario) for seed in range(5)]
    work = [trace.work[trace.applied] for trace in traces]
    done, cut = (sum(int(rows.sum()) for rows in each) / 5 for each in (work, [rows < most for rows in work]))
    for other in cells():
        if other.problem != "cifar" and other.dealt != "iid" and other.fleet_name == cell.fleet_name:
            for name in ("favano", "quafl"):
                one = found[other.name][name]
                assert (one.gradients, one.unused) == pytest.approx((done + cut, cut))


def test_updates_of_fedcompass_that_were_replaced_count_in_the_kept_bytes(example):
    from cells import cells
    from results import load

    found = load(KEPT)
    sent: dict[str, set[float]] = {}
    for cell in cells():
        if cell.problem != "cifar" and cell.dealt != "iid":
            mine, other = (found[cell.name][entry] for entry in ("fedcompass", "fedasync"))
            many = mine.bytes_up * other.updates / other.bytes_up  # both send whole models
            assert many > mine.updates + 20
            sent.setdefault(cell.fleet_name, set()).add(round(many, 6))
    assert [len(numbers) for numbers in sent.values()] == [1, 1, 1]  # its timing does not depend on the data


def outcome(cell, entry, losses):
    from results import Outcome

    return Outcome(cell, entry, entry, 0.1, "", 5, 100.0, 100.0, 0.0, 1e6, 1e6, losses, (0.5,) * 3, (0.5,) * 3)


def test_the_error_of_a_mean_over_cells_is_that_of_its_seeds_by_hand(example):
    from math import exp

    from tables import its_error, mean_over_best

    found = {
        "a": {"best": outcome("a", "best", (1.0,) * 3), "mine": outcome("a", "mine", (2.0, 2.0, 2.0 * exp(0.3)))},
        "b": {"best": outcome("b", "best", (3.0,) * 3), "mine": outcome("b", "mine", (6.0, 6.0 * exp(0.3), 6.0))},
    }
    # both cells together: mean logarithms log 2, log 2 + 0.15, log 2 + 0.15, with standard error 0.05
    assert its_error(found, ["a", "b"], "mine") == pytest.approx(mean_over_best(found, ["a", "b"], "mine") * 0.05)
    assert its_error(found, ["a", "b"], "best") == 0.0


def test_the_picture_marks_the_mean_that_the_table_has(example):
    from unittest.mock import Mock

    from cells import chosen
    from picture import _row

    cells, panel = chosen(["fashion-mild"]), Mock()
    found = {
        cell.name: {"best": outcome("", "best", (1.0,) * 3), "mine": outcome("", "mine", (times,) * 3)}
        for cell, times in zip(cells, (1.0, 4.0), strict=True)
    }
    _row(panel, found, cells, "mine", 0)
    assert panel.plot.call_args.args[:2] == (pytest.approx(2.0), 0)  # the root of 1 times 4, not 2.5


def test_the_plan_is_compared_seed_by_seed_by_hand(example):
    from cells import chosen
    from tables import PLAN, plan_table

    cells = chosen(["digits-mild"])
    found = {
        # half the loss with every seed, whatever the seed: clearly lower; twice the loss on average: not clear
        cells[0].name: {
            PLAN: outcome("", PLAN, (1.0, 2.0, 3.0)),
            "other": outcome("", "other", (2.0, 4.0, 6.01)),
        },
        cells[1].name: {
            PLAN: outcome("", PLAN, (1.0, 1.0, 8.0)),
            "other": outcome("", "other", (1.0, 1.0, 1.0)),
        },
    }
    assert plan_table(found, cells).splitlines()[-1] == "| other | 1.00 ± 0.69 | 1 | 1 | 0 |"


@pytest.mark.parametrize("text", ["ca2fl(size=5{})", "fadas(size=5, server_step_size=0{})"])
def test_ca2fl_and_fadas_are_themselves_under_the_plan(example, text):
    from cells import chosen
    from entries import Entry

    import sojourn

    (cell,) = chosen(["quadratic-10to1"], gradients=200)
    models = []
    for planned in (False, True):
        spec = Entry("mine", text.format(", dispatch=routed" * planned), planned=planned).spec(cell)
        run = sojourn.train(cell.fleet, spec.pop("plan"), step_size=0.1, **spec, **cell.keys())
        models.append(run.state_dict()["w"].tolist())
    assert models[0] == models[1]


def test_a_shorter_run_has_a_shorter_time_on_the_same_fleet(example):
    from cells import chosen

    (whole,), (part,) = chosen(["digits-10to1-random"]), chosen(["digits-10to1-random"], 800)
    assert part.time == pytest.approx(whole.time / 10)


def entered_alone(home, *words):
    """What the command prints in a process of its own, which finds AREA and the modules of a folder."""
    paths = os.pathsep.join([str(home), str(HOME / "examples" / "extending"), str(HOME / "src")])
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "enter", *words, "--jobs", "1", "--out", str(home)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_method_of_ones_own_gets_its_row_beside_the_others(tmp_path):
    shown = entered_alone(tmp_path, "area:Area", "quadratic-mild", "--gradients", "400")
    assert "| area:Area |" in shown
    assert "| ringmaster |" in shown


@pytest.fixture
def asked(example, monkeypatch, tmp_path):
    """What is asked of the example, in short runs whose processes find its modules and AREA."""
    folders = [str(EXAMPLE), str(HOME / "examples" / "extending"), str(HOME / "src")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    monkeypatch.syspath_prepend(folders[1])

    def of(*words: str, gradients: int = 80, planned: bool = False, entries: list[str] | None = None) -> Namespace:
        places = {"out": tmp_path / "runs", "results": tmp_path / "results"}
        return Namespace(words=[*words], gradients=gradients, planned=planned, entries=entries, jobs=1, **places)

    return of


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}


@pytest.mark.slow
def test_a_method_is_entered_again_at_another_length_under_the_plan_and_as_before(asked, tmp_path, capsys):
    from enter import entered

    entered(asked("area:Area", "quadratic-mild"))
    first, before = capsys.readouterr().out, written(tmp_path)
    entered(asked("area:Area", "quadratic-mild", gradients=120))
    assert "| area:Area |" in capsys.readouterr().out
    entered(asked("area:Area", "quadratic-mild", planned=True))
    planned = capsys.readouterr().out
    assert "| area:Area, planned |" in planned
    assert "| area:Area |" not in planned
    entered(asked("fedbuff(size=3)", "quadratic-mild"))
    assert "area:Area" not in capsys.readouterr().out
    everything = written(tmp_path)
    entered(asked("area:Area", "quadratic-mild"))
    assert capsys.readouterr().out == first
    assert written(tmp_path) == everything
    assert before.items() <= everything.items()


@pytest.mark.slow
def test_the_field_grows_by_entries_and_trains_nothing_twice(asked, tmp_path):
    from results import load
    from stages import collect, train

    train(asked("quadratic-mild", entries=["ringmaster"]))
    before = written(tmp_path)
    for entries in (["rennala"], ["rennala", "ringmaster"]):
        train(asked("quadratic-mild", entries=entries))
    collect(asked("quadratic-mild"))
    assert before.items() <= written(tmp_path).items()
    assert load(tmp_path / "results")["quadratic-mild-natural"].keys() == {"ringmaster", "rennala"}


@pytest.mark.parametrize("stage", ["collect", "everything"])
def test_runs_of_another_length_do_not_get_among_the_kept_results(asked, stage):
    import stages

    from sojourn.errors import InvalidInput

    command = asked("quadratic-mild")
    command.results = KEPT
    with pytest.raises(InvalidInput, match="name another folder with --results"):
        getattr(stages, stage)(command)


@pytest.mark.slow
def test_one_command_trains_collects_and_reports_and_goes_on_where_it_stopped(asked, tmp_path):
    from stages import everything

    page, command = tmp_path / "field.md", asked("quadratic-mild", entries=["ia2sgd"])
    page.write_text("before\n<!-- made: exact -->\nold\n<!-- end of exact -->\nafter\n")
    command.page = page
    everything(command)
    first, runs = page.read_text(), written(tmp_path)
    assert re.fullmatch(
        r"before\n<!-- made: exact -->\n.*\| ia2sgd \|.*\n<!-- end of exact -->\nafter\n", first, re.DOTALL
    )
    everything(command)
    assert (page.read_text(), written(tmp_path)) == (first, runs)


def test_the_stages_of_the_command_are_all_there(example):
    import stages

    main = run_path(str(EXAMPLE / "__main__.py"), run_name="field")
    assert {getattr(stages, name).__name__ for name in main["STAGES"].values()} >= {"everything", "train", "enter"}


@pytest.mark.slow
def test_a_method_that_was_edited_is_trained_anew_and_its_old_runs_stay(tmp_path):
    source = """
import torch
from area import Area

class Mine(Area):
    def apply(self, state, arrival):
        after, info = super().apply(state, arrival)
        return after._replace(params=torch.lerp(state.params, after.params, {})), info
"""
    rows, runs = [], []
    for share in (1.0, 0.25, 1.0):
        (tmp_path / "edited_method.py").write_text(source.format(share))
        shown = entered_alone(tmp_path, "edited_method:Mine", "quadratic-mild", "--gradients", "80")
        rows += [line for line in shown.splitlines() if line.startswith("| edited_method:Mine")]
        runs.append(written(tmp_path))
    assert rows[0] == rows[2] != rows[1]
    assert runs[0].items() < runs[1].items() == runs[2].items()
