"""Checks for your own classes: each runs on your object the same property table that the package's own classes pass.

A failing check raises `CheckFailed`, an AssertionError that says which property fails, and how. Use them in your tests:

    from sojourn.testing import check_algorithm

    def test_mine():
        check_algorithm(Mine(size=3))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "check_algorithm": "algorithm",
    "check_wrapper": "wrapper",
    "check_law": "law",
    "check_dispatcher": "dispatcher",
    "CheckFailed": "failure",
}
__all__ = list(_HOME)  # loaded when first used: algorithms need torch, laws do not

if TYPE_CHECKING:
    from sojourn.testing.algorithm import check_algorithm as check_algorithm
    from sojourn.testing.dispatcher import check_dispatcher as check_dispatcher
    from sojourn.testing.failure import CheckFailed as CheckFailed
    from sojourn.testing.law import check_law as check_law
    from sojourn.testing.wrapper import check_wrapper as check_wrapper


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sojourn.testing' has no attribute '{name}'")
    return getattr(import_module(f"sojourn.testing.{_HOME[name]}"), name)
