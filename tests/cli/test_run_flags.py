"""A key of a run is told once: its flag, its help and the part that it decides follow from where it is defined."""

import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import click
import pytest
import typer.main

from sojourn.cli.main import app
from sojourn.learning.run.config import TrainConfig, keys, values
from sojourn.run_keys import PARTS, keys_of, run_key

DOCS = Path(__file__).parents[2] / "docs"


def options(command: str) -> dict[str, click.Parameter]:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    return {str(one.name): one for one in group.commands[command].params}


@pytest.mark.parametrize("key", keys().values(), ids=lambda key: key.name)
def test_every_key_has_a_flag_a_help_text_a_part_and_a_place_in_the_documentation(key):
    flag = options("train")[key.name]
    assert flag.opts[0] == ("fleet" if key.name == "fleet" else key.flag)
    assert key.help.endswith(".")
    assert flag.help == key.help  # type: ignore[attr-defined]
    assert key.part in PARTS
    assert f"| `{key.name}` | {key.part} |" in (DOCS / "files.md").read_text("utf-8")


def test_every_part_has_a_key():
    assert {key.part for key in keys().values()} == set(PARTS)


@pytest.mark.parametrize("command", ["calibrate", "compare", "tune"])
def test_other_commands_have_the_same_flags_for_the_same_keys(command):
    shared = {name: one for name, one in options(command).items() if name in keys() and name not in OWN[command]}
    assert "data" in shared
    assert all(one.help == keys()[name].help for name, one in shared.items())  # type: ignore[attr-defined]


OWN = {"calibrate": (), "compare": ("algorithm", "plan", "holdout"), "tune": ("correction", "holdout")}
"""Flags that are called like a key and say something else: several of it, or of the tuning."""


def test_keys_are_known_by_their_fields():
    assert list(keys()) == [item.name for item in fields(TrainConfig)]
    assert set(keys(path=True)) == {"fleet", "plan", "trace"}
    assert values(TrainConfig("fleet.csv", judged_on="holdout", holdout=0.2), part="data") == ("digits", 0.2, "holdout")


def test_a_new_field_is_a_new_key():
    @dataclass(frozen=True)
    class Longer(TrainConfig):
        patience: int = run_key("length", "Evaluations without progress before the run ends.", default=3)

    one = keys_of(Longer)["patience"]
    assert (one.flag, one.whole, one.default) == ("--patience", True, 3)


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["compare", "--help"]])
def test_help_loads_nothing_heavy(words):
    code = (
        "import sys\nfrom sojourn.cli.main import app\n"
        f"try:\n    app({words!r})\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'numba', 'scipy', 'pyarrow', 'matplotlib'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"
