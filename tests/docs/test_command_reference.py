"""The reference of the command line is made from the commands: every verb, flag, help text, default and example."""

import re

import click
import command_pages
import pytest
from page_links import ROOT
from typer.testing import CliRunner

from sojourn.cli.main import app

COMMANDS = command_pages.verbs()
GROUPS = [name for name in command_pages.commands() if name not in COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_verb_has_all_its_flags_with_their_help(name):
    text = command_pages.section(name)
    assert f"\n## sojourn {name}\n" in command_pages.page()
    assert text in command_pages.page()
    for param in COMMANDS[name].params:
        for word in (*param.opts, *param.secondary_opts) if isinstance(param, click.Option) else ():
            assert f"`{command_pages.signature(param)}`" in text
            assert word in command_pages.signature(param)
        assert " ".join(param.help.split()) in text  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_help_shows_in_a_terminal_is_in_the_reference(name):
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "300"}).stdout
    flags = {
        word for line in shown.splitlines() for word in line.replace(",", " ").split()[1:3] if word.startswith("--")
    }
    text = command_pages.section(name)
    assert len(flags) > 2
    assert [flag for flag in sorted(flags - {"--help"}) if flag not in text] == []


def test_defaults_are_shown_where_they_are_known():
    text = command_pages.section("compare")
    meaning = dict(re.findall(r"^`(.*)`\n:   (.*)$", text, re.MULTILINE))
    assert meaning["--out PATH"].endswith(" Default: `comparison`.")
    assert meaning["--picture, --no-picture"].endswith(" Default: `picture`.")
    assert "Default: `" not in meaning["--config PATH"]
    assert "    sojourn compare [FLEET] [OPTIONS]\n" in text
    assert "    sojourn simulate FLEET [OPTIONS]\n" in command_pages.section("simulate")


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_taken_from_the_help(name):
    examples = command_pages.section(name).partition("**Examples**\n\n```\n")[2].partition("\n```")[0]
    assert f"sojourn {name} " in examples
    assert all(line.startswith("sojourn ") for line in examples.splitlines())
    assert all(f"- `{line}`" in COMMANDS[name].help for line in examples.splitlines())


def test_every_verb_is_explained_under_its_name_and_leads_to_its_flags():
    page = command_pages.with_links_to_flags((ROOT / "docs" / "cli.md").read_text("utf-8"))
    for name in COMMANDS:
        link = f"[All flags of {name}](commands.md#sojourn-{name.replace(' ', '-')})."
        assert f"\n{'###' if ' ' in name else '##'} {name}\n\n{link}\n" in page


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_explained_and_lists_its_verbs(name):
    page = command_pages.with_links_to_flags((ROOT / "docs" / "cli.md").read_text("utf-8"))
    assert f"\n## {name}\n\n[All verbs of {name}](commands.md#sojourn-{name}).\n" in page
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"}).stdout
    text = command_pages.section(name)
    assert text in command_pages.page()
    assert f"    sojourn {name} VERB ...\n" in text
    inside = [verb for verb in COMMANDS if verb.startswith(f"{name} ")]
    assert inside
    for verb in inside:
        does = str(COMMANDS[verb].help).partition("\n")[0]
        assert does in shown
        assert f"- [{verb}](#sojourn-{verb.replace(' ', '-')}): {does}\n" in text
        assert f"\n## sojourn {verb}\n" in command_pages.page()


def test_the_verbs_of_a_group_are_named_with_it():
    assert "live" in GROUPS
    assert "live keys" in COMMANDS
    assert not {"live", "keys"} & set(COMMANDS)
    assert "    sojourn live keys FOLDER [OPTIONS]\n" in command_pages.section("live keys")


def test_the_page_in_the_repository_lists_no_flags():
    assert "[--" not in (ROOT / "docs" / "cli.md").read_text("utf-8")
