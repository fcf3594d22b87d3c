"""Work that is done is not lost: places are checked before it, and what cannot be written is shown all the same."""

import json
import os
import re
import subprocess
import sys
import textwrap
import time

import pytest

from full_disk import full_disk
from pretended_papers import install
from sojourn import Trace
from sojourn.cli.main import run
from sojourn.report.reproduction.claim import claim
from sojourn.report.reproduction.experiment import Experiment

TRAINED = ("--steps", 40, "--partition", "classes(k=2)")


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def go(*words):
        monkeypatch.setattr(sys, "argv", ["sojourn", *map(str, words)])
        code = 0
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
        return (code, *capsys.readouterr())

    return go


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.csv").write_text("name,count,rate\nfast,6,4\nslow,4,1\n")
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# a verb, what its table shows, and the bytes that the disk has room for
VERBS = {
    "plan": (["plan", "fleet.csv", "--time", 50], "plan.json", "other policies in the same time"),
    "plan by bound": (
        ["plan", "fleet.csv", "--by", "bound", "--time", 50, "--no-sensitivity", "--no-law-check"],
        "bound.json",
        "minimised",
    ),
    "analyze": (["analyze", "fleet.csv"], "analysis.json", "exact stationary values"),
    "simulate": (["simulate", "fleet.csv", "--steps", 2000], "summary.json", "staleness, theory"),
    "fit": (["fit", "trace.parquet", "--fleet", "fleet.csv"], "fitted.toml", "finished services"),
    "calibrate": (
        ["calibrate", "fleet.csv", "--model", "logistic", "--gradients", 24, "--points", 2, "--steps", 20],
        "constants.toml",
        "variance of a stochastic gradient",
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_cannot_be_written_leaves_the_old_one_and_the_numbers_on_the_screen(call, home, verb):
    words, name, shown = VERBS[verb]
    if verb == "fit":
        call("simulate", "fleet.csv", "--steps", 2000, "--out", "trace.parquet")
    assert call(*words, "--out", name)[0] == 0
    before, there = (home / name).read_bytes(), names(home)
    with full_disk(60):
        code, out, said = call(*words, "--out", name, "--overwrite")
    assert code == 2
    assert shown in out
    assert re.search(rf"^error: cannot write .*{name}: File too large; name another place\n\Z", said, re.MULTILINE)
    assert "wrote" not in said
    assert (home / name).read_bytes() == before
    assert names(home) == there


@pytest.mark.parametrize("verb", VERBS)
def test_a_place_where_nothing_can_be_written_is_refused_before_the_work(call, home, verb, monkeypatch):
    def work(*_arguments, **_options):
        pytest.fail("the work was begun")

    for where in (
        "planning.bound.search.make_plan",
        "timing.exact.analysis.analyze",
        "timing.simulate.summary.measure",
    ):
        monkeypatch.setattr(f"sojourn.{where}", work)
    for where in ("timing.fit.from_trace.fit", "learning.run.build.build"):
        monkeypatch.setattr(f"sojourn.{where}", work)
    words, name, _ = VERBS[verb]
    code, out, said = call(*words, "--out", f"none/{name}")
    assert (code, out) == (2, "")
    assert f"none/{name}: No such file or directory; check the folder" in said
    (home / f"folder-{name}").mkdir()
    assert "it is a folder; name a file in it" in call(*words, "--out", f"folder-{name}")[2]


HALF = """
    import os, sys
    from sojourn.cli import show
    pieces = show.json_pieces

    def killed(content):  # in the middle of the writing
        yield next(pieces(content)) * 10_000  # more than a buffer holds
        os._exit(9)

    show.json_pieces = killed
    from sojourn.cli.main import run
    sys.argv = ["sojourn", "analyze", "fleet.csv", "--out", "analysis.json", "--overwrite"]
    run()
"""


def test_a_kill_in_the_middle_of_the_writing_leaves_the_old_file(call, home):
    words = ["analyze", "fleet.csv", "--out", "analysis.json", "--overwrite"]
    assert call(*words)[0] == 0
    before = (home / "analysis.json").read_bytes()
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(HALF)]).returncode == 9
    assert (home / "analysis.json").read_bytes() == before
    assert call(*words)[0] == 0
    assert names(home) == ["analysis.json", "fleet.csv"]


@pytest.mark.parametrize(
    "words", [["simulate", "fleet.csv"], ["train", "fleet.csv"], ["compare", "fleet.csv", "--algorithm", "asyncsgd"]]
)
def test_a_folder_that_cannot_be_made_is_refused_before_the_work(call, home, words):
    code, out, said = call(*words, "--out", "fleet.csv/run")
    assert (code, out) == (2, "")
    assert "cannot write to fleet.csv/run" in said
    assert names(home) == ["fleet.csv"]


