"""The site as a reader has it: built strictly, whole without the network, every link right, all of it searchable."""

import json
import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import api_pages
import command_pages
import pytest
from page_links import ROOT

from sojourn.algorithms import ALGORITHMS

pytestmark = pytest.mark.slow
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
LOADED |= {"object": "data", "link": "href", "image": "href", "use": "href"}
NOT_LOADED = {"canonical", "next", "prev", "author", "license"}
ELSEWHERE = re.compile(r"\s*(https?:)?//")


class Html(HTMLParser):
    """What a page loads, where it leads, and what it can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.ids: set[str] = set()
        self.tags: list[str] = []
        self.classes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.tags.append(tag)
        self.ids.add(given.get("id", ""))
        self.classes |= set(given.get("class", "").split())
        self.loads += _styles(given.get("style", ""))
        self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        if tag in LOADED and LOADED[tag] in given and given.get("rel") not in NOT_LOADED:
            self.loads.append(given[LOADED[tag]])
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "style":
            self.loads += _styles(data)


def _styles(text: str) -> list[str]:
    """What a style sheet loads."""
    return re.findall(r"url\(\s*[\"']?([^)\"']+)", text) + re.findall(r"@import\s+[\"']([^\"']+)", text)


def from_elsewhere(path: Path) -> list[str]:
    """What a browser would load from another machine to show a file."""
    text = path.read_text("utf-8")
    if path.suffix == ".html":
        loads = Html(text).loads
    elif path.suffix == ".css":
        loads = _styles(text)
    elif path.suffix == ".svg":
        loads = _styles(text) + re.findall(r"(?:xlink:)?href=\"([^\"]+)\"", text)
    else:
        loads = re.findall(r"[\"'`](https?://[^\"'`\s]+\.(?:js|mjs|css|woff2?|ttf|json|wasm))[\"'`]", text)
    return [load for load in loads if ELSEWHERE.match(load)]


def build(*words: str | Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mkdocs", reason="make docs installs it")
    pytest.importorskip("mkdocstrings", reason="make docs installs it")
    told = os.environ | {"NO_MKDOCS_2_WARNING": "1", "SOJOURN_DOCS_RUN": "no"}  # notebooks have tests of their own
    command = [sys.executable, "-m", "mkdocs", "build", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=told)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build("--site-dir", folder)
    assert "WARNING" not in done.stderr
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("text", "navigation", "said"),
    [
        ("# Title\n\n[right](#title)\n", "[index.md]", None),
        ("[wrong](none.md)\n", "[index.md]", "'none.md', but the target is not found"),
        ("[wrong](index.md#none)\n", "[index.md]", "there is no such anchor on this page"),
        ("[wrong](/index.md)\n", "[index.md]", "absolute link '/index.md'"),
        ("# Title\n", "[other.md]", "'other.md' is included in the"),
        ("# Title\n", "[more.md]", 'not included in the "nav" configuration:\n  - index.md'),
    ],
    ids=["right", "link", "anchor", "absolute", "missing", "unlisted"],
)
def test_what_is_wrong_fails_the_build(tmp_path, text, navigation, said):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(text)
    if "more.md" in navigation:
        (tmp_path / "docs" / "more.md").write_text("# More\n")
    settings = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nsite_dir: site\nnav: {navigation}\n"
    (tmp_path / "mkdocs.yml").write_text(settings + "hooks: []\nplugins: []\nextra_css: []\nextra: {polyfills: []}\n")
    done = build("--config-file", tmp_path / "mkdocs.yml")
    assert done.returncode == (0 if said is None else 1), done.stderr
    assert said is None or said in done.stderr


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Html(path.read_text("utf-8")) for path in site.rglob("*.html")}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/a.css">', ["//fonts.example/a.css"]),
        ("a.html", "<style>@import 'https://a.example/b.css';</style>", ["https://a.example/b.css"]),
        ("a.html", '<a href="https://a.example/">leads</a><img src="a.png"><svg xmlns="http://www.w3.org/a"/>', []),
        ("a.css", "a{background:url(https://a.example/b.png)}", ["https://a.example/b.png"]),
        ("a.js", 'load("https://a.example/b.js"); see("https://a.example/")', ["https://a.example/b.js"]),
    ],
)
def test_what_comes_from_the_network_is_noticed(tmp_path, name, text, found):
    (tmp_path / name).write_text(text)
    assert from_elsewhere(tmp_path / name) == found


def test_nothing_is_loaded_from_the_network(site, pages):
    read = [path for path in site.rglob("*") if path.suffix in (".html", ".css", ".js", ".svg")]
    assert len(read) > 50
    loaded = {load for path in read for load in from_elsewhere(path)}
    assert {load for load in loaded if "mermaid" not in load} == set()  # the theme's, for diagrams: there are none
    assert not any("mermaid" in page.classes for page in pages.values())


def test_every_link_and_anchor_of_every_page_is_there(site, pages):
    for name, page in pages.items():
        for link in {*page.leads, *page.loads}:
            if re.match(r"[a-z]+:", link) or (name == "404.html" and link.startswith("/")):
                continue
            place, _, anchor = unquote(link).partition("#")
            target = (site / name).parent / place if place else site / name
            assert target.exists(), f"{name}: {link}"
            known = pages.get(target.resolve().relative_to(site.resolve()).as_posix())
            assert not anchor or known is None or anchor in known.ids, f"{name}: {link}"


def test_every_public_name_and_every_verb_has_its_place(pages):
    for page, names in api_pages.public_names().items():
        assert [name for name in names if name not in pages[page.replace(".md", ".html")].ids] == []
    for name in map(command_pages.anchor, command_pages.commands()):
        assert f"sojourn-{name}" in pages["commands.html"].ids
        assert name in pages["cli.html"].ids


def test_an_algorithm_is_shown_with_its_rule_which_stands_above_its_class(site):
    text = unescape((site / "api" / "algorithms.html").read_text("utf-8"))
    for kind in ALGORITHMS.values():
        rule = str(sys.modules[kind.__module__].__doc__).partition("\n    ")[2].partition("\n")[0]
        assert rule
        assert rule in text


def test_search_knows_the_pages_and_needs_no_server(site):
    index = (site / "search" / "search_index.json").read_text("utf-8")
    found = json.loads(index)["docs"]
    places = {entry["location"] for entry in found}
    assert {"glossary.html#staleness", "commands.html#sojourn-compare", "api/sojourn.html#sojourn.Fleet"} <= places
    assert not any(place.startswith("source/") for place in places)
    assert (site / "search" / "search_index.js").read_text("utf-8") == f"var __index = {index}"
    assert "site/iframe-worker.js" in (site / "index.html").read_text("utf-8")


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda path: path.stem)
def test_a_page_has_the_same_lists_tables_and_code_as_on_the_code_host(site, page):
    from markdown_it import MarkdownIt

    host = Html(MarkdownIt("commonmark").enable("table").render(page.read_text("utf-8"))).tags
    text = (site / f"{page.stem}.html").read_text("utf-8")
    ours = Html(text[text.index("<article") : text.index("</article>")]).tags
    for tag in ("h1", "h2", "h3", "li", "ul", "ol", "table", "tr", "pre", "img", "blockquote"):
        assert ours.count(tag) == host.count(tag), tag
