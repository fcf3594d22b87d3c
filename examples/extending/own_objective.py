"""Your own objective for the planner in one file: the time that an effective update takes.

    python examples/extending/own_objective.py

Unequal sampling needs weights, and weights waste updates: T updates are worth T / S1, S1 = sum_i q_i^2 / p_i, which is
1 for uniform sampling. Fast clients make steps faster. The best plan lies in between; `stale` adds a penalty for
staleness. On the command line:

PYTHONPATH=examples/extending sojourn plan fleet.csv --objective "own_objective:EffectiveUpdate(stale=0.001)" -C 50
"""

from dataclasses import dataclass

from sojourn import Fleet, make_plan


@dataclass(frozen=True)
class EffectiveUpdate:
    """(S1 + stale * S2) / throughput."""

    stale: float = 0.0
    """Penalty for S2 = sum_i q_i^2 m_i / p_i^2, m_i the staleness of client i."""

    name = "time of an effective update"

    def value(self, seen, concurrency):
        return (seen.S1 + self.stale * seen.S2) / seen.throughput


def main():
    fleet = Fleet.of(fast=(90, 8.0), slow=(10, 1.0))
    for objective in (EffectiveUpdate(), EffectiveUpdate(stale=0.001)):
        planned = make_plan(fleet, objective, concurrency=50)
        fast, slow = planned.plan.sampling
        print(f"{objective}: {planned.prediction.value:.5f}, a fast client is sampled {fast / slow:.2f} times as often")


if __name__ == "__main__":
    main()
