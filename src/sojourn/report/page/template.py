"""The templates of pages: everything that is filled in is escaped, unless this package made it itself."""

from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from sojourn.errors import SojournError
from sojourn.version import __version__

PACKAGE = "sojourn.report.page"


def fill(name: str, package: str = PACKAGE, **values: Any) -> str:
    """Return a page from a template of a package; it may extend `base.html`, which needs a `title`."""
    common = {"style": own("style.css"), "theme": own("theme.js"), "version": __version__}
    return str(_environment(package).get_template(name).render({**common, **values}))


def own(name: str, package: str = PACKAGE) -> Any:
    """Return a style sheet or a script of a package, to be put into a page as it is."""
    return safe(files(package).joinpath(name).read_text("utf-8"))


def safe(text: str) -> Any:
    """Mark a text that this package made itself, such as a figure in SVG, so that it is not escaped."""
    return _library("markupsafe").Markup(text)


@cache
def _environment(package: str) -> Any:
    jinja2 = _library("jinja2")
    places = [jinja2.FunctionLoader(lambda name, home=home: _source(home, name)) for home in (package, PACKAGE)]
    options = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(loader=jinja2.ChoiceLoader(places), **options)


def _source(package: str, name: str) -> str | None:
    place = files(package).joinpath(name)
    return place.read_text("utf-8") if place.is_file() else None


def check_libraries() -> None:
    """Refuse, before any work is done, to make a page without what fills it."""
    for name in ("jinja2", "markupsafe"):
        _library(name)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise SojournError(f"pages need {name}, which is not installed; pip install 'sojourn[report]'") from None
