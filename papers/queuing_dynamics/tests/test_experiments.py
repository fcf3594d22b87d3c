"""Every experiment runs, leaves its files, and comes to the verdicts that are known."""

import csv
import re
import signal
from pathlib import Path

import pytest

from queuing_dynamics.experiments import EXPERIMENTS, PAPER
from sojourn.errors import InvalidInput
from sojourn.report.reproduction.claim import VERDICTS
from sojourn.report.reproduction.experiment import Experiment
from sojourn.report.reproduction.page import section, table_of, table_rows
from sojourn.report.reproduction.reproduce import reproduce

pytest.importorskip("matplotlib")

# verdicts in the order of the claims: a agrees, d disagrees, p partly, o too close to call (open), - not stated
KNOWN = {
    "stationarity": "a-a-",
    "other-bounds": "paaadadaa-",
    "scaling-limits": "aaddaaadpapp",
    "two-clusters": "apaappadd",
    "three-clusters": "adapdad",
    "step-size": "adadadadd",
    "physical-time": "dpapddpp",
    "cifar10": "oaadaadddadddao" + 37 * "-",
    "tinyimagenet": 5 * "-",
}
QUICK = ("other-bounds", "scaling-limits", "step-size", "physical-time", "cifar10", "tinyimagenet")
PAGE = Path(__file__).parents[3] / "docs" / "paper.md"
BESIDE = {
    "cifar10": {
        f"{name}.csv": f"results/paper/{name}.csv"
        for name in ("favourable", "favourable-differences", "favourable-worst-clients", "rates")
    },
    "tinyimagenet": {"rates.csv": "results/paper/tinyimagenet-rates.csv"},
}
"""Tables of an experiment that lie beside the page too."""
LETTER = {"agrees": "a", "disagrees": "d", "partly": "p", "too close to call": "o", "not stated": "-"}


def silent(what, done, total):
    pass


def letters(outcome):
    return "".join(LETTER[one.verdict] for one in outcome.claims)


def on_the_page(name):
    text = PAGE.read_text("utf-8")
    return re.search(rf"<!-- reproduce {name} -->\n(.*?)<!-- end of {name} -->", text, re.DOTALL)[1]


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def assert_alike(made, kept):
    """The same words, and the same numbers but for rounding."""
    assert len(made) == len(kept) > 0
    for one, other in zip(made, kept, strict=True):
        assert one.keys() == other.keys()
        assert all(alike(one[key], other[key]) for key in one), (one, other)


def alike(one, other):
    try:
        return float(one) == pytest.approx(float(other), rel=1e-9, abs=1e-9, nan_ok=True)
    except ValueError:
        return one == other


def assert_it_stands_on_the_page(outcome):
    """As a short table, and whole in the CSV file beside it."""
    table = table_of(PAGE, outcome.experiment)
    assert section(outcome.experiment, outcome.claims, False, table.as_posix()) == on_the_page(outcome.experiment.name)
    assert rows_of(PAGE.parent / table) == table_rows(outcome.claims)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "cifar10")) for name in KNOWN])
def test_an_experiment_comes_to_its_verdicts_and_leaves_its_files(name, tmp_path):
    quick = name in QUICK  # then it is done in full, and must stand on the page as it is made
    outcome = reproduce(PAPER.asked_for(name)[0], tmp_path, not quick, silent)
    assert letters(outcome) == KNOWN[name]
    if quick:
        assert_it_stands_on_the_page(outcome)
        for made, kept in BESIDE.get(name, {}).items():
            assert_alike(rows_of(outcome.folder / made), rows_of(PAGE.parent / kept))
    files = {path.suffix: path for path in outcome.folder.iterdir()}
    assert set(files) == {".csv", ".svg", ".png", ".json"}
    assert [path.name for path in tmp_path.iterdir()] == [name]
    rows = rows_of(outcome.folder / "claims.csv")
    assert [row["statement"] for row in rows] == [one.statement for one in outcome.claims]
    assert all(row["verdict"] in VERDICTS for row in rows)
    assert all(row["rule"] for row in rows if row["verdict"] != "not stated")
    again = reproduce(PAPER.asked_for(name)[0], tmp_path, not quick, silent)
    assert again.kept
    assert again.claims == outcome.claims


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in EXPERIMENTS if one.name not in QUICK])
def test_what_takes_longer_stands_on_the_page_as_it_is_made(name, tmp_path):
    assert_it_stands_on_the_page(reproduce(PAPER.asked_for(name)[0], tmp_path, False, silent))


def test_every_experiment_has_its_place_on_the_page():
    for one in EXPERIMENTS:
        assert "| paper | ours | verdict |" in on_the_page(one.name)
        assert table_of(PAGE, one).as_posix() in on_the_page(one.name)


def test_no_line_of_the_page_is_longer_than_100_characters():
    assert [line for line in PAGE.read_text("utf-8").splitlines() if len(line) > 100] == []


