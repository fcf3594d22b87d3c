"""The algorithms, one file each, and the parts to build your own (docs/extending.md)."""

from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.base import Algorithm, Arrival, Info, Sent, Setting, Standard, interrupted, queued
from sojourn.learning.algorithms.favano import Favano
from sojourn.learning.algorithms.fedasync import FedAsync
from sojourn.learning.algorithms.fedavg import FedAvg
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.algorithms.quafl import Quafl
from sojourn.learning.algorithms.table import ALGORITHMS, algorithm
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Arrival",
    "AsyncSGD",
    "Favano",
    "FedAsync",
    "FedAvg",
    "FedBuff",
    "GeneralizedAsyncSGD",
    "Info",
    "Local",
    "Quafl",
    "Sent",
    "ServerMemory",
    "ServerStep",
    "Setting",
    "Standard",
    "Update",
    "algorithm",
    "interrupted",
    "queued",
    "storable",
]
