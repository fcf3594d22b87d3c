"""The pages as files of the repository: all listed, links right on the code host, readable in a narrow window."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import page_links
import pytest
import yaml
from notebook_pages import NotebookPage
from page_links import ROOT, in_repository, is_local, links, shown_sources, site_link

DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in page_links.PAGES] + sorted(DOCS.rglob("*.md"))
NARROW = ("cli.md", "files.md", "glossary.md")


class Settings(yaml.SafeLoader):
    """mkdocs.yml as plain values: what it names in Python is left out."""


Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def listed(entries: list) -> list[str]:
    """The pages of a navigation, flat."""
    found = []
    for entry in entries:
        (value,) = entry.values()
        found += [value] if isinstance(value, str) else listed(value)
    return found


NAVIGATION = listed(yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Settings)["nav"])


def anchors(text: str) -> set[str]:
    """What headings are called in links, on the code host."""
    text = re.sub(r"(?ms)^(`{3,}).*?^\1", "", text)
    titles = [title.strip().lower() for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", title)).replace(" ", "-") for title in titles}


def test_every_page_is_listed_once():
    own = {path.relative_to(DOCS).as_posix() for path in DOCS.glob("**/*.md") if "results" not in path.parts}
    own |= {f"notebooks/{path.stem}.md" for path in DOCS.glob("notebooks/*.py")}
    made = {name for name in NAVIGATION if name.startswith("api/")} | {"commands.md", *page_links.PAGES.values()}
    assert sorted(NAVIGATION) == sorted(own | made)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_what_is_there(page):
    text = page.read_text("utf-8")
    name = page.relative_to(ROOT).as_posix()
    for link in links(text):
        target = ROOT / in_repository(name, link) if is_local(link) else page
        assert not is_local(link) or target.exists(), link
        if "#" in link and not link.startswith("http"):
            assert link.partition("#")[2] in anchors(target.read_text("utf-8")), link


@pytest.mark.parametrize("name", NARROW)
def test_a_page_of_reference_has_short_lines_and_short_cells(name):
    lines = (DOCS / name).read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > 100] == []
    cells = [cell for line in lines if line.startswith("|") for cell in line.strip("|").split(" | ")]
    assert [cell for cell in cells if ";" in cell] == []  # one fact per cell


def test_a_link_inside_docs_stays_and_one_that_leaves_has_a_place_on_the_site():
    assert site_link("docs/compare.md", "files.md#comparison-toml") == "files.md#comparison-toml"
    assert site_link("docs/compare.md", "pictures/comparison.png") == "pictures/comparison.png"
    assert site_link("docs/compare.md", "../README.md") == "index.md"
    assert site_link("CONTRIBUTING.md", "CHANGELOG.md") == "changelog.md"
    assert site_link("README.md", "https://example.org/a.md") == "https://example.org/a.md"
    assert site_link("docs/compare.md", "#top") == "#top"
    assert site_link("papers/queuing_dynamics/README.md", "../../docs/paper.md") == "../../../paper.md"


def test_a_broken_link_is_left_for_the_build_to_find():
    assert site_link("docs/compare.md", "../examples/none.py") == "../examples/none.py"


def test_files_and_folders_outside_docs_are_shown_on_pages_of_their_own():
    found = shown_sources({"docs/compare.md": "[folder](../examples/comparison) [page](cli.md) `[no](../Makefile)`"})
    assert set(found) == {"examples/comparison"} | {
        f"examples/comparison/{path.name}" for path in (ROOT / "examples" / "comparison").iterdir() if path.is_file()
    }
    assert "- [compare.toml](comparison/compare.toml)" in found["examples/comparison"]
    assert "``````toml\n" in found["examples/comparison/compare.toml"]


def test_a_notebook_becomes_words_and_code():
    text = (
        "# ---\n# jupyter: {}\n# ---\n\n# %% [markdown]\n# # A title\n#\n# - one\n#   more\n\n"
        '# %%\n# a comment\nx = 1  # noqa: E402\n\n\ny = x\n# %% [markdown]\n"""\nWords.\n"""\n# %%\n'
    )
    page = "# A title\n\n- one\n  more\n\n```python\n# a comment\nx = 1\n\n\ny = x\n```\n\nWords.\n"
    assert NotebookPage("a", text).text == page


def test_a_notebook_is_run_and_shows_what_it_prints_and_the_last_value():
    page = NotebookPage("a", "# %%\nprint('hello')\nx = 20\n# %%\nx += 1\n2 * x\n# %%\nNone\n").text
    assert page.count("```text\n") == 2
    assert "```python\nprint('hello')\nx = 20\n```\n\n```text\nhello\n```\n" in page
    assert "```text\n42\n```\n" in page


def test_an_object_with_a_table_is_shown_as_one():
    page = NotebookPage("a", "# %%\nimport sojourn as sj\n\nsj.Fleet.of(fast=(2, 4.0))\n").text
    assert "\n\n<div><p>Fleet of 2 clients" in page
    assert "<td>fast</td>" in page


def test_a_notebook_can_be_shown_without_being_run():
    page = NotebookPage("a", "# %%\n1 / 0\n", run=False)
    assert page.text == "```python\n1 / 0\n```\n"


def test_what_a_notebook_draws_is_on_its_page():
    draw = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots(figsize=(1, 1))\nplt.show()\n"
    page = NotebookPage("a", f"# %%\n{draw}# %%\n{draw}")
    assert page.text.count("![What the code draws]") == 2
    assert "(a-1.png)" in page.text
    assert list(page.pictures) == ["a-1.png", "a-2.png"]
    assert all(picture.startswith(b"\x89PNG") for picture in page.pictures.values())


def test_a_notebook_that_fails_fails_the_build():
    with pytest.raises(ZeroDivisionError):
        NotebookPage("a", "# %%\n1 / 0\n")


@pytest.mark.parametrize("name", ["page_links", "docstrings"])
def test_the_examples_of_the_hooks_hold(name):
    if name == "docstrings":
        pytest.importorskip("griffe", reason="make docs installs it")
    done = doctest.testmod(import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


def test_what_makes_the_site_is_no_page_of_it():
    assert {path.suffix for path in Path(DOCS / "site").iterdir() if path.is_file()} == {".py", ".js", ".css"}


def test_make_docs_is_strict_and_runs_in_both_ci():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    settings = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Settings)
    assert "\ndocs: $(DOCS_READY)\n\t$(BIN)/python -m mkdocs build\n" in makefile  # --quiet would hide what is wrong
    assert settings["strict"] is True
    assert {value for part in settings["validation"].values() for value in part.values()} == {"warn"}
    assert "\nmake docs\n" in (ROOT / ".ci" / "run").read_text("utf-8")
