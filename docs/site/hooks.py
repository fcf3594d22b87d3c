"""What mkdocs calls while it builds the site: pages that are made, and links that leave docs/."""

import os
from pathlib import Path

import api_pages
import command_pages
import matplotlib
import notebook_pages
import page_links
import planner_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

matplotlib.use("Agg")
RUN = "SOJOURN_DOCS_RUN"  # "no": notebooks are shown without what their code shows, which takes a minute or two less

HOMES: dict[str, str] = {}
"""Pages of the site that are files of the repository: their path there."""

NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made: the first from README.md, references from the code, notebooks, the planner."""
    HOMES.clear()
    texts = {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    texts |= {name: (page_links.ROOT / name).read_text("utf-8") for name in page_links.PAGES}
    for path in sorted((Path(config.docs_dir) / "notebooks").glob("*.py")):
        notebook = notebook_pages.NotebookPage(path.stem, path.read_text("utf-8"), os.environ.get(RUN) != "no")
        texts[f"docs/notebooks/{path.name}"] = notebook.text
        files.remove(files.src_uris[f"notebooks/{path.name}"])
        for name, picture in notebook.pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    for home, text in texts.items():
        HOMES[page_links.on_site(home)] = home
        if page_links.on_site(home) not in files.src_uris:
            files.append(File.generated(config, page_links.on_site(home), content=text))
    for home, text in page_links.shown_sources(texts).items():
        HOMES[page_links.on_site(home)] = home
        files.append(File.generated(config, page_links.on_site(home), content=NOT_SEARCHED + text))
    for name, text in {"commands.md": command_pages.page(), **api_pages.pages()}.items():
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, planner_page.NAME, content=planner_page.page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead where the site has what they name; a verb's explanation leads to its flags."""
    if page.file.src_uri == "cli.md":
        markdown = command_pages.with_links_to_flags(markdown)
    home = HOMES.get(page.file.src_uri)
    if home is None:
        return markdown
    return page_links.with_links(page_links.with_indents(markdown), lambda link: page_links.site_link(home, link))
