"""sojourn: asynchronous federated learning that knows its queues.

The names in `__all__` are the public API; everything else may change without notice. Each name is loaded when it is
first used, so that `import sojourn` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sojourn.version import __version__

_HOME = {
    "Fleet": "fleet",
    "Law": "laws.law",
    "Plan": "plan",
    "Trace": "trace",
    "scan": "trace",
    "Analysis": "timing.exact.analysis",
    "analyze": "timing.exact.analysis",
    "animate": "report.animation.animate",
    "regime": "timing.exact.scaling",
    "Constants": "constants",
    "goal": "planning.bound.goal",
    "make_plan": "planning.make_plan",
    "Fit": "timing.fit.from_trace",
    "fit": "timing.fit.from_trace",
    "Observation": "timing.observe.observation",
    "observe": "experiments.observe",
    "simulate": "timing.simulate.record",
    "simulate_to_file": "timing.simulate.record",
    "Scenario": "scenario",
    "Dispatcher": "scenario",
    "Availability": "availability",
    "Summary": "timing.simulate.summary",
    "measure": "timing.simulate.summary",
    "transient": "timing.simulate.transient",
    "train": "facade.training",
    "serve": "facade.serving",
    "dashboard": "dashboards",
    "tune": "facade.many_runs",
    "TunedPlan": "experiments.tuned_plan",
    "compare": "facade.many_runs",
    "sweep": "facade.many_runs",
    "calibrate": "facade.calibrating",
    "Run": "experiments.results",
    "Comparison": "experiments.results",
    "Sweep": "experiments.results",
    "Calibration": "calibration",
    "Dataset": "learning.data.dataset",
    "SojournError": "errors",
    "InvalidInput": "errors",
    "UnreadableFile": "errors",
    "UnwritableFile": "errors",
}

_ROOMS = ("algorithms", "callbacks", "models", "testing", "wrappers")

__all__ = [*sorted(_HOME), *sorted(_ROOMS), "__version__"]

if TYPE_CHECKING:
    from sojourn import algorithms as algorithms
    from sojourn import callbacks as callbacks
    from sojourn import models as models
    from sojourn import testing as testing
    from sojourn import wrappers as wrappers
    from sojourn.availability import Availability as Availability
    from sojourn.calibration import Calibration as Calibration
    from sojourn.constants import Constants as Constants
    from sojourn.dashboards import dashboard as dashboard
    from sojourn.errors import InvalidInput as InvalidInput
    from sojourn.errors import SojournError as SojournError
    from sojourn.errors import UnreadableFile as UnreadableFile
    from sojourn.errors import UnwritableFile as UnwritableFile
    from sojourn.experiments.observe import observe as observe
    from sojourn.experiments.results import Comparison as Comparison
    from sojourn.experiments.results import Run as Run
    from sojourn.experiments.results import Sweep as Sweep
    from sojourn.experiments.tuned_plan import TunedPlan as TunedPlan
    from sojourn.facade.calibrating import calibrate as calibrate
    from sojourn.facade.many_runs import compare as compare
    from sojourn.facade.many_runs import sweep as sweep
    from sojourn.facade.many_runs import tune as tune
    from sojourn.facade.serving import serve as serve
    from sojourn.facade.training import train as train
    from sojourn.fleet import Fleet as Fleet
    from sojourn.laws.law import Law as Law
    from sojourn.learning.data.dataset import Dataset as Dataset
    from sojourn.plan import Plan as Plan
    from sojourn.planning.bound.goal import goal as goal
    from sojourn.planning.make_plan import make_plan as make_plan
    from sojourn.report.animation.animate import animate as animate
    from sojourn.scenario import Dispatcher as Dispatcher
    from sojourn.scenario import Scenario as Scenario
    from sojourn.timing.exact.analysis import Analysis as Analysis
    from sojourn.timing.exact.analysis import analyze as analyze
    from sojourn.timing.exact.scaling import regime as regime
    from sojourn.timing.fit.from_trace import Fit as Fit
    from sojourn.timing.fit.from_trace import fit as fit
    from sojourn.timing.observe.observation import Observation as Observation
    from sojourn.timing.simulate.record import simulate as simulate
    from sojourn.timing.simulate.record import simulate_to_file as simulate_to_file
    from sojourn.timing.simulate.summary import Summary as Summary
    from sojourn.timing.simulate.summary import measure as measure
    from sojourn.timing.simulate.transient import transient as transient
    from sojourn.trace import Trace as Trace
    from sojourn.trace import scan as scan


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"sojourn.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'sojourn' has no attribute '{name}'")
    value = getattr(import_module(f"sojourn.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_ROOMS])
