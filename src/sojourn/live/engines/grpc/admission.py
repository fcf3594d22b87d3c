"""Who may join: names and numbers of clients, and tokens that belong to certificates."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import grpc

from sojourn.errors import SojournError
from sojourn.shown import quoted

if TYPE_CHECKING:
    from sojourn.live.keys import Registry

LONGEST = 200  # characters of a client's name
BEARER = "Bearer "
CERTIFICATE = "x509_pem_cert"
CODE = grpc.StatusCode


class Refused(Exception):
    """A call is refused with a status code and a sentence."""

    def __init__(self, code: grpc.StatusCode, reason: str, client: str | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.client = client
        """Name of the client that is not let in, "" = unknown; None = the call of one that is in."""


class Admission:
    """Numbers of clients by name, and the check of every call."""

    def __init__(
        self,
        names: Mapping[str, int],
        open_slots: Iterable[int],
        registry: "Registry | None",
        meant: Mapping[str, int] | None = None,
    ) -> None:
        """`meant` has the open slots that are meant for clients of certain names, if nobody else has them."""
        self.names = dict(names)
        """Number of each client."""
        self._meant = dict(meant or {})
        self._slots = [slot for slot in dict.fromkeys(open_slots) if slot not in set(self.names.values())][::-1]
        self._registry = registry
        self._expelled: dict[int, str] = {}

    def identity(self, context: Any) -> str:
        """Return to whom the token of a call belongs; "" without keys."""
        if self._registry is None:
            return ""
        token = next((str(value) for key, value in context.invocation_metadata() if key == "authorization"), None)
        token = token.removeprefix(BEARER) if token is not None and token.startswith(BEARER) else None
        certificate = next(iter(context.auth_context().get(CERTIFICATE, ())), None)
        try:
            return self._registry.name_of(token, certificate)
        except SojournError as error:
            raise Refused(CODE.UNAUTHENTICATED, str(error), getattr(error, "client", None) or "") from None

    def check_name(self, name: str, identity: str) -> None:
        """Refuse a name that is not the caller's. The owner of a token may join as NAME, and as NAME/ANYTHING."""
        if identity and name != identity and not name.startswith(f"{identity}/"):
            reason = f"the token belongs to {identity}, it cannot join as {name}; join as {identity} or {identity}/..."
            raise Refused(CODE.PERMISSION_DENIED, reason, identity)

    def number(self, name: str, identity: str) -> int:
        """Return the number of a client that joins; who was expelled does not come back under another name either."""
        self.check_name(name, identity)
        if identity:
            self._check_owner(name, identity)
        if name not in self.names:
            if not self._slots or not 1 <= len(name) <= LONGEST or not name.isprintable():
                reason = f"the run does not know a client named {quoted(name)}; check the name, or add it to the run"
                raise Refused(CODE.PERMISSION_DENIED, reason, name)
            self.names = self.names | {name: self._slot(name)}  # a new mapping: other threads may read the old one
        number = self.names[name]
        if number in self._expelled:
            reason = f"the client {name} was expelled: {self._expelled[number]}"
            raise Refused(CODE.PERMISSION_DENIED, reason, name)
        return number

    def _check_owner(self, name: str, identity: str) -> None:
        """Refuse the owner of a token one of whose clients was expelled."""
        for other, number in self.names.items():
            if number in self._expelled and other != name and other.partition("/")[0] == identity:
                reason = f"the client {other} was expelled: {self._expelled[number]}"
                raise Refused(CODE.PERMISSION_DENIED, reason, name)

    def _slot(self, name: str) -> int:
        """Take the open slot that is meant for a name, or else the first one, and return it."""
        slot = self._meant.get(name, -1)
        if slot not in self._slots:
            return self._slots.pop()
        self._slots.remove(slot)
        return slot

    def expel(self, number: int, reason: str) -> None:
        """Admit a client no more."""
        self._expelled[number] = reason
