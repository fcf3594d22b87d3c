"""How large the experiment is: as far as the paper states it, or small enough for a processor."""

from dataclasses import dataclass

from queuing_dynamics.fleets import HalfSlow


@dataclass(frozen=True)
class Size(HalfSlow):
    """Numbers that the methods share."""

    time: float
    """Virtual time of a run."""
    batch_size: int
    """Examples of a gradient; not stated in the paper."""
    data: str
    """The dataset."""
    model: str
    """The network."""
    augment: str
    """What happens to images."""
    precision: str
    """Of a GPU."""
    tasks: int
    """In flight, of the methods that keep them there; not stated."""
    buffer: int
    """Updates in FedBuff's buffer."""
    round: int
    """Clients of a round of FedAvg; not stated."""
    contacts: int
    """Clients that FAVANO calls in a period; not stated."""
    local_steps: tuple[int, ...]
    """Tried for a task of FedAvg, and as the most of one of FAVANO; not stated."""
    trial_seeds: int
    """Of every rate tried."""
    final_seeds: int
    """Of the table; not stated."""
    caution: str
    """What a reader should know of the numbers."""


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
