"""The app of the live page: the page itself, the events of a run, and what can be asked of it."""

import json
import threading
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sojourn.errors import SojournError
from sojourn.report.live_page.hub import Hub
from sojourn.report.page.template import fill, own
from sojourn.report.web.secure import content_policy
from sojourn.report.web.serving import WEB, Serving, limited_body
from sojourn.report.web.tokens import Token
from sojourn.watched import Controls, Watched

PACKAGE = __name__.rpartition(".")[0]
SCRIPTS = ("vendor/uPlot.iife.min.js", "charts.js", "network.js", "tables.js", "live.js")
STYLES = ("vendor/uPlot.min.css", "live.css")
MOST = 1000  # bytes of what is asked
ASKED: dict[str, Callable[[Controls], None]] = {
    "pause": lambda run: run.pause(),
    "go_on": lambda run: run.go_on(),
    "replan": lambda run: run.replan(),
    "stop": lambda run: run.stop(),
}


def served(watched: Watched, token: Token, port: int = 0) -> Serving:
    """Return the live page of a run, ready to be started."""
    stopping = threading.Event()
    html, policy = page()
    return Serving(app(Hub(watched, stopping), html), token, policy, port, stopping)


def page() -> tuple[str, str]:
    """Return the empty page, which says nothing of any run, and its Content-Security-Policy."""
    scripts, styles = ([own(name, PACKAGE) for name in names] for names in (SCRIPTS, STYLES))
    scripts.insert(0, own("proof.js", WEB))
    html = fill("live.html", PACKAGE, title="Live page", scripts=scripts, styles=styles)
    return html, content_policy([own("theme.js"), *scripts], [own("style.css"), *styles])


def app(hub: Hub, html: str) -> Starlette:
    """Return the app; it must stand behind a Gate."""

    async def shell(request: Request) -> Response:
        return HTMLResponse(html)

    async def events(request: Request) -> Response:
        return StreamingResponse(hub.events(), media_type="text/event-stream")

    async def control(request: Request) -> Response:
        return await _controlled(request, hub.state.watched.controls)

    routes = [Route("/", shell), Route("/api/events", events), Route("/api/control", control, methods=["POST"])]
    return Starlette(routes=routes)


async def _controlled(request: Request, controls: Controls | None) -> Response:
    """Do what a reader asks; an error is answered in one sentence."""
    if controls is None:
        return _refused(
            409, "this page can only watch the run; the page that the run itself opens (--dashboard) can control it"
        )
    try:
        asked = json.loads(await limited_body(request, MOST))
        name = asked.get("do") if isinstance(asked, dict) else None
        if not isinstance(name, str) or name not in ASKED:
            return _refused(400, f"do must be one of {', '.join(ASKED)}")
        ASKED[name](controls)
    except (SojournError, ValueError, RecursionError) as error:
        return _refused(409, str(error) if isinstance(error, SojournError) else "what is asked must be JSON")
    except ClientDisconnect:
        return Response(status_code=400)
    return JSONResponse({"done": name})


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)
