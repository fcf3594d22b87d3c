"""The size of the experiment: as far as the paper states it, or small enough for a CPU."""

from dataclasses import dataclass

from queuing_dynamics.fleets import HalfSlow


@dataclass(frozen=True)
class Size(HalfSlow):
    """Settings that the methods share."""

    time: float
    """Simulated time of a run."""
    batch_size: int
    """Number of examples per gradient; not stated in the paper."""
    data: str
    """The dataset."""
    model: str
    """The network."""
    augment: str
    """Augmentation of images."""
    precision: str
    """Precision on a GPU."""
    tasks: int
    """Tasks in flight, for methods that keep a number of them; not stated."""
    buffer: int
    """Updates in FedBuff's buffer."""
    round: int
    """Clients of a round of FedAvg; not stated."""
    contacts: int
    """Clients that FAVANO calls in a period; not stated."""
    local_steps: tuple[int, ...]
    """Local steps to try for a task of FedAvg, and as the most for one of FAVANO; not stated."""
    trial_seeds: int
    """Number of seeds of every step size tried."""
    final_seeds: int
    """Number of seeds of the table; not stated."""
    caution: str
    """A note that a reader of the numbers should know."""


FULL = Size(
    clients=100, time=1000.0, batch_size=32, data="tiny-imagenet(per_class=100)",
    model="resnet18(norm=batch, stem=pooled)", augment="flip", precision="bf16", tasks=50, buffer=10,
    round=10, contacts=20, local_steps=(1, 5, 20), trial_seeds=1, final_seeds=3,
    caution="our own figure, with 20,000 of the 100,000 training images: no reproduction is claimed",
)  # fmt: skip
FAST = Size(
    clients=10, time=140.0, batch_size=16, data="digits", model="cnn", augment="none",
    precision="fp32", tasks=5, buffer=3, round=2, contacts=2, local_steps=(1, 4), trial_seeds=1, final_seeds=2,
    caution="small, on digits: the way is tested, not the paper",
)  # fmt: skip
