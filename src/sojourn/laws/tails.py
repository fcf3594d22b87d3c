"""Functions for laws whose tails come from scipy."""

import numpy as np

from sojourn.types import Floats

TINY = 1e-290


def ratio(part: Floats, whole: Floats, otherwise: Floats) -> Floats:
    """Return part / whole, or `otherwise` where the whole is zero."""
    return np.where(whole > TINY, part / np.maximum(whole, TINY), otherwise)
