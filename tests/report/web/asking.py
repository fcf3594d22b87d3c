"""Ask an ASGI app without a network: any headers can be sent, in any number."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str


def ask(
    app: Any, method: str, path: str, headers: Mapping[str, str] | Iterable[tuple[str, str]] = (), body: bytes = b""
) -> Answer:
    """Return what an app answers to one request; without a Host among the headers there is none."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    place, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": place,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in pairs],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(one.get("body", b"") for one in sent[1:]).decode())
