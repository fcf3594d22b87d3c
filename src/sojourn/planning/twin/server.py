"""Turn the text of an algorithm into the rule of its server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.planning.twin.rules import RULES, Rule
from sojourn.planning.twin.updates import Rows, Updates
from sojourn.text import listed, nearest, parse_choice

_ASSIGNED = {"random": "routed", "pure": "pure", "shuffled": "shuffled"}


@dataclass(frozen=True)
class Server:
    """The rule of an algorithm with its options."""

    name: str
    """Name of the algorithm."""
    rule: Rule
    """Its rule."""
    options: Mapping[str, Any]
    """All options."""
    named: str | None
    """Dispatcher that the text names."""

    @classmethod
    def parse(cls, text: str, buffer: int | None = None, adaptive: bool | None = None) -> "Server":
        """Read the text of an algorithm; `buffer` and `adaptive` are the plan's, used if the text does not set them.

        >>> Server.parse("fedbuff(staleness=root)", buffer=3).options["size"]
        3
        """
        name = text.partition("(")[0].strip()
        if name not in RULES:
            raise InvalidInput(
                f"the twin has the linear rules of {listed(RULES)}, got '{name}'{nearest(name, RULES)}; "
                "train it, or compare it with sojourn compare"
            )
        rule = RULES[name]
        _, given = parse_choice("algorithm", text, {key: one.options for key, one in RULES.items()})
        options = {**rule.defaults, **given}
        if buffer is not None and rule.at in rule.defaults and rule.at not in given:
            options[rule.at] = buffer
        if adaptive is not None and "steps" in rule.defaults and "steps" not in given:
            options["steps"] = "adaptive" if adaptive else "constant"
        named = given.get("dispatch", _ASSIGNED.get(given.get("assignment", "")))
        return cls(name, rule, options, named)

    def rows(self, updates: Updates) -> Rows:
        """Return the changes that the server makes with these updates."""
        return self.rule.rows(updates, self.options)

    def at_once(self, updates: Updates) -> int:
        """Return the number of updates of which a window must hold a multiple."""
        if self.rule.rounds:
            return updates.concurrency
        return max(1, round(float(self.options.get(self.rule.at, 1)) / updates.many))
