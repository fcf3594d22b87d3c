"""The stages of the example, one function per command."""

import sys
from argparse import Namespace
from collections.abc import Sequence

from policies import policies
from search import guessed, trained
from store import Store
from trials import Count, Search, count, go, timed
from world import Cell, chosen


def cells(arguments: Namespace) -> None:
    """Print the cells."""
    store = Store(arguments.out)
    for cell in chosen(arguments.cells):
        names = policies(cell)
        done = sum(_finals(store, cell, name) >= len(cell.work.seeds) for name in names)
        held = "held out" if cell.held_out else "development"
        print(f"{cell.name:45} {held:12} time {cell.time:9.4g}  {done} of {len(names)} policies trained")


def train(arguments: Namespace) -> None:
    """Tune and train every policy in every cell."""
    store, found = Store(arguments.out), _cells(arguments)
    _check_predicted(arguments, found)
    if arguments.count:
        _count(arguments, found, store)
        return
    _warm(found, store)
    searches = [
        Search(f"{cell.name}, {name}", trained(cell, name)) for cell in found for name in _names(arguments, cell)
    ]
    _end(go(searches, store, arguments.jobs, arguments.minutes), searches)


def guess(arguments: Namespace) -> None:
    """Train the default and the twin's pick at the twin's step size times a factor that is fitted once."""
    from verdict import guesses

    store, found = Store(arguments.out), _cells(arguments)
    wanted = guesses(arguments.results, found, keep=not arguments.count)
    searches = [
        Search(f"{cell.name}, {name} at {step}", guessed(cell, name, step))
        for cell in found
        for name, step in wanted.get(cell.name, {}).items()
    ]
    if arguments.count:
        runs = sum(len(search.go_on(store)) for search in searches)
        print(f"{runs} runs to go, of {sum(len(one.waiting) for one in searches)}")
        return
    _end(go(searches, store, arguments.jobs, arguments.minutes), searches)


def predict(arguments: Namespace) -> None:
    """Write down what predictors say of every policy in every cell."""
    from predictions import predict_all

    predict_all(_cells(arguments), arguments.results, arguments.count)


def calibrate(arguments: Namespace) -> None:
    """Measure the constants of each problem that the twin needs, on its training examples."""
    from predictions import calibrate_all

    calibrate_all(_cells(arguments), arguments.results, arguments.count)


def collect(arguments: Namespace) -> None:
    """Turn the runs into the files that are committed."""
    from results import collect_all

    collect_all(Store(arguments.out), _cells(arguments), arguments.results)


def report(arguments: Namespace) -> None:
    """Make verdicts, tables and the picture from the committed files."""
    from page import report_all

    report_all(arguments.results, arguments.page)


def _cells(arguments: Namespace) -> list[Cell]:
    found = chosen(arguments.cells)
    if not found:
        raise SystemExit(f"error: no cell fits {' '.join(arguments.cells)}; see the stage cells")
    return found


def _names(arguments: Namespace, cell: Cell) -> list[str]:
    unknown = set(arguments.policies or ()) - set(policies(cell))
    if unknown:
        raise SystemExit(f"error: {cell.name} has no policy {', '.join(unknown)}; it has {'; '.join(policies(cell))}")
    return [name for name in policies(cell) if not arguments.policies or name in arguments.policies]


def _finals(store: Store, cell: Cell, name: str) -> int:
    return sum(policy == name and kind == "final" for policy, kind, _, _ in store.of(cell))


def _check_predicted(arguments: Namespace, found: Sequence[Cell]) -> None:
    """Raise an error if a held-out cell would be trained before its predictions are written down."""
    from predictions import predicted

    known = predicted(arguments.results)
    bare = [cell.name for cell in found if cell.held_out and cell.name not in known]
    if bare and not arguments.count:
        raise SystemExit(f"error: no predictions yet for {len(bare)} held-out cells ({bare[0]}); run predict first")


def _warm(found: Sequence[Cell], store: Store) -> None:
    """Compile once, before several processes would do it at the same time."""
    timed(found[0], next(iter(policies(found[0]))), store)


def _count(arguments: Namespace, found: Sequence[Cell], store: Store) -> None:
    pace, total = dict[str, float | None](), dict[str, Count]()
    for cell in found:
        work = cell.work.name
        if work not in pace:
            pace[work] = timed(cell, next(iter(policies(cell))), store)
        one, sums = count(cell, _names(arguments, cell), store, pace[work]), total.setdefault(work, Count())
        sums.runs, sums.gradients = sums.runs + one.runs, sums.gradients + one.gradients
        sums.seconds += one.seconds
    for work, sums in total.items():
        gradient = pace[work]
        print(f"{work}: about {sums.runs:.0f} runs, {sums.gradients:.3g} gradients", end="")
        if gradient is None:
            print("; timing this needs a GPU, and this machine has none")
            continue
        each = sums.seconds / arguments.jobs
        print(f", {1e6 * gradient:.0f} microseconds per gradient: {each:.0f} s with {arguments.jobs} jobs", flush=True)


def _end(all_done: bool, searches: Sequence[Search]) -> None:
    left = [one.name for one in searches if not one.done]
    if not all_done:
        print(f"{len(left)} of {len(searches)} searches are open; run this again to continue", file=sys.stderr)
        raise SystemExit(3)
    print(f"all {len(searches)} searches have ended")
