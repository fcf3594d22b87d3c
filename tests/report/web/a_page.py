"""A small app behind the gate, for tests."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sojourn.report.web.secure import Gate, content_policy
from sojourn.report.web.tokens import Token

PORT = 8000
TOKEN = Token("t" * 43, Path("nowhere"))
POLICY = content_policy(["1;"], ["a {}"])


async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


async def secret(request: Request) -> Response:
    return PlainTextResponse("secret")


async def fault(request: Request) -> Response:
    raise RuntimeError("a fault of this app")


ROUTES = [Route("/", hello), Route("/secret", secret, methods=["GET", "POST"]), Route("/fault", fault)]
app = Starlette(routes=ROUTES)


def gate(port: int = PORT) -> Gate:
    return Gate(app, port, TOKEN, POLICY)
