"""Fit a Fleet to a Trace: rates and laws, and how certain both are.

The service time is `finished_at - started_at` of every row that finished, divided by its local steps (`work`) if there
are several. Of a service that was running when the trace ends, or was cut off before (its client left, its round was
over, the server called), only a lower bound is known. Leaving it out would leave out long services, so it counts with
its expected length under the law.

The uplink time is `applied_at - finished_at`, if an update waits for nothing else: no round, no call, no server that
takes time. The downlink time is `started_at - dispatched_at` of a task that was sent to a client without other tasks;
of other tasks it is downlink and waiting together. What cannot be observed stays as in the given fleet.

A log of durations is turned into a trace and then fitted, see `from_log`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn.errors import InvalidInput
from sojourn.fleet import Fleet
from sojourn.laws.kind import law_class, law_names
from sojourn.laws.law import EXPONENTIAL, Law
from sojourn.own_code import names_code
from sojourn.shown import quoted
from sojourn.tabular import Tabular
from sojourn.timing.fit import notes
from sojourn.timing.fit.choice import CANDIDATES, Choice
from sojourn.timing.fit.drift import drift_of, of_drift
from sojourn.timing.fit.durations import Durations, by_group
from sojourn.timing.fit.observed import Observed, observe
from sojourn.timing.fit.rates import Evidence, Rates, best_rates, by_groups, pooled
from sojourn.timing.fit.units import Rows, laws_by_client, laws_by_group
from sojourn.trace import Trace
from sojourn.types import Floats, Integers

if TYPE_CHECKING:
    from sojourn.timing.fit.from_log import Devices

BY_CLIENT = "fit them by client instead"  # the way out if clients of a group differ


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Tabular):
    """A fitted fleet with the uncertainty of its rates and laws; arrays have one value per group."""

    fleet: Fleet
    """The fitted fleet: names, counts, rates, laws and links; if fitted by client, each client is a group of one."""
    rate_low: Floats
    """Lower end of the interval of each rate, in tasks per second."""
    rate_high: Floats
    """Upper end of the interval of each rate, in tasks per second."""
    confidence: float
    """Probability that an interval holds the true rate."""
    observations: Integers
    """Number of finished services."""
    censored: Integers
    """Number of services not seen to their end: running when the trace ends, or cut off (lost,
    dropped, interrupted).
    """
    work: Floats
    """Mean local steps of the finished services; a rate counts tasks of one step."""
    distance: Floats
    """Kolmogorov-Smirnov distance between durations and law (clients that share a law share it); NaN = too few."""
    p_value: Floats
    """Probability of a larger distance if the law were true; NaN = not tested (few durations, empirical law)."""
    drift: Floats
    """Relative change of each rate from the beginning of the trace to its end; NaN = too few services."""
    drift_p_value: float
    """Probability of as large changes if no rate changed; NaN = not tested."""
    latest: float
    """Last part of the trace's time that was fitted."""
    by: str
    """What was fitted: group or client."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know, one sentence each."""
    devices: "Devices | None" = None
    """For a log: the devices by name, with their groups; None = fitted from a trace."""

    def _title(self) -> str:
        return f"Fit of {self.fleet.clients:,} clients from {int(self.observations.sum()):,} durations, by {self.by}"

    def _table(self) -> dict[str, Any]:
        shown = {key: getattr(self.fleet, key) for key in ("name", "count", "rate")}
        keys = ("rate_low", "rate_high", "observations", "censored", "p_value", "drift")
        return {**shown, "law": [str(law) for law in self.fleet.law], **{key: getattr(self, key) for key in keys}}

    def save(self, path: str | Path) -> None:
        """Write the fleet as CSV or TOML."""
        self.fleet.save(path)


