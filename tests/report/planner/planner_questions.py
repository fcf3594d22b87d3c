"""Questions to the planner page, for tests."""

from sojourn import Fleet
from sojourn.report.planner.question import rows_of

FLEET = Fleet.of(fast=(9, 8.0), slow=(3, 1.0))


def asked(fleet=FLEET, **changes):
    knobs = {"cap": None, "concurrency": 6, "sampling": "root-speed", "correction": 0.0, "time": 5.0}
    return {"groups": rows_of(fleet), **knobs, **changes}
