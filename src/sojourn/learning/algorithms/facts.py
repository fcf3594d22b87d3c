"""What an algorithm says about itself: the row of `sojourn algorithms`, and its options with their defaults.

The facts are attributes or properties of the algorithm, so they may depend on its options. Tests check the memory of
the server by counting tensors, and the bias under unequal speeds by running; the rest is stated.
"""

import ast
import inspect
import textwrap
from dataclasses import MISSING, dataclass, fields
from typing import Any

from sojourn.learning.algorithms.base import NOT_SAID, Algorithm

SENDS = {"gradient": "gradient", "delta": "change of model"}


@dataclass(frozen=True)
class Facts:
    """One row of the table of algorithms."""

    name: str
    """Registered name, or name of the class."""
    family: str
    """What the server acts on."""
    waits_for: str
    """What the server waits for before it changes its model."""
    client_sends: str
    """What a client sends."""
    client_keeps: str
    """What a client keeps from one task to the next."""
    server_memory: str
    """Most models that the server holds, without those of tasks in flight and of its optimiser."""
    unbiased: bool | None
    """Whether it leads to the optimum where clients' speeds differ; None = not checked."""
    waves: bool
    """Whether tasks can be computed together on a GPU."""
    reference: str
    """Where it was published."""


@dataclass(frozen=True)
class Option:
    """An option of an algorithm."""

    name: str
    """Its name."""
    default: Any
    """Its value if it is left out."""
    meaning: str
    """What it does."""


def facts_of(algorithm: Algorithm) -> Facts:
    """Return what an algorithm says about itself; what one of your own does not say is `not stated`."""

    def said(key: str, default: Any = NOT_SAID) -> Any:
        return getattr(algorithm, key, default)

    return Facts(
        name=algorithm.name,
        family=said("family"),
        waits_for=said("waits_for"),
        client_sends=SENDS[algorithm.sends],
        client_keeps=said("client_keeps"),
        server_memory=said("server_memory"),
        unbiased=said("unbiased", None),
        waves=said("waves", True),
        reference=said("reference"),
    )


def options_of(algorithm: Algorithm) -> list[Option]:
    """Return the options of an algorithm, with the line that its class has under each."""
    kind = type(algorithm)
    told = _lines_under(kind)
    return [
        Option(item.name, None if item.default is MISSING else item.default, told.get(item.name, ""))
        for item in fields(kind)  # type: ignore[arg-type]
        if item.name != "server"
    ]


def _lines_under(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a class; none if the source is not at hand."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for above, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                found[above.target.id] = " ".join(text.split())
    return found