def fit(
    trace: Any,
    fleet: Fleet | None = None,
    by: str | None = None,
    law: Law | str | None = None,
    confidence: float = 0.95,
    latest: float = 1.0,
    **log: Any,
) -> Fit:
    """Fit a fleet (rates and laws) to a trace or to a log of durations, and return a Fit.

    - `trace`: a Trace, a trace file (which is read in pieces), or a log
    - `fleet`: for a trace, the fleet whose groups to fit; its rates are not used
    - `by`: for a trace, `group` (default with a fleet) or `client` (default without). Clients are pooled: one that was
      seen only twice is drawn towards the others, one that was never seen gets the population's rate and interval
    - `law`: `auto` (default), a family such as `lognormal`, or a whole law such as `gamma(shape=2)`
    - `confidence`: probability that an interval holds the true rate
    - `latest`: last part of the time to fit; 0.25 fits the services that began in the last quarter, for rates that
      change

    A log is a CSV or Parquet file, a DataFrame or a dict of columns, with the device and the times of each task. Its
    options (`groups`, `device`, `start`, `end`, `duration`, ...) are those of `Fleet.from_log`.

    >>> from sojourn import Plan, simulate
    >>> fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    >>> trace = simulate(fleet, Plan.uniform(fleet, concurrency=8), steps=10_000, seed=1)
    >>> found = fit(trace, fleet)
    >>> found.fleet.rate.round(), [str(law) for law in found.fleet.law]
    (array([4., 1.]), ['exponential', 'exponential'])
    >>> bool((found.rate_low < fleet.rate).all() and (fleet.rate < found.rate_high).all())
    True
    >>> fit(trace).fleet.name
    ('client-0', 'client-1', 'client-2', 'client-3')
    """
    from sojourn.timing.fit.from_log import fit_log
    from sojourn.timing.log.table import is_trace

    if not (isinstance(trace, Trace) or (isinstance(trace, str | Path) and is_trace(trace))):
        if fleet is not None or by is not None:
            name, value = ("fleet", fleet) if fleet is not None else ("by", by)
            raise InvalidInput(
                f"{name} is for a trace, which numbers its clients, got {quoted(value)} for a log, which names its "
                "devices; leave it out, and give groups (--groups auto, device or a number)"
            )
        return fit_log(trace, law=law, confidence=confidence, latest=latest, **log)
    if log:
        key, value = next(iter(log.items()))
        raise InvalidInput(
            f"{key} is for a log of durations, got {quoted(value)} for a trace; leave it out, or give a fleet (--fleet)"
        )
    return fit_trace(trace, fleet, by, law, confidence, latest)


def _in(trace: Any) -> str:
    return f" in {trace}" if isinstance(trace, str | Path) else ""


def fit_trace(
    trace: Trace | str | Path,
    fleet: Fleet | None,
    by: str | None,
    law: Law | str | None,
    confidence: float,
    latest: float,
    way_out: str = BY_CLIENT,
) -> Fit:
    """Fit a trace; `way_out` is the advice that is given if clients of a group differ."""
    by = _grouping(by, fleet)
    _wanted(law)
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must be between 0 and 1, got {confidence}; write for example 0.95")
    if not 0 < latest <= 1:
        raise InvalidInput(f"latest must be above 0 and at most 1, got {latest}; 0.25 is the last quarter of the trace")
    seen = observe(trace, fleet, by == "group", latest)
    return fit_observed(seen, fleet, by, law, confidence, latest, way_out, _in(trace))


