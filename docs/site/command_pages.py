"""The reference of the command line, from the commands themselves: nothing is written twice, nothing goes stale."""

import re
from collections.abc import Iterable
from functools import cache

import click
import typer.main

from sojourn.cli.main import app

INTRODUCTION = """# Every command and flag

This page is made from the code; `sojourn VERB --help` shows the same in a terminal.
[Command line](cli.md) explains what the verbs do, and how to read what they print.
"""


@cache
def tree() -> click.Group:
    """The commands as click has them."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    return group


def commands(group: click.Group | None = None, above: str = "") -> dict[str, click.Command]:
    """All commands by the words that call them: verbs, groups of verbs, and after a group its verbs (`live keys`)."""
    found: dict[str, click.Command] = {}
    for name, command in (group or tree()).commands.items():
        found[above + name] = command
        if isinstance(command, click.Group):
            found |= commands(command, f"{above}{name} ")
    return found


def verbs() -> dict[str, click.Command]:
    """The commands that do something: those that are no groups."""
    return {name: command for name, command in commands().items() if not isinstance(command, click.Group)}


def anchor(name: str) -> str:
    """What the heading of a command is called in links."""
    return name.replace(" ", "-")


def page() -> str:
    """The whole reference as Markdown."""
    group = tree()
    first = f"{INTRODUCTION}\n## sojourn\n\n{group.help}\n\n    sojourn [OPTIONS] VERB ...\n\n{_flags(group.params)}"
    return first + "".join(map(section, commands()))


def section(name: str) -> str:
    """One verb: what it does, how it is called, examples, arguments and flags. Or a group, and what its verbs do."""
    command = commands()[name]
    words, examples = _help(command)
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if not isinstance(one, click.Argument)]
    last = "VERB ..." if isinstance(command, click.Group) else "[OPTIONS]"
    usage = " ".join(["sojourn", name, *map(_place, arguments), last])
    text = f"\n## sojourn {name}\n\n{words}\n\n[Explained](cli.md#{anchor(name)}).\n\n    {usage}\n"
    if examples:
        text += "\n**Examples**\n\n```\n" + "\n".join(examples) + "\n```\n"
    if isinstance(command, click.Group):
        text += "\n**Verbs**\n\n" + "".join(
            f"- [{name} {verb}](#sojourn-{anchor(f'{name} {verb}')}): {one.get_short_help_str(limit=200)}\n"
            for verb, one in command.commands.items()
        )
    if arguments:
        text += f"\n**Arguments**\n\n{_flags(arguments)}"
    panels = dict.fromkeys(getattr(one, "rich_help_panel", None) for one in options)
    for panel in sorted(panels, key=lambda one: one is not None):
        shown = [one for one in options if getattr(one, "rich_help_panel", None) == panel]
        text += f"\n**{panel or 'Options'}**\n\n{_flags(shown)}"
    return text


def _help(command: click.Command) -> tuple[str, list[str]]:
    """The help of a verb, and its examples."""
    words, _, below = (command.help or "").partition("\nExamples:\n")
    return words.strip(), re.findall(r"^- `(.*)`$", below, re.MULTILINE)


def _flags(params: Iterable[click.Parameter]) -> str:
    return "".join(
        f"`{signature(one)}`\n:   {_meaning(one)}\n\n" for one in params if not getattr(one, "hidden", False)
    )


def _place(argument: click.Parameter) -> str:
    name = argument.metavar or str(argument.name).upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def signature(param: click.Parameter) -> str:
    """How a flag is written: all its names, and what follows them."""
    if isinstance(param, click.Argument):
        return _place(param)
    names = ", ".join([*param.opts, *param.secondary_opts])
    switch = getattr(param, "is_flag", False) or getattr(param, "count", False)
    return names if switch else f"{names} {_value(param)}"


def _value(param: click.Parameter) -> str:
    if param.metavar:
        return param.metavar
    if isinstance(param.type, click.Choice):
        return "|".join(map(str, param.type.choices))
    return param.type.name.upper()


def _meaning(param: click.Parameter) -> str:
    words = " ".join((getattr(param, "help", None) or "").split())
    if param.required:
        words += " Required."
    shown = default(param)
    return f"{words} Default: `{shown}`." if shown else words


def default(param: click.Parameter) -> str:
    """What a flag is where it is not given; nothing where that is decided later, or said in its help."""
    value = None if callable(param.default) else param.default
    if value is None or value is False or value in ([], ()):
        return ""
    return param.opts[0].lstrip("-") if value is True else str(value)


def with_links_to_flags(page: str) -> str:
    """The page that explains the command line, with a link to the flags of each verb below its heading."""
    for name, command in commands().items():
        what = "verbs" if isinstance(command, click.Group) else "flags"
        link = f"[All {what} of {name}](commands.md#sojourn-{anchor(name)})."
        page = re.sub(rf"^(###?) {name}\n", rf"\1 {name}\n\n{link}\n", page, count=1, flags=re.MULTILINE)
    return page
