"""The reference of the command line, from the commands themselves: nothing is written twice, nothing goes stale."""

import re
from collections.abc import Iterable

import click
import typer.main

from sojourn.cli.main import app

INTRODUCTION = """# Every command and flag

This page is made from the code; `sojourn VERB --help` shows the same in a terminal.
[Command line](cli.md) explains what the verbs do, and how to read what they print.
"""


def tree() -> click.Group:
    """The commands as click has them."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    return group


def page() -> str:
    """The whole reference as Markdown."""
    group = tree()
    first = f"{INTRODUCTION}\n## sojourn\n\n{group.help}\n\n    sojourn [OPTIONS] VERB ...\n\n{_flags(group.params)}"
    return first + "".join(section(command) for command in group.commands.values())


def section(command: click.Command) -> str:
    """One verb: what it does, how it is called, examples, arguments and flags."""
    words, examples = _help(command)
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if not isinstance(one, click.Argument)]
    usage = " ".join(["sojourn", str(command.name), *map(_place, arguments), "[OPTIONS]"])
    text = f"\n## sojourn {command.name}\n\n{words}\n\n[Explained](cli.md#{command.name}).\n\n    {usage}\n"
    if examples:
        text += "\n**Examples**\n\n```\n" + "\n".join(examples) + "\n```\n"
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
    for name in tree().commands:
        link = f"[All flags of {name}](commands.md#sojourn-{name})."
        page = re.sub(rf"^## {name}\n", f"## {name}\n\n{link}\n", page, count=1, flags=re.MULTILINE)
    return page
