"""The algorithms, one file each, and the parts to build your own (docs/extending.md)."""

from sojourn.learning.algorithms.aafl import Aafl
from sojourn.learning.algorithms.ace import Ace
from sojourn.learning.algorithms.asgrad import AsGrad
from sojourn.learning.algorithms.aso_fed import AsoFed
from sojourn.learning.algorithms.asyncfeded import AsyncFedED
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.base import (
    Algorithm,
    Arrival,
    Info,
    Sent,
    Setting,
    Standard,
    everybody,
    interrupted,
    queued,
)
from sojourn.learning.algorithms.ca2fl import Ca2fl
from sojourn.learning.algorithms.delay_adaptive import DelayAdaptive
from sojourn.learning.algorithms.fadas import Fadas
from sojourn.learning.algorithms.favano import Favano
from sojourn.learning.algorithms.fedasmu import FedAsmu
from sojourn.learning.algorithms.fedasync import FedAsync
from sojourn.learning.algorithms.fedavg import FedAvg
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.fedcompass import FedCompass
from sojourn.learning.algorithms.fedfix import FedFix
from sojourn.learning.algorithms.fedprox import FedProx
from sojourn.learning.algorithms.generalized_asyncsgd import GeneralizedAsyncSGD
from sojourn.learning.algorithms.ia2sgd import Ia2sgd
from sojourn.learning.algorithms.malenia import Malenia
from sojourn.learning.algorithms.quafl import Quafl
from sojourn.learning.algorithms.rennala import Rennala
from sojourn.learning.algorithms.ringleader import Ringleader
from sojourn.learning.algorithms.ringmaster import Ringmaster
from sojourn.learning.algorithms.table import ALGORITHMS, algorithm
from sojourn.learning.replay.local import Local, Update
from sojourn.learning.replay.server_step import ServerMemory, ServerStep
from sojourn.learning.storable import storable

__all__ = [
    "ALGORITHMS",
    "Aafl",
    "Ace",
    "Algorithm",
    "Arrival",
    "AsGrad",
    "AsoFed",
    "AsyncFedED",
    "AsyncSGD",
    "Ca2fl",
    "DelayAdaptive",
    "Fadas",
    "Favano",
    "FedAsmu",
    "FedAsync",
    "FedAvg",
    "FedBuff",
    "FedCompass",
    "FedFix",
    "FedProx",
    "GeneralizedAsyncSGD",
    "Ia2sgd",
    "Info",
    "Local",
    "Malenia",
    "Quafl",
    "Rennala",
    "Ringleader",
    "Ringmaster",
    "Sent",
    "ServerMemory",
    "ServerStep",
    "Setting",
    "Standard",
    "Update",
    "algorithm",
    "everybody",
    "interrupted",
    "queued",
    "storable",
]
