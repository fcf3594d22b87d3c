"""All experiments, in the order of the paper."""

from difflib import get_close_matches

from sojourn.errors import InvalidInput
from sojourn.paper import (
    optimal_sampling,
    other_bounds,
    physical_time,
    scaling_limits,
    stationarity,
    step_size,
    three_clusters,
    two_clusters,
)
from sojourn.paper.cifar10 import experiment as cifar10
from sojourn.paper.experiment import Experiment
from sojourn.paper.tinyimagenet import experiment as tinyimagenet

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
ALL = "all"


def asked_for(name: str) -> list[Experiment]:
    """The experiment of this name, or all of them.

    >>> [one.name for one in asked_for("two-clusters")]
    ['two-clusters']
    """
    if name == ALL:
        return list(EXPERIMENTS)
    found = [one for one in EXPERIMENTS if one.name == name]
    if found:
        return found
    names = [one.name for one in EXPERIMENTS]
    nearest = get_close_matches(name, [*names, ALL], n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise InvalidInput(f"there is no experiment '{name}'; the names are {', '.join(names)}, or all{hint}")
