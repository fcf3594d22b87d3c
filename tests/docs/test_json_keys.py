"""Every key that a verb prints as JSON is explained on the page of the command line."""

import json
import re
from typing import Any

import pytest
from page_links import ROOT
from typer.testing import CliRunner

from sojourn.cli.main import app

PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8").partition("\n## Keys of JSON\n")[2]
COMMON = PAGE.partition("\n### ")[0]
SECTIONS = dict(re.findall(r"^### (.*?)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))
VALUES = {"sampling"}
"""Keys whose value is keyed by names of groups."""


def keys_of(content: Any) -> set[str]:
    """All keys, at any depth."""
    if isinstance(content, list):
        return {key for entry in content[:1] for key in keys_of(entry)}
    if not isinstance(content, dict):
        return set()
    return {inner for key, value in content.items() for inner in {key} | (set() if key in VALUES else keys_of(value))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("keys")
    (place / "fleet.csv").write_text("name,count,rate\nfast,5,1.2\nslow,5,1\n")
    fleet = str(place / "fleet.csv")
    bound = ["plan", fleet, "--by", "bound", "--time", "100", "-C", "10", "--out", str(place / "plan.json")]
    assert CliRunner().invoke(app, bound).exit_code == 0
    simulated = ["simulate", fleet, "-C", "10", "--steps", "2000", "--out", str(place / "trace.parquet")]
    assert CliRunner().invoke(app, simulated).exit_code == 0
    return place


@pytest.mark.parametrize(
    ("section", "command"),
    [
        ("plan, a policy", "plan FOLDER/fleet.csv --time 1h"),
        ("plan, by the bound", "plan FOLDER/fleet.csv --by bound --time 100 -C 10"),
        ("analyze", "analyze FOLDER/fleet.csv -C 10 --limits"),
        ("analyze", "analyze FOLDER/fleet.csv -C 10 --server-rate 50"),
        ("analyze, a trace", "analyze FOLDER/trace.parquet --fleet FOLDER/fleet.csv"),
        ("simulate", "simulate FOLDER/fleet.csv --plan FOLDER/plan.json --steps 2000"),
        ("fit", "fit FOLDER/trace.parquet --fleet FOLDER/fleet.csv --out FOLDER/fitted.csv"),
        ("animate", "animate FOLDER/fleet.csv FOLDER/trace.parquet --time 60s --out FOLDER/moving.svg"),
        ("live keys", "live keys FOLDER/keys --clients lyon,oslo"),
        ("live keys", "live keys FOLDER/keys --renew lyon"),
    ],
)
def test_the_keys_of_json_are_explained(folder, section, command):
    words = command.replace("FOLDER", str(folder)).split()
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0
    printed = keys_of(json.loads(done.stdout))
    assert len(printed) > 5
    told = set(re.findall(r"`(\w+)(?:\[\])?`", COMMON + SECTIONS[section]))
    assert sorted(printed - told) == []
