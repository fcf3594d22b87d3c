"""Links that work on the code host and on the site: what lies outside docs/ has a place on the site too.

On the code host a link is a path in the repository. On the site README.md is the first page, the changelog and the
guide for contributors are pages, a notebook is a page, and any other file or folder of the repository that a page
links to is shown on a page of its own below `source/`.
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files outside docs/ that are pages of the site, and what they are called there."""

LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".cff": "yaml", ".yml": "yaml", ".csv": "text"}
MOST = 100_000  # characters of a file that is shown

_CODE_OR_LINK = re.compile(r"(?ms)^(?P<fence>`{3,}).*?^(?P=fence)|(?P<code>`+)[^`].*?(?P=code)|\]\((?P<link>[^)\s]+)\)")


def with_links(text: str, changed: Callable[[str], str]) -> str:
    """A page with every link changed; what stands in code stays.

    >>> with_links("[a](b.md) `[a](b.md)`", lambda link: link.upper())
    '[a](B.MD) `[a](b.md)`'
    """
    return _CODE_OR_LINK.sub(lambda found: f"]({changed(found['link'])})" if found["link"] else found[0], text)


_NESTED = re.compile(r"(?ms)^(?P<fence>`{3,}).*?^(?P=fence)|^ {2,3}(?P<inside>`{3,}.*?^ +`{3,}$)|^ {2,3}(?=\S)")


def with_indents(text: str) -> str:
    r"""A page whose list items hold lists, tables and code as on the code host: the site wants four spaces before them.

    >>> with_indents("- a\n  - b\n\n  | c |\n\n```\n  code\n```\n")
    '- a\n    - b\n\n    | c |\n\n```\n  code\n```\n'
    >>> with_indents("1. a\n\n   ```\n   code\n     more\n   ```\n")
    '1. a\n\n    ```\n    code\n      more\n    ```\n'
    """

    def moved(found: re.Match[str]) -> str:
        if found["inside"]:
            depth = len(found[0]) - len(found[0].lstrip(" "))
            return re.sub(rf"(?m)^ {{{depth}}}", "    ", found[0])
        return found[0] if found["fence"] else "    "

    return _NESTED.sub(moved, text)


def links(text: str) -> list[str]:
    """Where the links of a page lead; those inside code are none.

    >>> links("see [a](b.md#c) and ![d](e.png), not `[x](y)`")
    ['b.md#c', 'e.png']
    """
    return [found["link"] for found in _CODE_OR_LINK.finditer(text) if found["link"]]


def is_local(link: str) -> bool:
    """Whether a link leads to a file of the repository.

    >>> is_local("a.md#b"), is_local("#b"), is_local("https://example.org"), is_local("mailto:a@b")
    (True, False, False, False)
    """
    return not link.startswith("#") and not re.match(r"[a-z]+:", link)


def in_repository(page: str, link: str) -> str:
    """The path in the repository to which a page's link leads.

    >>> in_repository("docs/cli.md", "../examples/own_task.py#L3"), in_repository("README.md", "docs/cli.md")
    ('examples/own_task.py', 'docs/cli.md')
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link.partition("#")[0]))


def on_site(path: str) -> str:
    """Where the site has a file or folder of the repository.

    >>> on_site("docs/cli.md"), on_site("README.md"), on_site("docs/notebooks/first.py")
    ('cli.md', 'index.md', 'notebooks/first.md')
    >>> on_site("examples/own_task.py"), on_site("papers/queuing_dynamics/README.md")
    ('source/examples/own_task.py.md', 'source/papers/queuing_dynamics/README.md')
    """
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/notebooks/") and path.endswith(".py"):
        return path.removeprefix("docs/").removesuffix(".py") + ".md"
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def site_link(page: str, link: str) -> str:
    """A link of a page of the repository, as the same page has it on the site.

    >>> site_link("README.md", "docs/cli.md#plan"), site_link("docs/compare.md", "../examples/comparison")
    ('cli.md#plan', 'source/examples/comparison.md')
    """
    path = in_repository(page, link) if is_local(link) else ""
    if not is_local(link) or not (ROOT / path).exists():
        return link  # a broken one is found by the build
    start = posixpath.dirname(on_site(page))
    _, mark, anchor = link.partition("#")
    return posixpath.relpath(on_site(path), start or ".") + mark + anchor


def shown_sources(pages: dict[str, str]) -> dict[str, str]:
    """Pages below `source/` for what the given pages link to outside the site: text by path in the repository.

    A folder is a list of its files, and these are shown too.
    """
    found: dict[str, str] = {}
    waiting = [in_repository(page, link) for page, text in pages.items() for link in links(text) if is_local(link)]
    while waiting:
        path = waiting.pop()
        if path not in found and (ROOT / path).exists() and on_site(path).startswith("source/"):
            found[path] = source_text(path)
            waiting += [in_repository(path, link) for link in links(found[path]) if is_local(link)]
    return found


def source_text(path: str) -> str:
    """A file or folder of the repository as Markdown."""
    place = ROOT / path
    if place.is_dir():
        files = sorted(one.name for one in place.iterdir() if one.is_file())
        rows = "".join(f"- [{name}]({posixpath.basename(path)}/{name})\n" for name in files)
        return f"# {path}\n\nA folder of the repository.\n\n{rows}"
    text = place.read_text("utf-8")
    if place.suffix == ".md":
        return text
    cut = "" if len(text) <= MOST else f"\nThe first {MOST:,} characters of {len(text):,}.\n"
    fence = "`" * 6
    return f"# {path}\n{cut}\n{fence}{LANGUAGES.get(place.suffix, 'text')}\n{text[:MOST].rstrip()}\n{fence}\n"
