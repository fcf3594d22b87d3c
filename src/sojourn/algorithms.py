"""The algorithms, and the parts to build your own: see `sojourn.learning.algorithms` and docs/extending.md."""

from sojourn.learning.algorithms import *  # noqa: F403 the same names under a shorter one
from sojourn.learning.algorithms import __all__ as __all__
