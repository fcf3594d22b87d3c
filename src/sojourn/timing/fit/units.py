"""The law of every unit: a group by its own durations, clients by those of all unless they have plenty of their own."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sojourn.laws.law import MOST_DURATIONS, Law
from sojourn.timing.fit.choice import Choice, choose, distance_to, product_limit
from sojourn.timing.fit.durations import Durations
from sojourn.timing.fit.likelihood import Sample, of_law
from sojourn.timing.fit.observed import KEPT
from sojourn.timing.fit.rivals import lower_end
from sojourn.types import Flags, Floats, Integers

PLENTY = 200
FEW, FEWEST = 5, 2  # durations of a client that count towards the shared law: better five, at least two
NEARLY_ALL = 0.9  # of the durations must be with such clients: the often seen are those whose services were short
SCREENED = 199
MANY = 200  # units, above which they are held to be cut off alike
FILE_BUDGET = 100_000  # values of empirical laws over all units


@dataclass(frozen=True)
class Rows:
    """Single durations in random order, finished or still running, each with its unit."""

    unit: Integers
    value: Floats
    room: Floats
    finished: Flags
    began: Floats
    same: float
    """Relative difference below which the clock cannot tell two durations apart."""

    @classmethod
    def of(cls, durations: Durations, last: float) -> "Rows":
        """The kept durations, and as large a share of each unit's unfinished ones."""
        kept, units = durations.kept, durations.finished.size
        share = np.bincount(kept.unit, minlength=units) / np.maximum(durations.finished, 1)
        rng = np.random.default_rng([0, 3])
        many = np.where(durations.finished > 0, share, 0.0)[durations.running] * durations.weight
        if (many > 1).any():  # of the unfinished fewer were kept than of the finished
            most = np.ones(units)
            np.maximum.at(most, durations.running, many)
            kept, many = kept.at(rng.random(kept.unit.size) < 1 / most[kept.unit]), many / most[durations.running]
        stays = rng.random(durations.age.size) < many
        age = durations.age[stays]
        unit = np.concatenate([kept.unit, durations.running[stays]])
        value = np.concatenate([kept.value, age])
        room = np.maximum(value, np.concatenate([(np.minimum(last, kept.until) - kept.began) / kept.work, age]))
        finished = np.arange(unit.size) < kept.unit.size
        if durations.cut.any() and np.isinf(kept.until).any():
            cut = np.concatenate([np.zeros(kept.unit.size, dtype=np.bool_), durations.cut[stays]])
            room = _cut_short(unit if units <= MANY else np.zeros_like(unit), value, room, cut, rng)
        order = rng.permutation(unit.size)
        shortest = np.min(
            durations.total / np.maximum(durations.finished, 1), initial=np.inf, where=durations.total > 0
        )
        same = max(1e-9, 8 * np.finfo(np.float64).eps * abs(last) / shortest)
        began = np.concatenate([kept.began, durations.began[stays]])
        return cls(unit[order], value[order], room[order], finished[order], began[order], same)

    def sample(self, picked: Integers | Flags, blocks: bool) -> Sample:
        """Some of the rows, in one block or in one for each unit."""
        unit = self.unit[picked]
        return Sample.of(
            self.value[picked], self.room[picked], self.finished[picked], unit if blocks else np.zeros_like(unit)
        )

    def by_unit(self, wanted: Integers) -> Iterator[tuple[int, Sample]]:
        """One sample for each of the wanted units."""
        order = np.argsort(self.unit, kind="stable")
        unit = self.unit[order]
        for one in wanted.tolist():
            begin, end = np.searchsorted(unit, [one, one + 1])
            yield one, self.sample(order[begin:end], blocks=False)