def test_a_refused_simulation_leaves_no_folder_behind(call, home):
    assert call("simulate", "fleet.csv", "--start", "one-each", "-C", 11, "--out", "run")[0] == 2
    assert names(home) == ["fleet.csv"]


def test_a_trace_that_cannot_be_written_whole_does_not_replace_the_old_one(call, home):
    words = ["simulate", "fleet.csv", "--steps", 20_000, "--out", "run"]
    assert call(*words)[0] == 0
    before = (home / "run" / "trace.parquet").read_bytes()
    with full_disk(100_000):
        code, _, said = call(*words, "--overwrite", "--seed", 1)
    assert code == 2
    assert "cannot write trace file run/trace.parquet: File too large" in said
    assert (home / "run" / "trace.parquet").read_bytes() == before
    assert Trace.load(home / "run" / "trace.parquet").metadata["seed"] == 0
    assert names(home / "run") == ["summary.json", "trace.parquet"]


def test_a_group_whose_name_looks_like_markup_is_shown_as_it_is(call, home):
    (home / "odd.csv").write_text("name,count,rate\n[/],6,4\n[red]slow,4,1\n")
    code, out, _ = call("simulate", "odd.csv", "--steps", 2000, "--out", "summary.json")
    assert code == 0
    assert "[/]" in out
    assert "[red]slow" in out
    assert json.loads((home / "summary.json").read_text())["groups"][0]["name"] == "[/]"


def sojourn(*words, **environment):
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "sojourn", *map(str, words)]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment})


@pytest.mark.slow
def test_a_screen_without_the_characters_gets_others_in_their_place(home):
    (home / "odd.csv").write_text("name,count,rate\nschnell-ä,6,4\nslow,4,1\n", "utf-8")
    ended = sojourn("simulate", "odd.csv", "--steps", 2000, "--out", "s.json", PYTHONIOENCODING="ascii")
    assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False)
    text = ended.stdout.decode("ascii")
    assert re.search(r"schnell-\\xe4 .*\d \+- [\d.e-]+", text)
    rows = [line for line in text.splitlines() if line.count("|") > 5]
    assert len(rows) == 3
    assert len({tuple(at for at, one in enumerate(row) if one == "|") for row in rows}) == 1  # the columns are straight
    assert json.loads((home / "s.json").read_text())["groups"][0]["name"] == "schnell-ä"


