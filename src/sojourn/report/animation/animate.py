"""The moving picture of one trace, or of two side by side: the same fleet for the same time."""

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from sojourn.durations import seconds
from sojourn.errors import InvalidInput
from sojourn.files import write_text
from sojourn.fleet import Fleet
from sojourn.report.animation.film import Film
from sojourn.report.animation.panel import GROUND, LINE, OUTLINE, TRAVELS, WIDTH, WORKS, Panel, words
from sojourn.report.animation.scene import Scene, scene_of
from sojourn.shown import visible
from sojourn.trace import Trace

MOST_CLIENTS, MOST_TASKS, MOST_PANELS, MOST_SCREEN = 20, 3000, 2, 600
HOLD, FADE = 5.0, 0.3  # seconds: the end is shown; the picture comes and goes
EDGE, HEIGHT = 20, 446  # pixels
TITLES = ("#b3283c", "#1b6ca8")

_PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"
 role="img" aria-labelledby="title words">
<title id="title">{title}</title>
<desc id="words">{words}</desc>
<style>
text {{ font: 14px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", Arial, sans-serif;
  fill: #1d272c; }}
.q {{ fill: #55636b; font-size: 12.5px; }} .i {{ fill: #55636b; font-size: 10.5px; }} .m {{ text-anchor: middle; }}
.b {{ font-size: 17px; font-weight: 600; }} .s {{ font-size: 15px; font-weight: 600; }}
.n {{ font-size: 30px; font-weight: 600; text-anchor: middle; }}
.bar {{ transform-box: fill-box; transform-origin: 0 0; }}
{style}
</style>
<defs><g id="digits">{digits}</g></defs>
<rect x=".5" y=".5" width="{inner}" height="{tall}" rx="12" fill="{ground}" stroke="#d5dce0"/>
<g id="{fade}" class="move">
{panels}
</g>
<text class="q" x="{edge}" y="{note_at}">{note}</text>
<rect id="{clock}" class="flow bar" x="{edge}" y="{clock_at}" width="{long}" height="3" fill="{outline}"/>
</svg>
"""


def animate(
    fleet: Fleet,
    traces: Mapping[str, Trace],
    path: str | Path,
    *,
    time: float | str = 60.0,
    screen: float | str = 20.0,
) -> dict[str, Scene]:
    """Write a moving picture of one trace, or of two side by side, and return what it shows under each title.

    - `traces`: traces of this fleet, each under the title of its panel
    - `path`: an SVG file, which browsers and code hosts show as a picture
    - `time`: how much of the traces to show, in seconds or as `"1min"`; let them run longer, so that all
      services within it have an end
    - `screen`: how long that takes on the screen

    >>> from tempfile import TemporaryDirectory
    >>> from sojourn import Plan, simulate
    >>> fleet = Fleet.of(fast=(2, 4.0), slow=(2, 1.0))
    >>> trace = simulate(fleet, Plan.uniform(fleet, concurrency=4), time=60, seed=1)
    >>> with TemporaryDirectory() as folder:
    ...     scenes = animate(fleet, {"queues": trace}, Path(folder) / "queues.svg", time="10s")
    >>> scenes["queues"].applied
    28
    """
    shown, lasts = seconds(time), seconds(screen)
    _check(fleet, traces, lasts)
    tasks = sum(int((trace.dispatched_at < shown).sum()) for trace in traces.values())
    if tasks > MOST_TASKS:
        raise InvalidInput(f"an animation shows at most {MOST_TASKS} tasks, got {tasks}; choose a shorter time")
    scenes = {title: scene_of(trace, fleet.clients, shown) for title, trace in traces.items()}
    write_text(path, picture(fleet, scenes, lasts), "animation")
    return scenes


def picture(fleet: Fleet, scenes: Mapping[str, Scene], screen: float) -> str:
    """Return the SVG of scenes that last equally long."""
    time = next(iter(scenes.values())).time
    film, most = Film(screen + HOLD), max(scene.applied for scene in scenes.values())
    panels = "\n".join(
        f'<g transform="translate({EDGE + nth * (WIDTH + EDGE)})">'
        f"{Panel(film, fleet, scene, screen / time, most).drawn(title, TITLES[nth])}</g>"
        for nth, (title, scene) in enumerate(scenes.items())
    )
    end = film.length
    fade = [(0.0, 0.0, "opacity:0"), (FADE, end - FADE, "opacity:1"), (end, end, "opacity:0")]
    clock = [(0.0, 0.0, "transform:scaleX(0)"), (screen, end, "transform:scaleX(1)")]
    width = EDGE + len(scenes) * (WIDTH + EDGE)
    return _PICTURE.format(
        width=width,
        height=HEIGHT,
        title=escape(visible(" | ".join(scenes))),
        words=escape(visible(" ".join(f"{title}: {words(scene, fleet.clients)}." for title, scene in scenes.items()))),
        fade=film.add(fade, "opacity:1"),
        clock=film.add(clock),
        style=film.style(),
        digits="".join(f'<text class="n" y="{LINE * digit}">{digit}</text>' for digit in range(10)),
        inner=width - 1,
        tall=HEIGHT - 1,
        ground=GROUND,
        outline=OUTLINE,
        panels=panels,
        note=_note(fleet, time, screen, len(scenes)),
        edge=EDGE,
        note_at=HEIGHT - 20,
        clock_at=HEIGHT - 9,
        long=width - 2 * EDGE,
    )


def _note(fleet: Fleet, time: float, screen: float, panels: int) -> str:
    colours = (("red waits", TITLES[0]), ("blue is worked on", WORKS), ("green travels", TRAVELS))
    dots = ", ".join(f'<tspan fill="{colour}">{label}</tspan>' for label, colour in colours)
    if panels == 1:
        return f"{time:g} s in {screen:g} s. Tasks: {dots}."
    made_up = "" if fleet.link_time.any() else ", which takes no time and is drawn to be seen"
    return f"{time:g} seconds, shown in {screen:g}. Dots are tasks: {dots}{made_up}."


def _check(fleet: Fleet, traces: Mapping[str, Trace], screen: float) -> None:
    if not 1 <= len(traces) <= MOST_PANELS:
        raise InvalidInput(f"an animation shows 1 to {MOST_PANELS} traces, got {len(traces)}")
    if fleet.clients > MOST_CLIENTS:
        raise InvalidInput(
            f"an animation shows at most {MOST_CLIENTS} clients, got {fleet.clients}; take a smaller fleet"
        )
    if not 1 <= screen <= MOST_SCREEN:
        raise InvalidInput(f"screen must be 1 to {MOST_SCREEN} seconds, got {screen:g}")
    for title, trace in traces.items():
        if trace.client.size and trace.client.max() >= fleet.clients:
            raise InvalidInput(
                f"the trace '{title}' has clients up to number {trace.client.max()}, the fleet has {fleet.clients}; "
                "give the fleet of the trace"
            )
