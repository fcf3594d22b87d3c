"""Flags that were called otherwise are refused with the name that they have now."""

import click
import pytest
import typer.main
from typer.testing import CliRunner

from sojourn.cli.main import app
from sojourn.cli.old_flags import OLD_FLAGS
from sojourn.errors import InvalidInput

OLD = [(command, old, new) for command, flags in OLD_FLAGS.items() for old, new in flags.items()]


@pytest.mark.parametrize(("command", "old", "new"), OLD)
@pytest.mark.parametrize("written", ["{} 1", "{}=1"])
def test_an_old_flag_is_refused_with_the_new_one(command, old, new, written):
    result = CliRunner().invoke(app, [command, "fleet.csv", *written.format(old).split()])
    assert isinstance(result.exception, InvalidInput)
    assert str(result.exception) == f"{old} is now called {new}, got {old}; write {new}"


@pytest.mark.parametrize(("command", "old", "new"), OLD)
def test_the_new_flag_is_there_and_the_old_one_is_not(command, old, new):
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    flags = {flag for option in group.commands[command].params for flag in option.opts}
    assert new in flags
    assert old not in flags


def test_what_stands_after_two_strokes_is_not_a_flag():
    result = CliRunner().invoke(app, ["plan", "--", "--method"])
    assert not isinstance(result.exception, InvalidInput) or "is called" not in str(result.exception)
