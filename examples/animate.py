"""The moving picture of the README: the same fleet for the same minute, queues against nobody waits.

    python examples/animate.py                       # writes docs/pictures/nobody-waits.svg
    python examples/animate.py --out /tmp/mine.svg

Both sides have the same ten clients, the same ten tasks in flight and the same start, one task per client. Only the
rule for whom the server gives the next task differs. To animate traces of your own, call `animate` in the same way.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from sojourn import Fleet, Plan, analyze, simulate
from sojourn.report.animation.animate import animate

FLEET = Fleet.of(fast=(5, 1 / 3), slow=(5, 1 / 24))  # tasks per second
BLIND = Plan.uniform(FLEET, concurrency=10)
PLANS = {"Drawn blindly: tasks wait, clients idle": BLIND, "To whoever is free: nobody waits": replace(BLIND, cap=1)}
TIME = 60.0  # seconds
PLACE = Path(__file__).parents[1] / "docs" / "pictures" / "nobody-waits.svg"


def traces() -> dict:
    """The trace of each side; a client's nth task takes equally long on both."""
    return {
        title: simulate(FLEET, plan, time=10 * TIME, start="even", seed=0, engine="events")
        for title, plan in PLANS.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PLACE, help="the SVG file to write")
    scenes = animate(FLEET, traces(), parser.parse_args().out, time=TIME)
    for title, scene in scenes.items():
        exact = analyze(FLEET, PLANS[title])
        idle = FLEET.clients - float(FLEET.count @ exact.utilisation)
        print(f"{title}: {scene.applied} updates in this minute, {scene.mean(scene.idle):.1f} clients idle")
        print(
            f"  in the long run, exactly: {exact.throughput * TIME:.1f} updates a minute, {abs(idle):.1f} clients idle"
        )


if __name__ == "__main__":
    main()
