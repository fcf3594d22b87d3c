"""What a command knows of how it was called, also where it is a verb of a group."""

import pytest
import typer
from typer.testing import CliRunner

from sojourn.cli.arguments import AsJson
from sojourn.cli.command import Command, WithoutTables, again
from sojourn.cli.formats import FORMATS
from sojourn.cli.main import SETTINGS
from sojourn.cli.old_flags import OLD_FLAGS
from sojourn.errors import InvalidInput


def say_again(name: str = "", wide: bool = False) -> None:
    typer.echo(again("--out", "a b"))


def options(debug: bool = False) -> None:
    pass


@pytest.fixture
def app():
    """A program with a verb, a group, and a group in the group."""
    inner, outer, whole = (typer.Typer(name=name, **SETTINGS) for name in ("inner", "outer", "whole"))
    for group in (inner, outer, whole):
        group.command("verb", cls=Command)(say_again)
    outer.add_typer(inner)
    whole.add_typer(outer)
    whole.callback()(options)
    return whole


@pytest.mark.parametrize("words", ["verb", "outer verb", "outer inner verb", "outer verb --wide --name x"])
def test_the_command_line_is_repeated_with_the_groups_of_its_verb(app, words):
    assert CliRunner().invoke(app, words.split()).stdout == f"sojourn {words} --out 'a b'\n"


def test_flags_of_the_program_are_not_repeated(app):
    assert CliRunner().invoke(app, ["--debug", "outer", "verb"]).stdout == "sojourn outer verb --out 'a b'\n"


def test_a_flag_is_old_for_the_verb_of_this_group_alone(app, monkeypatch):
    monkeypatch.setitem(OLD_FLAGS, "outer verb", {"--title": "--name"})
    refused = CliRunner().invoke(app, ["outer", "verb", "--title", "x"]).exception
    assert isinstance(refused, InvalidInput)
    assert str(refused) == "--title is now called --name, got --title; write --name"
    assert not isinstance(CliRunner().invoke(app, ["verb", "--title", "x"]).exception, InvalidInput)


@pytest.mark.parametrize(("kind", "more"), [(Command, set(FORMATS)), (WithoutTables, set())])
def test_a_command_without_tables_has_json_and_no_other_format(kind, more):
    def verb(as_json: AsJson = False) -> None:
        typer.echo("{}" if as_json else "done")

    app = typer.Typer(**SETTINGS)
    app.command(cls=kind)(verb)
    flags = {flag for option in typer.main.get_command(app).params for flag in option.opts}
    assert flags & {"--json", *FORMATS} == {"--json"} | more
    assert [CliRunner().invoke(app, words).stdout for words in ([], ["--json"])] == ["done\n", "{}\n"]
