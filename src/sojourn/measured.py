"""What a calibration measures: numbers with their intervals, at points of a training."""

from dataclasses import dataclass
from typing import NamedTuple


class Measured(NamedTuple):
    """A number and its interval."""

    value: float
    """The estimate."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""


class LowestMeasured(NamedTuple):
    """What was measured at the lowest loss that was reached."""

    loss: Measured
    """The objective."""
    sigma2_mean: Measured
    """Variance of a stochastic gradient, mean over the clients."""
    G2_mean: Measured
    """Squared distance of a client's gradient from the mean gradient, mean over the clients."""


@dataclass(frozen=True)
class PointMeasured:
    """What was measured at one point of a training."""

    step: int
    """Updates received before."""
    time: float
    """Virtual time."""
    loss: Measured
    """The objective."""
    gradient2: float
    """Squared norm of its gradient."""
    L: Measured
    """Largest curvature, of the mean loss and of the clients', or the secant where it is larger."""
    secant: float
    """Change of the mean gradient along one step downhill of the training's size, over the length of the step."""
    curvature: float
    """Largest curvature of the mean loss alone."""
    lowest: float
    """Lowest curvature of the mean loss that was seen."""
    sigma2: Measured
    """Variance of a stochastic gradient, of the client where it is largest; extrapolated to those not asked."""
    sigma2_mean: Measured
    """The same, mean over the clients."""
    G2: Measured
    """Squared distance of a client's gradient from the mean gradient, where it is largest; extrapolated likewise."""
    G2_mean: Measured
    """The same, mean over the clients."""
    eigenvalues: tuple[float, ...]
    """Leading curvatures of the mean loss, falling."""
    residuals: tuple[float, ...]
    """Distance from each within which an eigenvalue lies."""
    noise: tuple[Measured, ...]
    """Mean variance of a stochastic gradient along the direction of each."""
    heterogeneity: tuple[Measured, ...]
    """Mean squared distance of the clients' gradients from their mean along the direction of each."""
    trace: Measured | None = None
    """Sum of all curvatures of the mean loss; None in files of old."""
    G2_between: Measured | None = None
    """What of G2_mean lies between the means of speed groups, beyond what chance explains; None in files of old."""
    G2_within: Measured | None = None
    """What of it lies within them."""
