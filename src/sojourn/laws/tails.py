"""What laws share that have their tails from scipy."""

import numpy as np

from sojourn.types import Floats

TINY = 1e-290


def ratio(part: Floats, whole: Floats, otherwise: Floats) -> Floats:
    """Part over whole, or `otherwise` where nothing is left of the whole."""
    return np.where(whole > TINY, part / np.maximum(whole, TINY), otherwise)
