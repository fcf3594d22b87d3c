"""The paper: all experiments, in its order."""

from queuing_dynamics import (
    optimal_sampling,
    other_bounds,
    physical_time,
    scaling_limits,
    stationarity,
    step_size,
    three_clusters,
    two_clusters,
)
from queuing_dynamics.cifar10 import experiment as cifar10
from queuing_dynamics.tinyimagenet import experiment as tinyimagenet
from sojourn.report.reproduction.experiment import Experiment
from sojourn.report.reproduction.paper import Paper

EXPERIMENTS: tuple[Experiment, ...] = (
    stationarity.EXPERIMENT,
    optimal_sampling.EXPERIMENT,
    other_bounds.EXPERIMENT,
    scaling_limits.EXPERIMENT,
    two_clusters.EXPERIMENT,
    three_clusters.EXPERIMENT,
    step_size.EXPERIMENT,
    physical_time.EXPERIMENT,
    cifar10.EXPERIMENT,
    tinyimagenet.EXPERIMENT,
)
PAPER = Paper("queuing-dynamics", "Queuing dynamics of asynchronous Federated Learning", EXPERIMENTS)
