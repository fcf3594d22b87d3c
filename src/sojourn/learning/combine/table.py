"""The table of combinations, by their names in an algorithm's option `combine`."""

from functools import cache
from typing import Any

from sojourn.errors import InvalidInput
from sojourn.learning.combine.base import Combination
from sojourn.learning.combine.clipping import Clipping
from sojourn.learning.combine.mean import Mean
from sojourn.learning.combine.median import Median
from sojourn.learning.combine.trimmed import Trimmed
from sojourn.own_code import names_code, own_call
from sojourn.text import parse_choice

COMBINATIONS: dict[str, Any] = {"mean": Mean, "median": Median, "trimmed": Trimmed, "clipping": Clipping}
_OPTIONS: dict[str, dict[str, Any]] = {
    "mean": {},
    "median": {},
    "trimmed": {"share": float},
    "clipping": {"radius": float, "rounds": int},
}


@cache
def combination(text: str) -> Combination:
    """Return the combination of a text: `trimmed(share=0.2)`, or your own `package.module:Class(share=0.2)`.

    >>> combination("trimmed(share=0.2)").share
    0.2
    """
    if names_code(text):
        made = own_call("combination", text)
        missing = [name for name in ("follows", "add", "combined") if not hasattr(made, name)]
        if missing:
            raise InvalidInput(f"combination {text}: {type(made).__name__} must define {', '.join(missing)}")
        own: Combination = made
        return own
    name, options = parse_choice("combination", text, _OPTIONS)
    found: Combination = COMBINATIONS[name](**options)
    return found