@pytest.mark.slow
def test_a_reader_that_goes_away_does_not_keep_the_summary_from_being_written(home):
    command = [sys.executable, "-m", "sojourn", "simulate", "fleet.csv", "--steps", "2000", "--out", "s.json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        process.stderr.read()
    assert json.loads((home / "s.json").read_text())["complete"] is True


def test_training_that_cannot_be_written_is_shown_and_goes_on_from_its_last_checkpoint(call, home):
    words = ["train", "fleet.csv", *TRAINED, "--checkpoint-seconds", 0, "--out", "run"]
    call(*words[:-1], "whole")
    with full_disk(30_000):  # the first checkpoint has room, one with several models has not
        code, out, said = call(*words)
    assert code == 2
    assert "received" in out
    assert re.search(r"^error: cannot write checkpoint run/checkpoints/.*: File too large; name another place", said)
    assert call("train", "--resume", "--out", "run")[0] == 0
    models = [(home / name / "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert models[0] == models[1]


def test_pictures_that_cannot_be_drawn_do_not_keep_the_table_from_the_screen(call, home):
    assert call("train", "fleet.csv", *TRAINED, "--out", "run")[0] == 0
    (home / "run" / "curves.svg").mkdir()
    code, out, said = call("train", "--resume", "--pictures", "--out", "run")
    assert code == 2
    assert "run: done" in out
    assert "cannot write picture run/curves.svg: Is a directory" in said


@pytest.mark.slow
def test_a_sweep_whose_table_cannot_be_written_is_shown(call, home):
    (home / "sweep.toml").write_text(
        'seeds = 1\n[run]\nfleet = "fleet.csv"\nsteps = 20\n[grid]\nstep_size = [0.1, 0.2]\n'
    )
    (home / "out" / "runs.csv").mkdir(parents=True)
    code, out, said = call("sweep", "sweep.toml", "--out", "out", "--jobs", 1)
    assert code == 2
    assert out.count("complete") == 2
    assert "cannot write table out/runs.csv: Is a directory" in said


@pytest.mark.slow
def test_a_comparison_whose_table_or_picture_cannot_be_written_is_shown(call, home):
    words = [
        "compare",
        "fleet.csv",
        "--algorithm",
        "asyncsgd",
        "--steps",
        20,
        "--seeds",
        1,
        "--jobs",
        1,
        "--out",
        "out",
    ]
    for name in ("table.csv", "comparison.svg"):
        (home / "out" / name).mkdir(parents=True)
    code, out, said = call(*words)
    assert code == 2
    assert "worst client" in out
    assert "cannot write table out/table.csv: Is a directory" in said
    assert "cannot write picture out/comparison.svg: Is a directory" in said


def test_claims_whose_folder_cannot_be_written_are_shown(call, home, monkeypatch, tmp_path_factory):
    def first(folder, fast, watch):
        return [claim("one is one", "1", "1", holds=[True], rule="equal")]

    install(monkeypatch, tmp_path_factory.mktemp("site"), paper=[Experiment("first", "First", "figure 1", first)])
    with full_disk(20):
        code, out, said = call("reproduce", "all")
    assert code == 2
    assert "one is one" in out
    assert "its data could not be written" in out
    assert re.search(r"error: cannot write table .*claims\.csv: File too large; name another place\n\Z", said)
    assert names(home) == ["fleet.csv"]


KILLED = """
    import os, sys
    from sojourn.learning.run.trainer import Trainer
    Trainer._evaluate = lambda self: os._exit(9)  # as a kill would, when the folder of the first seed is made
    from sojourn.cli.main import run
    sys.argv = ["sojourn", "train", "fleet.csv", "--steps", "20", "--seeds", "3", "--out", "out"]
    run()
"""


@pytest.mark.slow
def test_seeds_killed_while_the_first_folder_is_made_are_all_resumed(call, home):
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED)])
    assert killed.returncode == 9
    code, out, _ = call("train", "--resume", "--out", "out")
    assert code == 0
    assert [f"seed-{seed}" in out for seed in range(4)] == [True, True, True, False]
    assert json.loads((home / "out" / "seeds.json").read_text()) == {"seeds": [0, 1, 2]}


def test_seeds_are_refused_together_and_nothing_is_begun(call, home):
    assert call("train", "fleet.csv", "--steps", 20, "--seed", 2, "--out", "out/seed-2")[0] == 0
    code, _, said = call("train", "fleet.csv", "--steps", 20, "--seeds", 4, "--out", "out")
    assert code == 2
    assert "the folder out/seed-2 already holds a run" in said
    assert names(home / "out") == ["seed-2"]


def test_fewer_seeds_resumed_do_not_make_the_others_forgotten(call, home):
    assert call("train", "fleet.csv", "--steps", 20, "--seeds", 3, "--out", "out")[0] == 0
    assert call("train", "--resume", "--seeds", 1, "--out", "out")[0] == 0
    assert json.loads((home / "out" / "seeds.json").read_text()) == {"seeds": [0, 1, 2]}


SLOW = """
    import sys, time
    from pathlib import Path
    from sojourn.experiments import training
    simulated = training.simulated

    def slowly(built):  # what the folder holds has been looked at; another run is begun, and ends, in the meantime
        Path("looked").touch()
        while not Path("go").exists():
            time.sleep(0.02)
        return simulated(built)

    training.simulated = slowly
    from sojourn.cli.main import run
    sys.argv = ["sojourn", "train", "fleet.csv", "--steps", "20", "--seed", "1", "--out", "run"]
    run()
"""


@pytest.mark.slow
def test_two_different_runs_begun_at_once_in_one_new_folder_do_not_mix(call, home):
    command = [sys.executable, "-c", textwrap.dedent(SLOW)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as slow:
        while not (home / "looked").exists():
            assert slow.poll() is None, slow.stderr.read()
            time.sleep(0.02)
        other = sojourn("train", "fleet.csv", "--steps", 20, "--seed", 2, "--out", "run")
        (home / "go").touch()
        slow.communicate()
    assert sorted([slow.returncode, other.returncode]) == [0, 2]
    assert b"another process is training in run" in other.stderr
    assert call("train", "fleet.csv", "--steps", 20, "--seed", 1, "--out", "alone")[0] == 0
    for name in ("config.json", "trace.parquet", "metrics.csv", "model.safetensors", "summary.json"):
        assert (home / "run" / name).read_bytes() == (home / "alone" / name).read_bytes()
