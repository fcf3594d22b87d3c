"""What a reader of a fit should know, in sentences."""

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

UNLIKE = 1e-4  # chance below which the clients of a group are held to differ
MANY = 0.1  # share of running services that makes a fit depend on its law
OFTEN = 10  # services of a client before it is compared with its group


def of_rows(seen: Observed) -> list[str]:
    """What the rows are, and which were of no use."""
    said = []
    if seen.skipped:
        said.append(
            f"{seen.skipped} rows have a service without beginning or without end (lost, dropped or refused on the "
            "way) and are left out"
        )
    if seen.doubtful:
        said.append(
            f"{seen.doubtful} lost tasks do not say whether they had been served (applied_at is missing, as in traces "
            "of earlier versions); they count as cut off at finished_at, so that losses on the way make rates too low"
        )
    if seen.scene.pauses:
        said.append(
            "clients left and went on later with what they served: the durations contain their absences, and the rates "
            "are those of a client that is not always there"
        )
    steps = seen.service.work.sum() / seen.service.finished.sum()
    if steps > 1:
        said.append(
            f"tasks did {steps:.4g} local steps on average and durations are divided by them: the rates are local "
            "steps, not tasks, per unit of time; divide them by the steps of a task (Fit.work) before planning"
        )
    return said if seen.counts is None else [*said, *of_counts(seen.counts)]


def of_laws(choices: Sequence[Choice], names: Sequence[str], wanted: Law | str) -> list[str]:
    """Laws that do not fit or could not be told."""
    said = []
    for name, choice in zip(names, choices, strict=True):
        bad = choice.refused
        if bad is not None:
            said.append(
                f"{name}: no law with a formula fits (the nearest is {bad.law}, {_test(bad)}); "
                "its durations themselves are the law"
            )
        elif not choice.fits:
            said.append(f"{name}: the law {law_in_short(choice.law)} does not fit its durations ({_test(choice)})")
    untold = [name for name, choice in zip(names, choices, strict=True) if np.isnan(choice.distance)]
    if untold and not isinstance(wanted, Law):
        said.append(f"too few durations to tell a law, exponential is assumed: {_listed(untold)}")
    return said


def _test(choice: Choice) -> str:
    least = 1 / (SAMPLES + 1)
    p = f"p at most {least:.2g}" if choice.p_value <= least else f"p = {choice.p_value:.2g}"
    return f"Kolmogorov-Smirnov distance {choice.distance:.2g}, {p}"


def law_in_short(law: Law) -> str:
    """A law for a sentence or a table: an empirical one without its values."""
    return f"empirical ({len(law.durations)} values)" if law.durations else _rounded(law)


def _rounded(law: Law) -> str:
    return str(law if law.parameter is None else replace(law, parameter=float(f"{law.parameter:.4g}")))


def of_own_laws(names: Sequence[str], choices: Sequence[Choice]) -> list[str]:
    """Clients that differ from the law of the others."""
    if not names:
        return []
    each = [f"{name} {law_in_short(choice.law)}" for name, choice in zip(names, choices, strict=True)]
    return [f"{len(names)} of the clients have a law of their own: {_listed(each)}"]


def of_unseen(durations: Durations, names: Sequence[str], kind: str) -> list[str]:
    """Units without a finished service."""
    unseen = [names[unit] for unit in np.flatnonzero(durations.finished == 0).tolist()]
    if not unseen:
        return []
    return [f"no finished service, so rate and interval are those of any {kind} of this fleet: {_listed(unseen)}"]


def of_running(seen: Observed, durations: Durations, names: Sequence[str], kind: str) -> list[str]:
    """Units of whose services a large part was not seen to the end."""
    if seen.counts is not None:
        return []
    running = durations.unfinished
    if kind == "client":  # all clients share what the law says
        running, finished, names = running.sum(keepdims=True), durations.finished.sum(keepdims=True), ("all clients",)
    else:
        finished = durations.finished
    many = [names[unit] for unit in np.flatnonzero(running > MANY * (running + finished)).tolist()]
    if not many:
        return []
    return [
        f"more than {MANY:.0%} of the services were not seen to their end (still running, lost, dropped or "
        f"interrupted), so that rate and law rest on how the law goes on beyond what was seen: {_listed(many)}"
    ]


def of_population(rates: Rates) -> list[str]:
    """How the clients differ."""
    return [f"the clients' rates lie around {rates.mean:.4g} and spread by {100 * rates.spread:.2g}% of it"]


def of_unlike_clients(by_client: Durations, fleet: Fleet, by_group: Durations, choices: Sequence[Choice]) -> list[str]:
    """Groups whose clients are not equal: sums of durations that differ by more than their law allows."""
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
    return [f"clients of one group differ more than chance allows, fit them by client instead: {names}"]


def of_links(seen: Observed, fleet: Fleet) -> list[str]:
    """Links that are taken over."""
    said = []
    if seen.waits:
        told = "none are assumed" if np.isinf(fleet.uplink_rate).all() else "the uplinks are those of the given fleet"
        said.append(f"uplink times cannot be told from waiting for {seen.waits}; {told}")
    if np.isfinite(fleet.downlink_rate).any():
        said.append("downlink times cannot be told from waiting; the downlinks are those of the given fleet")
    return said


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
