"""Check what every wrapper must do: around several algorithms the same properties that algorithms are checked for."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from sojourn.errors import InvalidInput
from sojourn.learning.algorithms.asyncsgd import AsyncSGD
from sojourn.learning.algorithms.base import Algorithm
from sojourn.learning.algorithms.fedbuff import FedBuff
from sojourn.learning.algorithms.quafl import Quafl
from sojourn.learning.replay.local import Local
from sojourn.learning.replay.server_step import ServerStep
from sojourn.learning.wrappers.base import Wrapper
from sojourn.learning.wrappers.table import checked
from sojourn.learning.wrappers.wrapped import columns_of, fitted, measures_of
from sojourn.testing.algorithm import PROPERTIES, WORK, Case, _falls, case_of
from sojourn.testing.failure import claim

AROUND: tuple[Algorithm, ...] = (
    FedBuff(size=3),
    AsyncSGD(ServerStep(step_size=0.1)),
    Quafl(contacts=2, waiting=0.5, interaction=0.25),
)


def check_wrapper(
    wrapper: Wrapper,
    local: Local = WORK,
    steps: int = 60,
    falls: float = 0.9,
    around: Sequence[Algorithm] = AROUND,
) -> None:
    """Check a wrapper of your own; raise an AssertionError that says which property fails, and how.

    - `local`: the clients' local work
    - `steps`: number of updates of each run
    - `falls`: largest part of the first gap to the optimum that may be left at the end
    - `around`: the algorithms that it is put around

    >>> from sojourn.learning.wrappers.topk import TopK
    >>> check_wrapper(TopK(share=0.5), around=[FedBuff(size=3)])
    """
    try:
        made = checked(wrapper, repr(wrapper))
    except InvalidInput as error:
        raise AssertionError(str(error)) from None
    _same_module(made)
    for algorithm in around:
        plain = case_of(algorithm, local, steps, None)
        case = replace(plain, algorithm=fitted(made(algorithm), plain.federation().model.layout))
        for check in (*PROPERTIES, _says_whether_it_remembers, _measures_its_columns, _falls(falls)):
            check(case)


def _same_module(wrapper: Wrapper) -> None:
    """Check that a module which the wrapper changes can be trained, and depends on the seed alone."""
    made = [wrapper.of_module(_module(), seed=3) for _ in range(2)]
    claim(
        any(one.requires_grad for one in made[0].parameters()),
        f"wrapper {wrapper.name}: of_module must leave a parameter to train, it froze all",
    )
    first, again = (one.state_dict() for one in made)
    same = first.keys() == again.keys() and all(torch.equal(first[key], again[key]) for key in first)
    claim(same, f"wrapper {wrapper.name}: of_module must give the same module for the same seed, but does not")


def _module() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def _says_whether_it_remembers(case: Case) -> None:
    claim(
        case.algorithm.remembers or not case.story.replay.kept,
        "clients keep something from one task to the next: set remembers = True",
    )


def _measures_its_columns(case: Case) -> None:
    names = columns_of(case.algorithm, case.setting)
    found = measures_of(case.algorithm, case.story.replay.state, case.setting)
    claim(len(names) == len(found), f"measures must give a number for each column of {names}, got {found}")
