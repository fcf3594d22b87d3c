"""The law of every unit: of a group from its own durations, of a client from all clients' unless it
has plenty itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sojourn.laws.law import MOST_DURATIONS, Law
from sojourn.timing.fit.choice import Choice, choose, distance_to, product_limit
from sojourn.timing.fit.durations import Durations
from sojourn.timing.fit.gathering import KEPT
from sojourn.timing.fit.likelihood import Sample, of_law
from sojourn.timing.fit.rivals import lower_end
from sojourn.types import Flags, Floats, Integers

PLENTY = 200
FEW, FEWEST = 5, 2  # durations of a client that counts towards the shared law: preferably five, at least two
NEARLY_ALL = (
    0.9  # such clients must have this part of all durations, since clients seen often are those with short services
)
SCREENED = 199
MANY = 200  # above this many units all are assumed to be cut off alike
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
    """Relative difference below which the clock cannot distinguish two durations."""

    @classmethod
    def of(cls, durations: Durations, last: float) -> "Rows":
        """Return the kept durations, and the same share of each unit's unfinished ones."""
        kept, units = durations.kept, durations.finished.size
        share = np.bincount(kept.unit, minlength=units) / np.maximum(durations.finished, 1)
        rng = np.random.default_rng([0, 3])
        many = np.where(durations.finished > 0, share, 0.0)[durations.running] * durations.weight
        if (many > 1).any():  # fewer of the unfinished ones were kept than of the finished
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
        """Return some of the rows, in one block or in one block per unit."""
        unit = self.unit[picked]
        return Sample.of(
            self.value[picked], self.room[picked], self.finished[picked], unit if blocks else np.zeros_like(unit)
        )

    def by_unit(self, wanted: Integers) -> Iterator[tuple[int, Sample]]:
        """Yield one sample for each of the wanted units."""
        order = np.argsort(self.unit, kind="stable")
        unit = self.unit[order]
        for one in wanted.tolist():
            begin, end = np.searchsorted(unit, [one, one + 1])
            yield one, self.sample(order[begin:end], blocks=False)


def _cut_short(unit: Integers, value: Floats, room: Floats, cut: Flags, rng: np.random.Generator) -> Floats:
    """Return where durations would be cut off, drawn from the ages at which others of their unit were cut off.

    The law of these ages is Kaplan and Meier's estimate with the roles exchanged: here a duration that ends is cut off.
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
    """The laws of groups, and how uncertain they are."""

    choices: list[Choice]
    told: Floats
    """Number of durations from which a group's variation is known; inf = its law is given."""
    least: Floats
    """Lower end of each rate's interval over all laws that were not ruled out; NaN = its law is certain."""


def laws_by_group(durations: Durations, last: float, wanted: Law | str, confidence: float) -> GroupLaws:
    """Fit a law to each group from its own durations."""
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
    """Return the law of each client, and the law that they share.

    A client has a law of its own if it has plenty of durations and the shared law does not fit them.
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
    """Return sqrt(n) times the distance that one client in a hundred exceeds although the law is true."""
    rng = np.random.default_rng([0, 4])
    never = np.full(PLENTY, np.inf)
    found = []
    for _ in range(SCREENED):
        value = law.draw(rng, PLENTY)
        sample = Sample.of(value, never, np.ones(PLENTY, dtype=np.bool_), np.zeros(PLENTY, dtype=np.int64))
        found.append(distance_to(law, sample, of_law(law, sample).log_rate))
    return float(np.sqrt(PLENTY) * np.quantile(found, 0.99))
