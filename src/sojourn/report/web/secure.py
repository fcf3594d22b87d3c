"""Gate: what a request must show before a page on 127.0.0.1 answers it, and what every answer says to the browser.

- Host must be 127.0.0.1 with this port. A name of a stranger that points to this machine is refused.
- Who opens the page at localhost is led to 127.0.0.1, and nothing else is answered there: localhost also means ::1, and
  whoever listens there at this port could pass a proof on and be sent the token.
- Origin and Sec-Fetch-Site, where a browser sends them, must be this page's own. A POST needs an Origin.
- Everything but the empty page needs the token, in the header `Authorization: Bearer TOKEN`. It is no cookie, because
  cookies are shared by all ports of a machine: every other local server would be sent it.
- A page that has the token may ask for a proof first that the server knows it, too, which tells the token to nobody.
- The answers allow the browser only the scripts and styles that are named by their hashes, no frames, and no cache.
"""

import base64
import hashlib
import math
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from sojourn.report.web.tokens import Doorkeeper, Token

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = ("/",)  # what is served without a token: the page itself, which holds no numbers
PROOF = "/api/proof"  # which the gate answers itself, without a token: its query is a nonce
NONCE = re.compile(rb"[0-9a-f]{64}")
HTTP = 80  # the port that an address has without saying it
BEARER = b"bearer "
READS = ("GET", "HEAD")
OTHER_SITE = "this page answers only itself; open its own address in the browser"


def content_policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return a Content-Security-Policy that allows these inline scripts and styles, and talking to this server."""
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hashes(texts: Iterable[str]) -> str:
    digests = (hashlib.sha256(str(text).encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests) or "'none'"


class Gate:
    """An ASGI app around another one: checks each request, and adds headers to each answer."""

    def __init__(self, app: App, port: int, token: Token, policy: str, is_open: Iterable[str] = OPEN) -> None:
        self._app, self._token, self._keeper = app, token, Doorkeeper(token)
        self._open = frozenset([*is_open, PROOF])
        self._hosts, self._other = _at("127.0.0.1", port), _at("localhost", port)
        self._home = f"http://127.0.0.1:{port}/".encode()
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-frame-options", b"DENY"),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or say in one sentence why not."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await self._say(send, *refusal)
        elif scope["path"] == PROOF:
            await self._say(send, *self._proof(scope))
        else:
            await self._app(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Message) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """Return status, sentence and headers with which to refuse a request, or None."""
        found = _headers(scope)
        host = found.get(b"host", b"")
        if host in self._other and scope["path"] == "/" and scope["method"] in READS:
            return 307, "this page is at 127.0.0.1", [(b"location", self._home)]
        if host not in self._hosts:
            return 421, "this page is served to 127.0.0.1 alone, under the port it was given", []
        if found.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
            return 403, OTHER_SITE, []
        origin = found.get(b"origin")
        if (origin is None and scope["method"] not in READS) or origin not in (None, b"http://" + host):
            return 403, OTHER_SITE, []
        return None if scope["path"] in self._open and scope["method"] in READS else self._unknown(found)

    def _unknown(self, found: dict[bytes, bytes]) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """Return how to refuse a request without the right token, or None."""
        wait = math.ceil(self._keeper.wait())
        if wait:
            again = [(b"retry-after", str(wait).encode())]
            return 429, f"there were too many wrong tokens; wait {wait} seconds", again
        said = found.get(b"authorization", b"")
        if not said:  # a page that was opened just now; this is no try
            return 401, "this needs the token", [(b"www-authenticate", b"Bearer")]
        if said[: len(BEARER)].lower() != BEARER or not self._keeper.admits(said[len(BEARER) :].strip()):
            return 401, "this is not the token of this page", [(b"www-authenticate", b"Bearer")]
        return None

    def _proof(self, scope: Message) -> tuple[int, str, list[tuple[bytes, bytes]]]:
        """Return the proof that this server knows the token, for the address under which it was asked."""
        nonce = bytes(scope["query_string"])
        if not NONCE.fullmatch(nonce):
            return 400, "a proof needs 64 digits from 0 to f after the question mark", []
        return 200, self._token.proof(_headers(scope)[b"host"], nonce), []

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = {name for name, _ in self._headers}
                theirs = [pair for pair in message.get("headers", []) if pair[0].lower() not in ours]
                message = {**message, "headers": [*theirs, *self._headers]}
            await send(message)

        return sending

    async def _say(self, send: Send, status: int, said: str, more: list[tuple[bytes, bytes]]) -> None:
        body = f"{said}\n".encode()
        length = (b"content-length", str(len(body)).encode())
        headers = [(b"content-type", b"text/plain; charset=utf-8"), length, (b"connection", b"close"), *more]
        await self._with_headers(send)({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _at(name: str, port: int) -> set[bytes]:
    """Return what the header Host says at a port of a machine; browsers leave out port 80."""
    return {f"{name}:{port}".encode(), *([name.encode()] if port == HTTP else [])}


def _headers(scope: Message) -> dict[bytes, bytes]:
    """Return the headers by name; one that came twice, with different values, counts as neither."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        key = bytes(name).lower()
        found[key] = bytes(value) if found.get(key, value) == value else b"?"
    return found
