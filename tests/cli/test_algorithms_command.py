"""`sojourn algorithms`: the table of methods at any width, one method with its options, and JSON."""

import json

import pytest
from typer.testing import CliRunner

from sojourn.algorithms import ALGORITHMS
from sojourn.cli.main import app

runner = CliRunner()
NOT_LIVE = ["favano", "quafl", "fedfix", "fedcompass", "fedasmu"]


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


def test_what_the_server_waits_for_can_be_read_alone():
    assert not [one["name"] for one in entries().values() if one["waits_for"].startswith("its ")]
    assert {entries()[name]["waits_for"] for name in ("favano", "quafl", "fedfix")} == {"a fixed time"}


def test_json_has_options_defaults_and_why_a_method_cannot_run_live():
    found = entries()
    assert list(found) == list(ALGORITHMS)
    assert found["fedbuff"]["options"][1] == {
        "name": "size",
        "default": 10,
        "meaning": "Number of updates in a full buffer (Z).",
    }
    assert (found["ca2fl"]["live"], found["ca2fl"]["why_not_live"]) == (True, None)
    assert found["fedasmu"]["why_not_live"] == "breaks if a client forgets, and live clients that are started again do"
    assert [name for name, one in found.items() if not one["live"]] == NOT_LIVE
    assert (found["ringleader"]["dispatcher"], found["ca2fl"]["dispatcher"]) == ("pure", "idle")
    assert (found["fadas"]["server_optimiser"], found["ace"]["server_optimiser"]) == (False, True)


def test_facts_follow_the_options():
    assert entries("asyncsgd")["asyncsgd"]["unbiased"] is True
    assert entries("asyncsgd(assignment=pure)")["asyncsgd"]["unbiased"] is False
    assert entries("ace(most=3)")["ace"]["server_memory"] == "n + 1 models"


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("favano", "interrupts clients at set times"),
        ("fedprox(deadline=2)", "interrupts clients at set times"),
        ("fedfix", "aggregates at set times"),
        ("fedcompass", "plans when groups of clients return"),
        ("rennala(restart=stop)", "cancels running tasks"),
        ("fedavg(interaction=3)", "pauses between rounds"),
    ],
)
def test_the_dispatcher_says_why_a_method_cannot_run_live(method, why):
    (found,) = entries(method).values()
    assert found["why_not_live"].startswith(why)


@pytest.mark.parametrize(
    "method",
    ["asgrad", "asgrad(wait=3)", "asgrad(assignment=pure, wait=3)", "aafl", "fedfix(form=buffered)", "fedavg"],
)
def test_methods_that_wait_for_arrivals_alone_run_live(method):
    (found,) = entries(method).values()
    assert (found["live"], found["why_not_live"]) == (True, None)


def test_below_the_table_every_method_that_is_not_live_stands_with_its_reason():
    table, _, below = printed(width="80").partition("live = no (default options), since the method\n")
    assert table.count("  no\n") == len(NOT_LIVE)
    text = " ".join(below.split())
    assert "interrupts clients at set times, and a live task runs to its end: favano, quafl " in text
    for name in NOT_LIVE[2:]:
        assert f": {name} " in text
    assert "waves on a GPU: all but asyncfeded: its timing depends on the model" in text


def test_one_method_is_shown_with_its_options():
    text = printed("fedasmu")
    for word in (
        "per-arrival model mix",
        "its half-trained model",
        "upsilon",
        "no: breaks if a client forgets",
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
