"""Checks for code of one's own: what every law and every dispatcher must satisfy, run on a stranger's class.

Each check returns nothing, or raises `CheckFailed` (an AssertionError) with a sentence; they are meant for one's tests:

    def test_my_law():
        sojourn.testing.check_law(Pareto(alpha=3.0))
"""

from sojourn.testing.failure import CheckFailed
from sojourn.testing.laws import check_law

__all__ = ["CheckFailed", "check_law"]
