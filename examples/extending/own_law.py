"""Your own service law in one file: Lomax's law (a Pareto law that begins at zero), for clients that rarely stall.

    python examples/extending/own_law.py

The law is one frozen dataclass: its fields are its parameters, its mean is one. On the command line, name it by its
place: PYTHONPATH=examples/extending sojourn simulate fleet.csv --law "own_law:Lomax(alpha=3)"
"""

from dataclasses import dataclass
from math import inf, log

import numpy as np

from sojourn import Fleet, Plan, measure
from sojourn.laws.kind import LawKind, register
from sojourn.laws.law import Law
from sojourn.random import MOVE, mix, unit
from sojourn.scenario import Scenario
from sojourn.testing import check_law


@register
@dataclass(frozen=True)
class Lomax(LawKind):
    """P(duration > x) = (1 + x / b)^-alpha with b = alpha - 1, so that the mean is one."""

    name = "lomax"
    smooth = True
    searched = (2.05, 50.0)  # `sojourn fit --law own_law:Lomax` searches alpha in this range
    longest = inf

    alpha: float
    """Tail index: the probability of a duration above x falls like x^-alpha."""

    def __post_init__(self):
        self.check_above("alpha", 2.0)

    @property
    def b(self):
        return self.alpha - 1

    @property
    def scv(self):
        return self.alpha / (self.alpha - 2)

    def log_survival(self, x):
        return -self.alpha * np.log1p(x / self.b)

    def log_density(self, x):
        return log(self.alpha / self.b) - (self.alpha + 1) * np.log1p(x / self.b)

    def mean_beyond(self, x):
        return x + (x + self.b) / (self.alpha - 1)

    def draw(self, rng, size):
        return rng.pareto(self.alpha, size) * self.b

    def numbers(self):
        return self.alpha, self.b

    @staticmethod
    def compiled_draw(numbers, key):
        """Draw from a stream: advance the key, mix it, and turn it into a number in [0, 1)."""
        key += MOVE
        u = 1.0 - unit(mix(key))
        return numbers[1] * (u ** (-1.0 / numbers[0]) - 1.0), key


def main():
    check_law(Lomax(alpha=5.0))
    print("check_law: the parts of Lomax agree")
    law = Law.parse("lomax(alpha=3)")
    fleet = Fleet(name=("phones",), count=(10,), rate=(1.0,), law=(law,))
    summary = measure(fleet, Plan.uniform(fleet, 10), 200_000, start="even", scenario=Scenario(), seed=1)
    print(f"{law}: scv {law.scv:g}, throughput {float(summary.throughput.value):.2f} with 10 clients of rate 1")


if __name__ == "__main__":
    main()
