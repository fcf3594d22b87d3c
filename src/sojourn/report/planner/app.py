"""The app of the planner page: the page itself, the fleet to begin with, and answers to its questions."""

import json
import threading
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from sojourn.errors import SojournError
from sojourn.fleet import Fleet
from sojourn.report.planner.answer import answer, plan_text
from sojourn.report.planner.examples import TWO, examples
from sojourn.report.planner.page import live_page
from sojourn.report.planner.question import MOST_ROWS, rows_of
from sojourn.report.planner.upload import MOST_BYTES, read_upload
from sojourn.report.web.serving import Serving, limited_body
from sojourn.report.web.tokens import Token

MOST_QUESTION = MOST_ROWS + 1_000_000  # bytes
MOST_UPLOAD = 2 * MOST_BYTES  # as JSON, where a character may take two


def served(fleet: Fleet | None, name: str, token: Token, port: int = 0) -> Serving:
    """Return the planner page, ready to be started; without a fleet it begins with an example."""
    html, policy = live_page()
    warm = threading.Thread(target=answer, args=({"groups": rows_of(TWO), "cap": None, "time": 1},), daemon=True)
    warm.start()  # the first answer loads compiled code; nobody should wait for it
    return Serving(app(fleet, name, html), token, policy, port)


def app(fleet: Fleet | None, name: str, html: str) -> Starlette:
    """Return the app; it must stand behind a Gate."""
    turn = threading.Lock()  # one answer at a time, so that many questions cannot take the machine

    def in_turn(reply: Callable[[Any], Any], asked: Any) -> Any:
        with turn:
            return reply(asked)

    async def shell(request: Request) -> Response:
        return HTMLResponse(html)

    async def start(request: Request) -> Response:
        return JSONResponse(first(fleet, name))

    async def replied(request: Request, most: int, reply: Callable[[Any], Any]) -> Response:
        try:
            asked = json.loads(await limited_body(request, most))
            found = await run_in_threadpool(in_turn, reply, asked)
        except SojournError as error:
            return JSONResponse({"error": str(error), "field": getattr(error, "field", "question")}, 400)
        except (ValueError, RecursionError):
            return JSONResponse({"error": "a question must be JSON", "field": "question"}, 400)
        except ClientDisconnect:
            return Response(status_code=400)
        if isinstance(found, str):
            return Response(found, media_type="application/json")
        return JSONResponse(found, 400 if "error" in found else 200)

    async def ask(request: Request) -> Response:
        return await replied(request, MOST_QUESTION, answer)

    async def plan(request: Request) -> Response:
        return await replied(request, MOST_QUESTION, plan_text)

    async def read(request: Request) -> Response:
        return await replied(request, MOST_UPLOAD, read_upload)

    posts = {"/api/answer": ask, "/api/plan": plan, "/api/read": read}
    routes = [Route(path, reply, methods=["POST"]) for path, reply in posts.items()]
    return Starlette(routes=[Route("/", shell), Route("/api/start", start), *routes])


def first(fleet: Fleet | None, name: str) -> dict[str, Any]:
    """Return the fleets that a page offers, the given one first."""
    given = [] if fleet is None else [{"name": name, "about": "", "groups": rows_of(fleet)}]
    return {"fleets": [*given, *(one.content() for one in examples())]}
