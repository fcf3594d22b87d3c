"""Flags that were called otherwise: whoever writes the old name is told the new one."""

from typing import Any

import click
from typer.core import TyperCommand

from sojourn.errors import InvalidInput

OLD_FLAGS = {
    "plan": {"--method": "--search"},
    "train": {"--rate": "--step-size", "--local-rate": "--local-step-size"},
    "calibrate": {"--rate": "--step-size"},
    "compare": {"--method": "--algorithm", "--rates": "--step-sizes"},
}
"""By command: the old name of a flag, and the new one."""


class Command(TyperCommand):
    """A command that knows the old names of its flags."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an old name in a sentence with the new one."""
        old: dict[str, Any] = OLD_FLAGS.get(str(self.name), {})
        for word in args[: args.index("--")] if "--" in args else args:
            flag = word.partition("=")[0]
            if flag in old:
                raise InvalidInput(f"{flag} is called {old[flag]} now, got {flag}; write {old[flag]}")
        return super().parse_args(ctx, args)
