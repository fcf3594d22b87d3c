"""`sojourn reproduce`."""

import json
import re

import pytest

from pretended_papers import install, write_metadata
from sojourn.cli.main import run
from sojourn.errors import InvalidInput
from sojourn.report.reproduction.claim import claim
from sojourn.report.reproduction.experiment import Experiment
from sojourn.version import __version__

pytest.importorskip("matplotlib")


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run_with(*words):
        monkeypatch.setattr("sys.argv", ["sojourn", "reproduce", *map(str, words)])
        code = 0
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
        return (code, *capsys.readouterr())

    return run_with


def first(folder, fast, watch):
    watch("counting", 1, 2)
    return [claim("one is one", "1", "1", holds=[True], rule="equal")]


def second(folder, fast, watch):
    raise KeyboardInterrupt


FIRST, SECOND = Experiment("first", "First", "figure 1", first), Experiment("second", "Second", "figure 2", second)


@pytest.fixture
def have(monkeypatch, tmp_path_factory):
    """Have papers installed, and no others."""
    return lambda **papers: install(monkeypatch, tmp_path_factory.mktemp("site"), **papers)


@pytest.fixture
def two(have):
    have(paper=[FIRST, SECOND])


def test_help_shows_examples(call):
    assert "sojourn reproduce all --fast --out reproduced/" in call("--help")[1]


def test_the_list_names_the_experiments_of_every_paper_and_where_they_stand(call, have):
    have(one=[FIRST], other=[SECOND])
    shown = call("--list")[1]
    listed = json.loads(call("--list", "--json")[1])["experiments"]
    assert [(row["paper"], row["name"], row["where"]) for row in listed] == [
        ("one", "first", "figure 1"),
        ("other", "second", "figure 2"),
    ]
    assert all(word in shown for word in ("On one", "On other", "first", "second", "figure 2"))
    assert [row["name"] for row in json.loads(call("--list", "--json", "--paper", "other")[1])["experiments"]] == [
        "second"
    ]


def test_a_paper_that_is_missing_is_reported_in_one_sentence_with_the_way_to_install_it(call, have):
    have()
    for words in (["all"], ["--list"], []):
        assert call(*words) == (
            2,
            "",
            "error: no paper to reproduce is installed; pip install ./papers/queuing_dynamics in a copy of sojourn's "
            "repository\n",
        )


def test_of_several_papers_one_is_chosen_by_name(call, have, tmp_path):
    have(one=[FIRST], other=[FIRST, SECOND])
    assert call("first", "--out", tmp_path / "out") == (
        2,
        "",
        "error: 2 papers are installed; choose one of one, other by --paper\n",
    )
    assert call("first", "--paper", "oter")[2] == (
        "error: there is no paper 'oter'; installed are one, other; did you mean other?\n"
    )
    code, shown, _ = call("first", "--paper", "other", "--out", tmp_path / "out", "--json")
    assert (code, json.loads(shown)["paper"]) == (0, "other")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("nowhere_at_all:PAPER", "paper broken cannot be loaded (No module named 'nowhere_at_all'); install it again"),
        ("json:PAPER", "paper broken cannot be loaded (module 'json' has no attribute 'PAPER'); install it again"),
        ("json:dumps", "paper broken: json:dumps must be a Paper, got a function; install another version of it"),
    ],
)
def test_a_paper_that_cannot_be_loaded_is_named(call, monkeypatch, tmp_path, entry, message):
    write_metadata(tmp_path, [f"broken = {entry}"])
    monkeypatch.syspath_prepend(tmp_path)
    assert call("all") == (2, "", f"error: {message}\n")


def test_claims_are_shown_with_their_verdicts(call, have, tmp_path):
    have(paper=[FIRST])
    code, shown, said = call("first", "--fast", "--out", tmp_path)
    assert code == 0
    assert "one is one" in shown
    assert "agrees" in shown
    assert re.search(r"first: done in [0-9.]+ s, in ", said)
    content = json.loads(call("first", "--fast", "--out", tmp_path, "--json")[1])
    assert (content["command"], content["fast"], content["complete"]) == ("reproduce", True, True)
    (one,) = content["experiments"]
    assert one["kept"]
    assert set(one["claims"][0]) == {"statement", "paper", "ours", "error", "verdict", "rule", "note"}


