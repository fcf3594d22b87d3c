"""The planner page as HTML: the same page for a server that computes answers, and for a table of answers."""

import json
from collections.abc import Sequence
from typing import Any

from sojourn.report.page.template import fill, own, safe
from sojourn.report.planner.examples import CAPS, CORRECTIONS, SAMPLINGS
from sojourn.report.planner.static_table import CAPS as IN_TABLE
from sojourn.report.planner.upload import MOST_BYTES
from sojourn.report.web.secure import content_policy
from sojourn.report.web.serving import WEB

PACKAGE = __name__.rpartition(".")[0]
SHARED = ("drawing.js", "fleet_table.js", "planner.js")
STYLES = ("planner.css",)
SETTINGS = {"corrections": list(CORRECTIONS), "samplings": SAMPLINGS, "most_bytes": MOST_BYTES}


def live_page() -> tuple[str, str]:
    """Return the page that asks its own server, which holds no numbers, and its Content-Security-Policy."""
    scripts = [_settings(CAPS), own("proof.js", WEB), *_own("server_source.js", *SHARED)]
    styles = _own(*STYLES)
    html = fill("planner.html", PACKAGE, title="Planner", live=True, scripts=scripts, styles=styles, data=None)
    return html, content_policy([own("theme.js"), *scripts], [own("style.css"), *styles])


def static_page(answers: dict[str, Any]) -> str:
    """Return the page that finds its answers in a table, and needs no server."""
    scripts = [_settings(IN_TABLE), *_own("table_source.js", *SHARED)]
    data = safe(in_script(answers))
    return fill("planner.html", PACKAGE, title="Planner", live=False, scripts=scripts, styles=_own(*STYLES), data=data)


def in_script(content: Any) -> str:
    r"""Return JSON that cannot end the script element that it stands in.

    >>> in_script({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _settings(caps: Sequence[int | None]) -> Any:
    return safe(f"const SETTINGS = {in_script({'caps': caps, **SETTINGS})};")


def _own(*names: str) -> list[Any]:
    return [own(name, PACKAGE) for name in names]
