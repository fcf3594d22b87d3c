"""The algorithms, and what one of your own is made of: see `sojourn.learning.algorithms` and docs/extending.md."""

from sojourn.learning.algorithms import *  # noqa: F403 the same names under a shorter one
from sojourn.learning.algorithms import __all__ as __all__
