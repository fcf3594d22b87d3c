"""The moving picture in a browser: at every moment that is looked at, dots and counters are where the trace says."""

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reading

from sojourn.report.animation import panel
from sojourn.report.animation.animate import EDGE
from sojourn.report.animation.scene import Scene, scene_of

HOME = Path(__file__).parents[2]
PICTURE = HOME / "docs" / "pictures" / "nobody-waits.svg"
EXAMPLE = runpy.run_path(str(HOME / "examples" / "animate.py"))
TIME, SCREEN, CLIENTS = EXAMPLE["TIME"], 20.0, 10

WIND = "at => document.getAnimations().forEach(each => { each.pause(); each.currentTime = 1000 * at })"
SEEN = 'selector => [...document.querySelectorAll(selector)].filter(each => getComputedStyle(each).opacity === "1")'
DOTS = f"""({SEEN})("circle.move").map(each => {{
  const box = each.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}})"""
COUNTERS = """[...document.querySelectorAll("use.jump")].map(each => {
  const style = getComputedStyle(each);
  const digit = Math.round(-new DOMMatrix(style.transform).f / LINE);
  return [each.parentElement.getBoundingClientRect().x, style.opacity === "1" ? String(digit) : ""];
})""".replace("LINE", str(panel.LINE))
WORDS = f"({SEEN})('text.s').map(each => each.textContent)"


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [scene_of(trace, CLIENTS, TIME) for trace in EXAMPLE["traces"]().values()]


def value(steps: Any, at: float) -> int:
    return [number for since, number in steps if since <= at][-1]


def quiet_moments(scenes: list[Scene]) -> list[float]:
    """Times at which no dot is on its way, on either side."""
    pace = SCREEN / TIME
    events = [at for scene in scenes for slot in scene.slots for task in slot for at, _ in task.places]
    events += [at for scene in scenes for at, _ in scene.updates]
    moments = np.linspace(1.0, TIME - 0.5, 4000)
    last = [max((at for at in events if at <= now), default=0.0) for now in moments]
    calm = [float(now) for now, at in zip(moments, last, strict=True) if (now - at) * pace > panel.FLIGHT + 0.01]
    return calm[:: max(1, len(calm) // 8)]


def test_at_moments_without_flights_everything_is_where_the_trace_says(visit: Any, scenes: list[Scene]) -> None:
    page = visit(PICTURE, width=960, height=446)
    moments = quiet_moments(scenes)
    assert len(moments) >= 5
    for now in moments:
        page.evaluate(WIND, now * SCREEN / TIME)
        dots, counters, words = (page.evaluate(script) for script in (DOTS, COUNTERS, WORDS))
        assert len(dots) == 20
        for side, scene in enumerate(scenes):
            left = EDGE + side * (panel.WIDTH + EDGE)
            mine = sorted((round(x - left - 22.5) / 45, round(y)) for x, y in dots if left <= x < left + panel.WIDTH)
            tasks = [task for slot in scene.slots for task in slot if task.dispatched <= now < task.ended]
            there = [(task.client, value(task.places, now)) for task in tasks]
            assert mine == sorted((client, height(place)) for client, place in there)
            digits = [digit for x, digit in sorted(counters) if left <= x < left + panel.WIDTH]
            assert int("".join(digits)) == value(scene.updates, now)
            assert words[side] == f"{value(scene.idle, now) or 'none'} of 10 clients idle"


def height(place: int) -> int:
    return panel.CLIENTS if place == 0 else panel.CLIENTS - 18 - 11 - 17 * (place - 1)


@pytest.mark.slow
def test_ten_dots_per_side_are_seen_also_while_they_fly(visit: Any) -> None:
    page = visit(PICTURE)
    for at in np.arange(0.4, 24.5, 0.73):
        page.evaluate(WIND, float(at))
        assert len(page.evaluate(DOTS)) == 20


def test_the_end_is_said_in_words_and_stays_for_who_wants_no_motion(visit: Any, scenes: list[Scene]) -> None:
    moving, still = visit(PICTURE), visit(PICTURE, still=True)
    moving.evaluate(WIND, 22.0)
    assert still.evaluate("document.getAnimations().length") == 0
    assert moving.evaluate("document.getAnimations().length") > 50
    said = [panel.words(scene, CLIENTS) for scene in scenes]
    for page in (moving, still):
        assert page.evaluate(WORDS) == said
        assert [re.match(r"\d+", words).group() for words in said] == counted(page.evaluate(COUNTERS))  # type: ignore[union-attr]
    assert still.evaluate(DOTS) == moving.evaluate(DOTS)


def counted(counters: Any) -> list[str]:
    sides: list[list[Any]] = [[], []]
    for x, digit in sorted(counters):
        sides[x > EDGE + panel.WIDTH].append(digit)
    return ["".join(side) for side in sides]


@pytest.mark.parametrize("at", [5.0, 22.0])
def test_its_text_can_be_read(visit: Any, at: float) -> None:
    page = visit(PICTURE)
    page.evaluate(WIND, at)
    assert reading.faint_text(page) == []
    assert reading.unnamed_pictures(page) == []
