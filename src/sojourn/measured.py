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
    """Updates that the server had received before this point."""
    time: float
    """Virtual time."""
    loss: Measured
    """The objective."""
    gradient2: float
    """Squared norm of its gradient."""
    L: Measured
    """Largest curvature, of the mean loss and of the clients' losses, or the secant if that is larger."""
    secant: float
    """Change of the mean gradient over one gradient step of the training's size, divided by the length of the step."""
    curvature: float
    """Largest curvature of the mean loss alone."""
    lowest: float
    """Lowest curvature of the mean loss that was found."""
    sigma2: Measured
    """Variance of a stochastic gradient for the client where it is largest; extrapolated to clients that were not
    asked.
    """
    sigma2_mean: Measured
    """The same, mean over the clients."""
    G2: Measured
    """Largest squared distance of a client's gradient from the mean gradient; extrapolated to clients that were not
    asked.
    """
    G2_mean: Measured
    """The same, mean over the clients."""
    eigenvalues: tuple[float, ...]
    """Leading curvatures of the mean loss, in falling order."""
    residuals: tuple[float, ...]
    """For each of them, a distance within which an eigenvalue lies."""
    noise: tuple[Measured, ...]
    """Mean variance of a stochastic gradient along each of their directions."""
    heterogeneity: tuple[Measured, ...]
    """Mean squared distance of the clients' gradients from their mean along each of their directions."""
    trace: Measured | None = None
    """Sum of all curvatures of the mean loss; None in files of older versions."""
    G2_between: Measured | None = None
    """Part of G2_mean that lies between the means of speed groups, beyond what chance explains; None in files of older
    versions."""
    G2_within: Measured | None = None
    """Part of G2_mean that lies within speed groups."""
