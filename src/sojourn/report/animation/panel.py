"""One panel of a moving picture: the server, its clients, their queues, and what it came to.

Each place, ring and number comes from the scene. Only the flights are made up. Where tasks take no time on their way
they are drawn as the first moments at the next client, and never as more than nine tenths of them. The time on a
downlink is not in a trace: it is drawn as waiting.
"""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

from sojourn.fleet import Fleet
from sojourn.report.animation.film import Film, Span
from sojourn.report.animation.scene import SERVED, Scene, Steps, Task
from sojourn.shown import visible

FLIGHT, MOVE = 0.45, 0.2  # seconds on the screen: from a client to the server and on to the next; one place forward
WIDTH, SERVER, CLIENTS = 450, 84, 292  # pixels: of a panel; from the top to the middle of the server and of the clients
DIGIT, LINE, LETTER = 20, 34, 7.3  # pixels: width and height of a digit of the counter; width of a letter below
EMPTY, PALE, OUTLINE, GROUND = "#eef1f3", "#dbe9f4", "#a3b1b8", "#ffffff"
WAITS, WORKS, TRAVELS = "#d1495b", "#1b6ca8", "#2c6e49"
BEHIND = WIDTH / 2, SERVER + 18  # where dots are that are at the server


def words(scene: Scene, clients: int) -> str:
    """Say what a scene came to."""
    idle = scene.mean(scene.idle)
    who = "nobody idle" if idle < 0.05 else f"{idle:.1f} of {clients} clients idle on average"
    return f"{scene.applied:,} updates; {who}"


