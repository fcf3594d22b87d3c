"""Mean value analysis in LINE: its native function for closed product-form networks, one class of customers."""

import numpy as np
from line_solver.api.pfqn import pfqn_mva
from numpy.typing import NDArray

NAME = "LINE, pfqn_mva"


def queues(load: NDArray[np.float64], population: int) -> NDArray[np.float64]:
    """Mean queue of each station."""
    return pfqn_mva(load, np.array([population]))[2][:, 0]
