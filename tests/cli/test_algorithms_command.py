"""`sojourn algorithms`: the table of methods at any width, one method with its options, and JSON."""

import json

import pytest
from typer.testing import CliRunner

from sojourn.algorithms import ALGORITHMS
from sojourn.cli.main import app

runner = CliRunner()


def printed(*words, width="80"):
    result = runner.invoke(app, ["algorithms", *words], env={"COLUMNS": width}, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def entries(*words):
    return {one["name"]: one for one in json.loads(printed(*words, "--json"))["algorithms"]}


@pytest.mark.parametrize("width", ["80", "60", "100", "200"])
def test_every_name_stands_whole_and_alone_at_the_start_of_a_line(width):
    lines = printed(width=width).splitlines()
    begun = [line.split()[0] for line in lines if line[:1].strip()]
    assert begun[0] == "name"
    assert [word for word in begun if word in ALGORITHMS] == list(ALGORITHMS)


@pytest.mark.parametrize("width", ["80", "100"])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, printed(width=width).splitlines())) <= int(width)


def test_the_table_has_family_wait_message_memory_bias_and_reference_of_each():
    text = " ".join(printed(width="200").split())
    for one in entries().values():
        assert one["reference"] in text
        assert f"{one['family']};" in text
        assert one["waits_for"] in text


def test_json_has_options_defaults_and_why_a_method_cannot_run_live():
    found = entries()
    assert list(found) == list(ALGORITHMS)
    assert found["fedbuff"]["options"][1] == {
        "name": "size",
        "default": 10,
        "meaning": "Number of updates in a full buffer (Z).",
    }
    assert (found["ca2fl"]["live"], found["ca2fl"]["why_not_live"]) == (True, None)
    assert found["fedavg"]["why_not_live"].startswith("fedavg works in rounds or periods of the server")
    assert found["fedasmu"]["why_not_live"].startswith("fedasmu breaks if a client forgets")
    assert found["asyncfeded"]["why_not_live"].startswith("asyncfeded sets the local steps of every task")
    assert found["aso-fed"]["live"]
    assert (found["ringleader"]["dispatcher"], found["ca2fl"]["dispatcher"]) == ("pure", "idle")
    assert (found["fadas"]["server_optimiser"], found["ace"]["server_optimiser"]) == (False, True)


def test_facts_follow_the_options():
    assert entries("asyncsgd")["asyncsgd"]["unbiased"] is True
    assert entries("asyncsgd(assignment=pure)")["asyncsgd"]["unbiased"] is False
    shuffled = entries("asyncsgd(assignment=shuffled)")["asyncsgd"]
    assert shuffled["why_not_live"] == "live runs dispatch by routed, idle, pure, not by shuffled"
    assert entries("ace(most=3)")["ace"]["server_memory"] == "n + 1 models"


def test_one_method_is_shown_with_its_options():
    text = printed("fedasmu")
    for word in (
        "per-arrival model mix",
        "its half-trained model",
        "upsilon",
        "fedasmu breaks if a client forgets",
        "AAAI 2024",
    ):
        assert word in " ".join(text.replace("│", " ").split())
    assert "Options" in printed("fedprox")


def test_other_formats_have_all_columns():
    head, *rows = printed("--csv").splitlines()
    assert head == "name,waits for,sends,keeps,memory,unbiased,live,waves,family,reference"
    assert [row.split(",")[0] for row in rows] == list(ALGORITHMS)
    assert printed("--markdown").count("\n| ") == len(ALGORITHMS) + 2


def test_an_unknown_name_is_refused():
    result = runner.invoke(app, ["algorithms", "fedsgd"])
    assert "algorithm must be one of generalized-asyncsgd" in str(result.exception)