def fit_observed(
    seen: Observed,
    fleet: Fleet | None,
    by: str | None = None,
    law: Law | str | None = None,
    confidence: float = 0.95,
    latest: float = 1.0,
    way_out: str = BY_CLIENT,
    where: str = "",
) -> Fit:
    """Fit what was observed of a trace, as `fit_trace` does; `where` names its file in an error."""
    by, wanted = _grouping(by, fleet), _wanted(law)
    if seen.counts is not None:
        wanted = _only_exponential(wanted, law)
        seen = replace(seen, service=seen.counts.durations())
    service = seen.service
    if service.finished.sum() == 0:
        raise InvalidInput(
            f"a fit needs a row with started_at and finished_at, got {seen.rows} rows without"
            f"{f' in the latest {latest:g} of the time' if latest < 1 else ''}; record a longer trace"
        )
    if service.total.sum() <= 0:
        raise InvalidInput(f"a fit needs services that take time, got only zeros{where}; use a finer clock")
    if by == "group" and fleet is not None:
        found = _by_group(seen, fleet, wanted, confidence, way_out)
    else:
        found = _by_client(seen, fleet, wanted, confidence)
    return replace(found, latest=latest)


def _grouping(by: str | None, fleet: Fleet | None) -> str:
    if by is None:
        return "client" if fleet is None else "group"
    if by not in ("group", "client"):
        raise InvalidInput(f"by must be group or client, got '{by}'; leave it out to fit groups when a fleet is given")
    if by == "group" and fleet is None:
        raise InvalidInput("by group needs a fleet that says which client belongs to which group, got none; give one")
    return by


def _wanted(law: Law | str | None) -> Law | str:
    if law is None or isinstance(law, Law):
        return law or "auto"
    text = law.strip()
    if text in ("auto", "empirical", *CANDIDATES):
        return text
    if "(" not in text and (text in law_names() or names_code(text)) and law_class(text).searched is not None:
        return text
    if "(" in text or text in law_names() or names_code(text):
        return Law.parse(text)
    raise InvalidInput(f"law must be auto, one of {', '.join(law_names())}, or a law with its parameter, got '{law}'")


def _only_exponential(wanted: Law | str, law: Law | str | None) -> Law:
    if wanted not in ("auto", "exponential", EXPONENTIAL):
        raise InvalidInput(
            "a law can only be fitted to single durations, and periodic calls tell only how many local steps a "
            "client did; "
            f"law must be auto or exponential for this trace, got '{law}'"
        )
    return EXPONENTIAL


def _by_group(seen: Observed, fleet: Fleet, wanted: Law | str, confidence: float, way_out: str) -> Fit:
    service = by_group(seen.service, fleet.group_of_client)
    instant = (service.finished > 0) & (service.total <= 0)
    if instant.any():
        name = fleet.name[int(np.argmax(instant))]
        raise InvalidInput(f"services must take time, got only zeros for group '{name}'; use a finer clock")
    laws = laws_by_group(service, seen.last, wanted, confidence)
    choices = laws.choices
    error = np.array([choice.error for choice in choices])
    rates = by_groups(_evidence(service, choices, seen.excess), confidence, laws.told, error, laws.least)
    said = [
        *notes.of_rows(seen),
        *notes.of_laws(choices, fleet.name, wanted),
        *notes.of_unseen(service, fleet.name, "group"),
        *notes.of_running(seen, service, fleet.name, "group"),
        *notes.of_unlike_clients(seen.service, fleet, service, choices, way_out),
    ]
    said += notes.of_links(seen, fleet, by_group(seen.downlink, fleet.group_of_client))
    return _fit(seen, _with_links(seen, fleet, confidence, "group"), rates, service, choices, said, confidence, "group")


def _by_client(seen: Observed, fleet: Fleet | None, wanted: Law | str, confidence: float) -> Fit:
    service = seen.service
    choices, shared = laws_by_client(service, seen.last, wanted)
    rates = pooled(_evidence(service, choices, seen.excess), confidence)
    one_by_one = _one_by_one(fleet, rates)
    own = [client for client, choice in enumerate(choices) if choice is not shared]
    said = [
        *notes.of_rows(seen),
        *notes.of_population(rates),
        *notes.of_laws([shared], ("all clients",), wanted),
        *notes.of_own_laws([one_by_one.name[client] for client in own], [choices[client] for client in own]),
        *notes.of_unseen(service, one_by_one.name, "client"),
        *notes.of_running(seen, service, one_by_one.name, "client"),
    ]
    said += notes.of_links(seen, one_by_one, seen.downlink)
    linked = _with_links(seen, one_by_one, confidence, "client")
    return _fit(seen, linked, rates, service, choices, said, confidence, "client")