def _cut_short(unit: Integers, value: Floats, room: Floats, cut: Flags, rng: np.random.Generator) -> Floats:
    """Room for durations that may be cut off at any age: drawn from the ages at which others of their unit were.

    The law of these ages is Kaplan and Meier's estimate, in which a duration that ends cuts the cutting off.
    """
    room = room.copy()
    for one in np.unique(unit[cut]).tolist():
        mine = np.flatnonzero(unit == one)
        ages, mass = product_limit(value[mine], cut[mine])
        level = np.concatenate([[0.0], np.cumsum(mass)])
        rest = mine[~cut[mine]]
        passed = level[np.searchsorted(ages, value[rest], side="right")]
        drawn = passed + (1 - passed) * rng.random(rest.size)
        place = np.searchsorted(level[1:], drawn)
        met = place < ages.size  # else it would not have been cut off
        room[rest[met]] = np.minimum(room[rest[met]], ages[place[met]])
    return np.maximum(room, value)


@dataclass(frozen=True)
class GroupLaws:
    """The laws of groups, and what their durations leave open."""

    choices: list[Choice]
    told: Floats
    """Durations that told how much a group's durations vary; inf = its law is given."""
    least: Floats
    """Lower end of each rate's interval if its law is any that was not ruled out; NaN = its law is sure."""


def laws_by_group(durations: Durations, last: float, wanted: Law | str, confidence: float) -> GroupLaws:
    """A law for each group from its own durations."""
    rows = Rows.of(durations, last)
    groups = durations.finished.size
    most = int(np.clip(FILE_BUDGET // groups, 50, MOST_DURATIONS))
    found = GroupLaws([], np.full(groups, np.inf), np.full(groups, np.nan))
    given = isinstance(wanted, Law) or wanted == "exponential"
    for group, sample in rows.by_unit(np.arange(groups)):
        choice = choose(sample, wanted, rows.same, most, groups)
        found.choices.append(choice)
        if not given and sample.freedom >= 1:
            found.told[group] = sample.size
        found.least[group] = lower_end(sample, choice.rivals, (1 - confidence) / 2)
    return found


def laws_by_client(durations: Durations, last: float, wanted: Law | str) -> tuple[list[Choice], Choice]:
    """The law of each client, and the one that they share.

    A client has its own where it has plenty of durations and the shared law does not fit them.
    """
    rows = Rows.of(durations, last)
    clients = durations.finished.size
    seen = np.bincount(rows.unit[rows.finished], minlength=clients)
    least = FEW if seen[seen >= FEW].sum() >= NEARLY_ALL * seen.sum() else FEWEST
    sample = rows.sample(seen[rows.unit] >= least, blocks=True).thinned(KEPT)
    most = int(np.clip(FILE_BUDGET // clients, 50, MOST_DURATIONS))
    shared = choose(sample, wanted, rows.same, most)
    choices = [shared] * clients
    plenty = np.flatnonzero(seen >= PLENTY)
    if isinstance(wanted, Law) or clients == 1 or plenty.size == 0 or shared.law.name == "deterministic":
        return choices, shared
    bar = _bar(shared.law)
    margin = np.log(plenty.size)
    for client, own in rows.by_unit(plenty):
        found = of_law(shared.law, own)
        if np.sqrt(own.size) * distance_to(shared.law, own, found.log_rate) > bar:
            choice = choose(own, wanted, rows.same, most, plenty.size)
            better = choice.likelihood - found.likelihood > max(4.0, np.log(own.size)) / 2 + margin
            if better or not choice.law.smooth:
                choices[client] = choice
    return choices, shared


def _bar(law: Law) -> float:
    """Root of n times the distance that one client in a hundred exceeds although the law is true."""
    rng = np.random.default_rng([0, 4])
    never = np.full(PLENTY, np.inf)
    found = []
    for _ in range(SCREENED):
        value = law.draw(rng, PLENTY)
        sample = Sample.of(value, never, np.ones(PLENTY, dtype=np.bool_), np.zeros(PLENTY, dtype=np.int64))
        found.append(distance_to(law, sample, of_law(law, sample).log_rate))
    return float(np.sqrt(PLENTY) * np.quantile(found, 0.99))