@dataclass
class Panel:
    """Draws one scene into a film."""

    film: Film
    fleet: Fleet
    scene: Scene
    pace: float
    """Seconds on the screen for one second of the scene."""
    most: int
    """Number of updates of a full bar."""

    def __post_init__(self) -> None:
        self.end = self.scene.time * self.pace
        self.pitch = WIDTH / self.fleet.clients
        self.radius = min(18.0, 0.4 * self.pitch)
        self.above = CLIENTS - self.radius - 11  # where queues begin
        self.step = min(17.0, (self.above - SERVER - 45) / max(1, self.scene.longest))

    def drawn(self, title: str, colour: str) -> str:
        """Return the panel as SVG."""
        numbers = range(self.fleet.clients)
        return "\n".join(
            [
                f'<text class="b" y="36" style="fill:{colour}">{escape(visible(title))}</text>',
                f'<path d="{"".join(self._road(number) for number in numbers)}" stroke="#e3e8eb"/>',
                *(self._client(number) for number in numbers),
                *(self._dot(slot) for slot in self.scene.slots),
                self._server(),
                self._groups(),
                self._now(),
                self._bar(colour),
            ]
        )

    def _place(self, client: int, place: int) -> tuple[float, float]:
        return (client + 0.5) * self.pitch, CLIENTS if place == SERVED else self.above - (place - 1) * self.step

    def _road(self, client: int) -> str:
        x, y = self._place(client, SERVED)
        return f"M{WIDTH / 2} {SERVER}L{x:.1f} {y}"

    def _server(self) -> str:
        box = f'<rect x="{WIDTH / 2 - 80}" y="{SERVER - 26}" width="160" height="52" rx="9" fill="{EMPTY}" '
        label = f'<text x="{WIDTH / 2 + 8}" y="{SERVER + 9}">updates</text>'
        return f'{box}stroke="{OUTLINE}"/>{label}{self._counter(WIDTH / 2, SERVER + 9)}'

    def _counter(self, right: float, base: float) -> str:
        """Return the number of updates: a strip of digits for each decimal, of which one digit is seen."""
        strips = ""
        for decimal in range(len(str(self.scene.applied))):
            power = 10**decimal
            spans: list[Span] = []
            for at, value in self._on_screen(self.scene.updates):
                up, seen = LINE * (value // power % 10), value >= power or decimal == 0
                spans.append((at, at, f"transform:translateY({-up}px);opacity:{int(seen)}"))
            left = right - (decimal + 1) * DIGIT
            strips += f'<svg x="{left}" y="{base - 26}" width="{DIGIT}" height="{LINE - 4}">'
            strips += f'<use id="{self.film.add(spans)}" class="jump" href="#digits" x="{DIGIT / 2}" y="26"/></svg>'
        return strips

    def _client(self, number: int) -> str:
        """Return a client: "idle" on paper, a disc over it while it works, and a ring that closes with each task."""
        x, y = self._place(number, SERVED)
        busy: list[Span] = [(0, 0, "opacity:0")]
        ring: list[Span] = [(0, 0, "stroke-dashoffset:1")]
        for start, stop in self.scene.services[number]:
            begin, end = start * self.pace, min(stop, self.scene.time) * self.pace
            done = (min(stop, self.scene.time) - start) / (stop - start) if stop > start else 1.0
            busy += [(begin, begin, "opacity:0"), (begin + self.film.at_once, end, "opacity:1")]
            ring += [(begin, begin, "stroke-dashoffset:1"), (end, end, f"stroke-dashoffset:{1 - done:.3f}")]
            if stop <= self.scene.time:
                busy.append((end + self.film.at_once, end + self.film.at_once, "opacity:0"))
                ring.append((end + self.film.at_once, end + self.film.at_once, "stroke-dashoffset:1"))
        disc, turn = (self.film.add([*spans, (self.end, self.film.length, spans[-1][2])]) for spans in (busy, ring))
        circle = f'cx="{x:.1f}" cy="{y}" r="{self.radius:.1f}"'
        idle = f'<text class="i m" x="{x:.1f}" y="{y + 3.5}">idle</text>' if self.radius > 15 else ""
        return (
            f'<circle {circle} fill="{GROUND}" stroke="{OUTLINE}" stroke-dasharray="3 3"/>{idle}'
            f'<circle id="{disc}" class="flow" {circle} fill="{PALE}" stroke="{PALE}" stroke-width="4"/>'
            f'<circle id="{turn}" class="flow" {circle} fill="none" stroke="{WORKS}" stroke-width="4" pathLength="1" '
            f'stroke-dasharray="1" transform="rotate(-90 {x:.1f} {y})"/>'
        )

    def _dot(self, slot: list[Task]) -> str:
        """Return a dot that is a task, and when that has ended the next one."""
        spans: list[Span] = []
        before = 0.0  # when the task before it ended
        for task in slot:
            sent, ended = task.dispatched * self.pace, min(task.ended, self.scene.time) * self.pace
            there = min(task.left, self.scene.time) * self.pace - sent  # seconds at the client
            flight = min(FLIGHT, 0.9 * there) if sent > 0 else 0.0
            if spans and sent == before:  # from the client to the server and on
                spans.append((sent + flight / 2, sent + flight / 2, _look(BEHIND, TRAVELS)))
            elif sent > 0:  # unseen until it is sent
                spans.append((before + FLIGHT / 2 if spans else 0.0, sent, _look(BEHIND, TRAVELS, seen=False)))
                spans.append((sent + self.film.at_once, sent + self.film.at_once, _look(BEHIND, TRAVELS)))
            spans += [*self._stay(task, sent + flight), *self._uplink(task)]
            before = ended
        if slot[-1].ended < self.scene.time:
            spans.append((before + FLIGHT / 2, before + FLIGHT / 2, _look(BEHIND, TRAVELS, seen=False)))
        begin, _, last = spans[-1]
        name = self.film.add([*spans[:-1], (begin, self.film.length, last)])
        return f'<circle id="{name}" class="move" r="{0.39 * self.radius:.1f}"/>'

    def _uplink(self, task: Task) -> list[Span]:
        """Return how far a task has come that takes time on its way back."""
        until = min(task.ended, self.scene.time)
        if task.left >= until:
            return []
        far = (until - task.left) / (task.ended - task.left) if math.isfinite(task.ended) else 0.0
        place = self._place(task.client, SERVED)
        x, y = (here + far * (there - here) for here, there in zip(place, BEHIND, strict=True))
        return [(until * self.pace, until * self.pace, _look((x, y), TRAVELS))]

    def _stay(self, task: Task, arrives: float) -> list[Span]:
        """Return the looks of a task at its client, from when the dot arrives there."""
        spans: list[Span] = []
        since = [*(at for at, _ in self._on_screen(task.places)), min(task.left, self.scene.time) * self.pace]
        for nth, (_, place) in enumerate(task.places):
            moved = min(MOVE, 0.5 * (since[nth + 1] - since[nth])) if nth else 0.0
            begin = max(since[nth] + moved, arrives)
            if begin <= since[nth + 1]:
                look = _look(self._place(task.client, place), WORKS if place == SERVED else WAITS)
                spans.append((begin, since[nth + 1], look))
        return spans

    def _groups(self) -> str:
        """Return a bracket below each group, and as much about it as fits there."""
        parts, first, y = "", 0, CLIENTS + self.radius + 8
        for name, count, rate in zip(self.fleet.name, self.fleet.count, self.fleet.rate, strict=True):
            left, right = first * self.pitch + 4, (first + count) * self.pitch - 4
            first += int(count)
            time = f"{1 / rate:.3g} s"
            labels = (f"{count} {name}, {time} per task", f"{count} {name}, {time}", f"{count} {name}")
            room = max(1, int((right - left) / LETTER))
            label = next((each for each in labels if len(each) <= room), f"{labels[-1][: room - 1]}…")
            parts += f'<path d="M{left:.1f} {y}v5H{right:.1f}v-5" fill="none" stroke="{OUTLINE}"/>'
            parts += f'<text class="q m" x="{(left + right) / 2:.1f}" y="{y + 21}">{escape(visible(label))}</text>'
        return parts

    def _now(self) -> str:
        """Return the words below: while it runs who is idle now, at the end what it came to."""
        lines = ""
        for value in sorted({idle for _, idle in self.scene.idle}):
            seen = [(at, at, f"opacity:{int(idle == value)}") for at, idle in self._on_screen(self.scene.idle)]
            seen.append((self.end, self.end, "opacity:0"))
            line = f"{value or 'none'} of {self.fleet.clients} clients idle"
            lines += f'<text id="{self.film.add(seen)}" class="jump s" y="372">{line}</text>'
        name = self.film.add([(0, 0, "opacity:0"), (self.end, self.end, "opacity:1")])
        last = escape(visible(words(self.scene, self.fleet.clients)))
        return f'{lines}<text id="{name}" class="jump s" y="372">{last}</text>'

    def _bar(self, colour: str) -> str:
        spans = [
            (at, at, f"transform:scaleX({value / max(1, self.most):.4f})")
            for at, value in self._on_screen(self.scene.updates)
        ]
        box = f'y="384" width="{WIDTH}" height="14"'
        bar = f'<rect id="{self.film.add(spans)}" class="jump bar" {box} fill="{colour}"/>'
        return f'<rect {box} fill="{EMPTY}"/>{bar}'

    def _on_screen(self, steps: Steps) -> Steps:
        return [(at * self.pace, value) for at, value in steps]


def _look(place: tuple[float, float], colour: str, *, seen: bool = True) -> str:
    return f"transform:translate({place[0]:.1f}px,{place[1]:.1f}px);fill:{colour};opacity:{int(seen)}"
