"""The parts of a page about results that are not files: an observation, a summary, and any other table."""

from typing import Any

import numpy as np

from sojourn.report.page import drawings, of_theory
from sojourn.report.page.parts import Part, Section, Shown, called, number, plural, plus_minus, table, were
from sojourn.tabular import Tabular
from sojourn.timing.observe.observation import Observation
from sojourn.timing.simulate.summary import Summary

FIGURES = ("staleness", "queue", "utilisation", "sojourn", "waiting")


def part_of_observation(seen: Observation) -> Part:
    """Return the part about an observation."""
    tally = seen.tally
    part = Part(
        "observation",
        "observation",
        [
            f"{plural(seen.fleet.clients, 'client')} with {plural(seen.plan.concurrency, 'task')} in flight brought "
            f"{plural(tally.updates, 'update')} in {number(tally.time, 4)} s.",
            of_theory.verdict(seen),
        ],
        [
            (number(float(tally.throughput.value), 5), "updates per second"),
            (number(float(tally.mean_staleness.value), 5), "mean staleness"),
            (number(seen.in_flight, 5), "tasks in flight on average"),
        ],
    )
    fates = [[name, *(int(tally.fates[key][at]) for key in tally.fates)] for at, name in enumerate(seen.fleet.name)]
    became = Section("What became of the tasks")
    became.tables.append(
        table("Tasks by group and fate", ["group", *(key.replace("_", " ") for key in tally.fates)], fates)
    )
    became.notes = [f"{note[0].upper()}{note[1:]}." for note in seen.notes]
    plans = [of_theory.plans(seen)] if seen.periods else []
    part.sections = [of_theory.promised(seen, seen.fleet.groups), *plans, became]
    return part


def part_of_measured(found: Summary) -> Part:
    """Return the part about the summary of a simulation."""
    fleet, flow = found.fleet, found.throughput
    part = Part(
        "simulation",
        "summary of a simulation",
        [
            f"{plural(found.steps, 'update')} of {plural(fleet.clients, 'client')} with "
            f"{plural(found.plan.concurrency, 'task')} in flight {were(found.steps)} simulated.",
            f"They came at {number(float(flow.value), 5)} per second (± {number(float(flow.error), 2)}), with a mean "
            f"staleness of {number(found.mean_staleness, 5)}.",
        ],
        [(number(float(flow.value), 5), "updates per second"), (number(found.mean_staleness, 5), "mean staleness")],
    )
    rows = [
        [
            fleet.name[at],
            *(
                plus_minus(float(getattr(found, key).value[at]), float(getattr(found, key).error[at]))
                for key in FIGURES
            ),
        ]
        for at in range(fleet.groups)
    ]
    section = Section("By group", tables=[table("Means by group, ± one standard error", ["group", *FIGURES], rows)])
    for at in range(fleet.groups if found.staleness_bins.shape[0] == fleet.groups and fleet.groups <= 6 else 0):
        counts, mean = found.staleness_bins[at], float(found.staleness.value[at])
        if counts.sum():
            words = f"Staleness of {called(fleet.name[at])}: mean {number(mean, 5)}, oldest {int(found.oldest[at]):,}."
            figure = drawings.histogram(counts, None, mean, np.nan, at)
            section.figures.append(Shown(f"staleness-{at + 1}", figure, words, words))
    keys = (
        "steps",
        "replications",
        "start",
        "seed",
        "dispatcher",
        "engine",
        "warmup",
        "complete",
        "error_from",
        "time",
    )
    facts = [[key, getattr(found, key)] for key in keys] + [["fleet_hash", fleet.hash], ["plan_hash", found.plan.hash]]
    part.sections = [section, Section("Where it comes from", tables=[table("Facts", ["key", "value"], facts)])]
    return part


def part_of_table(thing: Any) -> Part:
    """Return the part about any other result: its title and its table."""
    assert isinstance(thing, Tabular)
    columns = {key: list(values) for key, values in thing._table().items()}
    rows = list(zip(*columns.values(), strict=True))
    name = type(thing).__name__
    return Part(
        name,
        name.lower(),
        [f"{thing._title()}."],
        [],
        [Section("Its table", tables=[table(name, list(columns), rows, 200)])],
    )
