"""Notes on a fit: what a reader should know, in sentences."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import chdtrc

from sojourn.fleet import Fleet
from sojourn.laws.law import Law
from sojourn.timing.fit.choice import SAMPLES, Choice
from sojourn.timing.fit.durations import Durations, of_counts
from sojourn.timing.fit.observed import Observed
from sojourn.timing.fit.rates import Rates
from sojourn.types import Integers

UNLIKE = 1e-4  # p-value below which the clients of a group count as different
MANY = 0.1  # share of running services that makes a fit depend on its law
GUESSED = 5  # with fewer tasks a rate is a guess
OFTEN = 10  # fewest services of a client that is compared with its group


def of_rows(seen: Observed) -> list[str]:
    """Return notes on what the rows are, and which of them could not be used."""
    said = []
    if seen.skipped:
        said.append(
            f"{seen.skipped} rows have a service without a start or an end (lost, dropped or refused on the "
            "way) and are left out"
        )
    if seen.doubtful:
        said.append(
            f"{seen.doubtful} lost tasks do not show whether they had been served (applied_at is missing, as in traces "
            "of earlier versions); they count as cut off at finished_at, so that losses on the way make rates too low"
        )
    if seen.scene.pauses:
        said.append(
            "clients left and later went on with their tasks: the durations contain their absences, and the rates "
            "are those of clients that are not always online"
        )
    steps = seen.service.work.sum() / seen.service.finished.sum()
    if steps > 1:
        said.append(
            f"tasks did {steps:.4g} local steps on average and durations are divided by them: the rates are local "
            "steps, not tasks, per unit of time; divide them by the steps of a task (Fit.work) before planning"
        )
    return said if seen.counts is None else [*said, *of_counts(seen.counts)]


def of_laws(choices: Sequence[Choice], names: Sequence[str], wanted: Law | str) -> list[str]:
    """Return notes on laws that do not fit or could not be found."""
    said = []
    for name, choice in zip(names, choices, strict=True):
        bad = choice.refused
        if bad is not None:
            said.append(
                f"{name}: no law with a formula fits (the nearest is {law_in_short(bad.law)}, {_test(bad)}); "
                "the law is the empirical one of its durations"
            )
        elif not choice.fits:
            said.append(f"{name}: the law {law_in_short(choice.law)} does not fit its durations ({_test(choice)})")
    untold = [name for name, choice in zip(names, choices, strict=True) if np.isnan(choice.distance)]
    if untold and not isinstance(wanted, Law):
        said.append(f"too few durations to find a law, so exponential is assumed: {_listed(untold)}")
    return said


def _test(choice: Choice) -> str:
    least = 1 / (SAMPLES + 1)
    p = f"p at most {least:.2g}" if choice.p_value <= least else f"p = {choice.p_value:.2g}"
    return f"Kolmogorov-Smirnov distance {choice.distance:.2g}, {p}"


def law_in_short(law: Law) -> str:
    """Return a law for a sentence or a table; an empirical law without its values."""
    return f"empirical ({len(law.durations)} values)" if law.durations else _rounded(law)


def _rounded(law: Law) -> str:
    return str(law if law.parameter is None else replace(law, parameter=float(f"{law.parameter:.4g}")))


def of_own_laws(names: Sequence[str], choices: Sequence[Choice]) -> list[str]:
    """Return a note on clients that do not follow the law of the others."""
    if not names:
        return []
    each = [f"{name} {law_in_short(choice.law)}" for name, choice in zip(names, choices, strict=True)]
    return [f"{len(names)} of the clients have a law of their own: {_listed(each)}"]


def of_unseen(durations: Durations, names: Sequence[str], kind: str) -> list[str]:
    """Return a note on units without a finished service."""
    unseen = [names[unit] for unit in np.flatnonzero(durations.finished == 0).tolist()]
    if not unseen:
        return []
    return [f"no finished service, so rate and interval are those of any {kind} of this fleet: {_listed(unseen)}"]


def of_few(tasks: Integers, names: Sequence[str]) -> list[str]:
    """Return a note on units with so few finished tasks that their rates are guesses."""
    few = [
        f"{name}: only {_tasks(many)}" for name, many in zip(names, tasks.tolist(), strict=True) if 0 < many < GUESSED
    ]
    guess = "rate as a guess" if len(few) == 1 else "rates as guesses"
    return [f"{_listed(few)}: treat the {guess}"] if few else []


def _tasks(many: int) -> str:
    return f"{many} task{'s' * (many > 1)}"


def of_running(seen: Observed, durations: Durations, names: Sequence[str], kind: str) -> list[str]:
    """Return a note on units with many services that were not seen to their end."""
    if seen.counts is not None:
        return []
    running = durations.unfinished
    if kind == "client":  # all clients share one law
        running, finished, names = running.sum(keepdims=True), durations.finished.sum(keepdims=True), ("all clients",)
    else:
        finished = durations.finished
    many = [names[unit] for unit in np.flatnonzero(running > MANY * (running + finished)).tolist()]
    if not many:
        return []
    return [
        f"more than {MANY:.0%} of the services were not seen to their end (still running, lost, dropped or "
        f"interrupted), so rate and law depend on how the law continues beyond what was seen: {_listed(many)}"
    ]


def of_population(rates: Rates) -> list[str]:
    """Return a note on how much the clients differ."""
    return [f"the clients' rates lie around {rates.mean:.4g} and spread by {100 * rates.spread:.2g}% of it"]


def of_unlike_clients(
    by_client: Durations, fleet: Fleet, by_group: Durations, choices: Sequence[Choice], way_out: str
) -> list[str]:
    """Return a note on groups whose clients are not equal: their sums of durations differ by more than their law
    allows.
    """
    group = fleet.group_of_client
    often = by_client.finished >= OFTEN
    mean = by_group.total / np.maximum(by_group.finished, 1)
    scv = np.array([max(choice.law.scv, 1e-6) for choice in choices])
    off = by_client.total / np.maximum(by_client.finished, 1) / np.where(mean > 0, mean, 1.0)[group] - 1
    squares = np.where(often, by_client.finished / scv[group] * off**2, 0.0)
    total = np.bincount(group, squares, fleet.groups)
    freedom = np.bincount(group, often, fleet.groups) - 1
    unlike = (freedom > 0) & (total > 2 * freedom) & (chdtrc(np.maximum(freedom, 1), total) < UNLIKE)
    if not unlike.any():
        return []
    names = _listed([fleet.name[g] for g in np.flatnonzero(unlike)])
    return [f"clients of one group differ more than chance allows, {way_out}: {names}"]


def of_links(seen: Observed, fleet: Fleet, downlink: Durations) -> list[str]:
    """Return notes on links that come from the given fleet; the observed downlinks are those of its groups."""
    said = []
    if seen.waits:
        told = "none are assumed" if np.isinf(fleet.uplink_rate).all() else "the uplinks are those of the given fleet"
        said.append(f"uplink times cannot be separated from waiting for {seen.waits}; {told}")
    given = np.isfinite(fleet.downlink_rate) & (downlink.finished == 0)
    if given.any():
        names = [fleet.name[g] for g in np.flatnonzero(given).tolist()]
        said.append(
            "downlink times cannot be separated from waiting, since no task was sent to a client without others; the "
            f"downlinks are those of the given fleet: {_listed(names)}"
        )
    return said


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
