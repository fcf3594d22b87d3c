"""Wrappers that compose with any algorithm: see `sojourn.learning.wrappers` and docs/wrappers.md."""

from sojourn.learning.wrappers import *  # noqa: F403 the same names under a shorter one
from sojourn.learning.wrappers import __all__ as __all__
