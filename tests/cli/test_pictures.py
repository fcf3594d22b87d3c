"""`--pictures DIR`, the same flag on every verb that has something to show."""

import pytest
from typer.main import get_command

from sojourn.cli.main import app
from sojourn.errors import InvalidInput, UnwritableFile
from sojourn.experiments.results import Run


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text("name,count,rate\nfast,9,8\nslow,3,1\n")
    return path


def call(*words):
    app([str(word) for word in words], standalone_mode=False)


@pytest.mark.parametrize("verb", ["plan", "analyze", "simulate", "train", "compare", "calibrate", "tune", "sweep"])
def test_the_flag_takes_a_folder_on_every_verb(verb):
    options = {flag: option for option in get_command(app).commands[verb].params for flag in option.opts}
    assert options["--pictures"].metavar == "DIR"


@pytest.mark.parametrize("words", [["analyze", "--uplink", 5], ["analyze", "--cap", 1], ["simulate", "--steps", 2000]])
def test_staleness_and_tasks_are_drawn_by_group(fleet, tmp_path, words, capsys):
    verb, *rest = words
    call(verb, fleet, *rest, "--pictures", tmp_path / "new" / "pictures")
    pictures = {path.name: path for path in (tmp_path / "new" / "pictures").iterdir()}
    assert set(pictures) == {"staleness.svg", "staleness.png", "tasks.svg", "tasks.png"}
    assert all(f"<!-- {name} -->" in pictures["staleness.svg"].read_text() for name in ("fast", "slow"))
    assert f"wrote {pictures['tasks.svg']}" in capsys.readouterr().err


def test_a_simulation_is_drawn_beside_the_theory(fleet, tmp_path):
    call("simulate", fleet, "--steps", 2000, "--pictures", tmp_path)
    svg = (tmp_path / "staleness.svg").read_text()
    assert "<!-- theory -->" in svg
    assert "<!-- simulated -->" in svg


def test_many_groups_are_drawn_without_their_names(tmp_path):
    rows = "".join(f"g{n},1,{n + 1}\n" for n in range(40))
    (tmp_path / "many.csv").write_text(f"name,count,rate\n{rows}")
    call("analyze", tmp_path / "many.csv", "--pictures", tmp_path)
    svg = (tmp_path / "staleness.svg").read_text()
    assert "<!-- g7 -->" not in svg
    assert "1 to 40 of the fleet file" in svg


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--time", "1h"], ["--time", "60", "--by", "bound", "--no-law-check"]])
def test_every_panel_of_a_plan_can_be_a_figure_of_its_own(fleet, tmp_path, words):
    call("plan", fleet, *words, "--pictures", tmp_path / "pictures", "--figure", "single")
    kinds = {path.suffix for path in (tmp_path / "pictures").iterdir()}
    assert len(list((tmp_path / "pictures").iterdir())) == 9
    assert kinds == {".pdf", ".svg", ".png"}


@pytest.mark.slow
def test_every_panel_of_a_run_can_be_a_figure_of_its_own_here_and_in_python(fleet, tmp_path):
    words = ["--steps", 20, "--model", "logistic", "--out", tmp_path / "run", "--json"]
    call("train", fleet, *words, "--pictures", tmp_path / "pictures", "--figure", "single")
    kinds = ("pdf", "svg", "png")
    curves = {f"curves-{axis}.{kind}" for axis in ("received", "time") for kind in kinds}
    assert {one.name for one in (tmp_path / "pictures").iterdir()} == curves | {
        "who-holds-what.svg",
        "who-holds-what.png",
    }
    figure = Run(tmp_path / "run").plot(tmp_path / "accuracy-time", axis="time")
    assert len(figure.axes) == 1
    assert all((tmp_path / f"accuracy-time.{kind}").exists() for kind in kinds)


def test_a_figure_is_of_panels_or_single(fleet, tmp_path):
    with pytest.raises(InvalidInput, match="figure must be panels or single, got 'double'"):
        call("plan", fleet, "--time", "1h", "--pictures", tmp_path, "--figure", "double")


def test_a_folder_must_be_named_where_the_verb_has_none_of_its_own(fleet):
    with pytest.raises(InvalidInput, match="--pictures must name a folder, got none; write for example"):
        call("analyze", fleet, "--pictures", "--json")


def test_a_fleet_that_pictures_would_swallow_is_missed_aloud(fleet):
    with pytest.raises(InvalidInput, match=r"takes the word after it for its folder, got the file .*fleet\.csv"):
        call("train", "--pictures", fleet, "--steps", 5)


@pytest.mark.parametrize("verb", ["train", "tune", "compare", "sweep"])
def test_help_says_where_pictures_may_stand_alone(verb):
    options = {flag: one for one in get_command(app).commands[verb].params for flag in one.opts}
    assert "alone, into the folder of the results" in options["--pictures"].help


def test_a_folder_that_is_a_file_is_refused_before_the_work(fleet):
    with pytest.raises(UnwritableFile, match=r"cannot write to .*fleet\.csv: it is a file; name a folder"):
        call("simulate", fleet, "--pictures", fleet)
