"""What every command has in addition: other formats for its tables, and messages about old names of flags."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
from typer.core import TyperCommand

from sojourn.cli.formats import format_options, one_format
from sojourn.cli.old_flags import refuse_old
from sojourn.dashboards import PORT

MADE_BY = "made_by.json"  # in the folder of a sweep or a tuning
WORDS = "sojourn.words"  # where a command finds what the user typed after `sojourn`


class Command(TyperCommand):
    """A command whose tables can be printed in other formats."""

    tables = True  # whether it prints any

    def __init__(self, *words: Any, **settings: Any) -> None:
        super().__init__(*words, **settings)
        if self.tables and any(one.name == "as_json" for one in self.params):
            self.params += format_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an old name of a flag with a message that gives the new one."""
        verb = [*_groups(ctx), str(self.name)]
        refuse_old(" ".join(verb), args)
        ctx.meta[WORDS] = [*verb, *args]
        return super().parse_args(ctx, _with_folder(args))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; if another format was asked for, its tables are written at the end."""
        with one_format(ctx):
            return super().invoke(ctx)


class WithoutTables(Command):
    """A command that prints sentences or JSON, so that there is nothing for other formats to show."""

    tables = False


def again(*more: str) -> str:
    """Return the command line that the user typed, with more words after it."""
    return shlex.join(["sojourn", *click.get_current_context().meta[WORDS], *more])


def made_by() -> str:
    """Return the command line for a file that may be handed on: an address loses its user and password.

    It is kept as `made_by`, so that a report can say what made the file.
    """
    return re.sub(r"(?<=://)[^/\s]*@", "", again())


def keep_command(folder: Path) -> None:
    """Write the command line into a folder that has no file with facts about the whole."""
    from sojourn.files import write_json

    write_json(folder / MADE_BY, {"made_by": made_by()}, "command")


def _groups(ctx: click.Context) -> list[str]:
    """Return the names of the groups that a command is in, such as `live`; the program itself is none of them."""
    above: list[str] = []
    while (ctx := ctx.parent or ctx).parent is not None:
        above.insert(0, str(ctx.command.name))
    return above


def _with_folder(args: list[str]) -> list[str]:
    """Turn `--pictures` without a folder into `--pictures=`, so that it does not take the next flag for its folder; and
    `--dashboard` without a port into one with the usual port.

    >>> _with_folder(["--pictures", "--json"]), _with_folder(["--pictures", "dir"]), _with_folder([])
    (['--pictures=', '--json'], ['--pictures', 'dir'], [])
    >>> _with_folder(["--dashboard", "fleet.csv"]), _with_folder(["--dashboard", "0"])
    (['--dashboard=7734', 'fleet.csv'], ['--dashboard', '0'])
    """
    following = [*args[1:], "--"]
    return [_with_value(word, after) for word, after in zip(args, following, strict=False)]


def _with_value(word: str, after: str) -> str:
    if word == "--pictures" and after.startswith("-"):
        return "--pictures="
    return f"--dashboard={PORT}" if word == "--dashboard" and not after.lstrip("-").isdecimal() else word
