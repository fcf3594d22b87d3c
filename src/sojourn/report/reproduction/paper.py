"""A paper that can be reproduced, and how installed papers are found.

A paper is a separate distribution. It names its `Paper` by an entry point of the group `sojourn.papers`:

    [project.entry-points."sojourn.papers"]
    queuing-dynamics = "queuing_dynamics.experiments:PAPER"
"""

from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

from sojourn.errors import InvalidInput, SojournError
from sojourn.report.reproduction.experiment import Experiment
from sojourn.text import listed, nearest

GROUP = "sojourn.papers"
ALL = "all"
INSTALL = "pip install ./papers/queuing_dynamics in a copy of sojourn's repository"


@dataclass(frozen=True)
class Paper:
    """A paper and the experiments of it that can be reproduced."""

    name: str
    """The name that it is selected by."""
    title: str
    """Its title."""
    experiments: tuple[Experiment, ...]
    """Its experiments, in the order of the paper."""

    @property
    def names(self) -> list[str]:
        """The names of its experiments."""
        return [one.name for one in self.experiments]

    def asked_for(self, name: str | None) -> list[Experiment]:
        """The experiment of this name, or all of them."""
        if name is None:
            names = ", ".join(self.names)
            raise InvalidInput(f"an experiment must be named, got none; the names are {names}, or all")
        found = [one for one in self.experiments if name in (one.name, ALL)]
        if found:
            return found
        near = get_close_matches(name, [*self.names, ALL], n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidInput(f"there is no experiment '{name}'; the names are {', '.join(self.names)}, or all{hint}")


def installed() -> dict[str, EntryPoint]:
    """The papers that are installed, by name; none of them is loaded yet."""
    return {one.name: one for one in sorted(entry_points(group=GROUP), key=lambda one: one.name)}


def papers() -> list[Paper]:
    """All papers that are installed; if there are none, an error that says how to install one."""
    return [_loaded(one) for one in _some().values()]


def paper_of(name: str | None) -> Paper:
    """The installed paper of this name; without a name the only one."""
    found = _some()
    if name is None:
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} papers are installed; choose {listed(found)} by --paper")
        return _loaded(next(iter(found.values())))
    if name not in found:
        hint = nearest(name, list(found))
        raise InvalidInput(f"there is no paper '{name}'; installed are {', '.join(found)}{hint}")
    return _loaded(found[name])


def _some() -> dict[str, EntryPoint]:
    found = installed()
    if not found:
        raise SojournError(f"no paper to reproduce is installed; {INSTALL}")
    return found


def _loaded(entry: EntryPoint) -> Paper:
    try:
        paper = entry.load()
    except (ImportError, AttributeError) as error:
        raise SojournError(f"paper {entry.name} cannot be loaded ({error}); install it again") from error
    if not isinstance(paper, Paper):
        kind = type(paper).__name__
        raise SojournError(
            f"paper {entry.name}: {entry.value} must be a Paper, got a {kind}; install another version of it"
        )
    return paper
