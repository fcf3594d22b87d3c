"""sojourn: asynchronous federated learning that knows its queues.

The names below are the public API; everything else may change without notice. They are loaded when first used, so
that `import sojourn` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sojourn.version import __version__

_HOME = {
    "Fleet": "fleet",
    "Law": "law",
    "Plan": "plan",
    "Trace": "trace",
    "scan": "trace",
    "Analysis": "theory.analysis",
    "analyze": "theory.analysis",
    "regime": "theory.scaling",
    "Constants": "theory.constants",
    "goal": "planner.goal",
    "make_plan": "planner.search",
    "Fit": "fitting.from_trace",
    "fit": "fitting.from_trace",
    "simulate": "simulation.record",
    "record": "simulation.record",
    "Scenario": "simulation.scenario",
    "Dispatcher": "simulation.scenario",
    "Availability": "simulation.availability",
    "Summary": "simulation.summary",
    "measure": "simulation.summary",
    "transient": "simulation.transient",
    "SojournError": "errors",
    "InvalidInput": "errors",
    "UnreadableFile": "errors",
    "UnwritableFile": "errors",
}

__all__ = [*sorted(_HOME), "__version__"]

if TYPE_CHECKING:
    from sojourn.errors import InvalidInput as InvalidInput
    from sojourn.errors import SojournError as SojournError
    from sojourn.errors import UnreadableFile as UnreadableFile
    from sojourn.errors import UnwritableFile as UnwritableFile
    from sojourn.fitting.from_trace import Fit as Fit
    from sojourn.fitting.from_trace import fit as fit
    from sojourn.fleet import Fleet as Fleet
    from sojourn.law import Law as Law
    from sojourn.plan import Plan as Plan
    from sojourn.planner.goal import goal as goal
    from sojourn.planner.search import make_plan as make_plan
    from sojourn.simulation.availability import Availability as Availability
    from sojourn.simulation.record import record as record
    from sojourn.simulation.record import simulate as simulate
    from sojourn.simulation.scenario import Dispatcher as Dispatcher
    from sojourn.simulation.scenario import Scenario as Scenario
    from sojourn.simulation.summary import Summary as Summary
    from sojourn.simulation.summary import measure as measure
    from sojourn.simulation.transient import transient as transient
    from sojourn.theory.analysis import Analysis as Analysis
    from sojourn.theory.analysis import analyze as analyze
    from sojourn.theory.constants import Constants as Constants
    from sojourn.theory.scaling import regime as regime
    from sojourn.trace import Trace as Trace
    from sojourn.trace import scan as scan


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sojourn' has no attribute '{name}'")
    value = getattr(import_module(f"sojourn.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
