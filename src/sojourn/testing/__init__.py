"""Checks for what you add yourself: each runs the property table of the package's own on an object of yours.

An AssertionError says which property fails, and how. For use in your tests:

    from sojourn.testing import check_algorithm

    def test_mine():
        check_algorithm(Mine(size=3))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {"check_algorithm": "algorithm", "check_law": "law", "CheckFailed": "failure"}
__all__ = list(_HOME)  # loaded when first used: algorithms need torch, laws do not

if TYPE_CHECKING:
    from sojourn.testing.algorithm import check_algorithm as check_algorithm
    from sojourn.testing.failure import CheckFailed as CheckFailed
    from sojourn.testing.law import check_law as check_law


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sojourn.testing' has no attribute '{name}'")
    return getattr(import_module(f"sojourn.testing.{_HOME[name]}"), name)
