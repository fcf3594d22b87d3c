"""Compare a recorded or simulated run with exact theory, from its trace or its folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sojourn.errors import InvalidInput, SojournError, UnreadableFile
from sojourn.fleet import Fleet
from sojourn.own_code import handed_over
from sojourn.plan import Plan
from sojourn.plan_text import plan_of
from sojourn.scenario import Scenario
from sojourn.shown import quoted
from sojourn.timing.fit.ends import clients_of
from sojourn.timing.observe.observation import Observation, observation
from sojourn.trace import Trace, metadata_of

TRACE, CONFIG = "trace.parquet", "config.json"
UNTIMED = ("data", "partition", "model", "loss", "metrics")  # keys whose code says nothing about timing
ASSUMED = "the sampling of the trace is not known without its fleet; uniform sampling is assumed, without a cap"


class NoConcurrency(InvalidInput):
    """Nobody says how many tasks were in flight."""


class Known(NamedTuple):
    """What a run was given, as far as it is known."""

    fleet: Fleet | None = None
    """Groups of the clients."""
    plan: Plan | None = None
    """Sampling, concurrency, cap."""
    scenario: Scenario | None = None
    """Dispatcher, local steps, server."""
    given: Fleet | None = None
    """The fleet, with its rates, if it is the one of the run."""
    notes: tuple[str, ...] = ()
    """What is missing, in sentences."""


def observe(
    trace: Trace | str | Path,
    fleet: Fleet | str | Path | None = None,
    plan: Any = None,
    *,
    sampling: str | None = None,
    concurrency: int | None = None,
    cap: str | int | None = None,
    warmup: int | None = None,
) -> Observation:
    """Compare what a trace shows with what exact theory promises, and return an Observation.

    - `trace`: a Trace, its file, or the folder of a live or simulated run
    - `fleet`: the Fleet of the run or its file: its groups, and a second promise; without it, and without a folder that
      names it, every client is a group
    - `plan`: the plan of the run, as an object or a file; by default what the folder says, or uniform sampling and the
      concurrency of the trace
    - `sampling`, `concurrency`, `cap`: the same in words, as on the command line
    - `warmup`: updates at the beginning that are not counted; by default up to eight times the largest mean staleness

    Throughput, shares and staleness are promised for the fleet fitted to the trace, and for the fleet that the run was
    given. What is observed has a standard error, from batches of updates.

    >>> from sojourn import simulate
    >>> fleet = Fleet.of(fast=(5, 4.0), slow=(5, 1.0))
    >>> trace = simulate(fleet, Plan.uniform(fleet, 10), 20_000, seed=1)
    >>> found = observe(trace, fleet)
    >>> all(abs(one.z) < 4 for one in found.figures() if one.group != "all")
    True
    """
    words = {"sampling": sampling, "concurrency": concurrency, "cap": None if cap is None else str(cap)}
    source, known, notes = known_of(trace, fleet, plan, words)
    found = observation(source, known.fleet, known.plan, known.scenario, known.given, warmup)
    return replace(found, notes=(*notes, *found.notes)) if notes else found


def known_of(
    trace: Trace | str | Path,
    fleet: Any = None,
    plan: Any = None,
    words: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> tuple[Trace | Path, Known, list[str]]:
    """Return a trace or its file, what its run was given, and notes on what is not known.

    The arguments are those of `observe`; `folder` is that of the run, if the trace is not in it.
    """
    words = words or dict.fromkeys(("sampling", "concurrency", "cap"))
    source, folder = (trace, folder) if isinstance(trace, Trace) else place_of(trace)
    metadata = source.metadata if isinstance(source, Trace) else metadata_of(source)
    here = folder is not None and (folder / CONFIG).exists()
    known = _of_folder(folder, fleet, plan, words) if folder is not None and here else None
    if known is None or known.plan is None:
        said = () if known is None else known.notes
        known = _of_words(fleet, plan, words, metadata)._replace(notes=said)
    return source, known, [*known.notes, *_mismatch(known, metadata)]


def policy_of(folder: str | Path) -> Known:
    """Return what the run in a folder was given, as far as it is known; no code that it names is run.

    `plan` is None if it cannot be told; the notes say why.
    """
    return _of_folder(Path(folder), None, None, dict.fromkeys(("sampling", "concurrency", "cap")))


def place_of(path: str | Path) -> tuple[Path, Path | None]:
    """Return the trace file, and the folder of its run if it lies in one."""
    place = Path(path)
    if not place.is_dir():
        return place, place.parent if place.name == TRACE else None
    if not (place / TRACE).exists():
        raise UnreadableFile(f"the folder {place} has no {TRACE}; name a trace, or the folder of a finished run")
    return place / TRACE, place


def fleet_of(fleet: Any) -> Fleet | None:
    """Return a fleet, which may be the name of its file; None stays None."""
    loaded = Fleet.load(fleet) if isinstance(fleet, str | Path) else fleet
    if not isinstance(loaded, Fleet | None):
        raise InvalidInput(f"fleet must be a Fleet or the name of its file, got {quoted(fleet)}")
    return loaded


def _of_words(fleet: Any, plan: Any, words: Mapping[str, Any], metadata: Mapping[str, Any]) -> Known:
    """Read fleet and plan from what the caller gives, and the concurrency also from the trace."""
    loaded = fleet_of(fleet)
    made = getattr(plan, "plan", plan)
    if isinstance(made, Plan):
        return Known(loaded, made, None, loaded)
    tasks = words["concurrency"] or (metadata.get("concurrency") if plan is None else None)
    if tasks is None and plan is None:
        raise NoConcurrency("the trace does not say how many tasks were in flight; give a plan or a concurrency (-C)")
    groups = loaded
    if groups is None:
        clients = clients_of(metadata)
        if clients < 1:
            raise InvalidInput("the trace does not say how many clients there are; give its fleet (--fleet)")
        groups = Fleet.of_rates([1.0] * clients)
    return Known(loaded, plan_of(groups, words["sampling"], plan, tasks, words["cap"]), None, loaded)


def _of_folder(folder: Path, fleet: Any, plan: Any, words: Mapping[str, Any]) -> Known:
    """Read fleet, plan and scenario from the configuration of a run; what the caller gives has precedence."""
    try:
        from sojourn.learning.run.build import timing_of
        from sojourn.learning.run.config import TrainConfig, put_over, unknown_speeds
        from sojourn.learning.run.run_config import facts_of

        texts = {"fleet": _text(fleet), "plan": _text(getattr(plan, "plan", plan)), **words}
        facts = facts_of(folder)
        given = {key: value for key, value in texts.items() if value is not None}
        kept = dict(facts.get("config") or {})
        for key in words if plan is not None else ():  # a plan has all of them
            kept.pop(key, None)
        config = TrainConfig.of(put_over(kept, given), f"config.json in {folder}")
        strange = [f"{key} {text!a}" for key, text in config.code.items() if key not in UNTIMED]
        if strange:
            raise InvalidInput(f"the run in {folder} names code to be run, {' and '.join(strange)}")
        near = None if config.plan is None else _near(config.plan, folder)
        recorded = facts.get("fleet_hash")
        loaded, made, scenario = timing_of(config.resolved(fleet=_near(config.fleet, folder), plan=near))
    except ImportError as error:
        return Known(notes=(f"what the run was given is left out: reading it needs {error.name}",))
    except SojournError as error:
        return Known(notes=(f"what the run was given is left out: {error}",))
    if fleet is None and unknown_speeds(config.fleet) is not None:
        return Known(loaded, made, scenario, None, ("the run began with a fleet of unknown speeds",))
    if fleet is None and recorded is not None and loaded.hash != recorded:
        changed = f"the fleet file {config.fleet} has changed since the run: its groups are used, its rates left out"
        return Known(loaded, made, scenario, None, (changed,))
    return Known(loaded, made, scenario, loaded)


def _text(thing: Any) -> str | None:
    """Return what stands for a fleet or a plan in a configuration."""
    if thing is None or isinstance(thing, str | Path):
        return None if thing is None else str(thing)
    if not isinstance(thing, Fleet | Plan):
        raise InvalidInput(f"fleet and plan must be objects of these classes, or files, got {quoted(thing)}")
    return handed_over(thing, f"{type(thing).__name__.lower()}-{thing.hash}")


def _near(path: str, folder: Path) -> str:
    """Return where a file of the configuration is: its place is seen from where the run was started."""
    places = (Path(path), folder.parent / path, folder / path)
    return str(next((place for place in places if place.is_file()), path))


def _mismatch(known: Known, metadata: Mapping[str, Any]) -> list[str]:
    """Return notes on a fleet or a plan that are not those of the trace, or that are only assumed."""
    fleet, plan = known.fleet, known.plan
    if fleet is None or plan is None:
        return [] if plan is None or plan.capped else [ASSUMED]
    if known.given is None:
        return []
    if metadata.get("fleet_hash") not in (None, fleet.hash):
        return ["the fleet is not the one that the trace was recorded with"]
    if metadata.get("plan_hash") not in (None, plan.hash, plan.timing_hash):
        return ["the trace was recorded under another plan; give it with --plan, or with --sampling, -C and --cap"]
    return []
