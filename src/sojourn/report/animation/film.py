"""Style sheets that move: what each element of a picture looks like from when until when, as CSS keyframes.

A browser shows such a picture also where no scripts run, as in a README. Whoever asks for reduced motion, or has a
viewer that knows no animations, sees the looks without them: the end, unless another one is given.
"""

from dataclasses import dataclass, field

AT_ONCE = 2e-5  # part of a film between two looks without a transition; times are written with five digits
Span = tuple[float, float, str]  # from, until, look

_CLASSES = """@media (prefers-reduced-motion: no-preference) {{
.move {{ animation: {length:g}s ease-in-out infinite; }}
.jump {{ animation: {length:g}s step-end infinite; }}
.flow {{ animation: {length:g}s linear infinite; }}
}}
"""


@dataclass
class Film:
    """Collects what the elements of one picture do in `length` seconds, which then begin again."""

    length: float
    rules: list[str] = field(default_factory=list)

    @property
    def at_once(self) -> float:
        """Seconds between two looks without a transition."""
        return AT_ONCE * self.length

    def add(self, spans: list[Span], still: str | None = None) -> str:
        """Add an element that has these looks one after the other; return the name for its `id`.

        From the end of a span to the beginning of the next, an element of class `move` or `flow` changes gradually,
        and one of class `jump` stays as it is.

        >>> film = Film(10.0)
        >>> film.add([(0, 2.5, "opacity:0"), (5, 10, "opacity:1")]), film.rules[0]
        ('a0', '#a0{animation-name:a0;opacity:1}@keyframes a0{0%,25%{opacity:0}50%,100%{opacity:1}}')
        """
        name = f"a{len(self.rules)}"
        frames, last = "", -1.0
        for begin, end, look in _joined(spans):
            first = max(begin, last + self.at_once)
            last = max(end, first)
            times = dict.fromkeys((self._at(first), self._at(last)))  # one where they are written alike
            frames += f"{','.join(times)}{{{look}}}"
        rule = f"#{name}{{animation-name:{name};{spans[-1][2] if still is None else still}}}"
        self.rules.append(f"{rule}@keyframes {name}{{{frames}}}")
        return name

    def style(self) -> str:
        """Return the style sheet."""
        return _CLASSES.format(length=self.length) + "\n".join(self.rules)

    def _at(self, seconds: float) -> str:
        return f"{100 * seconds / self.length:.3f}".rstrip("0").rstrip(".") + "%"


def _joined(spans: list[Span]) -> list[Span]:
    """Join spans that look the same and follow each other."""
    found: list[Span] = []
    for begin, end, look in spans:
        if found and found[-1][2] == look:
            found[-1] = (found[-1][0], end, look)
        else:
            found.append((begin, end, look))
    return found
