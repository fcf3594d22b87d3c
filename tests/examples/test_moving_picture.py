"""The moving picture of the README is what its command makes, and its captions say what it shows."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn import analyze
from sojourn.report.animation.scene import scene_of

HOME = Path(__file__).parents[2]
PICTURE = HOME / "docs" / "pictures" / "nobody-waits.svg"
EXAMPLE = runpy.run_path(str(HOME / "examples" / "animate.py"))
FLEET, PLANS, TIME = (EXAMPLE[name] for name in ("FLEET", "PLANS", "TIME"))


@pytest.fixture(scope="module")
def sides():
    """For each side what the minute shows, and what is exact in the long run."""
    traces = EXAMPLE["traces"]()
    return [(traces[title], scene_of(traces[title], 10, TIME), analyze(FLEET, PLANS[title])) for title in PLANS]


def caption(page):
    """The words in italics below the picture, on one line."""
    below = (HOME / page).read_text("utf-8").partition("nobody-waits.svg)\n\n*")[2]
    return re.sub(r"\s+", " ", below.partition("*\n")[0])


@pytest.mark.slow
def test_the_picture_is_what_the_command_makes(tmp_path):
    command = [sys.executable, HOME / "examples" / "animate.py", "--out", tmp_path / "again.svg"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert (tmp_path / "again.svg").read_text("utf-8") == PICTURE.read_text("utf-8")
    assert "29 updates in this minute, 5.1 clients idle" in printed


def test_the_picture_is_small():
    assert PICTURE.stat().st_size < 100_000


def test_both_sides_have_the_same_start_and_the_same_luck(sides):
    (blind, _, _), (free, _, _) = sides
    for client in range(10):
        services = [(trace.finished_at - trace.started_at)[trace.client == client] for trace in (blind, free)]
        both = min(map(len, services)) - 5  # the last may be unfinished
        assert both > 5
        assert services[0][:both] == pytest.approx(services[1][:both])


def test_ten_tasks_are_in_flight_at_all_times(sides):
    for trace, scene, _ in sides:
        assert len(scene.slots) == 10
        inside = trace.applied_at[trace.applied & (trace.applied_at <= TIME)]
        for before, after in zip([0.0, *inside], [*inside, TIME], strict=True):
            now = (before + after) / 2
            assert sum(task.dispatched <= now < task.ended for slot in scene.slots for task in slot) == 10


def test_the_captions_say_what_the_traces_and_the_theory_say(sides):
    (blind, queues, routed), (free, nobody, capped) = sides
    assert queues.applied == (blind.applied & (blind.applied_at <= TIME)).sum()
    assert nobody.applied == (free.applied & (free.applied_at <= TIME)).sum()
    said = {page: caption(page) for page in ("README.md", "docs/nobody-waits.md")}
    for words in said.values():
        numbers = f"{queues.applied} updates.* {TIME * routed.throughput:.1f} per minute.* {nobody.applied} updates"
        assert re.search(f"{numbers}.* {TIME * capped.throughput:.1f}", words), words
    idle = FLEET.clients - float(FLEET.count @ routed.utilisation)
    words = said["docs/nobody-waits.md"]
    assert f"{queues.mean(queues.idle):.1f} clients idle on average; in the long run" in words
    assert f"per minute, {idle:.1f} idle" in words
    assert nobody.mean(nobody.idle) == 0
    assert [f"take {1 / rate:.0f}" in words for rate in FLEET.rate] == [True, True]