def _one_by_one(fleet: Fleet | None, rates: Rates) -> Fleet:
    if fleet is None:
        return Fleet.of_rates(rates.rate)
    return fleet if fleet.groups == fleet.clients else fleet.expanded()


def _evidence(durations: Durations, choices: Sequence[Choice], excess: float = 1.0) -> Evidence:
    laws = tuple(choice.law for choice in choices)
    known = {id(one): (one.law.scv if np.isnan(one.scv) else one.scv, *one.shown) for one in choices}
    variation, shown, most = excess * np.array([known[id(choice)] for choice in choices]).T
    return Evidence(
        *(durations.finished, durations.total, durations.running, durations.age, laws, variation),
        *(durations.weight, shown, most),
    )


def _with_links(seen: Observed, fleet: Fleet, confidence: float, by: str) -> Fleet:
    """Return the fleet with the links that were observed; the others stay as they are."""
    up, down = seen.uplink, seen.downlink
    if by == "group":
        up, down = by_group(up, fleet.group_of_client), by_group(down, fleet.group_of_client)
    if not seen.waits:
        rate, law = _links(up, fleet.uplink_rate, fleet.uplink_law, seen, confidence, by)
        fleet = replace(fleet, uplink_rate=rate, uplink_law=law)
    rate, law = _links(down, fleet.downlink_rate, fleet.downlink_law, seen, confidence, by)
    return replace(fleet, downlink_rate=rate, downlink_law=law)


def _links(
    link: Durations, given: Floats, laws: tuple[Law, ...], seen: Observed, confidence: float, by: str
) -> tuple[Floats, tuple[Law, ...]]:
    """Return rates and laws of links; those that were not observed stay as given."""
    known = link.finished > 0
    service_time = seen.service.total.sum() / seen.service.finished.sum()
    noise = max(1e-9 * service_time, 8 * np.finfo(np.float64).eps * abs(seen.last))
    instant = known & (link.total <= noise * link.finished)
    if not (known & ~instant).any():
        return np.where(instant, np.inf, given), laws
    rest = link.without(instant)
    if by == "group":
        choices = laws_by_group(rest, seen.last, "auto", confidence).choices
        rate = best_rates(_evidence(rest, choices))
        rate = np.where(known, rate, given)
    else:
        choices = laws_by_client(rest, seen.last, "auto")[0]
        rate = pooled(_evidence(rest, choices), confidence).rate
    found = [old if fast else choice.law for choice, old, fast in zip(choices, laws, instant, strict=True)]
    return np.where(instant, np.inf, rate), tuple(found)


def _fit(
    seen: Observed,
    fleet: Fleet,
    rates: Rates,
    service: Durations,
    choices: Sequence[Choice],
    said: list[str],
    confidence: float,
    by: str,
) -> Fit:
    laws = tuple(choice.law for choice in choices)
    rows, span = Rows.of(service, seen.last), seen.last - seen.since
    drift = drift_of(rows, rates.rate, laws, _evidence(service, choices).scv, span)
    return Fit(
        fleet=replace(fleet, rate=rates.rate, law=laws),
        rate_low=rates.low,
        rate_high=rates.high,
        confidence=confidence,
        observations=service.finished,
        censored=service.unfinished,
        work=np.where(service.finished > 0, service.work / np.maximum(service.finished, 1), np.nan),
        distance=np.array([choice.distance for choice in choices]),
        p_value=np.array([choice.p_value for choice in choices]),
        drift=drift.change,
        drift_p_value=drift.p_value,
        latest=1.0,
        by=by,
        notes=(*said, *of_drift(drift, fleet.name)),
    )
