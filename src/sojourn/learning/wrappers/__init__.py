"""Wrappers that compose with any algorithm, one file each, and the parts to build your own (docs/wrappers.md)."""

from sojourn.learning.layout import Layout
from sojourn.learning.wrappers.base import Wrapper, random_of
from sojourn.learning.wrappers.feedback import Residual, corrected, left_out
from sojourn.learning.wrappers.gaussian import Gaussian
from sojourn.learning.wrappers.lora import Lora
from sojourn.learning.wrappers.lowrank import LowRank
from sojourn.learning.wrappers.qsgd import Qsgd
from sojourn.learning.wrappers.sign import Sign
from sojourn.learning.wrappers.subset import Subset
from sojourn.learning.wrappers.table import WRAPPERS, wrapper, wrappers
from sojourn.learning.wrappers.topk import TopK
from sojourn.learning.wrappers.wrapped import Wrapped, wrapped

__all__ = [
    "WRAPPERS",
    "Gaussian",
    "Layout",
    "Lora",
    "LowRank",
    "Qsgd",
    "Residual",
    "Sign",
    "Subset",
    "TopK",
    "Wrapped",
    "Wrapper",
    "corrected",
    "left_out",
    "random_of",
    "wrapped",
    "wrapper",
    "wrappers",
]
