"""Read a report page with the standard library: its text, tables, pictures, and what it refers to."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

ALONE = {"meta", "link", "br", "hr", "img", "input", "path", "use", "rect", "circle"}


@dataclass
class Page:
    text: str = ""
    answer: str = ""
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    refers: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)

    def row(self, caption: str, *first: str) -> list[str]:
        """The row of a table that begins with these cells."""
        rows = next(rows for name, rows in self.tables.items() if name.startswith(caption))
        return next(row for row in rows if row[: len(first)] == list(first))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page, self.open, self.caption = Page(), [], ""

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.page.tags.append(tag)
        self.page.refers += [value for key, value in attrs if key in ("src", "href", "xlink:href")]
        self.page.ids += [told["id"]] if "id" in told else []
        if tag == "svg":
            assert told["role"] == "img"
            self.page.labels.append(told["aria-label"])
        if tag == "figcaption":
            self.page.captions.append("")
        if tag == "tr":
            self.row = []
        if tag in ("td", "th"):
            self.row.append("")
        if tag not in ALONE:
            self.open.append((tag, told.get("class", "")))

    def handle_endtag(self, tag):
        if tag == "tr":
            self.page.tables.setdefault(self.caption, []).append(self.row)
        if tag == "caption":
            self.caption = self.caption.strip()
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        inside = [tag for tag, _ in self.open]
        if "style" in inside or "script" in inside:
            return
        self.page.text += data
        if ("p", "answer") in self.open:
            self.page.answer += data
        if inside and inside[-1] == "caption":
            self.caption = data
        if inside and inside[-1] in ("td", "th"):
            self.row[-1] += data
        if inside and inside[-1] == "figcaption":
            self.page.captions[-1] += data


def read(text: str) -> Page:
    """Read a page."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.page
