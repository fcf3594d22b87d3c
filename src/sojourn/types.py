"""Array types: one name for each kind of array that the package passes around."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Complexes = NDArray[np.complex128]
Pixels = NDArray[np.uint8]
Keys = NDArray[np.uint64]
Records = NDArray[Any]
