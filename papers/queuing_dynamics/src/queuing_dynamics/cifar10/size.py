"""The size of the experiment: as in the paper, or small enough for a CPU."""

from dataclasses import dataclass
from functools import cache

from queuing_dynamics.fleets import INTERACTION, WAITING, HalfSlow
from sojourn.planning.bound.goal import goal
from sojourn.planning.bound.search import make_plan

FAST_FAVOURED = 1.25  # a fast client's probability, in units of the uniform one
UNNORMALISED = ("logistic",)
PERIOD = WAITING + INTERACTION


@dataclass(frozen=True)
class Size(HalfSlow):
    """Settings that the readings share."""

    steps: int
    """The paper's server steps, its CS steps."""
    buffer: int
    """Updates in FedBuff's buffer."""
    batch_size: int
    """Number of examples per gradient."""
    data: str
    """The dataset."""
    model: str
    """The network, without its normalisation."""
    classes: int
    """Number of classes that a client holds."""
    augment: str
    """Augmentation of images."""
    precision: str
    """Precision on a GPU."""
    trial_seeds: int
    """Number of seeds of every trial of the search."""
    final_seeds: int
    """Number of seeds of the table."""

    def network(self, norm: str) -> str:
        """Return the network with a normalisation, if it has one."""
        return self.model if self.model in UNNORMALISED else f"{self.model}(norm={norm})"

    @property
    def time(self) -> float:
        """The virtual time of the server's periods."""
        return PERIOD * self.steps

    @cache  # noqa: B019, one of very few
    def planned(self) -> tuple[int, float]:
        """Return the planner's choice for this time: tasks, and a fast client's probability in units of the uniform
        one.
        """
        plan = make_plan(self.fleet(), goal(time=self.time)).plan
        return plan.concurrency, round(float(plan.sampling[0]) * self.clients, 6)


FULL = Size(
    clients=100, steps=200, buffer=10, batch_size=128, data="cifar10", model="resnet20", classes=7,
    augment="crop-flip", precision="bf16", trial_seeds=3, final_seeds=10,
)  # fmt: skip
FAST = Size(
    clients=10, steps=10, buffer=3, batch_size=16, data="digits", model="cnn", classes=7, augment="none",
    precision="fp32", trial_seeds=2, final_seeds=3,
)  # fmt: skip