def test_every_file_that_the_page_links_is_there():
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE.read_text("utf-8"))
    assert len(linked) > 30
    assert [name for name in linked if not (PAGE.parent / name).exists()] == []


def test_each_method_at_its_best_has_the_numbers_of_the_csv_file():
    """Method, tasks, updates, staleness, accuracy over the last 15% and of the last model, worst client."""
    told = re.compile(r"(\d+) tasks, .*?, ([\d,]+) updates, staleness ([\d.]+), worst client ([\d.]+%);")
    ending, expected = ", tuned for virtual time 1400", []
    for row in rows_of(PAGE.parent / "results" / "paper" / "cifar10.csv"):
        if row["statement"].endswith(ending):
            tasks, updates, staleness, worst = told.match(row["note"]).groups()
            cells = [row["statement"].removesuffix(ending), tasks, updates, staleness, *row["ours"].split(" / "), worst]
            expected.append("| " + " | ".join(cells) + " |")
    assert len(expected) == 10
    assert "\n" + "\n".join(["|---|---|---|---|---|---|---|", *expected]) + "\n\n" in PAGE.read_text("utf-8")


@pytest.mark.slow
def test_the_worked_example_comes_to_its_verdicts(tmp_path):
    outcome = reproduce(PAPER.asked_for("optimal-sampling")[0], tmp_path, True, silent)
    assert letters(outcome)[0] == "a"
    assert letters(outcome)[3] == "d"
    gain = outcome.claims[0]
    assert "conditional m, simulated, exponential" in gain.statement
    assert [float(part.strip("%")) for part in gain.ours.split(" / ")] == pytest.approx([32.5, 57.0], abs=1)


def test_every_experiment_has_a_name_of_its_own_and_says_where_it_stands():
    assert len({one.name for one in EXPERIMENTS}) == len(EXPERIMENTS) >= 8
    assert all(one.title and one.where for one in EXPERIMENTS)
    assert PAPER.asked_for("all") == list(EXPERIMENTS)


@pytest.mark.parametrize(("given", "nearest"), [("two-cluster", "two-clusters"), ("stationary", "stationarity")])
def test_a_wrong_name_gets_the_names_and_the_nearest(given, nearest):
    with pytest.raises(InvalidInput, match=rf"no experiment '{given}'.*stationarity, .*did you mean {nearest}\?"):
        PAPER.asked_for(given)


def test_a_wrong_name_that_is_near_nothing_gets_the_names():
    with pytest.raises(InvalidInput, match=r"no experiment 'xyz'; the names are stationarity, .*, or all$"):
        PAPER.asked_for("xyz")


def stopped(folder, fast, watch):
    (folder / "half.csv").write_text("half")
    raise KeyboardInterrupt


def test_what_is_interrupted_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        reproduce(Experiment("half", "", "", stopped), tmp_path, True, silent)
    assert list(tmp_path.iterdir()) == []


def ended(folder, fast, watch):
    (folder / "data.csv").write_text(f"fast\n{fast}\n")
    return []


def test_a_finished_experiment_is_replaced_only_when_asked(tmp_path):
    one = Experiment("one", "", "", ended)
    assert not reproduce(one, tmp_path, True, silent).kept
    with pytest.raises(InvalidInput, match=r"holds a fast run of sojourn .*give --overwrite to replace it"):
        reproduce(one, tmp_path, False, silent)
    assert not reproduce(one, tmp_path, False, silent, overwrite=True).kept
    assert (tmp_path / "one" / "data.csv").read_text() == "fast\nFalse\n"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_stops_the_exchange_of_old_and_new_leaves_the_old(tmp_path, monkeypatch, error):
    one = Experiment("one", "", "", ended)
    reproduce(one, tmp_path, True, silent)
    rename = Path.rename

    def stopping(path, target):
        if path.name == ".one.partial":  # the old one has left its place, the new one has not taken it
            raise error
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", stopping)
    with pytest.raises(error):
        reproduce(one, tmp_path, False, silent, overwrite=True)
    assert (tmp_path / "one" / "data.csv").read_text() == "fast\nTrue\n"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_ctrl_c_between_the_two_renames_waits_for_the_second(tmp_path, monkeypatch):
    one = Experiment("one", "", "", ended)
    reproduce(one, tmp_path, True, silent)
    rename = Path.rename

    def interrupted(path, target):
        done = rename(path, target)
        if path.name == "one":
            signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce(one, tmp_path, False, silent, overwrite=True)
    assert (tmp_path / "one" / "data.csv").read_text() == "fast\nFalse\n"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_left_alone(tmp_path, overwrite):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="exists and is not a finished experiment; name another --out"):
        reproduce(Experiment("one", "", "", ended), tmp_path, True, silent, overwrite)
    assert (tmp_path / "one" / "mine.txt").read_text() == "mine"