def test_ctrl_c_keeps_what_is_finished_and_all_is_written_only_when_all_is_done(call, two, tmp_path):
    code, shown, said = call("all", "--out", tmp_path)
    assert code == 130
    assert "one is one" in shown
    assert f"interrupted; finished experiments are kept in {tmp_path}; continue with: sojourn reproduce all" in said
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    assert json.loads(call("all", "--out", tmp_path, "--json")[1])["complete"] is False


def test_the_way_on_does_not_make_again_what_was_made(call, two, tmp_path):
    """With --overwrite the first would be made again and again."""
    assert call("all", "--out", tmp_path)[0] == 130
    said = call("all", "--out", tmp_path, "--overwrite")[2]
    assert f"continue with: sojourn reproduce all --out {tmp_path}\n" in said
    # what is there and was to be replaced is named
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "experiment.json").write_text('{"sojourn": "0", "fast": false, "seconds": 1}')
    said = call("all", "--overwrite", "--out", tmp_path)[2]
    assert "(--overwrite would repeat the finished ones; give it with second by name)" in said
    # nothing was made: the command is repeated as it was
    assert call("second", "--overwrite", "--out", tmp_path)[2].endswith(
        "interrupted; no experiment was finished; continue with: "
        f"sojourn reproduce second --overwrite --out {tmp_path}\n"
    )


def third(folder, fast, watch):
    raise InvalidInput("this cannot be; do something else")


def test_what_was_finished_before_a_failure_is_shown_and_written(call, have, tmp_path):
    have(paper=[FIRST, Experiment("third", "Third", "figure 3", third)])
    page, places = tmp_path / "page.md", "<!-- reproduce {0} -->\n<!-- end of {0} -->\n"
    page.write_text(places.format("first") + places.format("third"))
    code, shown, said = call("all", "--out", tmp_path / "out", "--page", page)
    assert code == 2
    assert "one is one" in shown
    assert "third failed; finished experiments are kept in" in said
    assert said.endswith("error: this cannot be; do something else\n")
    assert "| one is one |" in page.read_text()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["first"]
    assert json.loads(call("all", "--out", tmp_path / "out", "--json")[1])["complete"] is False


@pytest.mark.parametrize(
    ("words", "facts", "message"),
    [
        (["--fast"], '{"sojourn": "VERSION", "fast": false, "seconds": 1}', "holds a full run of sojourn "),
        ([], '{"sojourn": "0.0", "fast": false, "seconds": 1}', "holds a full run of sojourn 0.0; name another --out"),
        ([], "{}", "exists and is not a finished experiment; name another --out"),
        (["--page", "page.md"], None, "has no place for second; write the lines <!-- reproduce second -->"),
    ],
)
def test_what_cannot_take_its_place_is_refused_before_any_experiment_runs(
    call, two, words, facts, message, tmp_path, monkeypatch
):
    """The second is in the way; the first, which could be made, is not begun."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text("<!-- reproduce first -->\n<!-- end of first -->\n")
    if facts is not None:
        (tmp_path / "reproduced" / "second").mkdir(parents=True)
        (tmp_path / "reproduced" / "second" / "experiment.json").write_text(facts.replace("VERSION", __version__))
    code, shown, said = call("all", *words)
    assert (code, shown) == (2, "")
    assert message in said
    assert not (tmp_path / "reproduced" / "first").exists()


def test_all_claims_go_to_one_table_and_onto_a_page(call, have, tmp_path):
    have(paper=[FIRST])
    page = tmp_path / "page.md"
    page.write_text("<!-- reproduce first -->\n<!-- end of first -->\n")
    assert call("all", "--out", tmp_path / "out", "--page", page)[0] == 0
    assert (
        (tmp_path / "out" / "claims.csv").read_text().startswith("experiment,statement,paper,ours,error,verdict,rule")
    )
    text = (tmp_path / "out" / "claims.md").read_text()
    assert "| one is one | 1 | 1 | agrees |" in text
    assert "[claims.csv](first/claims.csv)" in text
    assert "| one is one | 1 | 1 | agrees |" in page.read_text()
    assert "one is one,1,1,exact,agrees,equal," in (tmp_path / "results" / "page" / "first.csv").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "an experiment must be named, got none; the names are first"),
        (["al"], "there is no experiment 'al'; the names are first"),
        (["first", "--out", "file"], "cannot write to file: it is a file; name a folder"),
        (["first", "--page", "none.md"], "page none.md does not exist; name a page with markers"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_before_the_work(call, two, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    code, shown, said = call(*words)
    assert (code, shown) == (2, "")
    assert said.startswith(f"error: {message}")
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
