"""Registry: who may join a federation, by token and certificate.

The file `clients.json` has one entry per client: the hash of its token, the fingerprint of its certificate, and whether
it is revoked. It holds no secret. A running server reads it again when it has changed, so a revocation takes effect
within a second. A certificate of null means that the token alone is enough; this is for servers behind a proxy that
ends TLS.
"""

import json
import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from os import stat
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from sojourn.errors import InvalidInput, SojournError, UnreadableFile
from sojourn.files import read_json
from sojourn.secret_files import replace
from sojourn.shown import quoted
from sojourn.values import table

PAUSE = 0.5  # seconds between two looks at the file
MOST = 2**28  # bytes of the file: a million clients
KNOWN = 10_000  # certificates whose fingerprints are remembered

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")
_PEM = re.compile(rb"\s*-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


class Unknown(SojournError):
    """A caller is not let in; the message says why in a few words, and may be shown to the caller."""

    def __init__(self, reason: str, client: str | None = None) -> None:
        super().__init__(reason)
        self.client = client
        """Name of the client whose certificate it was, or without one, whose token; None = it was nobody's."""


class Entry(NamedTuple):
    """What the server knows of a client."""

    token_sha256: str
    """Hash of its token."""
    certificate_sha256: str | None
    """Fingerprint of its certificate; None = the token is enough."""
    revoked: bool = False
    """Whether it is admitted no more."""


Entries = dict[str, Entry]


class Registry:
    """The clients of a federation, from the file `clients.json`; it may be asked from several threads.

    If the file is damaged or missing later on, the last good content stays in force, and `problem` says what is wrong.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.problem: str | None = None
        """What is wrong with the file, in one sentence; None = nothing."""
        self._looking = Lock()
        self._look_at = monotonic() + PAUSE
        self._stamp = _stamp(self.path)
        self._take(read_entries(self.path))

    def name_of(self, token: str | None, certificate: bytes | None) -> str:
        """Return the name of the client with this token and this certificate (PEM or DER), or raise an Unknown."""
        if monotonic() >= self._look_at:
            self._look()
        if not token:
            raise Unknown("no token", self._owner(certificate))
        hashed = token_hash(token)
        name, entry = self._clients.get(hashed, ("", None))
        if entry is None or not compare_digest(hashed, entry.token_sha256):
            raise Unknown("unknown token", self._owner(certificate))
        if entry.revoked:
            raise Unknown("revoked", self._owner(certificate) or name)
        if entry.certificate_sha256 is not None:
            if not certificate:
                raise Unknown("no certificate", name)
            if not compare_digest(fingerprint(certificate), entry.certificate_sha256):
                raise Unknown("token of another certificate", self._owner(certificate))
        return name

    def _owner(self, certificate: bytes | None) -> str | None:
        """Return the name of the client that a certificate was made for; None = of nobody that is known."""
        return self._owners.get(fingerprint(certificate)) if certificate else None

    def _take(self, entries: Entries) -> None:
        self._clients = _by_token(entries)
        self._owners = {entry.certificate_sha256: name for name, entry in entries.items()}

    def _look(self) -> None:
        """Read the file again if it has changed; one thread looks, others go on with what is known."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            self._look_at = monotonic() + PAUSE
            stamp = _stamp(self.path)
            if stamp is None or stamp != self._stamp or self.problem is not None:
                self._take(read_entries(self.path))
                self._stamp, self.problem = stamp, None
        except SojournError as error:
            self.problem = str(error)
        finally:
            self._looking.release()


def read_entries(path: Path) -> Entries:
    """Read the entries of all clients, by name."""
    what = "registry of clients"
    content = read_json(path, what, MOST)
    try:
        entries = {check_name(name): _entry(name, fields) for name, fields in table(content, "it").items()}
        _by_token(entries)
    except InvalidInput as error:
        raise UnreadableFile(f"{what} {path} is damaged: {error}") from None
    return entries


def write_entries(path: Path, entries: Entries) -> None:
    """Write the entries, whole or not at all, for the owner alone; callers hold a lock."""
    content = {name: entry._asdict() for name, entry in entries.items()}
    replace(path, (json.dumps(content, indent=2) + "\n").encode())


def check_name(name: str) -> str:
    """Return a client's name, which may become the name of a folder; refuse any other."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise InvalidInput(
        "a client's name must have 1 to 64 letters (a to z), digits, dots, _ or -, and must not begin with a dot, "
        f"got {quoted(name)}; write for example hospital-1"
    )


def token_hash(token: str) -> str:
    """Return what is kept of a token."""
    return sha256(token.encode("utf-8", "replace")).hexdigest()


@lru_cache(KNOWN)
def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate in DER form; of several in PEM form, that of the first."""
    found = _PEM.match(certificate)  # at its beginning: a DER certificate could carry another one inside
    try:
        return sha256(a2b_base64(found[1]) if found else certificate).hexdigest()
    except NotBase64:  # no certificate has this fingerprint
        return sha256(certificate).hexdigest()


def _entry(name: str, fields: Any) -> Entry:
    known = table(fields, f"the entry of {quoted(name)}")
    if known.keys() != set(Entry._fields):
        raise InvalidInput(f"the entry of {quoted(name)} must have {', '.join(Entry._fields)}, got {quoted([*known])}")
    entry = Entry(**known)
    for key, value in (("token_sha256", entry.token_sha256), ("certificate_sha256", entry.certificate_sha256)):
        good = isinstance(value, str) and _HASH.fullmatch(value)
        if not good and not (value is None and key == "certificate_sha256"):
            raise InvalidInput(f"{key} of {quoted(name)} must be 64 digits from 0 to f, got {quoted(value)}")
    if not isinstance(entry.revoked, bool):
        raise InvalidInput(f"revoked of {quoted(name)} must be true or false, got {quoted(entry.revoked)}")
    return entry


def _by_token(entries: Entries) -> dict[str, tuple[str, Entry]]:
    found: dict[str, tuple[str, Entry]] = {}
    for name, entry in entries.items():
        other = found.setdefault(entry.token_sha256, (name, entry))[0]
        if other != name:
            raise InvalidInput(f"two clients must not have one token, {quoted(other)} and {quoted(name)} have")
    return found


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does; None = it is not there."""
    try:
        found = stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
