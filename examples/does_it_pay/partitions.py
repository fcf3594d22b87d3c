"""The partition in which data depends on speed, under the name that the runs of this example know."""

from sojourn.learning.data.dealing import by_speed

__all__ = ["by_speed"]
