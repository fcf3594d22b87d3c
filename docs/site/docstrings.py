"""Docstrings as the site shows them: examples are code, and pages that they name are links."""

import re
from typing import Any

import griffe

from sojourn import algorithms

ALGORITHMS = {f"{kind.__module__}.{kind.__qualname__}" for kind in algorithms.ALGORITHMS.values()}
_EXAMPLE = re.compile(r"^>>> .*\n?(?:^(?!\s*$).*\n?)*", re.MULTILINE)
_PAGE = re.compile(r"\bdocs/([\w-]+)\.md\b")


class Docstrings(griffe.Extension):
    """Changes every docstring of the reference."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = shown(obj.docstring.value)
        if obj.path in ALGORITHMS and obj.docstring is not None and obj.module.docstring is not None:
            obj.docstring.value += f"\n\n{obj.module.docstring.value}"  # the rule and its limits stand above the class


def shown(text: str) -> str:
    r"""Markdown of a docstring; without fences `>>>` would be a quotation.

    >>> shown("Words (docs/files.md).\n\n>>> 1 + 1\n2\n")
    'Words ([files](../files.md)).\n\n```pycon\n>>> 1 + 1\n2\n```\n'
    """
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", _PAGE.sub(r"[\1](../\1.md)", text))
