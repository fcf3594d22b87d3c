"""The models: functions from a Dataset to a module."""

from sojourn.learning.models import *  # noqa: F403 the same names under a shorter one
from sojourn.learning.models import __all__ as __all__
