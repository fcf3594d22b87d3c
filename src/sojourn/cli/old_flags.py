"""Flags that were renamed: a user who writes the old name is told the new one."""

from sojourn.errors import InvalidInput

OLD_FLAGS = {
    "plan": {"--method": "--search"},
    "train": {"--rate": "--step-size", "--local-rate": "--local-step-size"},
    "calibrate": {"--rate": "--step-size"},
    "compare": {"--method": "--algorithm", "--rates": "--step-sizes"},
}
"""Per command: the old name of each flag, and its new name."""


def refuse_old(command: str, args: list[str]) -> None:
    """Refuse an old name with a message that gives the new one."""
    old = OLD_FLAGS.get(command, {})
    for word in args[: args.index("--")] if "--" in args else args:
        flag = word.partition("=")[0]
        if flag in old:
            raise InvalidInput(f"{flag} is now called {old[flag]}, got {flag}; write {old[flag]}")
