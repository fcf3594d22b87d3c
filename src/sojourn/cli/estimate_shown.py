"""What a comparison or a sweep will cost, as a person reads it."""

from typing import TYPE_CHECKING

from sojourn.cli.cells import Cell, number
from sojourn.cli.show import plural, say, table
from sojourn.durations import shown
from sojourn.machine_memory import available, size

if TYPE_CHECKING:
    from sojourn.experiments.estimate import Estimate

BUSY = 0.8  # of a core: with less the machine has other work


def show_estimate(found: "Estimate", on: str, notes: list[str]) -> None:
    """A row for each phase, and what it was taken from."""
    rows = [
        [
            phase.name,
            str(phase.cells),
            str(phase.ended),
            number(phase.updates, 4),
            Cell(shown(phase.seconds), phase.seconds),
            Cell(shown(phase.wall), phase.wall),
        ]
        for phase in found.phases
    ]
    many = plural(found.jobs, "process").replace("processs", "processes")
    heads = ["part", "cells", "done", "updates left", "one after the other", f"with {many}"]
    if len(rows) > 1:
        whole = sum(phase.seconds for phase in found.phases)
        counts = (sum(getattr(phase, key) for phase in found.phases) for key in ("cells", "ended"))
        updates = number(sum(phase.updates for phase in found.phases), 4)
        rows.append(["all", *map(str, counts), updates, Cell(shown(whole), whole), Cell(shown(found.wall), found.wall)])
    table("What is left to do, about", heads, rows, [*_sentences(found, on), *notes])


def _sentences(found: "Estimate", on: str) -> list[str]:
    timed = found.timed[0] if found.timed else None
    said = []
    if timed is not None:
        more = "" if len(found.timed) == 1 else f"; {len(found.timed) - 1} of other kinds likewise"
        said.append(
            f"timed: {timed.name}, {timed.updates:,} of its {timed.total:,} updates in {shown(timed.seconds)}, after "
            f"{shown(timed.setup)} to load and build{more}"
        )
    if found.jobs > 1:
        said.append(f"{found.jobs} processes share the processor's caches: each may be slower than the one timed alone")
    if found.share < BUSY:
        said.append(
            f"! this machine has other work: the timed process got {100 * found.share:.0f}% of a core; as long as that "
            f"lasts it will take about {1 / found.share:.2g} times as long"
        )
    if found.memory == found.memory:
        whole = found.memory * found.jobs
        said.append(f"memory: {size(found.memory)} for each process, {size(whole)} in all; {size(available())} is free")
        if whole > available():
            said.append("! that is more memory than is free; lower --jobs")
    if on == "ray":
        said.append("on a Ray cluster divide the time of one after the other by the number of its cores")
    said += [f"! {name} cannot be trained: {why}" for name, why in found.failures.items()]
    return said


def say_count(many: int, done: int, word: str, more: str = "") -> None:
    """So many cells, and how many of them are done."""
    say(f"{plural(many, word)}, {done} of them done{more}")
